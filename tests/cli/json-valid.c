/* SPDX-License-Identifier: MIT */
/*
 * json-valid.c - is standard input one JSON document (RFC 8259)?
 *
 * Exit 0 or 1.  Stricter than common tools: no NaN, no broken UTF-8, nothing behind the document.  Used by
 * cli/json.sh, so that its check needs nothing that may be absent.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

static char text[16 << 20];
static const unsigned char *at = (const unsigned char *)text;

static void reject(const char *why)
{
	fprintf(stderr, "not JSON: %s at byte %td\n", why, (const char *)at - text);
	exit(1);
}

static void skip_space(void)
{
	at += strspn((const char *)at, " \t\r\n");
}

static void need(char c, const char *why)
{
	if (*at != (unsigned char)c)
		reject(why);
	at++;
}

static void check_continuation(int count, unsigned char low, unsigned char high)
{
	for (int i = 0; i < count; i++, at++) {
		if (*at < low || *at > high)
			reject("broken UTF-8");
		low = 0x80;
		high = 0xbf;
	}
}

/** One character outside ASCII, by the table of RFC 3629. */
static void check_utf8(void)
{
	unsigned char lead = *at++;

	if (lead >= 0xc2 && lead <= 0xdf)
		check_continuation(1, 0x80, 0xbf);
	else if (lead >= 0xe0 && lead <= 0xef)
		check_continuation(2, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
	else if (lead >= 0xf0 && lead <= 0xf4)
		check_continuation(3, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
	else
		reject("broken UTF-8");
}

static void check_escape(void)
{
	if (*at != 'u') {
		if (!*at || !strchr("\"\\/bfnrt", *at))
			reject("unknown escape");
		at++;
		return;
	}
	at++;
	for (int i = 0; i < 4; i++, at++)
		if (!isxdigit(*at))
			reject("\\u without four digits");
}

static void check_string(void)
{
	need('"', "string expected");
	while (*at != '"') {
		if (*at < 0x20)
			reject("control character or end in a string");
		if (*at == '\\') {
			at++;
			check_escape();
		} else if (*at >= 0x80) {
			check_utf8();
		} else {
			at++;
		}
	}
	at++;
}

static void check_digits(void)
{
	if (!isdigit(*at))
		reject("digit expected");
	while (isdigit(*at))
		at++;
}

static void check_number(void)
{
	if (*at == '-')
		at++;
	if (*at == '0')
		at++;
	else
		check_digits();
	if (*at == '.') {
		at++;
		check_digits();
	}
	if (*at == 'e' || *at == 'E') {
		at++;
		if (*at == '+' || *at == '-')
			at++;
		check_digits();
	}
}

static bool check_word(const char *word)
{
	if (strncmp((const char *)at, word, strlen(word)) != 0)
		return false;
	at += strlen(word);
	return true;
}

static void check_value(int depth);

static void check_members(int depth, bool named, char end)
{
	at++;
	skip_space();
	if (*at == (unsigned char)end) {
		at++;
		return;
	}
	for (;;) {
		if (named) {
			skip_space();
			check_string();
			skip_space();
			need(':', "':' expected");
		}
		check_value(depth + 1);
		skip_space();
		if (*at != ',')
			break;
		at++;
	}
	need(end, "',' or a closing bracket expected");
}

static void check_value(int depth)
{
	if (depth > DEPTH_MAX)
		reject("nested too deeply");
	skip_space();
	if (*at == '{')
		check_members(depth, true, '}');
	else if (*at == '[')
		check_members(depth, false, ']');
	else if (*at == '"')
		check_string();
	else if (*at == '-' || isdigit(*at))
		check_number();
	else if (!check_word("true") && !check_word("false") && !check_word("null"))
		reject("value expected");
}

int main(void)
{
	size_t size = fread(text, 1, sizeof(text) - 1, stdin);

	check_value(0);
	skip_space();
	if ((size_t)((const char *)at - text) != size)
		reject("something follows");
	return 0;
}
