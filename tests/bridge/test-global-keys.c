/* SPDX-License-Identifier: MIT */
/* test-global-keys.c - a segment that says which keys are global: by every way in, without a flag of the request */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "support/loops.h"

#include <string.h>

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED
#define USER "user:1" /* global in these segments */
#define LOCAL "use"   /* shorter than a prefix */

static struct agent *a, *b;

static void hosts_with(const char *global_keys)
{
	struct lockshm_create_options options = host_options();

	strcpy(options.global_keys, global_keys);
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(1);
	seg = hosts[0].s;
}

static int plain(struct agent *agent, const char *key, int mode, unsigned flags, int64_t timeout_ns)
{
	struct agent_command args = { .op = AGENT_ACQUIRE, .how = mode, .flags = flags | AGENT_PLAIN, .timeout_ns = timeout_ns };

	strcpy(args.key, key);
	return agent_do(agent, args);
}

static void in_redis(const char *key, bool is)
{
	ck_redis(is ? "1" : "0", redis, "EXISTS lk:%s", key);
}

/* Held by @a, not by @b; again and again, because then the key's entry is known. */
static void excludes_others(const char *key, int mode, unsigned flags)
{
	int i;

	for (i = 0; i < 3; i++) {
		ck_code(plain(a, key, mode, flags, 0), 0);
		ck_assert_uint_gt(a->answer.token, 0);
		in_redis(key, true);
		ck_code(plain(b, key, X, 0, AGENT_TRY), LOCKSHM_BUSY);
		ck_code(agent_release(a), 0);
		lease_becomes(0, key, LOCKSHM_HOST_LEASE_NONE);
	}
}

static void is_local(const char *key)
{
	int i;

	for (i = 0; i < 3; i++) {
		ck_code(plain(a, key, X, 0, 0), 0);
		ck_code(plain(b, key, X, 0, AGENT_TRY), 0);
		in_redis(key, false);
		ck_code(agent_release(a), 0);
		ck_code(agent_release(b), 0);
	}
}

START_TEST(by_prefix)
{
	hosts_with("job:,user:");
	excludes_others(USER, X, 0);
	excludes_others(USER, S, 0);
	excludes_others(USER, X, LOCKSHM_BARGE);
	excludes_others("job:", X, 0);
	is_local(LOCAL);
	is_local("a user:1");
	/* Longer than what a thread remembers of a key. */
	excludes_others("user:"
			"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
			X, 0);
}
END_TEST

START_TEST(all)
{
	hosts_with("*");
	excludes_others("x", X, 0);
	excludes_others("*", S, 0);
}
END_TEST

START_TEST(none)
{
	hosts_with("");
	is_local(USER);
}
END_TEST

/* Readers of one host join each other under its lease, not past it. */
START_TEST(readers)
{
	struct agent *c;

	hosts_with("user:");
	c = on_host(0);
	ck_code(plain(a, USER, S, 0, 0), 0);
	ck_code(plain(c, USER, S, 0, 0), 0);
	ck_code(plain(c, USER, S, 0, AGENT_TRY), LOCKSHM_INVALID); /* that hold is in use */
	ck_assert_uint_eq(lease_of(0, USER).local_grants, 2);
	ck_code(agent_release(a), 0);
	ck_code(plain(a, USER, S, 0, AGENT_TRY), 0);
	ck_assert_uint_eq(lease_of(0, USER).local_grants, 3);
	ck_code(agent_call(c, AGENT_UPGRADE), LOCKSHM_INVALID);
}
END_TEST

/* A streak goes on under the lease of its first hold, with its token. */
START_TEST(streaks)
{
	uint64_t token;
	struct agent *w;

	hosts_with("user:");
	w = on_host(0);
	ck_code(plain(a, USER, X, LOCKSHM_BARGE, 0), 0);
	token = a->answer.token;
	agent_send(w, (struct agent_command){ .op = AGENT_ACQUIRE, .how = X, .flags = AGENT_PLAIN, .key = USER });
	waits_on_host(w, 0, USER);
	agent_stop(w);
	ck_code(agent_release(a), 0);
	/* Unless its half a millisecond was over. */
	if (plain(a, USER, X, LOCKSHM_BARGE, AGENT_TRY) == 0) {
		ck_assert_uint_eq(a->answer.token, token);
		ck_assert_uint_eq(lease_of(0, USER).local_grants, 1);
		ck_code(agent_release(a), 0);
	}
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_assert_uint_gt(w->answer.token, token);
}
END_TEST

START_TEST(lock_objects)
{
	lockshm_lock_t object, long_one = { 0 };
	struct lockshm_create_options options = host_options();
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_request user = LOCKSHM_REQUEST(USER);
	struct lockshm_request q = LOCKSHM_REQUEST("user:0123456789012345678901234567890123456789012345678901234567890123456789");
	int i;

	hosts_with("user:");
	host_make_bare(2, &options);
	ck_code(lockshm_lock_init(&object, hosts[0].s, &user), 0);
	for (i = 0; i < 3; i++) {
		ck_code(lockshm_lock(&object, hosts[0].s), 0);
		in_redis(USER, true);
		ck_code(plain(b, USER, X, 0, AGENT_TRY), LOCKSHM_BUSY);
		ck_code(lockshm_unlock(&object), 0);
		lease_becomes(0, USER, LOCKSHM_HOST_LEASE_NONE);
		/* In a segment without the rule it is another lock, of this host. */
		ck_code(lockshm_lock(&object, hosts[2].s), 0);
		in_redis(USER, false);
		ck_code(lockshm_unlock(&object), 0);
		ck_code(lockshm_trylock(&object, hosts[2].s), 0);
		ck_code(lockshm_unlock(&object), 0);
	}
	q.report = &report;
	ck_code(lockshm_lock_init(&long_one, hosts[0].s, &q), LOCKSHM_INVALID); /* for the report */
	q.report = NULL;
	ck_code(lockshm_lock_init(&long_one, hosts[0].s, &q), LOCKSHM_KEY_TOO_LONG);
	ck_code(lockshm_lock_init(&long_one, hosts[2].s, &q), 0);
}
END_TEST

static const struct lockshm_key mixed[] = { { .data = LOCAL, .len = sizeof(LOCAL) - 1 },
					    { .data = USER, .len = sizeof(USER) - 1 },
					    { .data = "user:2", .len = 6 },
					    { .data = "zone", .len = 4 } };
#define MIXED (sizeof(mixed) / sizeof(mixed[0]))

static void mixed_are_held(lockshm_hold_t *holds)
{
	in_redis(LOCAL, false);
	in_redis(USER, true);
	in_redis("user:2", true);
	in_redis("zone", false);
	ck_code(plain(b, "zone", X, 0, AGENT_TRY), 0);
	ck_code(agent_release(b), 0);
	ck_code(plain(b, "user:2", X, 0, AGENT_TRY), LOCKSHM_BUSY);
	ck_code(lockshm_release_many(holds, MIXED), 0);
	lease_becomes(0, USER, LOCKSHM_HOST_LEASE_NONE);
	lease_becomes(0, "user:2", LOCKSHM_HOST_LEASE_NONE);
}

/* Without report, tag and flags: the shortest way in, once the key's entry is known and its record free. */
START_TEST(plain_requests)
{
	struct lockshm_request q = LOCKSHM_REQUEST(USER), local = LOCKSHM_REQUEST(LOCAL);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT, next = LOCKSHM_HOLD_INIT;
	int i;

	hosts_with("user:");
	for (i = 0; i < 6; i++) {
		q.mode = i % 2 ? S : X;
		ck_code(lockshm_acquire(hosts[0].s, &q, &hold), 0);
		in_redis(USER, true);
		ck_code(plain(b, USER, X, 0, AGENT_TRY), LOCKSHM_BUSY);
		if (q.mode == S) {
			ck_code(lockshm_acquire(hosts[0].s, &q, &next), 0);
			ck_assert_uint_eq(lease_of(0, USER).local_grants, 2);
			ck_code(lockshm_release(&next, 0), 0);
		}
		ck_code(lockshm_release(&hold, 0), 0);
		lease_becomes(0, USER, LOCKSHM_HOST_LEASE_NONE);
		ck_code(lockshm_acquire(hosts[0].s, &local, &hold), 0);
		in_redis(LOCAL, false);
		ck_code(lockshm_release(&hold, 0), 0);
	}
}
END_TEST

START_TEST(plain_requests_of_a_loop)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct lockshm_request q = LOCKSHM_REQUEST(USER);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	lockshm_loop_t *loop;
	int i;

	hosts_with("user:");
	loop = loop_new();
	for (i = 0; i < 3; i++) {
		ck_code(lockshm_loop_acquire(loop, &q, &hold, NULL), LOCKSHM_PENDING);
		while (lockshm_loop_next(loop, &outcome) == 0)
			loop_await(loop);
		ck_code(outcome.status, 0);
		in_redis(USER, true);
		ck_code(lockshm_release(&hold, 0), 0);
		lease_becomes(0, USER, LOCKSHM_HOST_LEASE_NONE);
	}
}
END_TEST

START_TEST(many)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t holds[MIXED];
	int i;

	memset(holds, 0, sizeof(holds));
	hosts_with("user:");
	q.ttl_ns = LOCKSHM_SECONDS(30);
	for (i = 0; i < 2; i++) {
		ck_code(lockshm_acquire_many(hosts[0].s, &q, mixed, MIXED, holds), 0);
		mixed_are_held(holds);
	}
}
END_TEST

START_TEST(loops)
{
	lockshm_loop_t *loop;
	struct task t;
	int i;

	hosts_with("user:");
	loop = loop_new();
	for (i = 0; i < 3; i++) {
		task_wait(loop, &t, USER, X);
		ck_outcome(loop, &t, 0);
		in_redis(USER, true);
		ck_code(plain(b, USER, X, 0, AGENT_TRY), LOCKSHM_BUSY);
		ck_code(task_release(&t), 0);
		lease_becomes(0, USER, LOCKSHM_HOST_LEASE_NONE);
		ck_code(task_begin(loop, &t, LOCAL, X), 0);
		in_redis(LOCAL, false);
		ck_code(task_release(&t), 0);
	}
}
END_TEST

START_TEST(loops_and_many)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t holds[MIXED];
	lockshm_loop_t *loop;
	int i;

	memset(holds, 0, sizeof(holds));
	hosts_with("user:");
	loop = loop_new();
	q.ttl_ns = LOCKSHM_SECONDS(30);
	for (i = 0; i < 2; i++) {
		ck_code(lockshm_loop_acquire_many(loop, &q, mixed, MIXED, holds, NULL), LOCKSHM_PENDING);
		while (lockshm_loop_next(loop, &outcome) == 0)
			loop_await(loop);
		ck_code(outcome.status, 0);
		mixed_are_held(holds);
	}
}
END_TEST

START_TEST(refused)
{
	struct lockshm_request q = LOCKSHM_REQUEST(USER);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	char key[LOCKSHM_GLOBAL_KEY_MAX + 1] = "user:";

	hosts_with("user:");
	q.report = &report;
	q.key = key;
	q.key_len = sizeof(key);
	ck_code(lockshm_acquire(hosts[0].s, &q, &hold), LOCKSHM_KEY_TOO_LONG);
	q.key_len = 4;
	ck_code(lockshm_acquire(hosts[0].s, &q, &hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

static int shown(const char *key)
{
	struct lockshm_row row;

	ck_code(key_row(hosts[0].s, key, strlen(key), &row), 0);
	return row.global;
}

START_TEST(shown_to_operators)
{
	hosts_with("job:,user:");
	ck_assert_str_eq(bridge_of(0).global_keys, "job:,user:");
	ck_assert_int_eq(shown(USER), 1);
	ck_assert_int_eq(shown(LOCAL), 0);
	ck_code(plain(a, USER, X, 0, 0), 0);
	ck_assert_int_eq(shown(USER), 1);
	ck_code(plain(b, LOCAL, X, 0, 0), 0);
	ck_assert_int_eq(shown(LOCAL), 0);
}
END_TEST

static int create_with(const char *global_keys, const char *uri, struct lockshm_error *error)
{
	struct lockshm_create_options options = host_options();

	strcpy(options.redis, uri);
	memcpy(options.global_keys, global_keys, strnlen(global_keys, sizeof(options.global_keys) - 1) + 1);
	return lockshm_create(NULL, "lockshm-hosts-none", &options, error);
}

START_TEST(bad_rules)
{
	static const struct {
		const char *rule, *text;
	} cases[] = {
		{ "a,,b", "empty prefix" },	 { "a,", "empty prefix" },
		{ "user:*", "'*' alone" },   { "*,a", "'*' alone" },
		{ "01234567890123456789012345678901234567890123456789012345678901234", "more than 64" },
	};
	struct lockshm_error error;
	char long_one[300];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_code(create_with(cases[i].rule, redis->uri, &error), LOCKSHM_INVALID);
		ck_contains(error.message, cases[i].text);
	}
	for (i = 0; i < sizeof(long_one) - 1; i++)
		long_one[i] = i % 2 ? ',' : 'a';
	long_one[i] = '\0';
	/* Not terminated in its field. */
	ck_code(create_with(long_one, redis->uri, &error), LOCKSHM_INVALID);
	ck_contains(error.message, "more than 255 bytes");
	ck_code(create_with("a", "", &error), LOCKSHM_INVALID);
	ck_contains(error.message, "is for Redis, but redis names no server");
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, by_prefix);
	tcase_add_test(tc, all);
	tcase_add_test(tc, none);
	tcase_add_test(tc, readers);
	tcase_add_test(tc, streaks);
	tcase_add_test(tc, lock_objects);
	tcase_add_test(tc, plain_requests);
	tcase_add_test(tc, plain_requests_of_a_loop);
	tcase_add_test(tc, many);
	tcase_add_test(tc, loops);
	tcase_add_test(tc, loops_and_many);
	tcase_add_test(tc, refused);
	tcase_add_test(tc, shown_to_operators);
	tcase_add_test(tc, bad_rules);
}

int main(void)
{
	return hosts_main("global-keys", add);
}
