/* SPDX-License-Identifier: MIT */
/* test-global-upgrade.c - a shared hold becomes exclusive on all hosts, or is refused */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <string.h>

static struct agent *a, *b, *c;

static int upgrade(struct agent *agent)
{
	return agent_call(agent, AGENT_UPGRADE);
}

/* Alone on all hosts, and exclusive in Redis. */
static void is_exclusive(struct agent *agent, unsigned host)
{
	ck_code(agent_call(agent, AGENT_CHECK), 0);
	ck_redis(lease_of(host, K).value, redis, "GET lk:" K);
	ck_assert_int_eq(lease_of(host, K).mode, LOCKSHM_EXCLUSIVE);
}

static void is_shared(struct agent *agent, unsigned host)
{
	ck_code(agent_call(agent, AGENT_CHECK), 0);
	ck_redis("1", redis, "SISMEMBER lk:" K " %s", lease_of(host, K).value);
	ck_assert_int_eq(lease_of(host, K).mode, LOCKSHM_SHARED);
}

static void leaves_nothing(struct agent *agent)
{
	ck_code(agent_release(agent), 0);
	redis_has("EXISTS lk:" K " {lk:" K "}:q {lk:" K "}:rx", "0");
}

/* ---------------------------------------------------------------- yes and no */

START_TEST(the_only_reader_of_all_hosts)
{
	uint64_t token;

	cast("01", &a, &b);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	token = b->answer.token;
	ck_code(agent_release(b), 0);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(upgrade(a), 0);
	ck_assert_uint_gt(a->answer.token, token);
	token = a->answer.token;
	is_exclusive(a, 0);
	ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	pass(now_ns() + LOCKSHM_MS(1500)); /* renewed as exclusive */
	is_exclusive(a, 0);
	ck_code(upgrade(a), 0); /* nothing to do */
	leaves_nothing(a);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(b->answer.token, token);
}
END_TEST

START_TEST(another_host_reads)
{
	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(upgrade(a), LOCKSHM_BUSY);
	is_shared(a, 0);
	is_shared(b, 1);
	ck_code(agent_release(b), 0);
	redis_has("SCARD lk:" K, "1");
	ck_code(upgrade(a), 0);
	is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

START_TEST(another_host_waits_to_write)
{
	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("EXISTS lk:" K ":lock-intent", "1");
	ck_code(upgrade(a), LOCKSHM_BUSY);
	is_shared(a, 0);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
}
END_TEST

START_TEST(another_program_reads)
{
	cast("0", &a);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_redis("1", redis, "SADD lk:" K " stranger");
	ck_code(upgrade(a), LOCKSHM_BUSY);
	ck_redis("1", redis, "SISMEMBER lk:" K " stranger");
	is_shared(a, 0);
}
END_TEST

START_TEST(another_process_here_reads)
{
	cast("00", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(upgrade(a), LOCKSHM_BUSY);
	is_shared(a, 0); /* Redis was not even asked */
	ck_code(agent_release(b), 0);
	ck_code(upgrade(a), 0);
	is_exclusive(a, 0);
	ck_code(agent_call(a, AGENT_DOWNGRADE), 0);
	ck_code(global_try(b, K, LOCKSHM_SHARED), 0);
	redis_has("TYPE lk:" K, "set");
}
END_TEST

START_TEST(lost_while_waiting)
{
	cast("0", &a);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_redis("OK", redis, "SET lk:" K " thief");
	ck_code(upgrade(a), LOCKSHM_LOST);
	ck_redis("thief", redis, "GET lk:" K);
	ck_code(agent_release(a), LOCKSHM_LOST);
}
END_TEST

static void on_a_server_of_its_own(int64_t ttl_ns, const char *uri)
{
	struct lockshm_create_options options = host_options();

	options.redis = uri;
	options.redis_ttl_ns = ttl_ns;
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(0);
	c = on_host(1);
}

/* A renewal of the local lease is due during the command. */
START_TEST(renewed_by_the_service_thread)
{
	struct agent_command args = global_command(K, LOCKSHM_SHARED);

	own_server();
	on_a_server_of_its_own(LOCKSHM_SECONDS(6), redis->uri);
	args.ns = LOCKSHM_MS(200);
	args.flags |= LOCKSHM_AUTO_RENEW;
	ck_code(agent_do(a, args), 0);
	redis_freeze(redis);
	agent_send(a, (struct agent_command){ .op = AGENT_UPGRADE });
	/* No other holder takes it away. */
	ck_code(agent_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_end(a), LOCKSHM_BUSY);
	ck_code(agent_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	redis_thaw(redis);
}
END_TEST

/* ---------------------------------------------------------------- no reply */

/* It does not reply in time, and may execute the command all the same. */
START_TEST(a_server_that_is_frozen)
{
	int64_t begun;

	own_server();
	on_a_server_of_its_own(LOCKSHM_SECONDS(6), redis->uri);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	redis_freeze(redis);
	begun = now_ns();
	ck_code(upgrade(a), LOCKSHM_BUSY);
	ck_assert_int_lt(now_ns() - begun, LOCKSHM_SECONDS(2));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	redis_thaw(redis);
	while (upgrade(a) == LOCKSHM_BUSY)
		ck_assert_int_lt(now_ns() - begun, LOCKSHM_SECONDS(15));
	ck_code(a->answer.code, 0);
	is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

static bool is_known(void *arg)
{
	(void)arg;
	return lease_of(0, K).mode == LOCKSHM_EXCLUSIVE;
}

/* Done in Redis, but the leader was killed before it stored that, and the requester has given up. */
START_TEST(an_upgrade_with_a_lost_reply)
{
	cast("0", &a);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_redis("OK", redis, "SET done %s PX 60000", lease_of(0, K).value);
	ck_redis("OK", redis, "RENAME done lk:" K);
	ck_assert(await(is_known, NULL));
	ck_code(upgrade(a), 0);
	is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

/* With tokens that other holders had meanwhile: those of a shared hold may be below them. */
START_TEST(an_upgrade_with_a_lost_reply_has_new_tokens)
{
	uint64_t others;

	cast("0", &a);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	others = a->answer.token + 1000000000;
	ck_redis("0", redis, "HSET {lk:" K "}:f end %llu", (unsigned long long)others);
	ck_redis("OK", redis, "SET done %s PX 60000", lease_of(0, K).value);
	ck_redis("OK", redis, "RENAME done lk:" K);
	ck_assert(await(is_known, NULL));
	ck_code(upgrade(a), 0);
	ck_assert_uint_ge(a->answer.token, others);
	is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

/* The server lost the fence, and its clock went back. */
START_TEST(numbers_that_went_back)
{
	uint64_t others;

	cast("0", &a);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	others = a->answer.token + 1000000000;
	fence_becomes(0, K, others);
	ck_code(upgrade(a), 0);
	ck_assert_uint_ge(a->answer.token, others);
	is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

/* As a replica that had not received it, or an old file: our value among the readers. */
START_TEST(an_upgrade_the_server_forgot)
{
	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(upgrade(a), 0);
	ck_redis("1", redis, "SADD before %s", lease_of(0, K).value);
	ck_redis("1", redis, "PEXPIRE before 60000");
	ck_redis("1", redis, "ZADD {lk:" K "}:rx 9999999999999 %s", lease_of(0, K).value);
	ck_redis("OK", redis, "RENAME before lk:" K);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	lost_is_reported(a);
	ck_code(agent_call(b, AGENT_CHECK), 0);
}
END_TEST

/* b leads; replies of Redis are dropped from now on. */
static struct proxy *deaf_bridge(void)
{
	struct proxy *p = proxy_start(redis, false);

	on_a_server_of_its_own(LOCKSHM_SECONDS(4), p->uri);
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_assert_int_eq(bridge_of(0).pid, b->pid);
	proxy_set(p, PROXY_DROP_REPLIES);
	agent_send(a, (struct agent_command){ .op = AGENT_UPGRADE });
	redis_has("TYPE lk:" K, "string"); /* done there */
	return p;
}

/* Its successor sends it again; if the leader was faster and gave up, the next request succeeds. */
static void is_had_in_the_end(void)
{
	if (agent_end(a) != 0) {
		ck_code(a->answer.code, LOCKSHM_BUSY);
		ck_code(upgrade(a), 0);
	}
	is_exclusive(a, 0);
	ck_code(global_try(c, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
}

START_TEST(the_bridge_is_killed_in_between)
{
	struct proxy *p = deaf_bridge();

	agent_kill(b);
	proxy_set(p, PROXY_RESET);
	proxy_set(p, PROXY_PASS);
	is_had_in_the_end();
	leaves_nothing(a);
}
END_TEST

START_TEST(the_bridge_is_stopped_in_between)
{
	struct proxy *p = deaf_bridge();
	int64_t end;

	agent_stop(b);
	proxy_set(p, PROXY_RESET);
	proxy_set(p, PROXY_PASS);
	is_had_in_the_end();
	agent_cont(b);
	/* Its late command changes nothing. */
	for (end = now_ns() + LOCKSHM_SECONDS(1); now_ns() < end;)
		is_exclusive(a, 0);
	leaves_nothing(a);
}
END_TEST

/* The bit is answered without a requester, and the lease is released like any other. */
START_TEST(the_requester_is_killed)
{
	struct proxy *p = deaf_bridge();

	agent_kill(a);
	proxy_set(p, PROXY_RESET);
	proxy_set(p, PROXY_PASS);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_call(b, AGENT_CHECK), 0);
}
END_TEST

static bool is_not_requested(void *arg)
{
	return !upgrade_is_pending(arg);
}

static bool reads_in_redis(void *arg)
{
	(void)arg;
	return strcmp(redis_say(redis, "TYPE lk:" K), "set") == 0;
}

/* Another local reader keeps the lease: without a withdrawal it would be requested again and again, or stay exclusive
 * without a writer. */
START_TEST(a_dead_request_is_withdrawn)
{
	struct agent *reader;

	own_server();
	on_a_server_of_its_own(LOCKSHM_SECONDS(20), redis->uri);
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_assert_int_eq(bridge_of(0).pid, b->pid);
	redis_freeze(redis);
	agent_send(a, (struct agent_command){ .op = AGENT_UPGRADE });
	ck_assert(await(upgrade_is_pending, NULL));
	reader = on_host(0);
	ck_code(global_wait(reader, K, LOCKSHM_SHARED), 0);
	agent_kill(a);
	ck_assert(await(is_not_requested, NULL));
	redis_thaw(redis);
	ck_assert(await(reads_in_redis, NULL));
	ck_code(agent_call(reader, AGENT_CHECK), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, the_only_reader_of_all_hosts);
	tcase_add_test(tc, another_host_reads);
	tcase_add_test(tc, another_host_waits_to_write);
	tcase_add_test(tc, another_program_reads);
	tcase_add_test(tc, another_process_here_reads);
	tcase_add_test(tc, lost_while_waiting);
	tcase_add_test(tc, renewed_by_the_service_thread);
	tcase_add_test(tc, a_server_that_is_frozen);
	tcase_add_test(tc, an_upgrade_with_a_lost_reply);
	tcase_add_test(tc, an_upgrade_with_a_lost_reply_has_new_tokens);
	tcase_add_test(tc, numbers_that_went_back);
	tcase_add_test(tc, an_upgrade_the_server_forgot);
	tcase_add_test(tc, the_bridge_is_killed_in_between);
	tcase_add_test(tc, the_bridge_is_stopped_in_between);
	tcase_add_test(tc, the_requester_is_killed);
	tcase_add_test(tc, a_dead_request_is_withdrawn);
}

int main(void)
{
	return hosts_main("global-upgrade", add);
}
