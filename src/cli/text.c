/* SPDX-License-Identifier: MIT */
/*
 * text.c - which characters of names, keys, tags and messages are shown as they are
 *
 * Other processes choose them.  A character is shown if it is visible: the C library has it as printable, and it is
 * neither a control (Cc), a format character (Cf, which has the marks of direction and of width zero), a separator (Zl,
 * Zp, every Zs but the blank), a surrogate (Cs), for private use (Co), unassigned (Cn), nor one that is drawn as nothing.
 * All others, and bytes that are not UTF-8, are percent-escaped.  A combining character is shown on a letter of
 * its own text, and no more than a few on one: it may not change what stands before, or reach the next line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/cli.h"

/** On one character; languages need three. */
#define COMBINING_MAX 4

/** Ranges that the C library may have as printable; in order. */
static const struct {
	uint32_t first, last;
} hidden[] = {
	{ 0x80, 0xa0 },	      { 0xad, 0xad },	    { 0x34f, 0x34f },	  { 0x600, 0x605 },	{ 0x61c, 0x61c },
	{ 0x6dd, 0x6dd },     { 0x70f, 0x70f },	    { 0x890, 0x891 },	  { 0x8e2, 0x8e2 },	{ 0x115f, 0x1160 },
	{ 0x1680, 0x1680 },   { 0x17b4, 0x17b5 },   { 0x180b, 0x180f },	  { 0x2000, 0x200f },	{ 0x2028, 0x202f },
	{ 0x205f, 0x206f },   { 0x2800, 0x2800 },   { 0x3000, 0x3000 },	  { 0x3164, 0x3164 },	{ 0xd800, 0xf8ff },
	{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },	  { 0xfff0, 0xfffb },	{ 0xfffe, 0xffff },
	{ 0x110bd, 0x110bd }, { 0x110cd, 0x110cd }, { 0x13430, 0x1345f }, { 0x1bca0, 0x1bcaf }, { 0x1d159, 0x1d159 },
	{ 0x1d173, 0x1d17a }, { 0xe0000, 0x10ffff }
};
#define HIDDEN (sizeof(hidden) / sizeof(hidden[0]))

/** Strict: no overlong forms, no surrogates, nothing above U+10FFFF; the second byte decides all three. */
static size_t utf8_length(const unsigned char *p, size_t left)
{
	unsigned char low = 0x80;
	unsigned char high = 0xbf;
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (left < len || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/** The character that the valid UTF-8 sequence of @len bytes at @p encodes. */
static uint32_t decode(const unsigned char *p, size_t len)
{
	static const unsigned char lead[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t c = p[0] & lead[len];

	for (size_t i = 1; i < len; i++)
		c = c << 6 | (p[i] & 0x3f);
	return c;
}

static bool is_hidden(uint32_t c)
{
	size_t from = 0, to = HIDDEN;

	while (from < to) {
		size_t middle = (from + to) / 2;

		if (c < hidden[middle].first)
			to = middle;
		else if (c > hidden[middle].last)
			from = middle + 1;
		else
			return true;
	}
	return false;
}

/* The locale counts for nothing else, and ASCII needs none: most programs never load it. */
static int library_columns(uint32_t c)
{
	static bool set;

	if (!set)
		setlocale(LC_CTYPE, "C.UTF-8");
	set = true;
	return wcwidth((wchar_t)c);
}

struct character character_at(const void *bytes, size_t left)
{
	const unsigned char *p = bytes;
	struct character c = { .len = utf8_length(p, left), .columns = -1 };

	if (!c.len)
		return (struct character){ 1, -1, *p, false };
	c.valid = true;
	c.code = decode(p, c.len);
	if (c.code < 0x80)
		c.columns = c.code < ' ' || c.code == 0x7f ? -1 : 1;
	else if (!is_hidden(c.code))
		c.columns = library_columns(c.code);
	return c;
}

void *checked(void *memory)
{
	if (!memory) {
		dprintf(STDERR_FILENO, "%s: out of memory\n", program_invocation_short_name);
		_exit(EXIT_FAILED);
	}
	return memory;
}

/* --- Fields, and lines of them ------------------------------------------------------------------------ */

/** Blanks at an end, or two of them, look like none, or like the space between two columns. */
static bool is_unclear_blank(const char *bytes, size_t i, size_t len)
{
	return bytes[i] == ' ' && (i == 0 || i + 1 == len || bytes[i - 1] == ' ');
}

/** No blank, and no quote or slash of the sentence around it. */
static bool takes_combining(uint32_t c)
{
	return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/** @escapes: the text can be given back, as KEY with --escaped. */
static char *show(const char *bytes, size_t len, bool escapes)
{
	char *text = checked(malloc(len * 3 + 1)), *to = text;
	struct character c;
	int room = 0; /* combining characters that the last one may still get */

	for (size_t i = 0; i < len; i += c.len) {
		c = character_at(bytes + i, len - i);
		if (c.columns > 0 ? escapes && (bytes[i] == '%' || is_unclear_blank(bytes, i, len)) :
				    c.columns < 0 || room-- <= 0) {
			for (size_t k = 0; k < c.len; k++)
				to += sprintf(to, "%%%02X", (unsigned char)bytes[i + k]);
			room = 0;
			continue;
		}
		to = mempcpy(to, bytes + i, c.len);
		if (c.columns > 0)
			room = takes_combining(c.code) ? COMBINING_MAX : 0;
	}
	*to = '\0';
	return text;
}

char *visible(const void *bytes, size_t len)
{
	return show(bytes, len, true);
}

char *visible_line(const char *text)
{
	return show(text, strlen(text), false);
}
