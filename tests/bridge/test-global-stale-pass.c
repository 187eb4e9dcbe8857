/* SPDX-License-Identifier: MIT */
/*
 * test-global-stale-pass.c - a leader that was stopped while a standby took over sends nothing any more, whichever of its
 * threads runs first
 *
 * Which one does is the kernel's choice, about one time in four the wrong one: ROUNDS=N in the environment tries longer.
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostlease/leader.h"

#define ROUNDS 4

static long scripts(void)
{
	const char *text = redis_say(redis, "INFO commandstats"), *at = strstr(text, "cmdstat_evalsha:calls=");

	return at ? atol(at + strlen("cmdstat_evalsha:calls=")) : 0;
}

/* Longer than a quarter of leadership's time, so its first act is to renew that; with a hint to look at K. */
static void is_stopped_meanwhile(pid_t standby)
{
	bridge_freeze(0);
	leadership_is_ended(0);
	leads(0, standby);
	pass(now_ns() + LOCKSHM_MS(300));
	kill(standby, SIGSTOP);
	ck_assert_int_eq(waitpid(standby, NULL, WUNTRACED), standby);
	redis_say(redis, "PEXPIRE lk:" K " 19000");
	pass(now_ns() + LOCKSHM_MS(1500));
}

static void continues(struct agent *a)
{
	pid_t standby, stale = hosts[0].bridge;
	long before;

	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_HELD);
	standby = bridge_standby(0);
	is_stopped_meanwhile(standby);
	before = scripts();
	kill(stale, SIGCONT);
	stands_by(0, stale);
	ck_assert_int_eq(scripts(), before);
	kill(stale, SIGKILL);
	ck_assert_int_eq(waitpid(stale, NULL, 0), stale);
	kill(standby, SIGCONT);
	hosts[0].bridge = standby;
}

START_TEST(a_stale_leader_sends_nothing)
{
	struct lockshm_create_options options = host_options();
	const char *given = getenv("ROUNDS");
	int rounds = given ? atoi(given) : ROUNDS;
	struct agent *a;

	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	options.redis_retain_ns = LOCKSHM_SECONDS(19);
	host_make(0, &options);
	a = on_host(0);
	while (rounds-- > 0)
		continues(a);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_stale_leader_sends_nothing);
}

int main(void)
{
	return hosts_main("global-stale-pass", add);
}
