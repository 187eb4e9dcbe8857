/* SPDX-License-Identifier: MIT */
/* test-global-bridge.c - leader election; death and stop of leaders, holders and whole hosts */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "hostlease/leader.h"

#include <string.h>

#include "hostlease/host-lease.h"

static struct agent *a, *b, *c;

static bool is_another_leader(void *arg)
{
	int32_t pid = bridge_of(0).pid;

	return pid != 0 && pid != *(int32_t *)arg;
}

static void takes_over(const struct agent *from)
{
	int32_t pid = from->pid;

	ck_assert_msg(await(is_another_leader, &pid), "no process took over from %d", (int)pid);
}

/* a leads and holds nothing; b holds K. */
static void bridge_and_holder(void)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, "first", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_assert_int_eq(bridge_of(0).pid, a->pid);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
}

struct standing {
	pid_t pid;
	bool found;
};

static int find_waiter(const struct lockshm_lock_info *lock, void *arg)
{
	struct standing *w = arg;
	size_t i;

	for (i = lock->holders; i < lock->holders + lock->waiters; i++)
		w->found = w->found || lock->requests[i]->pid == w->pid;
	return 0;
}

static bool is_standing_by(void *arg)
{
	struct standing w = { .pid = *(const pid_t *)arg };

	ck_code(lockshm_show_lock(hosts[0].s, LEADER_KEY, LEADER_KEY_LEN, find_waiter, &w), 0);
	return w.found;
}

static void stands_by(const struct agent *agent)
{
	pid_t pid = agent->pid;

	ck_assert(await(is_standing_by, &pid));
}

/* For longer than a lease lasts without renewal. */
static void stays_held(const char *value)
{
	int64_t end = now_ns() + LOCKSHM_MS(2500);

	while (now_ns() < end) {
		ck_code(agent_call(b, AGENT_CHECK), 0);
		ck_redis(value, redis, "GET lk:" K);
		pass(now_ns() + LOCKSHM_MS(20));
	}
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
}

START_TEST(killed_loses_no_lease)
{
	char value[40];

	bridge_and_holder();
	strcpy(value, lease_of(0, K).value);
	agent_kill(a);
	takes_over(a);
	stays_held(value);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(stopped_loses_no_lease)
{
	char value[40];

	bridge_and_holder();
	strcpy(value, lease_of(0, K).value);
	agent_stop(a);
	takes_over(a);
	stays_held(value);
	/* It continues, and finds that it leads no more. */
	agent_cont(a);
	stays_held(value);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_try(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
}
END_TEST

START_TEST(killed_again_and_again)
{
	int i;

	bridge_and_holder();
	for (i = 0; i < 10; i++) {
		struct agent *next = on_host(0);

		ck_code(global_wait(next, "other", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(next), 0);
		agent_kill(a);
		ck_code(agent_call(b, AGENT_CHECK), 0);
		a = next;
	}
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* While other hosts are queued in Redis: the next leader keeps the queue position. */
START_TEST(killed_while_it_waits)
{
	bridge_and_holder();
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	struct agent *second = on_host(1);

	global_send(second, K, LOCKSHM_EXCLUSIVE);
	/* c's own process leads its host, and is first in the queue. */
	ck_assert_int_eq(bridge_of(1).pid, c->pid);
	agent_kill(c);
	ck_assert_int_eq(agent_poll(second), AGENT_BLOCKED);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(second), 0);
}
END_TEST

/* ---------------------------------------------------------------- standbys */

#define FROZEN 6

/* All that were started together stop together: each stopped standby is queued ahead of the one that runs. */
START_TEST(stopped_with_the_standbys)
{
	struct agent *frozen[FROZEN];
	char value[40];
	int i;

	cast("01", &a, &c);
	ck_code(global_wait(a, "first", LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < FROZEN; i++) {
		frozen[i] = on_host(0);
		ck_code(global_wait(frozen[i], "other", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(frozen[i]), 0);
		stands_by(frozen[i]);
	}
	b = on_host(0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_eq(bridge_of(0).pid, a->pid);
	strcpy(value, lease_of(0, K).value);
	agent_stop(a);
	for (i = 0; i < FROZEN; i++)
		agent_stop(frozen[i]);
	stays_held(value);
	ck_assert_int_eq(bridge_of(0).pid, b->pid);
	/* They continue, and none of them leads. */
	for (i = 0; i < FROZEN; i++)
		agent_cont(frozen[i]);
	agent_cont(a);
	stays_held(value);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(b), 0);
}
END_TEST

/* ---------------------------------------------------------------- holders */

START_TEST(a_dead_holder_is_followed_at_once)
{
	uint64_t token;

	bridge_and_holder();
	struct agent *next = on_host(0);

	token = b->answer.token;
	global_send(next, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(next, 0, K);
	agent_kill(b);
	ck_code(agent_end(next), 0);
	ck_assert_uint_gt(next->answer.token, token);
	/* Under the same lease. */
	ck_assert_uint_eq(lease_of(0, K).local_grants, 2);
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
}
END_TEST

START_TEST(the_lease_of_a_dead_holder_is_given_back)
{
	bridge_and_holder();
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	agent_kill(b);
	ck_code(agent_end(c), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
}
END_TEST

START_TEST(a_host_that_dies_is_followed)
{
	int64_t killed;

	bridge_and_holder();
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	killed = now_ns();
	agent_kill(a);
	agent_kill(b);
	ck_code(agent_end(c), 0);
	ck_assert_int_le(c->answer.at_ns - killed, LOCKSHM_MS(1600)); /* one second, and a slow machine */
}
END_TEST

/* All processes of a host stop for longer than its lease: their first call reports the loss. */
START_TEST(a_host_that_stops_has_lost)
{
	uint64_t token;

	bridge_and_holder();
	token = b->answer.token;
	agent_stop(a);
	agent_stop(b);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(c->answer.token, token);
	agent_cont(b);
	ck_code(agent_call(b, AGENT_CHECK), LOCKSHM_LOST);
	agent_cont(a);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_RENEW,
						    .ns = LOCKSHM_SECONDS(5),
						    .how = LOCKSHM_RENEW_RESET }),
		LOCKSHM_LOST);
	ck_code(agent_release(b), LOCKSHM_LOST);
	ck_code(agent_call(c, AGENT_CHECK), 0);
	/* This host is without cool-down. */
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	ck_code(agent_release(c), 0);
	ck_code(agent_end(b), 0);
}
END_TEST

/* A stopped waiter delays the others of its host for PATIENCE_NS, not for its time-out. */
START_TEST(a_stopped_waiter_expires)
{
	bridge_and_holder();
	struct agent *stopped = on_host(1), *other = on_host(1);

	/* Another process leads host 1. */
	ck_code(global_wait(c, "other", LOCKSHM_EXCLUSIVE), 0);
	global_send(stopped, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	agent_stop(stopped);
	global_send(other, K, LOCKSHM_EXCLUSIVE);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(other), 0); /* it never held */
	agent_cont(stopped);
	ck_code(agent_release(other), 0);
	ck_code(agent_end(stopped), 0);
}
END_TEST

/* Holders keep their holds until they release; then Redis has nothing left. */
START_TEST(a_removed_segment_serves_its_holders)
{
	bridge_and_holder();
	ck_code(lockshm_destroy(hosts[0].name, NULL), 0);
	stays_held(lease_of(0, K).value);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_NO_SEGMENT);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, killed_loses_no_lease);
	tcase_add_test(tc, stopped_loses_no_lease);
	tcase_add_test(tc, killed_again_and_again);
	tcase_add_test(tc, killed_while_it_waits);
	tcase_add_test(tc, stopped_with_the_standbys);
	tcase_add_test(tc, a_dead_holder_is_followed_at_once);
	tcase_add_test(tc, the_lease_of_a_dead_holder_is_given_back);
	tcase_add_test(tc, a_host_that_dies_is_followed);
	tcase_add_test(tc, a_host_that_stops_has_lost);
	tcase_add_test(tc, a_stopped_waiter_expires);
	tcase_add_test(tc, a_removed_segment_serves_its_holders);
}

int main(void)
{
	return hosts_main("global-bridge", add);
}
