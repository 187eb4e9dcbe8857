/* SPDX-License-Identifier: MIT */
/* test-options.c - options of a segment by name: texts, ranges, defaults, and the same check by lockshm_create() */
#include <stdio.h>
#include <string.h>

#include "support/fixture.h"

static const struct lockshm_create_options initial = LOCKSHM_CREATE_INIT;
static struct lockshm_create_options options;
static struct lockshm_error error;

static void start(void)
{
	options = initial;
}

static int set(const char *name, const char *value)
{
	return lockshm_create_option(&options, name, value, &error);
}

static void refused(const char *name, const char *value, const char *message)
{
	struct lockshm_create_options before = options;

	ck_code(set(name, value), LOCKSHM_INVALID);
	ck_assert_str_eq(error.message, message);
	ck_assert_int_eq(error.code, LOCKSHM_INVALID);
	ck_assert_mem_eq(&options, &before, sizeof(before));
}

START_TEST(initial_texts_are_the_initial_values)
{
	struct lockshm_option row = LOCKSHM_OPTION_INIT;
	size_t i;

	for (i = 0; lockshm_create_option_at(i, &row) == 0; i++) {
		ck_assert(*row.name && *row.help && *row.range);
		if (*row.initial)
			ck_code(set(row.name, row.initial), 0);
		ck_assert_mem_eq(&options, &initial, sizeof(options));
	}
	ck_assert_uint_ge(i, 16);
	ck_code(lockshm_create_option_at(i, &row), LOCKSHM_INVALID);
	ck_code(lockshm_create_option_at(SIZE_MAX, &row), LOCKSHM_INVALID);
	row.size = 0;
	ck_code(lockshm_create_option_at(0, &row), LOCKSHM_INVALID);
	ck_code(lockshm_create_option_at(0, NULL), LOCKSHM_INVALID);
}
END_TEST

START_TEST(both_ends_of_a_range_and_no_more)
{
	char min[64], max[64], beyond[66];
	struct lockshm_option row = LOCKSHM_OPTION_INIT;
	unsigned ranges = 0;

	for (size_t i = 0; lockshm_create_option_at(i, &row) == 0; i++) {
		if (sscanf(row.range, "%63[0-9a-z]..%63[0-9a-z]", min, max) != 2)
			continue;
		ranges++;
		ck_code(set(row.name, min), 0);
		ck_code(set(row.name, max), 0);
		snprintf(beyond, sizeof(beyond), "1%s", max);
		ck_code(set(row.name, beyond), LOCKSHM_INVALID);
		ck_assert_ptr_nonnull(strstr(error.message, row.range));
	}
	ck_assert_uint_ge(ranges, 8);
}
END_TEST

START_TEST(texts_become_values)
{
	ck_code(set("redis_ttl", "1.5s"), 0);
	ck_assert_int_eq(options.redis_ttl_ns, LOCKSHM_MS(1500));
	ck_code(set("redis_ttl", "2m"), 0);
	ck_assert_int_eq(options.redis_ttl_ns, LOCKSHM_SECONDS(120));
	ck_code(set("redis_gap", "0.0000000019s"), 0);
	ck_assert_int_eq(options.redis_gap_ns, 1);
	ck_code(set("permissions", "660"), 0);
	ck_assert_uint_eq(options.permissions, 0660);
	ck_code(set("group", "7"), 0);
	ck_assert_uint_eq(options.group, 7);
	ck_code(set("token_floor", "9007199254740993"), 0);
	ck_assert_uint_eq(options.token_floor, UINT64_C(9007199254740993));
	options.flags = LOCKSHM_CREATE_OR_OPEN;
	ck_code(set("redis_quorum", "yes"), 0);
	ck_assert_uint_eq(options.flags, LOCKSHM_CREATE_OR_OPEN | LOCKSHM_CREATE_REDIS_QUORUM);
	ck_code(set("redis_quorum", "no"), 0);
	ck_assert_uint_eq(options.flags, LOCKSHM_CREATE_OR_OPEN);
	ck_code(set("redis_policy", "wait"), 0);
	ck_assert_int_eq(options.redis_policy, LOCKSHM_REDIS_WAIT);
}
END_TEST

START_TEST(a_line_is_name_and_value)
{
	ck_code(set("keys=77", NULL), 0);
	ck_assert_uint_eq(options.keys, 77);
	ck_code(set("redis_prefix=a=b", NULL), 0);
	ck_assert_str_eq(options.redis_prefix, "a=b");
	ck_code(set("redis_prefix=", NULL), 0);
	ck_assert_str_eq(options.redis_prefix, "");
	refused("keys", NULL, "'keys' is not name=value");
}
END_TEST

START_TEST(a_text_is_copied)
{
	char uri[] = "redis://a", long_text[LOCKSHM_REDIS_PREFIX_MAX + 2];
	struct lockshm_create_options copy;

	ck_code(set("redis", uri), 0);
	memset(uri, 'x', sizeof(uri) - 1);
	copy = options;
	options = initial;
	ck_assert_str_eq(copy.redis, "redis://a");
	memset(long_text, 'p', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = '\0';
	refused("redis_prefix", long_text, "redis_prefix has more than 127 bytes");
	ck_code(set("redis_prefix", long_text + 1), 0);
	ck_assert_str_eq(options.redis_prefix, long_text + 1);
}
END_TEST

START_TEST(a_refusal_names_option_value_and_range)
{
	refused("keys", "0", "keys is 0, must be 1..11184810");
	refused("keys", "many", "keys is 'many', must be 1..11184810");
	refused("keys", "", "keys is '', must be 1..11184810");
	refused("keys", "99999999999999999999999", "keys is '99999999999999999999999', must be 1..11184810");
	refused("keys", "4294967297", "keys is 4294967297, must be 1..11184810");
	refused("keys", "-1", "keys is '-1', must be 1..11184810");
	refused("redis_ttl", "10", "redis_ttl is '10', must be 1s..1h");
	refused("redis_ttl", "5ms", "redis_ttl is 5ms, must be 1s..1h");
	refused("redis_ttl", "3601s", "redis_ttl is 3601s, must be 1s..1h");
	refused("redis_ttl", "99999999999h", "redis_ttl is '99999999999h', must be 1s..1h");
	refused("redis_ttl", "1.s", "redis_ttl is '1.s', must be 1s..1h");
	refused("permissions", "777", "permissions is 0777, must be 0600 plus bits of 0066");
	refused("permissions", "0440", "permissions is 0440, must be 0600 plus bits of 0066");
	refused("permissions", "0680", "permissions is '0680', must be 0600 plus bits of 0066");
	refused("group", "staff", "group is 'staff', must be the number of a group");
	refused("group", "4294967295", "group is '4294967295', must be the number of a group");
	refused("redis_policy", "local-only", "redis_policy is local-only, must be fail or wait");
	refused("redis_quorum", "1", "redis_quorum is '1', must be yes or no");
	refused("global_keys", "", "global_keys is empty: name one, or leave it out");
	refused("lock", "1", "a segment has no option 'lock'");
	refused("", "1", "a segment has no option ''");
	refused("redis", "redis://:secret@host", "Redis URI 1: takes no user and no password (before the @): they go "
						   "into files of the bridge's credentials directory, see lockshm-bridge(8)");
	ck_code(lockshm_create_option(NULL, "keys", "1", &error), LOCKSHM_INVALID);
	ck_code(lockshm_create_option(&options, NULL, "1", NULL), LOCKSHM_INVALID);
}
END_TEST

static void create_refused(const char *message)
{
	ck_code(lockshm_create(NULL, other_name("refused"), &options, &error), LOCKSHM_INVALID);
	ck_assert_str_eq(error.message, message);
	options = initial;
}

START_TEST(create_checks_by_the_same_table)
{
	options.keys = 0;
	create_refused("keys is 0, must be 1..11184810");
	options.permissions = 0777;
	create_refused("permissions is 0777, must be 0600 plus bits of 0066");
	options.redis_ttl_ns = -1;
	create_refused("redis_ttl is -1ns, must be 1s..1h");
	options.redis_policy = 17;
	create_refused("redis_policy is 17, must be fail or wait");
	memset(options.global_keys, 'k', sizeof(options.global_keys));
	create_refused("global_keys has more than 255 bytes");
	options.redis_wait = 1;
	create_refused("redis_wait is for Redis, but redis names no server");
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	create_refused("redis_quorum is for Redis, but redis names no server");
}
END_TEST

/* A program of an older header: its struct ends before the option. */
START_TEST(an_option_beyond_the_struct_is_none)
{
	struct {
		struct lockshm_create_options own;
		char beyond[8];
	} room;

	memset(&room, 0x55, sizeof(room));
	room.own = initial;
	room.own.size = offsetof(struct lockshm_create_options, global_keys);
	ck_code(lockshm_create_option(&room.own, "global_keys", "*", &error), LOCKSHM_INVALID);
	ck_assert_str_eq(room.own.global_keys, "");
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, start, NULL);
	tcase_add_test(tc, initial_texts_are_the_initial_values);
	tcase_add_test(tc, both_ends_of_a_range_and_no_more);
	tcase_add_test(tc, texts_become_values);
	tcase_add_test(tc, a_line_is_name_and_value);
	tcase_add_test(tc, a_text_is_copied);
	tcase_add_test(tc, a_refusal_names_option_value_and_range);
	tcase_add_test(tc, create_checks_by_the_same_table);
	tcase_add_test(tc, an_option_beyond_the_struct_is_none);
}

int main(void)
{
	return fixture_main("options", add);
}
