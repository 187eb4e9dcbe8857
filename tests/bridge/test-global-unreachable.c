/* SPDX-License-Identifier: MIT */
/* test-global-unreachable.c - the server is away, slow, or back with less than it knew */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <string.h>
#include <unistd.h>

static struct agent *a, *b, *c;

static void one_holder(void)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
}

/* After a failure a leader pauses, and the server counts as out of reach: 400 ms at most, and an attempt, which may
 * fail on a busy machine.  Each host has its own pause. */
static void granted_again(struct agent *agent, int64_t gone)
{
	while (global_wait(agent, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_assert_int_lt(now_ns() - gone - stalled_ns(), LOCKSHM_SECONDS(15));
	ck_assert_int_ge(agent->answer.code, 0);
}

/* The first check after the end of the last renewal reports the loss. */
static void lost_in_time(struct agent *agent, int64_t gone)
{
	int64_t begun = now_ns();

	for (; agent_call(agent, AGENT_CHECK) == 0 && begun - gone < LOCKSHM_SECONDS(1); begun = now_ns())
		pass(begun + LOCKSHM_MS(1));
	ck_code(agent->answer.code, LOCKSHM_LOST);
}

START_TEST(killed_while_held)
{
	int64_t killed;

	own_server();
	one_holder();
	killed = now_ns();
	redis_kill(redis);
	/* Good until its end, which is known; no longer. */
	lost_in_time(a, killed);
	ck_assert_int_gt(now_ns() - killed, LOCKSHM_MS(400)); /* it had been renewed when 1/3 was over */
	ck_code(agent_release(a), LOCKSHM_LOST);
	redis_restart(redis);
	granted_again(a, killed);
}
END_TEST

START_TEST(back_in_time_with_its_data)
{
	own_server();
	one_holder();
	redis_freeze(redis);
	pass(now_ns() + LOCKSHM_MS(300));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	redis_thaw(redis);
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_uint_eq(bridge_of(0).acquired, 1);
}
END_TEST

START_TEST(restarted_empty)
{
	own_server();
	one_holder();
	redis_kill(redis);
	redis_restart(redis);
	lost_is_reported(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(c->answer.token, a->answer.token);
}
END_TEST

/* How long the value may be in Redis is counted from the last renewal, too. */
START_TEST(a_release_waits_for_its_server)
{
	struct lockshm_create_options options;
	int64_t end;

	own_server();
	options = host_options();
	options.redis_ttl_ns = LOCKSHM_SECONDS(2);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	pass(now_ns() + LOCKSHM_MS(3500)); /* longer than a value lasts after one acquire */
	ck_code(agent_call(a, AGENT_CHECK), 0);
	redis_freeze(redis);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_RELEASING);
	end = now_ns() + LOCKSHM_MS(900);
	while (now_ns() < end)
		ck_assert_int_eq(lease_of(0, K).state, LOCKSHM_HOST_LEASE_RELEASING);
	redis_thaw(redis);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_redis("0", redis, "EXISTS lk:" K);
}
END_TEST

/* An unresponsive server is like one that is away; nothing of the attempt stays. */
START_TEST(frozen_at_an_acquire)
{
	own_server();
	cast("00", &a, &b);
	ck_code(global_wait(a, "other", LOCKSHM_EXCLUSIVE), 0);
	redis_freeze(redis);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	redis_thaw(redis);
	redis_has("EXISTS lk:" K, "0");
	redis_has("ZCARD {lk:" K "}:q", "0");
}
END_TEST

static void is_good_for(struct agent *agent, int64_t ns)
{
	int64_t end = now_ns() + ns;

	while (now_ns() < end) {
		ck_code(agent_call(agent, AGENT_CHECK), 0);
		pass(now_ns() + LOCKSHM_MS(10));
	}
}

/* Commands wait for longer than any of them may take: all have an unknown outcome, and are repeated. */
START_TEST(paused)
{
	struct lockshm_create_options options;

	own_server();
	options = host_options();
	options.redis_ttl_ns = LOCKSHM_SECONDS(3);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("OK", redis, "CLIENT PAUSE 1200 ALL");
	is_good_for(a, LOCKSHM_MS(4500));
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_assert_uint_eq(bridge_of(0).acquired, 1);
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* For longer than leases last: they are lost at their end, and afterwards all continues, with one holder. */
START_TEST(frozen_for_long)
{
	static const int ms[] = { 1500, 4000 };
	uint64_t token = 0;
	int64_t frozen = now_ns();
	size_t i;

	own_server();
	cast("01", &a, &c);
	for (i = 0; i < sizeof(ms) / sizeof(ms[0]); i++) {
		granted_again(a, frozen);
		ck_assert_uint_gt(a->answer.token, token);
		token = a->answer.token;
		redis_freeze(redis);
		frozen = now_ns();
		lost_in_time(a, frozen);
		ck_code(agent_release(a), LOCKSHM_LOST);
		pass(frozen + LOCKSHM_MS(ms[i]));
		redis_thaw(redis);
		granted_again(c, frozen);
		ck_assert_uint_gt(c->answer.token, token);
		token = c->answer.token;
		redis_has("EXISTS lk:" K, "1");
		ck_redis(lease_of(1, K).value, redis, "GET lk:" K);
		ck_code(agent_release(c), 0);
	}
}
END_TEST

/* What was written is there again, and the lease is found by its value. */
START_TEST(restarted_with_its_log)
{
	struct lockshm_create_options options;

	own_server_with("appendonly yes\nappendfsync everysec");
	options = host_options();
	options.redis_ttl_ns = LOCKSHM_SECONDS(6);
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	c = on_host(1);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	redis_kill(redis);
	redis_restart(redis);
	redis_has("GET lk:" K, lease_of(0, K).value); /* it may be loading */
	/* Renewed there: longer than what it had. */
	is_good_for(a, LOCKSHM_MS(6500));
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

static bool is_in_step(void *arg)
{
	return strstr(redis_say(arg, "INFO replication"), "master_link_status:up") != NULL;
}

/* The master dies, and its replacement had not received the lease. */
START_TEST(a_stale_replica_takes_its_place)
{
	struct lockshm_create_options options = host_options();
	struct redis *replica = redis_start(NULL, true);
	struct proxy *proxy;
	uint64_t token;

	ck_redis("OK", replica, "REPLICAOF 127.0.0.1 %d", redis->port);
	ck_assert(await(is_in_step, replica));
	proxy = proxy_start(redis, false);
	strcpy(options.redis, proxy->uri);
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	c = on_host(1);
	ck_code(global_wait(a, "before", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_redis("OK", replica, "REPLICAOF NO ONE");
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	ck_redis("0", replica, "EXISTS lk:" K);
	proxy_target(proxy, replica);
	proxy_set(proxy, PROXY_RESET);
	lost_is_reported(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(c->answer.token, token);
	ck_redis(lease_of(1, K).value, replica, "GET lk:" K);
	redis_stop(replica);
}
END_TEST

/* Locks are acquired at the master: the error names the replica, and the master. */
START_TEST(a_replica_is_reached)
{
	struct lockshm_create_options options = host_options();
	struct redis *replica = redis_start(NULL, true);
	char master[64];

	ck_redis("OK", replica, "REPLICAOF 127.0.0.1 %d", redis->port);
	ck_assert(await(is_in_step, replica));
	strcpy(options.redis, replica->tcp_uri);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "is a replica");
	ck_contains(a->answer.report.error.message, replica->tcp_uri);
	snprintf(master, sizeof(master), "127.0.0.1:%d", redis->port);
	ck_contains(a->answer.report.error.message, master);
	ck_redis("0", redis, "DBSIZE");
	redis_stop(replica);
}
END_TEST

START_TEST(no_server)
{
	static const char *const uris[] = { "unix:///nonexistent/redis.sock", "redis://127.0.0.1:1" };
	struct lockshm_create_options options = host_options();
	unsigned i;

	for (i = 0; i < 2; i++) {
		strcpy(options.redis, uris[i]);
		host_make(i, &options);
		a = on_host(i);
		ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
		ck_contains(a->answer.report.error.message, uris[i]);
		ck_contains(a->answer.report.error.message, "cannot connect");
		ck_code(global_try(a, K, LOCKSHM_SHARED), LOCKSHM_BRIDGE);
		ck_code(agent_try(a, K, LOCKSHM_EXCLUSIVE), 0); /* on this host only it can be had */
	}
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, killed_while_held);
	tcase_add_test(tc, back_in_time_with_its_data);
	tcase_add_test(tc, restarted_empty);
	tcase_add_test(tc, a_release_waits_for_its_server);
	tcase_add_test(tc, frozen_at_an_acquire);
	tcase_add_test(tc, paused);
	tcase_add_test(tc, frozen_for_long);
	tcase_add_test(tc, restarted_with_its_log);
	tcase_add_test(tc, a_stale_replica_takes_its_place);
	tcase_add_test(tc, a_replica_is_reached);
	tcase_add_test(tc, no_server);
}

int main(void)
{
	return hosts_main("global-away", add);
}
