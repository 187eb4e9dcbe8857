/* SPDX-License-Identifier: MIT */
/* reply-bounds.c - see redis/reply-bounds.h */
#define _GNU_SOURCE
#include "redis/reply-bounds.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(struct reply_bounds *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct reply_bounds *b, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(b->why, sizeof(b->why), format, args);
	va_end(args);
}

/* An element is complete, and with it perhaps the arrays that it is in.  True = so is the reply. */
static bool end_element(struct reply_bounds *b)
{
	while (b->depth && --b->left[b->depth - 1] == 0)
		b->depth--;
	return b->depth == 0;
}

static bool begin_array(struct reply_bounds *b, long long n)
{
	if (n < -1)
		refuse(b, "an array of %lld elements", n);
	else if (n > REPLY_ELEMENTS_MAX)
		refuse(b, "an array of %lld elements (at most %d)", n, REPLY_ELEMENTS_MAX);
	else if (n > 0 && b->elements + (size_t)n > REPLY_ELEMENTS_MAX)
		refuse(b, "more than %d elements", REPLY_ELEMENTS_MAX);
	else if (n > 0 && b->depth == REPLY_DEPTH_MAX)
		refuse(b, "arrays in arrays, more than %d deep", REPLY_DEPTH_MAX);
	if (b->why[0])
		return false;
	if (n <= 0)
		return end_element(b);
	b->elements += (size_t)n;
	b->left[b->depth++] = (uint32_t)n;
	return false;
}

static bool begin_text(struct reply_bounds *b, long long n)
{
	if (n < -1)
		refuse(b, "a text of %lld bytes", n);
	else if (n > (long long)REPLY_MAX)
		refuse(b, "a text of %lld bytes (at most 1 MiB)", n);
	if (n < 0)
		return !b->why[0] && end_element(b);
	b->skip = (size_t)n;
	b->in_end = true;
	b->line_len = 0;
	return false;
}

/* Without its CR LF. */
static bool number_of(struct reply_bounds *b, long long *n)
{
	const char *digits = b->line[0] == '-' ? b->line + 1 : b->line;
	char *stop;

	errno = 0;
	*n = strtoll(b->line, &stop, 10);
	if (*digits >= '0' && *digits <= '9' && !*stop && stop == b->line + b->line_len && !errno)
		return true;
	refuse(b, "no number after '%c'", b->type);
	return false;
}

static bool end_line(struct reply_bounds *b)
{
	long long n = 0;

	b->has_type = false;
	if (b->type == '+' || b->type == '-')
		return end_element(b);
	b->line_len--; /* CR */
	b->line[b->line_len] = '\0';
	if (!number_of(b, &n))
		return false;
	if (b->type == ':')
		return end_element(b);
	return b->type == '*' ? begin_array(b, n) : begin_text(b, n);
}

static bool take_line(struct reply_bounds *b, char c)
{
	bool is_text = b->type == '+' || b->type == '-', ends = c == '\n' && b->last == '\r';

	b->last = c;
	if (ends)
		return end_line(b);
	if (!is_text && b->line_len + 1 >= sizeof(b->line)) {
		refuse(b, "no number after '%c'", b->type);
		return false;
	}
	if (b->line_len < sizeof(b->line))
		b->line[b->line_len] = c;
	if (++b->line_len > REPLY_LINE_MAX)
		refuse(b, "a line of more than %d bytes", REPLY_LINE_MAX);
	return false;
}

/* CR and LF behind a text. */
static bool take_end(struct reply_bounds *b, char c)
{
	if (c != "\r\n"[b->line_len]) {
		refuse(b, "a text longer than its length");
		return false;
	}
	if (++b->line_len < 2)
		return false;
	b->in_end = false;
	return end_element(b);
}

static bool take_type(struct reply_bounds *b, char c)
{
	if (!c || !strchr("+-:$*", c)) {
		refuse(b, "byte 0x%02x in the place of a type", (unsigned char)c);
		return false;
	}
	b->type = c;
	b->has_type = true;
	b->line_len = 0;
	b->last = '\0';
	return false;
}

static bool take(struct reply_bounds *b, char c)
{
	return b->has_type ? take_line(b, c) : b->in_end ? take_end(b, c) : take_type(b, c);
}

size_t reply_bounds_read(struct reply_bounds *b, const char *bytes, size_t len, bool *whole)
{
	size_t at = 0, n;

	*whole = false;
	while (at < len && !*whole && !b->why[0]) {
		n = b->skip < len - at ? b->skip : len - at;
		b->skip -= n;
		at += n;
		if (!n)
			*whole = take(b, bytes[at++]);
		if (b->bytes + at > REPLY_MAX && !*whole && !b->why[0])
			refuse(b, "a reply of more than 1 MiB");
	}
	b->bytes += at;
	if (*whole)
		memset(b, 0, sizeof(*b));
	return at;
}
