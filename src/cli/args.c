/* SPDX-License-Identifier: MIT */
/*
 * args.c - options, operands, numbers, durations, keys
 *
 * Every function either returns a valid value or ends the program with EXIT_USAGE and a message that names
 * the wrong argument and the allowed values.  Nothing has been opened or changed before.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* --- Options and operands ---------------------------------------------------------------------------- */

static const struct option *find_option(const struct option *longs, int value)
{
	for (; longs->name; longs++)
		if (longs->val == value)
			return longs;
	return NULL;
}

/** "; did you mean '--wait'?" for a word that begins with a '-' or two, to be freed. */
static char *nearest_option(const char *word, const struct option *longs)
{
	struct nearest nearest;

	word += strspn(word, "-");
	nearest = nearest_to(word, strcspn(word, "="));
	for (; longs->name; longs++)
		nearest_offer(&nearest, longs->name, strlen(longs->name));
	return nearest_text(&nearest, "--");
}

/** After '?' from getopt_long(): optopt is 0 for an unknown long option, else a known one with an unwanted value. */
static void option_error(char **argv, const struct option *longs)
{
	const struct option *known = find_option(longs, optopt);

	if (known)
		usage_error("option '--%s' takes no value", known->name);
	/* Inside of a word such as -json it is not passed yet. */
	if (optopt)
		usage_error("unknown option '-%c'%s", optopt,
			    argv[optind] && argv[optind][0] == '-' && argv[optind][1] == optopt ?
				    nearest_option(argv[optind], longs) : "");
	usage_error("unknown or ambiguous option '%s'%s", argv[optind - 1], nearest_option(argv[optind - 1], longs));
}

void (*args_help)(void) __attribute__((noreturn));

int args_option(int argc, char **argv, const char *shorts, const struct option *longs)
{
	int option;

	opterr = 0;
	option = getopt_long(argc, argv, shorts, longs, NULL);
	switch (option) {
	case 'h':
		args_help();
	case ':':
		usage_error("option '%s' needs a value", argv[optind - 1]);
	case '?':
		option_error(argv, longs);
		break;
	default:
		break;
	}
	return option;
}

void args_no_option(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 } /* end */
	};

	(void)args_option(argc, argv, ":h", options);
}

char *args_operand(int argc, char **argv, const char *what)
{
	if (optind >= argc)
		usage_error("%s is missing", what);
	return argv[optind++];
}

const char *args_segment(int argc, char **argv)
{
	const char *name = args_operand(argc, argv, "NAME");

	if (!*name)
		usage_error("NAME is empty");
	subject_segment(name);
	return name;
}

void args_end(int argc, char **argv)
{
	if (optind < argc)
		usage_error("unexpected argument '%s'", argv[optind]);
}

/* --- Keys -------------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/** Decode %XX in place.  Return: the new length. */
static size_t decode(const char *what, char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		if (*from != '%') {
			*to++ = *from;
			continue;
		}
		if (hex_digit(from[1]) < 0 || hex_digit(from[2]) < 0)
			usage_error("%s is not percent-escaped: two hexadecimal digits must follow every '%%'", what);
		*to++ = (char)(hex_digit(from[1]) << 4 | hex_digit(from[2]));
		from += 2;
	}
	return (size_t)(to - text);
}

struct key args_bytes(const char *what, char *text, bool escaped)
{
	size_t len = escaped ? decode(what, text) : strlen(text);

	if (!len)
		usage_error("%s is empty", what);
	return (struct key){ (const unsigned char *)text, len };
}

struct key args_key(char *text, bool escaped)
{
	struct key key;

	if (!*text)
		usage_error("KEY is empty; a key has 1 to %d bytes", LOCKSHM_KEY_MAX);
	key = args_bytes("KEY", text, escaped);
	if (key.len > LOCKSHM_KEY_MAX)
		usage_error("KEY has %zu bytes; a key has 1 to %d", key.len, LOCKSHM_KEY_MAX);
	return key;
}

/* --- Numbers ----------------------------------------------------------------------------------------- */

/** Parse decimal digits.  Return: what follows them; NULL = no digit, or more than 64 bits. */
static const char *parse_digits(const char *text, uint64_t *value)
{
	const char *end = text;

	*value = 0;
	for (; *end >= '0' && *end <= '9'; end++)
		if (__builtin_mul_overflow(*value, 10, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(*end - '0'), value))
			return NULL;
	return end == text ? NULL : end;
}

uint64_t args_number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	uint64_t value;
	const char *end = parse_digits(text, &value);

	if (!end || *end || value < min || value > max)
		usage_error("%s: '%s' is not a whole number from %llu to %llu", option, text, (unsigned long long)min,
			    (unsigned long long)max);
	return value;
}

/* --- Durations --------------------------------------------------------------------------------------- */

static int64_t unit_ns(const char *text)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = { { "ms", LOCKSHM_MS(1) },
		      { "s", LOCKSHM_SECONDS(1) },
		      { "m", LOCKSHM_SECONDS(60) },
		      { "h", LOCKSHM_SECONDS(3600) } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(text, units[i].name))
			return units[i].ns;
	return 0;
}

static void duration_error(const char *option, const char *text, int allow)
{
	bool bare = *text && !text[strspn(text, "0123456789")];

	usage_error("%s: '%s' is not a duration%s; allowed are 250ms, 1.5s, 2m, 1h, 0%s%s, at most 87600h", option, text,
		    bare ? ", the unit is missing" : "", allow & DURATION_INF ? ", inf" : "",
		    allow & DURATION_NONE ? ", none" : "");
}

/** The digits after the point, of which the first counts tenths of @unit; what is below 1 ns is rounded up. */
static uint64_t fraction_ns(const char *digits, const char *end, int64_t unit)
{
	uint64_t digit_ns = (uint64_t)unit;
	uint64_t ns = 0;
	bool rest = false;

	for (; digits < end; digits++) {
		uint64_t digit = (uint64_t)(*digits - '0');

		digit_ns = digit_ns % 10 ? 0 : digit_ns / 10;
		ns += digit * digit_ns;
		rest |= digit && !digit_ns;
	}
	return ns + rest;
}

/** "1.5s" as nanoseconds; -1 = malformed or too long. */
static int64_t parse_duration(const char *text)
{
	uint64_t ns;
	const char *end = parse_digits(text, &ns);
	const char *part = NULL;
	const char *part_end = NULL;
	int64_t unit;

	if (end && *end == '.') {
		part = end + 1;
		end = part_end = part + strspn(part, "0123456789");
		if (end == part)
			return -1;
	}
	if (!end)
		return -1;
	unit = unit_ns(end);
	if (!unit || __builtin_mul_overflow(ns, (uint64_t)unit, &ns) ||
	    __builtin_add_overflow(ns, fraction_ns(part, part_end, unit), &ns) || ns > (uint64_t)LOCKSHM_TIME_MAX)
		return -1;
	return (int64_t)ns;
}

int64_t args_duration(const char *option, const char *text, int allow)
{
	int64_t ns;

	if ((allow & DURATION_INF && !strcmp(text, "inf")) || (allow & DURATION_NONE && !strcmp(text, "none")))
		return LOCKSHM_FOREVER;
	ns = strcmp(text, "0") ? parse_duration(text) : 0;
	if (ns < 0)
		duration_error(option, text, allow);
	return ns;
}

/* --- Policies ---------------------------------------------------------------------------------------- */

int args_policy(const char *option, const char *text)
{
	for (int policy = LOCKSHM_REDIS_FAIL; policy <= LOCKSHM_REDIS_LOCAL_ONLY; policy++)
		if (!strcmp(text, policy_name(policy)))
			return policy;
	usage_error("%s: '%s' is not fail, wait or local-only", option, text);
}
