/* SPDX-License-Identifier: MIT */
/*
 * fuzz-text.c - programs of the fuzzer as readable text, for the corpus
 *
 *   start scene|zero|raw [read-only] [keep-check]
 *   OP AREA INDEX word WORD bits SHIFT LEN arg ARG value VALUE      one for each command
 *   bytes HEX...                                                    of a raw file
 *
 * Anything after # is a comment.
 */
#include "fuzz.h"

#include <inttypes.h>
#include <string.h>

#define AS_TEXT(name, text) text,
static const char *const op_names[] = { FUZZ_OPS(AS_TEXT) };
static const char *const area_names[] = { FUZZ_AREAS(AS_TEXT) };
static const char *const start_names[] = { "scene", "zero", "raw", "scene" };

static void print_command(FILE *out, const struct fuzz_command *c)
{
	fprintf(out, "%s %s %u word %u bits %u %u arg %u value %" PRId64 "\n", op_names[c->op % OPS],
		area_names[c->area % AREAS], c->index, c->word, c->shift, c->len, c->arg, c->value);
}

static void print_bytes(FILE *out, const unsigned char *data, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		fprintf(out, "%s%02x", i % 32 ? " " : i ? "\nbytes " : "bytes ", data[i]);
	if (size)
		fputc('\n', out);
}

bool fuzz_print(FILE *out, const unsigned char *data, size_t size)
{
	struct fuzz_command c;
	size_t i, n = (size - 1) / sizeof(c);

	if (size < 1)
		return false;
	fprintf(out, "start %s%s%s\n", start_names[data[0] & START_MASK], data[0] & START_READ_ONLY ? " read-only" : "",
		data[0] & START_KEEP_CHECK ? " keep-check" : "");
	if ((data[0] & START_MASK) == START_RAW) {
		print_bytes(out, data + 1, size - 1);
		return true;
	}
	for (i = 0; i < n && i < FUZZ_COMMANDS_MAX; i++) {
		memcpy(&c, data + 1 + i * sizeof(c), sizeof(c));
		print_command(out, &c);
	}
	return true;
}

/* ---------------------------------------------------------------- and back */

static bool number_of(const char *const *names, unsigned n, const char *name, uint8_t *out)
{
	unsigned i;

	for (i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0) {
			*out = (uint8_t)i;
			return true;
		}
	return false;
}

static bool parse_start(const char *line, unsigned char *flags)
{
	char how[16], more[2][16] = { "", "" };
	uint8_t start;
	int i;

	if (sscanf(line, "start %15s %15s %15s", how, more[0], more[1]) < 1 || !number_of(start_names, 3, how, &start))
		return false;
	*flags = start;
	for (i = 0; i < 2; i++) {
		if (strcmp(more[i], "read-only") == 0)
			*flags |= START_READ_ONLY;
		else if (strcmp(more[i], "keep-check") == 0)
			*flags |= START_KEEP_CHECK;
		else if (more[i][0])
			return false;
	}
	return true;
}

static bool parse_command(const char *line, struct fuzz_command *c)
{
	char op[16], area[16];
	unsigned index, word, shift, len, arg;

	memset(c, 0, sizeof(*c));
	if (sscanf(line, "%15s %15s %u word %u bits %u %u arg %u value %" SCNi64, op, area, &index, &word, &shift, &len, &arg,
		   &c->value) != 8)
		return false;
	c->index = (uint16_t)index;
	c->word = (uint8_t)word;
	c->shift = (uint8_t)shift;
	c->len = (uint8_t)len;
	c->arg = (uint8_t)arg;
	return number_of(op_names, OPS, op, &c->op) && number_of(area_names, AREAS, area, &c->area);
}

static size_t parse_bytes(const char *line, unsigned char *data, size_t room)
{
	size_t n = 0;
	unsigned byte;
	int used;

	for (line += strlen("bytes"); n < room && sscanf(line, " %2x%n", &byte, &used) == 1; line += used)
		data[n++] = (unsigned char)byte;
	return n;
}

/* 0 = neither; else how many bytes were added. */
static size_t parse_line(const char *line, unsigned char *data, size_t room)
{
	struct fuzz_command c;

	if (strncmp(line, "bytes ", 6) == 0)
		return parse_bytes(line, data, room);
	if (room < sizeof(c) || !parse_command(line, &c))
		return 0;
	memcpy(data, &c, sizeof(c));
	return sizeof(c);
}

size_t fuzz_parse(FILE *in, const char *name, unsigned char *data, size_t max)
{
	char line[512];
	size_t size = 0, n;
	unsigned at = 0;

	while (fgets(line, sizeof(line), in)) {
		at++;
		line[strcspn(line, "#\n")] = '\0';
		if (strspn(line, " \t") == strlen(line))
			continue;
		n = size == 0 ? parse_start(line, data) : parse_line(line, data + size, max - size);
		if (n == 0) {
			fprintf(stderr, "%s:%u: not understood: %s\n", name, at, line);
			return 0;
		}
		size += n;
	}
	return size;
}
