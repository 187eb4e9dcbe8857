/* SPDX-License-Identifier: MIT */
/* test-global-bridge.c - the bridge killed, stopped and started again; death and stop of holders and whole hosts */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static struct agent *b, *c;

/* b holds K. */
static void bridge_and_holder(void)
{
	cast("01", &b, &c);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
}

/* For longer than a lease lasts without renewal. */
static void stays_held_for(const char *value, int64_t ns)
{
	int64_t end = now_ns() + ns;

	while (now_ns() < end) {
		ck_code(agent_call(b, AGENT_CHECK), 0);
		ck_redis(value, redis, "GET lk:" K);
		pass(now_ns() + LOCKSHM_MS(20));
	}
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
}

static void stays_held(const char *value)
{
	stays_held_for(value, LOCKSHM_MS(2500));
}

static void freeze(pid_t pid)
{
	kill(pid, SIGSTOP);
	ck_assert_int_eq(waitpid(pid, NULL, WUNTRACED), pid);
}

/* ---------------------------------------------------------------- one of two */

START_TEST(killed_loses_no_lease)
{
	char value[40];
	pid_t standby;

	bridge_and_holder();
	strcpy(value, lease_of(0, K).value);
	standby = bridge_standby(0);
	stays_held(value);
	leads(0, hosts[0].bridge); /* it takes nothing from a leader that runs */
	bridge_kill(0);
	(void)bridge_succeeds(0, standby);
	stays_held(value);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(stopped_loses_no_lease)
{
	pid_t standby, late;
	char value[40];

	bridge_and_holder();
	strcpy(value, lease_of(0, K).value);
	standby = bridge_standby(0);
	bridge_freeze(0);
	late = bridge_succeeds(0, standby);
	stays_held(value);
	/* It continues, and finds that it leads no more: it stands by. */
	kill(late, SIGCONT);
	stands_by(0, late);
	stays_held(value);
	bridge_kill(0);
	(void)bridge_succeeds(0, late);
	stays_held(value);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* By standbys, or started again each time. */
START_TEST(killed_again_and_again)
{
	int i;

	bridge_and_holder();
	for (i = 0; i < 10; i++) {
		pid_t standby = _i ? 0 : bridge_standby(0);

		bridge_kill(0);
		ck_code(agent_call(b, AGENT_CHECK), 0);
		if (standby)
			(void)bridge_succeeds(0, standby);
		else
			bridge_start(0);
	}
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* It gives back what no request uses; the standby continues the rest. */
START_TEST(ended_by_a_signal)
{
	struct lockshm_create_options options = host_options();
	char value[40];
	pid_t standby;

	options.redis_retain_ns = LOCKSHM_MS(900);
	host_make(0, &options);
	host_make(1, &options);
	b = on_host(0);
	c = on_host(1);
	standby = bridge_standby(0);
	ck_code(global_wait(b, "idle", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	strcpy(value, lease_of(0, K).value);
	ck_redis("1", redis, "EXISTS lk:idle");
	bridge_end(0);
	ck_redis("0", redis, "EXISTS lk:idle");
	(void)bridge_succeeds(0, standby);
	stays_held(value);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

#define FROZEN 6

/* All that were started together stop together: each stopped standby is queued ahead of the one that runs. */
START_TEST(stopped_with_the_standbys)
{
	pid_t frozen[FROZEN], runs, late;
	char value[40];
	int i;

	bridge_and_holder();
	for (i = 0; i < FROZEN; i++)
		frozen[i] = bridge_standby(0);
	runs = bridge_standby(0);
	strcpy(value, lease_of(0, K).value);
	bridge_freeze(0);
	for (i = 0; i < FROZEN; i++)
		freeze(frozen[i]);
	late = bridge_succeeds(0, runs);
	stays_held(value);
	ck_assert_int_eq(bridge_of(0).pid, runs);
	/* They continue, and none of them leads. */
	for (i = 0; i < FROZEN; i++)
		kill(frozen[i], SIGCONT);
	kill(late, SIGCONT);
	stays_held(value);
	ck_assert_int_eq(bridge_of(0).pid, runs);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(b), 0);
}
END_TEST

/* ---------------------------------------------------------------- alone */

/* Killed at any time between two renewals, and back when less than half of redis_ttl is over. */
START_TEST(killed_and_back_within_half_of_the_ttl)
{
	struct lockshm_create_options options = host_options();
	char value[40];
	int i;

	options.redis_ttl_ns = LOCKSHM_SECONDS(6);
	host_make(0, &options);
	host_make(1, &options);
	b = on_host(0);
	c = on_host(1);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	strcpy(value, lease_of(0, K).value);
	for (i = 0; i < 3; i++) {
		int64_t killed;

		pass(now_ns() + i * LOCKSHM_MS(650)); /* a renewal each two seconds */
		bridge_kill(0);
		killed = now_ns();
		/* Holds go on without one. */
		stays_held_for(value, LOCKSHM_MS(2500));
		bridge_start(0);
		if (now_ns() - killed > options.redis_ttl_ns / 2)
			return; /* a machine that slow proves nothing */
	}
	stays_held_for(value, LOCKSHM_SECONDS(7));
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* For longer than its leadership lasts, and no other takes over: requests get the result of their policy, as without a
 * bridge.  It continues as the leader, and serves the next request. */
START_TEST(stopped_for_long)
{
	struct agent_command wait, local;

	bridge_and_holder();
	ck_code(agent_release(b), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	bridge_freeze(0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(b->answer.report.error.message, "no bridge");
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	local = global_command(K, LOCKSHM_EXCLUSIVE);
	local.policy = LOCKSHM_REDIS_LOCAL_ONLY;
	ck_code(agent_do(b, local), LOCKSHM_LOCAL_ONLY);
	ck_code(agent_release(b), 0);
	/* A request that waits is served as soon as it continues. */
	wait = global_command(K, LOCKSHM_EXCLUSIVE);
	wait.policy = LOCKSHM_REDIS_WAIT;
	agent_send(b, wait);
	wanted_by(1);
	pass(now_ns() + LOCKSHM_MS(2200));
	ck_assert_int_eq(agent_poll(b), AGENT_BLOCKED);
	bridge_thaw(0);
	ck_code(agent_end(b), 0);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
	leads(0, hosts[0].bridge);
}
END_TEST

/* While other hosts are queued in Redis: the next leader keeps the queue position. */
START_TEST(killed_while_its_host_waits)
{
	struct agent *third;

	cast("012", &b, &c, &third);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	global_send(third, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "2");
	bridge_kill(1);
	bridge_start(1);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(c), 0);
	ck_assert_int_eq(agent_poll(third), AGENT_BLOCKED);
	ck_code(agent_release(c), 0);
	ck_code(agent_end(third), 0);
}
END_TEST

/* ---------------------------------------------------------------- holders */

START_TEST(a_dead_holder_is_followed_at_once)
{
	struct agent *next;
	uint64_t token;

	bridge_and_holder();
	next = on_host(0);
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
	bridge_kill(0);
	agent_kill(b);
	ck_code(agent_end(c), 0);
	ck_assert_int_le(c->answer.at_ns - killed - stalled_ns(), LOCKSHM_MS(1600)); /* one second, and a slow machine */
}
END_TEST

/* All processes of a host stop for longer than its lease: their first call reports the loss. */
START_TEST(a_host_that_stops_has_lost)
{
	uint64_t token;

	bridge_and_holder();
	token = b->answer.token;
	bridge_freeze(0);
	agent_stop(b);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(c->answer.token, token);
	agent_cont(b);
	ck_code(agent_call(b, AGENT_CHECK), LOCKSHM_LOST);
	bridge_thaw(0);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_RENEW,
						    .ns = LOCKSHM_SECONDS(5) }),
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
	struct agent *stopped, *other;

	bridge_and_holder();
	stopped = on_host(1);
	other = on_host(1);
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

/* ---------------------------------------------------------------- segments that are removed */

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

static bool none_leads_the_removed(void *arg)
{
	(void)arg;
	return bridge_of(0).pid == 0;
}

/* Beside the segment that has the name now: the same process leads both, until the last hold of the old one ends. */
START_TEST(a_replaced_segment_and_the_new_one)
{
	struct lockshm_create_options options = host_options();
	struct lockshm_error error = { 0 };
	struct agent *d;
	char value[40];

	bridge_and_holder();
	strcpy(value, lease_of(0, K).value);
	ck_code(lockshm_destroy(hosts[0].name, NULL), 0);
	strcpy(hosts[2].name, hosts[0].name);
	ck_code(lockshm_create(&hosts[2].s, hosts[2].name, &options, &error), 0);
	leads(2, hosts[0].bridge);
	ck_assert_str_ne(bridge_of(2).host, bridge_of(0).host);
	d = on_host(2);
	ck_code(global_wait(d, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(d), 0);
	stays_held(value);
	leads(0, hosts[0].bridge);
	global_send(d, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(d), 0);
	ck_assert(await(none_leads_the_removed, NULL));
	ck_code(agent_call(d, AGENT_CHECK), 0);
	leads(2, hosts[0].bridge);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, killed_loses_no_lease);
	tcase_add_test(tc, stopped_loses_no_lease);
	tcase_add_loop_test(tc, killed_again_and_again, 0, 2);
	tcase_add_test(tc, ended_by_a_signal);
	tcase_add_test(tc, stopped_with_the_standbys);
	tcase_add_test(tc, killed_and_back_within_half_of_the_ttl);
	tcase_add_test(tc, stopped_for_long);
	tcase_add_test(tc, killed_while_its_host_waits);
	tcase_add_test(tc, a_dead_holder_is_followed_at_once);
	tcase_add_test(tc, the_lease_of_a_dead_holder_is_given_back);
	tcase_add_test(tc, a_host_that_dies_is_followed);
	tcase_add_test(tc, a_host_that_stops_has_lost);
	tcase_add_test(tc, a_stopped_waiter_expires);
	tcase_add_test(tc, a_removed_segment_serves_its_holders);
	tcase_add_test(tc, a_replaced_segment_and_the_new_one);
}

int main(void)
{
	return hosts_main("global-bridge", add);
}
