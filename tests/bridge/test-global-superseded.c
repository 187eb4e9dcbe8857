/* SPDX-License-Identifier: MIT */
/*
 * test-global-superseded.c - a bridge that leads no more, and has not noticed: its end, and its next leadership
 *
 * The test's own process is that bridge. An operator ends its leadership, which the standby gets; it notices with its
 * next exchange with Redis, or when it renews leadership.
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bridge/log.h"
#include "segment/segment.h"

#define ROUNDS 20
#define FEW 8 /* commands of an end; each that is sent again and again would be hundreds in its time */

static struct bridge_service bridge;
static struct agent *a;
static pid_t standby;
static volatile bool noticed;

static void log_line(const char *line)
{
	if (strstr(line, "leads no more"))
		noticed = true;
}

/* K has a lease without a holder. */
static void begin(void)
{
	struct lockshm_create_options options = host_options();

	bridge_log_to = log_line;
	options.redis_ttl_ns = LOCKSHM_SECONDS(200);
	options.redis_retain_ns = LOCKSHM_SECONDS(199);
	host_make_bare(0, &options);
	a = on_host(0);
}

static void takes_and_releases(void)
{
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_HELD);
}

/* The standby leads, and is stopped. */
static void is_superseded(void)
{
	standby = bridge_standby(0);
	leadership_is_ended(0);
	leads(0, standby);
	kill(standby, SIGSTOP);
	ck_assert_int_eq(waitpid(standby, NULL, WUNTRACED), standby);
}

static void standby_ends(void)
{
	kill(standby, SIGKILL);
	ck_assert_int_eq(waitpid(standby, NULL, 0), standby);
}

/* Returns whether it ended before it had noticed. */
static bool ends_superseded(void)
{
	uint64_t commands;

	noticed = false;
	bridge_service_start(&bridge, 0);
	takes_and_releases();
	is_superseded();
	commands = bridge_of(0).commands;
	bridge_service_stop(&bridge);
	commands = bridge_of(0).commands - commands;
	ck_assert_msg(commands < FEW, "%llu commands of one end", (unsigned long long)commands);
	/* What it began the standby ends. */
	kill(standby, SIGCONT);
	kill(standby, SIGTERM);
	ck_assert_int_eq(waitpid(standby, NULL, 0), standby);
	redis_has("KEYS lk:*", "[]");
	return !noticed && commands > 0;
}

/* It sends what it gives back once, applies no reply, and leaves the rest to its successor. */
START_TEST(ended_before_it_notices)
{
	int i, n = 0;

	begin();
	for (i = 0; i < ROUNDS && n < 2; i++)
		n += ends_superseded();
	ck_assert_int_ge(n, 1);
}
END_TEST

static bool has_noticed(void *unused)
{
	(void)unused;
	return noticed;
}

static bool waits_for_result(void)
{
	struct agent_command c = global_command("other", LOCKSHM_EXCLUSIVE);

	c.timeout_ns = LOCKSHM_SECONDS(10);
	return agent_do(a, c) == LOCKSHM_BRIDGE;
}

/* It leads again, and has no client: requests get that result. */
START_TEST(leads_again_without_a_client)
{
	begin();
	bridge_service_start(&bridge, 0);
	takes_and_releases();
	is_superseded();
	bridge.s->redis.servers[0] = '?';
	/* A command whose reply it must not apply. */
	ck_redis("1", redis, "PEXPIRE lk:" K " 190000");
	ck_assert(await(has_noticed, NULL));
	standby_ends();
	leads(0, getpid());
	ck_assert(waits_for_result());
	ck_contains(a->answer.report.error.message, "Redis URI 1");
	bridge_service_stop(&bridge);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, ended_before_it_notices);
	tcase_add_test(tc, leads_again_without_a_client);
}

int main(void)
{
	return hosts_main("global-superseded", add);
}
