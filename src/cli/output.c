/* SPDX-License-Identifier: MIT */
/*
 * output.c - JSON, porcelain words and human-readable text
 *
 * Keys and tags come from other processes: no format lets their bytes leave the field.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

const char *mode_name(int mode)
{
	switch (mode) {
	case LOCKSHM_SHARED:
		return "shared";
	case LOCKSHM_EXCLUSIVE:
		return "exclusive";
	default:
		return NULL;
	}
}

const char *policy_name(int policy)
{
	switch (policy) {
	case LOCKSHM_REDIS_FAIL:
		return "fail";
	case LOCKSHM_REDIS_WAIT:
		return "wait";
	case LOCKSHM_REDIS_LOCAL_ONLY:
		return "local-only";
	default:
		return NULL;
	}
}

/* --- JSON -------------------------------------------------------------------------------------------- */

/** As UTF-16, two of them above U+FFFF; of a byte that is not UTF-8 the number of the byte. */
static void json_escaped(FILE *out, uint32_t c)
{
	if (c > 0xffff)
		fprintf(out, "\\u%04x\\u%04x", 0xd800 + (unsigned)((c - 0x10000) >> 10), 0xdc00 + (unsigned)(c & 0x3ff));
	else
		fprintf(out, "\\u%04x", (unsigned)c);
}

/* A terminal shows the document as it is: a combining character is escaped too, as it may follow a quote. */
static void json_quoted(FILE *out, const void *bytes, size_t len)
{
	const char *p = bytes;
	struct character c;

	fputc('"', out);
	for (size_t i = 0; i < len; i += c.len) {
		c = character_at(p + i, len - i);
		if (c.columns <= 0)
			json_escaped(out, c.code);
		else if (p[i] == '"' || p[i] == '\\')
			fprintf(out, "\\%c", p[i]);
		else
			fwrite(p + i, 1, c.len, out);
	}
	fputc('"', out);
}

/** Separator and name of the next member. */
static void json_next(struct json *json, const char *name)
{
	if (!json->first)
		fputs(", ", json->out);
	json->first = false;
	if (name) {
		json_quoted(json->out, name, strlen(name));
		fputs(": ", json->out);
	}
}

void json_open(struct json *json, const char *name, char bracket)
{
	json_next(json, name);
	fputc(bracket, json->out);
	json->first = true;
}

void json_close(struct json *json, char bracket)
{
	fputc(bracket, json->out);
	json->first = false;
}

void json_bool(struct json *json, const char *name, bool value)
{
	json_next(json, name);
	fputs(value ? "true" : "false", json->out);
}

void json_int(struct json *json, const char *name, int64_t value)
{
	json_next(json, name);
	fprintf(json->out, "%" PRId64, value);
}

void json_uint(struct json *json, const char *name, uint64_t value)
{
	json_next(json, name);
	fprintf(json->out, "%" PRIu64, value);
}

void json_null(struct json *json, const char *name)
{
	json_next(json, name);
	fputs("null", json->out);
}

void json_raw(struct json *json, const char *name, const char *value)
{
	json_next(json, name);
	fwrite(value, 1, strcspn(value, "\n"), json->out);
}

void json_ms(struct json *json, const char *name, int64_t ns)
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	char text[48];
	size_t len;

	if (ns == LOCKSHM_FOREVER) {
		json_null(json, name);
		return;
	}
	json_next(json, name);
	len = (size_t)snprintf(text, sizeof(text), "%s%" PRIu64 ".%06" PRIu64, ns < 0 ? "-" : "", size / 1000000,
			       size % 1000000);
	while (text[len - 1] == '0')
		len--;
	if (text[len - 1] == '.')
		len--;
	fwrite(text, 1, len, json->out);
}

void json_text(struct json *json, const char *name, const char *text)
{
	if (text)
		json_bytes(json, name, text, strlen(text));
	else
		json_null(json, name);
}

void json_bytes(struct json *json, const char *name, const void *bytes, size_t len)
{
	json_next(json, name);
	json_quoted(json->out, bytes, len);
}

void json_segment(struct json *json, const char *name)
{
	char *slashed = format_text("%s%s", *name == '/' ? "" : "/", name);

	json_text(json, "segment", slashed);
	free(slashed);
}

/* --- Porcelain words --------------------------------------------------------------------------------- */

void put_word(FILE *out, const void *bytes, size_t len)
{
	const unsigned char *p = bytes;

	if (!len) {
		/* Never an empty field: a shell's read would skip it. */
		fputc('-', out);
		return;
	}
	for (size_t i = 0; i < len; i++)
		if (p[i] <= ' ' || p[i] >= 0x7f || p[i] == '%' || (p[i] == '-' && len == 1))
			fprintf(out, "%%%02X", p[i]);
		else
			fputc(p[i], out);
}

char *format_word(const void *bytes, size_t len)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = checked(open_memstream(&text, &size));

	put_word(out, bytes, len);
	fclose(out);
	return checked(text);
}

/* --- Human-readable text ----------------------------------------------------------------------------- */

char *format_text(const char *format, ...)
{
	va_list args;
	char *text = NULL;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return checked(text);
}

char *format_key(const void *key, size_t shown, size_t len)
{
	char *text = visible(key, shown), *cut;

	if (shown >= len)
		return text;
	cut = format_text("%s" ELLIPSIS, text);
	free(text);
	return cut;
}

char *format_given_key(struct key key)
{
	size_t shown = LOCKSHM_KEY_SHOWN_MAX;

	if (key.len <= shown)
		return visible(key.bytes, key.len);
	/* Not within a character. */
	while (shown > LOCKSHM_KEY_SHOWN_MAX - 3 && (key.bytes[shown] & 0xc0) == 0x80)
		shown--;
	return format_key(key.bytes, shown, key.len);
}

char *format_duration(int64_t ns)
{
	static const struct {
		uint64_t ns;
		uint64_t up_to;
		const char *name;
	} units[] = { { 1000, 1000000, "us" },
		      { 1000000, 1000000000, "ms" },
		      { 1000000000, UINT64_C(120000000000), "s" },
		      { UINT64_C(60000000000), UINT64_C(7200000000000), "min" },
		      { UINT64_C(3600000000000), UINT64_C(172800000000000), "h" },
		      { UINT64_C(86400000000000), UINT64_MAX, "d" } };
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns, tenths;
	const char *sign = ns < 0 ? "-" : "";
	size_t i = 0;

	if (ns == LOCKSHM_FOREVER)
		return checked(strdup("-"));
	while (size >= units[i].up_to)
		i++;
	tenths = (size + units[i].ns / 20) / (units[i].ns / 10);
	if (tenths < 1000)
		return format_text("%s%" PRIu64 ".%" PRIu64 " %s", sign, tenths / 10, tenths % 10, units[i].name);
	return format_text("%s%" PRIu64 " %s", sign, (size + units[i].ns / 2) / units[i].ns, units[i].name);
}

char *format_size(uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double size = (double)bytes;
	size_t i = 0;

	for (; size >= 1024; i++)
		size /= 1024;
	return format_text("%.*f %s", i && size < 99.95 ? 1 : 0, size, units[i]);
}
