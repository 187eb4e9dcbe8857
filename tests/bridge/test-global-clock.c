/* SPDX-License-Identifier: MIT */
/* test-global-clock.c - the wall clock of the Redis server is stepped; the hosts' clocks are not */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#define HOURS (INT64_C(3600) * 1000)
/* A lease, its margins and a slow machine. */
#define SOON LOCKSHM_MS(2500)

static struct agent *a, *b, *c;

static void server_with_clock(void)
{
	own_server_with_clock();
	cast("001", &a, &b, &c);
}

static bool is_set(int64_t want_ms)
{
	int64_t s = atoll(redis_say(redis, "TIME") + 1);
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return llabs((long long)(s - ts.tv_sec) * 1000 - (long long)want_ms) < 5000;
}

/* Redis reads its clock in its own event loop. */
static void step(int64_t ms)
{
	redis_step(redis, ms);
	while (!is_set(ms))
		;
}

/* All leases are over for the server, whatever the holders count: they are invalidated, or at the latest not
 * renewed. */
START_TEST(forward_takes_the_lease)
{
	uint64_t token;
	int64_t stepped;

	server_with_clock();
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	stepped = ran_ns();
	step(1 * HOURS);
	lost_is_reported(a);
	ck_assert_int_lt(ran_ns() - stepped, LOCKSHM_MS(333 + 300));
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(c->answer.token, token);
	ck_code(agent_release(c), 0);
	/* The clock is set right again. */
	token = c->answer.token;
	redis_step(redis, -1 * HOURS);
	ck_assert_int_ge(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(b->answer.token, token);
}
END_TEST

START_TEST(forward_keeps_the_order_of_waiters)
{
	server_with_clock();
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	step(1 * HOURS);
	lost_is_reported(a);
	ck_code(agent_end(c), 0);
}
END_TEST

/* With leases of 3 s, which a slow machine renews in time. */
START_TEST(back_keeps_the_lease)
{
	struct lockshm_create_options options;
	uint64_t token;
	int64_t end;

	own_server_with_clock();
	options = host_options();
	options.redis_ttl_ns = LOCKSHM_SECONDS(3);
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	c = on_host(1);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	step(-2 * HOURS);
	for (end = now_ns() + LOCKSHM_MS(3500); now_ns() < end; pass(now_ns() + LOCKSHM_MS(10)))
		ck_code(agent_call(a, AGENT_CHECK), 0);
	/* Renewed by the new clock. */
	ck_assert_int_le(atoi(redis_say(redis, "PTTL lk:" K)), 3000);
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(c->answer.token, token);
}
END_TEST

/* Tokens rise above those in use, also where the server has forgotten them. */
START_TEST(back_and_emptied)
{
	uint64_t token;

	server_with_clock();
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	step(-2 * HOURS);
	ck_redis("OK", redis, "FLUSHALL");
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(b->answer.token, token);
}
END_TEST

/* What the dead left lasts as long as it would have, not until the old time comes again. */
static void host_0_dies(void)
{
	step(-2 * HOURS);
	bridge_kill(0);
	agent_kill(a);
}

START_TEST(back_and_a_dead_writer)
{
	int64_t killed;

	server_with_clock();
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	agent_stop(a);
	bridge_freeze(0);
	host_0_dies();
	killed = ran_ns();
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_lt(ran_ns() - killed, SOON);
}
END_TEST

START_TEST(back_and_a_dead_reader)
{
	int64_t killed;

	server_with_clock();
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	agent_stop(a);
	bridge_freeze(0);
	host_0_dies();
	killed = ran_ns();
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_lt(ran_ns() - killed, SOON);
}
END_TEST

/* Host 2 holds, host 0 waits and dies, host 1 is queued after it. */
static void dies_as_a_waiter(int how_held, int next_wants)
{
	struct agent *holder;
	int64_t released;

	own_server_with_clock();
	cast("0012", &a, &b, &c, &holder);
	ck_code(global_wait(holder, K, how_held), 0);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	agent_stop(a);
	host_0_dies();
	global_send(c, K, next_wants);
	redis_has("ZCARD {lk:" K "}:q", "2");
	ck_code(agent_release(holder), 0);
	released = ran_ns();
	ck_code(agent_end(c), 0);
	ck_assert_int_lt(ran_ns() - released, LOCKSHM_MS(2000) + SOON); /* the time of a waiter */
}

START_TEST(back_and_a_dead_waiter)
{
	dies_as_a_waiter(LOCKSHM_EXCLUSIVE, LOCKSHM_EXCLUSIVE);
}
END_TEST

/* Its intent key kept new readers out. */
START_TEST(back_and_a_dead_writers_intent)
{
	dies_as_a_waiter(LOCKSHM_SHARED, LOCKSHM_SHARED);
}
END_TEST

static void add(TCase *tc)
{
#ifdef __GLIBC__ /* the server's C library, too */
	tcase_add_native(tc, forward_takes_the_lease);
	tcase_add_native(tc, forward_keeps_the_order_of_waiters);
	tcase_add_native(tc, back_keeps_the_lease);
	tcase_add_native(tc, back_and_emptied);
	tcase_add_native(tc, back_and_a_dead_writer);
	tcase_add_native(tc, back_and_a_dead_reader);
	tcase_add_native(tc, back_and_a_dead_waiter);
	tcase_add_native(tc, back_and_a_dead_writers_intent);
#else
	(void)tc;
#endif
}

int main(void)
{
	return hosts_main("global-clock", add);
}
