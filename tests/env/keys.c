/* SPDX-License-Identifier: MIT */
/*
 * keys.c - many keys in one segment
 *
 *   env-keys [KEYS]       20,000 if not given; make check-env runs 1,000,000
 *
 * All are taken once, then known without being held; taken again with larger tokens; and many are held at once.  Then
 * as many new keys evict them, and they come back with larger tokens.
 */
#include "env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX 20000

static uint64_t *tokens;

static int take(uint64_t key, lockshm_hold_t *hold, int64_t *ns)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	int64_t begun = env_now(), took;
	int code;

	request.key = &key;
	request.key_len = sizeof(key);
	request.timeout_ns = 0;
	request.ttl_ns = LOCKSHM_FOREVER;
	code = lockshm_acquire(env_segment, &request, hold);
	took = env_now() - begun;
	*ns = took > *ns ? took : *ns;
	return code;
}

/* Take and leave @n keys from @first on; each token above the one before. */
static void pass(uint64_t first, uint64_t n, const char *what)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int64_t begun = env_now(), longest = 0;
	uint64_t key;

	for (key = first; key < first + n; key++) {
		int code = take(key, &hold, &longest);

		if (code != 0)
			env_fail(__FILE__, __LINE__, "key %llu: %s", (unsigned long long)key, lockshm_code_name(code));
		CHECK(lockshm_token(&hold) > tokens[key]);
		tokens[key] = lockshm_token(&hold);
		CHECK_CODE(lockshm_release(&hold, 0), 0);
	}
	printf("%-28s %7.0f ns each, longest %6.0f us\n", what, (double)(env_now() - begun) / (double)n, (double)longest / 1e3);
}

static struct lockshm_stat stat_now(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	CHECK_CODE(lockshm_stat(env_segment, &stat), 0);
	return stat;
}

/* As many as one thread may hold at once, up to a bound. */
static void hold_many(uint64_t n)
{
	lockshm_hold_t *holds = calloc(n, sizeof(*holds));
	int64_t longest = 0, begun = env_now();
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	uint64_t i, seen = 0;
	int code;

	CHECK(holds != NULL);
	for (i = 0; i < n; i++)
		CHECK_CODE(take(i, &holds[i], &longest), 0);
	CHECK(stat_now().keys_busy == n);
	EACH_ROW(row, code, env_segment, LOCKSHM_LIST_BUSY, NULL, 0)
		seen += row.request.state == 0 && row.holders == 1 && row.key_len == 8;
	CHECK_CODE(code, 0);
	CHECK(seen == n);
	for (i = 0; i < n; i++)
		CHECK_CODE(lockshm_release(&holds[i], 0), 0);
	CHECK(stat_now().keys_busy == 0);
	free(holds);
	printf("%llu keys held at once by one thread: %.0f ns each\n", (unsigned long long)n,
	       (double)(env_now() - begun) / (double)n);
}

int main(int argc, char **argv)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	uint64_t keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000, held = keys / 8 < HELD_MAX ? keys / 8 : HELD_MAX;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	tokens = calloc(2 * keys, sizeof(*tokens));
	if (!tokens || keys < 1000)
		env_broken("KEYS");
	options.keys = (uint32_t)keys;
	options.requests = (uint32_t)held + 1000;
	options.owners = 16;
	env_create(&options);
	pass(0, keys, "new keys");
	stat = stat_now();
	printf("%llu keys known of %u, %.1f MiB\n", (unsigned long long)stat.keys_known, stat.keys,
	       (double)stat.bytes / 1048576);
	/* The windows of some keys fill before the table does. */
	CHECK(stat.keys_known > keys - keys / 100);
	pass(0, keys, "the same again");
	hold_many(held);
	env_verify();
	pass(keys, keys, "other keys in their place");
	pass(0, keys, "the first ones come back");
	env_nothing_left(1);
	return 0;
}
