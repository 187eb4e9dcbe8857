/* SPDX-License-Identifier: MIT */
/* test-names.c - the names of a lock in Redis; in a cluster all are in one slot */
#define _GNU_SOURCE
#include "redis-support/redis.h"

#include <stdlib.h>
#include <string.h>

#include "redis/names.h"

static struct redis_keys keys;
static struct redis_error error;

static int make(int mode, const char *prefix, const char *name)
{
	redis_keys_free(&keys);
	return redis_keys_make(&keys, mode, prefix, name, strlen(name), &error);
}

#define ck_key(i, want)                                                                                                \
	ck_assert_msg(keys.len[i] == strlen(want) && memcmp(keys.key[i], want, keys.len[i]) == 0, "key %d is '%.*s'",  \
		      i, (int)keys.len[i], keys.key[i])

START_TEST(a_plain_name)
{
	ck_code(make(REDIS_KEYS_SINGLE, "lk:", "job"), 0);
	ck_key(0, "lk:job");
	ck_key(1, "lk:job:lock-intent");
	ck_key(2, "{lk:job}:q");
	ck_key(3, "{lk:job}:qx");
	ck_key(4, "{lk:job}:rx");
	ck_key(5, "{lk:job}:f");
}
END_TEST

START_TEST(a_name_with_a_tag)
{
	ck_code(make(REDIS_KEYS_SINGLE, "", "a:{b}:c"), 0);
	ck_key(0, "a:{b}:c");
	ck_key(1, "a:{b}:c:lock-intent");
	ck_key(2, "a:{b}:c:q");
}
END_TEST

START_TEST(in_a_cluster_the_mark_follows)
{
	ck_code(make(REDIS_KEYS_CLUSTER, "", "job"), 0);
	ck_key(1, "{job}:lock-intent");
	ck_code(make(REDIS_KEYS_CLUSTER, "", "{job}"), 0);
	ck_key(1, "{job}:lock-intent");
	/* Other programs would look for the intent key of "job" in another slot. */
	ck_code(make(REDIS_KEYS_CLUSTER_SHARED, "", "job"), REDIS_INVALID);
	ck_contains(error.text, "needs a {tag}");
	ck_code(make(REDIS_KEYS_CLUSTER_SHARED, "", "{job}"), 0);
	ck_key(1, "{job}:lock-intent");
}
END_TEST

START_TEST(binary_names)
{
	ck_code(redis_keys_make(&keys, REDIS_KEYS_SINGLE, "p", "\0x", 2, &error), 0);
	ck_assert_uint_eq(keys.len[0], 3);
	ck_assert(memcmp(keys.key[0], "p\0x", 3) == 0);
	ck_assert(memcmp(keys.key[5], "{p\0x}:f", 7) == 0);
}
END_TEST

START_TEST(empty_and_endless)
{
	static char big[REDIS_NAME_MAX + 2];

	ck_code(make(REDIS_KEYS_SINGLE, "", ""), REDIS_INVALID);
	memset(big, 'k', REDIS_NAME_MAX);
	ck_code(make(REDIS_KEYS_SINGLE, "", big), 0);
	big[REDIS_NAME_MAX] = 'k';
	ck_code(make(REDIS_KEYS_SINGLE, "", big), REDIS_INVALID);
	ck_contains(error.text, "65535");
}
END_TEST

START_TEST(braces_that_a_cluster_cannot_have)
{
	static const char *const broken[] = { "{}m", "a}b", "x{}{y}", "}", "{}" };
	size_t i;

	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		ck_assert_msg(make(REDIS_KEYS_CLUSTER, "", broken[i]) == REDIS_INVALID, "'%s' is accepted",
			      broken[i]);
		ck_contains(error.text, broken[i]);
		ck_code(make(REDIS_KEYS_SINGLE, "", broken[i]), 0);
	}
}
END_TEST

/* A real cluster's slots of all accepted names, among many with braces everywhere. */
START_TEST(one_slot_by_the_word_of_a_cluster)
{
	struct redis *r = redis_start("cluster-enabled yes", true);
	static const char letters[] = "{}ab";
	char name[8], slot[32];
	int n, i, accepted = 0;

	for (n = 0; n < 4 * 4 * 4 * 4 * 4; n++) {
		for (i = 0; i < 5; i++)
			name[i] = letters[n >> 2 * i & 3];
		name[5] = '\0';
		if (make(REDIS_KEYS_CLUSTER, "", name) != 0)
			continue;
		accepted++;
		if (n % 4)
			continue;
		snprintf(slot, sizeof(slot), "%s", redis_say(r, "CLUSTER KEYSLOT %s", name));
		for (i = 1; i < REDIS_KEYS; i++)
			ck_redis(slot, r, "CLUSTER KEYSLOT %.*s", (int)keys.len[i], keys.key[i]);
	}
	ck_assert_int_ge(accepted, 200);
	redis_stop(r);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_plain_name);
	tcase_add_test(tc, a_name_with_a_tag);
	tcase_add_test(tc, in_a_cluster_the_mark_follows);
	tcase_add_test(tc, binary_names);
	tcase_add_test(tc, empty_and_endless);
	tcase_add_test(tc, braces_that_a_cluster_cannot_have);
	tcase_add_test(tc, one_slot_by_the_word_of_a_cluster);
}

int main(void)
{
	return redis_main("bridge-keys", add);
}
