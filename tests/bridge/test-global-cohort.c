/* SPDX-License-Identifier: MIT */
/* test-global-cohort.c - how long a host keeps a key that others want: other hosts, or programs that poll it */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "hostlease/host-lease.h"

#define K "key"
#define GAP_NS LOCKSHM_SECONDS(10)

static struct agent *a, *b, *c;

/* ---------------------------------------------------------------- the bounds */

struct bound {
	const char *name;
	uint64_t gap_ms, waiting, grants;
	int64_t held_ms;
	bool ends;
};

static const struct bound bounds[] = {
	{ "no other host waits", 0, 0, 1000000, 1000000, false },
	{ "the first hold", 0, 1, 1, 0, false },
	{ "few holds, long", 0, 1, 63, 199, false },
	{ "few holds, too long", 0, 1, 1, 200, true },
	{ "some holds, at once", 0, 1, 64, 4, false },
	{ "some holds, after the least time", 0, 1, 64, 5, true },
	{ "many holds, at once", 0, 1, 1023, 4, false },
	{ "too many holds, at once", 0, 1, 1024, 0, true },
	{ "gap: no other host waits", 300, 0, 64, 300, true },
	{ "gap: not as long as the gap", 300, 0, 1000000, 299, false },
	{ "gap: few holds", 300, 1, 63, 299, false },
	{ "gap: a single hold", 300, 0, 1, 300, true },
	{ "a short gap", 1, 0, 64, 4, false },
};

START_TEST(a_cohort_has_bounds)
{
	static struct lockshm s;
	struct shm_host_lease r = { 0 };
	size_t i;

	for (i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		const struct bound *t = &bounds[i];

		s.redis.ttl_ms = 10000;
		s.redis.gap_ms = (uint32_t)t->gap_ms;
		r.acquired = (uint64_t)LOCKSHM_SECONDS(5);
		r.other_hosts_waiting = t->waiting;
		r.local_grants = t->grants;
		ck_assert_msg(host_lease_exhausted(&s, &r, LOCKSHM_SECONDS(5) + LOCKSHM_MS(t->held_ms)) == t->ends,
			      "%s: not %d", t->name, t->ends);
	}
}
END_TEST

START_TEST(a_short_lease_ends_at_half)
{
	static struct lockshm s;
	struct shm_host_lease r = { .other_hosts_waiting = 1, .local_grants = 1 };

	s.redis.ttl_ms = 100;
	ck_assert(!host_lease_exhausted(&s, &r, LOCKSHM_MS(49)));
	ck_assert(host_lease_exhausted(&s, &r, LOCKSHM_MS(50)));
}
END_TEST

/* ---------------------------------------------------------------- the gap */

static void hosts_with_a_gap(void)
{
	struct lockshm_create_options options = host_options();

	options.redis_gap_ns = GAP_NS;
	options.redis_ttl_ns = LOCKSHM_SECONDS(60);
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(0);
	c = on_host(1);
	ck_assert_int_eq(bridge_of(0).gap_ns, GAP_NS);
}

/* No request waited, and one process had it once: the next has it at once. */
START_TEST(no_gap_after_a_lease_that_no_other_wanted)
{
	int i;

	hosts_with_a_gap();
	for (i = 0; i < 3; i++) {
		ck_code(global_wait(i & 1 ? b : a, K, LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(i & 1 ? b : a), 0);
		redis_has("EXISTS lk:" K, "0");
		ck_redis("0", redis, "HEXISTS {lk:" K "}:f gap");
	}
	ck_assert_uint_eq(bridge_of(0).acquired, 3);
}
END_TEST

static bool host_0_has_noticed(void *none)
{
	(void)none;
	return lease_of(0, K).other_hosts_waiting != 0;
}

/* Host 0 has the key, host 1 waits for it, and host 0 has noticed. */
static void two_hosts_want_it(void)
{
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	ck_assert(await(host_0_has_noticed, NULL));
}

/* True = it got the key in the gap.  A machine that stalls for longer than the gap tries again. */
static bool gets_it_in_the_gap(void)
{
	int64_t begun = now_ns();

	two_hosts_want_it();
	ck_code(agent_release(a), 0);
	redis_has("HEXISTS {lk:" K "}:f gap", "1");
	if (strcmp(redis_say(redis, "SET lk:" K " other NX PX 60000"), "OK") == 0)
		return true;
	ck_assert_int_ge(now_ns() - begun, GAP_NS / 2);
	ck_code(agent_end(c), 0);
	ck_code(agent_release(c), 0);
	redis_say(redis, "HDEL {lk:" K "}:f gap");
	return false;
}

START_TEST(a_program_that_polls_gets_the_key)
{
	int i;

	hosts_with_a_gap();
	for (i = 0; i < 5 && !gets_it_in_the_gap(); i++)
		;
	ck_assert_int_lt(i, 5);
	ck_assert_int_eq(agent_poll(c), AGENT_BLOCKED);
	ck_code(global_try(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	redis_say(redis, "HDEL {lk:" K "}:f gap");
	ck_redis("1", redis, "DEL lk:" K);
	ck_code(agent_end(c), 0);
	ck_code(agent_release(c), 0);
}
END_TEST

/* In the gap, and then without it. */
START_TEST(a_host_waits_for_the_end_of_the_gap)
{
	long long s, us, gap = 0;

	hosts_with_a_gap();
	two_hosts_want_it();
	ck_code(agent_release(a), 0);
	redis_has("HEXISTS {lk:" K "}:f gap", "1");
	sscanf(redis_say(redis, "HGET {lk:" K "}:f gap"), "%lld", &gap);
	ck_code(agent_end(c), 0);
	sscanf(redis_say(redis, "TIME"), "[%lld %lld]", &s, &us);
	ck_assert_int_ge(s * 1000 + us / 1000, gap);
}
END_TEST

START_TEST(the_message_of_a_try_in_the_gap)
{
	hosts_with_a_gap();
	ck_redis("1", redis, "HSET {lk:" K "}:f gap 1");
	for (;;) {
		long long s, us;
		char text[100];
		int code;

		sscanf(redis_say(redis, "TIME"), "[%lld %lld]", &s, &us);
		snprintf(text, sizeof(text), "HSET {lk:" K "}:f gap %lld", s * 1000 + 9000);
		redis_say(redis, "%s", text);
		code = global_try(a, K, LOCKSHM_SHARED);
		if (code == LOCKSHM_BUSY)
			break;
		/* Stalled beyond the gap. */
		ck_code(code, 0);
		ck_code(agent_release(a), 0);
	}
	ck_contains(a->answer.report.error.message, "left to other programs");
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_cohort_has_bounds);
	tcase_add_test(tc, a_short_lease_ends_at_half);
	tcase_add_test(tc, no_gap_after_a_lease_that_no_other_wanted);
	tcase_add_test(tc, a_program_that_polls_gets_the_key);
	tcase_add_test(tc, a_host_waits_for_the_end_of_the_gap);
	tcase_add_test(tc, the_message_of_a_try_in_the_gap);
}

int main(void)
{
	return hosts_main("global-cohort", add);
}
