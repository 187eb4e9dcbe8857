/* SPDX-License-Identifier: MIT */
/*
 * test-global-notify.c - the holder of a global key is notified when its host loses it in Redis
 *
 * Without any call of the holder: the service thread of its process sleeps until the leader has noticed.  The delay is
 * printed; asserted is that it is shorter than the next renewal, or the service thread's own check.
 */
#define _GNU_SOURCE
#include "bridge/admin.h"
#include "redis-support/hosts.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct agent *a, *b, *c;

static void hosts_with_ttl(int64_t ttl_ns)
{
	struct lockshm_create_options options = host_options();

	options.redis_ttl_ns = ttl_ns;
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(0);
	c = on_host(1);
}

static void watched(struct agent *agent, int mode)
{
	ck_code(global_wait(agent, K, mode), 0);
	ck_code(agent_call(agent, AGENT_NOTIFY), 0);
	agent_send(agent, (struct agent_command){ .op = AGENT_NOTICE });
}

static void is_notified(struct agent *agent, int64_t since, const char *what)
{
	ck_assert_int_eq(agent_end(agent), 1);
	printf("%s: noticed after %.3f ms\n", what, (double)(agent->answer.at_ns - since) / 1e6);
	ck_assert_int_lt(agent->answer.at_ns - since - stalled_ns(), LOCKSHM_MS(800));
	ck_code(agent_call(agent, AGENT_CHECK), LOCKSHM_LOST);
	ck_code(agent_release(agent), LOCKSHM_LOST);
}

/* With leases that are renewed after 20 s. */
static void robbed_by(const char *command)
{
	int64_t done;

	hosts_with_ttl(LOCKSHM_SECONDS(60));
	watched(a, LOCKSHM_EXCLUSIVE);
	ck_assert_int_eq(agent_poll(a), AGENT_BLOCKED);
	done = now_ns();
	redis_say(redis, "%s", command);
	is_notified(a, done, command);
}

START_TEST(flushed)
{
	robbed_by("FLUSHALL");
}
END_TEST

START_TEST(deleted)
{
	robbed_by("DEL lk:" K);
}
END_TEST

START_TEST(stolen)
{
	robbed_by("SET lk:" K " thief");
}
END_TEST

START_TEST(ended_by_an_operator)
{
	int64_t done;

	hosts_with_ttl(LOCKSHM_SECONDS(60));
	watched(a, LOCKSHM_EXCLUSIVE);
	done = now_ns();
	ck_code(remote_end(hosts[1].s, K, strlen(K), lease_of(0, K).value, 32, LOCKSHM_SECONDS(1), NULL), 0);
	is_notified(a, done, "lockshm-bridge release");
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(all_readers_of_a_host)
{
	int64_t done;

	hosts_with_ttl(LOCKSHM_SECONDS(60));
	watched(a, LOCKSHM_SHARED);
	watched(b, LOCKSHM_SHARED);
	watched(c, LOCKSHM_SHARED);
	done = now_ns();
	ck_redis("1", redis, "SREM lk:" K " %s", lease_of(0, K).value);
	is_notified(a, done, "a reader");
	is_notified(b, done, "another reader");
	ck_assert_int_eq(agent_poll(c), AGENT_BLOCKED);
	ck_redis("1", redis, "SREM lk:" K " %s", lease_of(1, K).value);
	ck_assert_int_eq(agent_end(c), 1);
}
END_TEST

/* The lease expires; there is no other event. */
START_TEST(the_server_is_gone)
{
	int64_t killed;

	own_server();
	hosts_with_ttl(LOCKSHM_SECONDS(1));
	watched(a, LOCKSHM_EXCLUSIVE);
	killed = now_ns();
	redis_kill(redis);
	ck_assert_int_eq(agent_end(a), 1);
	ck_assert_int_gt(a->answer.at_ns - killed, LOCKSHM_MS(400)); /* not before its end: renewed when 1/3 was over */
	ck_assert_int_lt(a->answer.at_ns - killed - stalled_ns(), LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
}
END_TEST

/* Another bridge takes over, and no lease is lost. */
START_TEST(the_bridge_is_stopped)
{
	int64_t stopped;
	pid_t standby, before;

	hosts_with_ttl(LOCKSHM_SECONDS(1));
	standby = bridge_standby(0);
	watched(a, LOCKSHM_EXCLUSIVE);
	bridge_freeze(0);
	stopped = now_ns();
	before = bridge_succeeds(0, standby);
	pass(stopped + LOCKSHM_MS(1500));
	ck_assert_int_eq(agent_poll(a), AGENT_BLOCKED);
	kill(before, SIGCONT);
	ck_redis("OK", redis, "FLUSHALL");
	ck_assert_int_eq(agent_end(a), 1);
}
END_TEST

/* Without a leader that could notice, or end the hold: the lease expires. */
START_TEST(no_bridge_is_left)
{
	int64_t stopped;

	hosts_with_ttl(LOCKSHM_SECONDS(1));
	watched(a, LOCKSHM_EXCLUSIVE);
	stopped = now_ns();
	if (_i)
		bridge_freeze(0);
	else
		bridge_kill(0);
	ck_assert_int_eq(agent_end(a), 1);
	ck_assert_int_gt(a->answer.at_ns - stopped, LOCKSHM_MS(400)); /* as above */
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
}
END_TEST

START_TEST(its_own_lease_is_overrun)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	hosts_with_ttl(LOCKSHM_SECONDS(60));
	/* Its end may come before it is watched. */
	args.ns = LOCKSHM_MS(200);
	ck_code(agent_do(a, args), 0);
	while (agent_call(a, AGENT_NOTIFY) < 0) {
		(void)agent_release(a);
		ck_code(agent_do(a, args), 0);
	}
	agent_send(a, (struct agent_command){ .op = AGENT_NOTICE });
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	is_notified(a, b->answer.at_ns, "overrun");
}
END_TEST

/* Counted from the grant on all hosts, however long the wait was. */
START_TEST(its_max_hold_is_over)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	int64_t begun;

	hosts_with_ttl(LOCKSHM_SECONDS(2));
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	args.ns = LOCKSHM_MS(300);
	args.max_ns = LOCKSHM_MS(900);
	args.flags |= LOCKSHM_AUTO_RENEW;
	agent_send(a, args);
	redis_has("ZCARD {lk:" K "}:q", "1");
	pass(now_ns() + LOCKSHM_MS(1200));
	ck_code(agent_release(c), 0);
	ck_code(agent_end(a), 0);
	begun = a->answer.at_ns;
	ck_code(agent_call(a, AGENT_NOTIFY), 0);
	agent_send(a, (struct agent_command){ .op = AGENT_NOTICE });
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_ge(c->answer.at_ns - begun, LOCKSHM_MS(890));
	ck_assert_int_lt(c->answer.at_ns - begun - stalled_ns(), LOCKSHM_MS(1500));
	is_notified(a, c->answer.at_ns, "renewed no longer");
}
END_TEST

/* Also without a wait for the lease: b holds under it. */
START_TEST(its_max_hold_is_over_under_a_held_lease)
{
	struct agent_command args = global_command(K, LOCKSHM_SHARED);

	hosts_with_ttl(LOCKSHM_SECONDS(2));
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	args.ns = LOCKSHM_MS(300);
	args.max_ns = LOCKSHM_MS(600);
	args.flags |= LOCKSHM_AUTO_RENEW;
	ck_code(agent_do(a, args), 0);
	ck_code(agent_release(b), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_ge(c->answer.at_ns - a->answer.at_ns, LOCKSHM_MS(590));
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
}
END_TEST

START_TEST(a_release_is_no_loss)
{
	hosts_with_ttl(LOCKSHM_SECONDS(1));
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_call(a, AGENT_NOTIFY), 0);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	watched(a, LOCKSHM_EXCLUSIVE); /* expects one notice */
	ck_redis("OK", redis, "FLUSHALL");
	ck_assert_int_eq(agent_end(a), 1);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, flushed);
	tcase_add_test(tc, deleted);
	tcase_add_test(tc, stolen);
	tcase_add_test(tc, ended_by_an_operator);
	tcase_add_test(tc, all_readers_of_a_host);
	tcase_add_test(tc, the_server_is_gone);
	tcase_add_test(tc, the_bridge_is_stopped);
	tcase_add_loop_test(tc, no_bridge_is_left, 0, 2);
	tcase_add_test(tc, its_own_lease_is_overrun);
	tcase_add_test(tc, its_max_hold_is_over);
	tcase_add_test(tc, its_max_hold_is_over_under_a_held_lease);
	tcase_add_test(tc, a_release_is_no_loss);
}

int main(void)
{
	return hosts_main("global-notify", add);
}
