/* SPDX-License-Identifier: MIT */
/*
 * options.c - the table of a segment's options: names, ranges, texts to values and back
 *
 * A range stands here, and a default in LOCKSHM_CREATE_INIT.  lockshm_create() checks by the same rows, so a value
 * is refused in the same words, whether it came as a text or in the struct.
 */
#include "segment/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "segment/global-keys.h"
#include "segment/layout.h"
#include "segment/redis-options.h"
#include "segment/redis-uri.h"
#include "sys/error.h"
#include "sys/sized.h"

struct option {
	const char *name;
	int kind;
	size_t offset, bytes;
	uint64_t min, max; /* of a number; max of a flag is its bit */
	int (*check)(const char *text, struct lockshm_error *error); /* of a text that is not empty; NULL = any */
	const char *help;
	bool of_redis; /* without servers it has to be as in LOCKSHM_CREATE_INIT */
};

#define FIELD(field) offsetof(struct lockshm_create_options, field), sizeof(((struct lockshm_create_options *)0)->field)
#define OWNERS_MAX (1u << 20)
#define PERMISSIONS_LEAST 0600u
#define GROUP_OF_CALLER ((gid_t)-1)

static int check_servers(const char *text, struct lockshm_error *error)
{
	struct redis_server servers[REDIS_SERVERS_MAX];
	size_t n;

	return redis_uri_parse(text, NULL, servers, REDIS_SERVERS_MAX, &n, error);
}

static const struct option table[] = {
	{ "keys", LOCKSHM_OPTION_NUMBER, FIELD(keys), 1, LOCKS_MAX, NULL, "keys that have room at once", false },
	{ "requests", LOCKSHM_OPTION_NUMBER, FIELD(requests), 1, INDEX_MAX, NULL, "holds plus waits at once", false },
	{ "owners", LOCKSHM_OPTION_NUMBER, FIELD(owners), 1, OWNERS_MAX, NULL, "threads that take locks at once", false },
	{ "permissions", LOCKSHM_OPTION_PERMISSIONS, FIELD(permissions), PERMISSIONS_LEAST, 0666, NULL,
	  "permission bits, whatever the umask", false },
	{ "group", LOCKSHM_OPTION_GROUP, FIELD(group), 0, UINT32_MAX - 1, NULL, "group of the segment", false },
	{ "token_floor", LOCKSHM_OPTION_NUMBER, FIELD(token_floor), 0, UINT64_MAX / 2, NULL,
	  "every token is larger; 0 = from the clock", false },
	{ "redis", LOCKSHM_OPTION_LIST, FIELD(redis), 0, 0, check_servers,
	  "servers for global keys: redis://HOST[:PORT][/DB], rediss://... (TLS) or unix:///PATH[?db=DB]", false },
	{ "redis_prefix", LOCKSHM_OPTION_TEXT, FIELD(redis_prefix), 0, 0, NULL,
	  "a key's name in Redis is this and the key", true },
	{ "redis_policy", LOCKSHM_OPTION_POLICY, FIELD(redis_policy), LOCKSHM_REDIS_FAIL, LOCKSHM_REDIS_WAIT, NULL,
	  "when Redis is out of reach", true },
	{ "redis_ttl", LOCKSHM_OPTION_DURATION, FIELD(redis_ttl_ns), LOCKSHM_SECONDS(1), LOCKSHM_SECONDS(3600), NULL,
	  "time until this host's leases end without renewal", true },
	{ "redis_retain", LOCKSHM_OPTION_DURATION, FIELD(redis_retain_ns), 0, LOCKSHM_SECONDS(3600), NULL,
	  "how long an unused lease stays; less than redis_ttl", true },
	{ "redis_gap", LOCKSHM_OPTION_DURATION, FIELD(redis_gap_ns), 0, LOCKSHM_SECONDS(10), NULL,
	  "a busy key stays free between two leases, for programs that poll it; half of redis_ttl at most", true },
	{ "host_leases", LOCKSHM_OPTION_NUMBER, FIELD(host_leases), 1, HOST_LEASES_MAX, NULL,
	  "global keys in use at once", true },
	{ "redis_wait", LOCKSHM_OPTION_NUMBER, FIELD(redis_wait), 0, REDIS_WAIT_MAX, NULL,
	  "replicas that must have a lease before it counts", true },
	{ "redis_quorum", LOCKSHM_OPTION_FLAG, FIELD(flags), 0, LOCKSHM_CREATE_REDIS_QUORUM, NULL,
	  "a majority of the servers decides; otherwise each key has its server", true },
	{ "global_keys", LOCKSHM_OPTION_LIST, FIELD(global_keys), 0, 0, global_keys_check,
	  "keys that are global for every request: those that begin with one of these; '*' = all", true },
};

static const struct lockshm_create_options initial = LOCKSHM_CREATE_INIT;

enum { OPTIONS = sizeof(table) / sizeof(table[0]) };

static const char *const policies[] = {
	[LOCKSHM_REDIS_FAIL] = "fail", [LOCKSHM_REDIS_WAIT] = "wait", [LOCKSHM_REDIS_LOCAL_ONLY] = "local-only"
};
enum { POLICIES = sizeof(policies) / sizeof(policies[0]) };

static bool is_text(const struct option *option)
{
	return option->kind == LOCKSHM_OPTION_TEXT || option->kind == LOCKSHM_OPTION_LIST;
}

/* ---------------------------------------------------------------- the field */

static uint64_t number_of(const struct option *option, const struct lockshm_create_options *o)
{
	const char *field = (const char *)o + option->offset;
	uint32_t half;
	uint64_t whole;

	if (option->bytes == sizeof(whole)) {
		memcpy(&whole, field, sizeof(whole));
		return whole;
	}
	memcpy(&half, field, sizeof(half));
	return option->kind == LOCKSHM_OPTION_FLAG ? (half & option->max) != 0 : half;
}

static void set_number(const struct option *option, struct lockshm_create_options *o, uint64_t number)
{
	char *field = (char *)o + option->offset;
	uint32_t half = (uint32_t)number;

	if (option->kind == LOCKSHM_OPTION_FLAG) {
		memcpy(&half, field, sizeof(half));
		half = number ? half | (uint32_t)option->max : half & ~(uint32_t)option->max;
	}
	if (option->bytes == sizeof(number))
		memcpy(field, &number, sizeof(number));
	else
		memcpy(field, &half, sizeof(half));
}

_Static_assert(sizeof(mode_t) == 4 && sizeof(gid_t) == 4 && sizeof(int) == 4, "a number of an option has 4 or 8 bytes");

/* ---------------------------------------------------------------- texts */

/* All digits of @text up to @end, of which there is one at least. */
static bool parse_digits(const char *text, const char *end, unsigned base, uint64_t *out)
{
	if (text == end)
		return false;
	for (*out = 0; text < end; text++)
		if (*text < '0' || *text >= (char)('0' + base) || __builtin_mul_overflow(*out, (uint64_t)base, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(*text - '0'), out))
			return false;
	return true;
}

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = { { "h", 3600000000000 }, { "m", 60000000000 }, { "s", 1000000000 }, { "ms", 1000000 } };
enum { UNITS = sizeof(units) / sizeof(units[0]) };

/* "1.5s"; digits below a nanosecond are cut. */
static bool parse_duration(const char *text, uint64_t *ns)
{
	size_t whole = strspn(text, "0123456789"), part = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
	const char *unit = text + whole + (part ? part + 1 : 0);
	uint64_t digit;
	size_t i;

	if (strcmp(text, "0") == 0)
		return parse_digits(text, text + 1, 10, ns);
	for (i = 0; i < UNITS && strcmp(unit, units[i].name) != 0; i++)
		;
	if (i == UNITS || !parse_digits(text, text + whole, 10, ns) || __builtin_mul_overflow(*ns, units[i].ns, ns))
		return false;
	digit = units[i].ns;
	for (const char *at = text + whole + 1; part--; at++) {
		digit /= 10;
		if (__builtin_add_overflow(*ns, (uint64_t)(*at - '0') * digit, ns))
			return false;
	}
	return true;
}

static bool parse_word(const char *text, const char *const *words, size_t first, size_t n, uint64_t *number)
{
	for (*number = first; *number < n; ++*number)
		if (strcmp(text, words[*number]) == 0)
			return true;
	return false;
}

static bool parse(const struct option *option, const char *text, uint64_t *number)
{
	static const char *const no_yes[] = { "no", "yes" };

	switch (option->kind) {
	case LOCKSHM_OPTION_FLAG:
		return parse_word(text, no_yes, 0, 2, number);
	case LOCKSHM_OPTION_POLICY:
		return parse_word(text, policies, LOCKSHM_REDIS_FAIL, POLICIES, number);
	case LOCKSHM_OPTION_DURATION:
		return parse_duration(text, number);
	case LOCKSHM_OPTION_PERMISSIONS:
		return parse_digits(text, text + strlen(text), 8, number);
	case LOCKSHM_OPTION_GROUP:
		return parse_digits(text, text + strlen(text), 10, number) && *number != GROUP_OF_CALLER;
	default:
		return parse_digits(text, text + strlen(text), 10, number);
	}
}

enum { NUMBER_TEXT = 40 };

static const char *duration_text(uint64_t ns, char out[NUMBER_TEXT])
{
	size_t i;

	if (ns > INT64_MAX) {
		snprintf(out, NUMBER_TEXT, "%lldns", (long long)ns);
		return out;
	}
	for (i = 0; i < UNITS - 1 && ns % units[i].ns; i++)
		;
	if (ns % units[i].ns)
		snprintf(out, NUMBER_TEXT, "%.9g%s", (double)ns / (double)units[i].ns, units[i].name);
	else
		snprintf(out, NUMBER_TEXT, ns ? "%llu%s" : "0", (unsigned long long)(ns / units[i].ns), units[i].name);
	return out;
}

static const char *number_text(const struct option *option, uint64_t number, char out[NUMBER_TEXT])
{
	if (option->kind == LOCKSHM_OPTION_DURATION)
		return duration_text(number, out);
	if (option->kind == LOCKSHM_OPTION_FLAG)
		return number ? "yes" : "no";
	if (option->kind == LOCKSHM_OPTION_POLICY && number >= LOCKSHM_REDIS_FAIL && number < POLICIES)
		return policies[number];
	if (option->kind == LOCKSHM_OPTION_GROUP && number == GROUP_OF_CALLER)
		return "";
	snprintf(out, NUMBER_TEXT, option->kind == LOCKSHM_OPTION_PERMISSIONS ? "%04llo" : "%llu", (unsigned long long)number);
	return out;
}

static const char *range_text(const struct option *option, char *out, size_t size)
{
	char min[NUMBER_TEXT], max[NUMBER_TEXT];

	if (is_text(option))
		snprintf(out, size, "at most %zu bytes", option->bytes - 1);
	else if (option->kind == LOCKSHM_OPTION_FLAG)
		snprintf(out, size, "yes or no");
	else if (option->kind == LOCKSHM_OPTION_GROUP)
		snprintf(out, size, "the number of a group");
	else if (option->kind == LOCKSHM_OPTION_PERMISSIONS)
		snprintf(out, size, "%04o plus bits of %04o", PERMISSIONS_LEAST, (unsigned)option->max & ~PERMISSIONS_LEAST);
	else
		snprintf(out, size, option->kind == LOCKSHM_OPTION_POLICY ? "%s or %s" : "%s..%s",
			 number_text(option, option->min, min), number_text(option, option->max, max));
	return out;
}

/* ---------------------------------------------------------------- check */

static int refuse(const struct option *option, const char *value, struct lockshm_error *error)
{
	char range[64];

	return error_set(error, LOCKSHM_INVALID, "%s is %s, must be %s", option->name, value,
			 range_text(option, range, sizeof(range)));
}

static int check_text(const struct option *option, const char *text, struct lockshm_error *error)
{
	if (strnlen(text, option->bytes) == option->bytes)
		return error_set(error, LOCKSHM_INVALID, "%s has more than %zu bytes", option->name, option->bytes - 1);
	return *text && option->check ? option->check(text, error) : 0;
}

static int check_number(const struct option *option, uint64_t number, struct lockshm_error *error)
{
	char text[NUMBER_TEXT];

	if (option->kind == LOCKSHM_OPTION_FLAG || (option->kind == LOCKSHM_OPTION_GROUP && number == GROUP_OF_CALLER))
		return 0;
	if (option->kind == LOCKSHM_OPTION_PERMISSIONS ?
		    (number & ~option->max) || (number & PERMISSIONS_LEAST) != PERMISSIONS_LEAST :
		    number < option->min || number > option->max)
		return refuse(option, number_text(option, number, text), error);
	return 0;
}

static int check(const struct option *option, const struct lockshm_create_options *o, struct lockshm_error *error)
{
	const char *text = (const char *)o + option->offset, *initial_text = (const char *)&initial + option->offset;
	bool differs;
	int err;

	if (is_text(option)) {
		err = check_text(option, text, error);
		differs = !err && strcmp(text, initial_text) != 0;
	} else {
		err = check_number(option, number_of(option, o), error);
		differs = number_of(option, o) != number_of(option, &initial);
	}
	if (!err && differs && option->of_redis && !*o->redis)
		return error_set(error, LOCKSHM_INVALID, "%s is for Redis, but redis names no server", option->name);
	return err;
}

int options_check(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	int i, err = 0;

	for (i = 0; i < OPTIONS && !err; i++)
		err = check(&table[i], o, error);
	if (err)
		return err;
	if (o->flags & ~(LOCKSHM_CREATE_OR_OPEN | LOCKSHM_CREATE_REDIS_QUORUM))
		return error_set(error, LOCKSHM_INVALID, "unknown flags 0x%x", o->flags);
	if (o->reserved)
		return error_set(error, LOCKSHM_INVALID, "reserved is %u, must be 0", o->reserved);
	return redis_options_check(o, error);
}

/* ---------------------------------------------------------------- by name */

static const struct option *find(const char *name, size_t len)
{
	for (int i = 0; i < OPTIONS; i++)
		if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
			return &table[i];
	return NULL;
}

static int set(const struct option *option, struct lockshm_create_options *o, const char *value,
	       struct lockshm_error *error)
{
	char shown[LOCKSHM_KEY_SHOWN_MAX];
	uint64_t number;
	int err;

	if (option->kind == LOCKSHM_OPTION_LIST && !*value)
		return error_set(error, LOCKSHM_INVALID, "%s is empty: name one, or leave it out", option->name);
	if (is_text(option)) {
		err = check_text(option, value, error);
		if (!err)
			memcpy((char *)o + option->offset, value, strlen(value) + 1);
		return err;
	}
	if (!parse(option, value, &number)) {
		snprintf(shown, sizeof(shown), "'%s'", value);
		return refuse(option, shown, error);
	}
	err = check_number(option, number, error);
	if (!err)
		set_number(option, o, number);
	return err;
}

LOCKSHM_EXPORT int lockshm_create_option(struct lockshm_create_options *options, const char *name, const char *value,
					 struct lockshm_error *error)
{
	const struct option *option;
	size_t len;

	error_set(error, 0, "%s", "");
	if (!options || !sized_good(options, CREATE_OPTIONS_SIZE_0_1))
		return error_set(error, LOCKSHM_INVALID, "options are none: start from LOCKSHM_CREATE_INIT");
	if (!name)
		return error_set(error, LOCKSHM_INVALID, "name is NULL");
	len = value ? strlen(name) : strcspn(name, "=");
	if (!value && name[len] != '=')
		return error_set(error, LOCKSHM_INVALID, "'%.64s' is not name=value", name);
	option = find(name, len);
	/* A program of an older header has no room for the newest ones. */
	if (!option || option->offset + option->bytes > sized_of(options))
		return error_set(error, LOCKSHM_INVALID, "a segment has no option '%.*s'", len < 64 ? (int)len : 64, name);
	return set(option, options, value ? value : name + len + 1, error);
}

LOCKSHM_EXPORT int lockshm_create_option_at(size_t index, struct lockshm_option *out)
{
	const struct option *option = &table[index < OPTIONS ? index : 0];
	struct lockshm_option own = { .size = sizeof(own) };
	char text[NUMBER_TEXT];

	if (!out || !sized_good(out, OPTION_SIZE_0_1) || index >= OPTIONS)
		return LOCKSHM_INVALID;
	own.name = option->name;
	own.help = option->help;
	own.kind = option->kind;
	own.of_redis = option->of_redis;
	range_text(option, own.range, sizeof(own.range));
	snprintf(own.initial, sizeof(own.initial), "%s",
		 is_text(option) ? (const char *)&initial + option->offset :
				   number_text(option, number_of(option, &initial), text));
	sized_out(out, &own, sizeof(own));
	return 0;
}
