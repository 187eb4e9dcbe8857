/* SPDX-License-Identifier: MIT */
/* test-global-replicas.c - a lease that counts only once replicas have it */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <string.h>

static struct agent *a, *b;
static struct redis *master, *replica;

/* And its acknowledgement has arrived: WAIT on a connection without writes would count it too early. */
static bool is_linked(void *arg)
{
	(void)arg;
	redis_say(master, "SET anything 1");
	return strcmp(redis_say(master, "WAIT 1 100"), "1") == 0;
}

static void start_pair(void)
{
	char config[64];

	master = redis_start(NULL, true);
	snprintf(config, sizeof(config), "replicaof 127.0.0.1 %d", master->port);
	replica = redis_start(config, false);
	ck_assert(await(is_linked, NULL));
}

static void with_wait(uint32_t n, int policy)
{
	struct lockshm_create_options options = host_options();

	strcpy(options.redis, master->uri);
	options.redis_wait = n;
	options.redis_policy = segment_policy(policy);
	options.redis_ttl_ns = LOCKSHM_SECONDS(4);
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(1);
}

static bool is_clean(void *arg)
{
	(void)arg;
	return strcmp(redis_say(master, "EXISTS lk:" K), "0") == 0;
}

START_TEST(the_replica_has_it)
{
	start_pair();
	with_wait(1, LOCKSHM_REDIS_FAIL);
	ck_assert_uint_eq(bridge_of(0).wait, 1);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis(lease_of(0, K).value, replica, "GET lk:" K);
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_redis("1", replica, "SISMEMBER lk:" K " %s", lease_of(1, K).value);
}
END_TEST

START_TEST(the_replica_does_not_answer)
{
	int64_t begun, ran;

	start_pair();
	with_wait(1, LOCKSHM_REDIS_FAIL);
	ck_code(global_wait(a, "held", LOCKSHM_EXCLUSIVE), 0);
	redis_freeze(replica);
	begun = now_ns();
	ran = ran_ns();
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(b->answer.report.error.message, "only 0 of 1 replicas have it");
	ck_assert(await(is_clean, NULL));
	/* Holds continue: renewals do not wait for replicas. */
	pass(begun + LOCKSHM_SECONDS(6));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	redis_thaw(replica);
	while (global_wait(b, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_assert_int_lt(ran_ns() - ran, LOCKSHM_SECONDS(20));
	ck_code(b->answer.code, 0);
}
END_TEST

START_TEST(there_are_too_few)
{
	start_pair();
	with_wait(2, LOCKSHM_REDIS_LOCAL_ONLY);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_LOCAL_ONLY);
	ck_assert(await(is_clean, NULL));
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_LOCAL_ONLY);
}
END_TEST

START_TEST(wrong_settings)
{
	struct lockshm_create_options options = host_options();
	struct lockshm_error error;

	options.redis_wait = 16;
	ck_code(lockshm_create(NULL, "lockshm-hosts-none", &options, &error), LOCKSHM_INVALID);
	ck_contains(error.message, "redis_wait is 16");
	options.redis_wait = 1;
	strcpy(options.redis, "redis://a,redis://b,redis://c");
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	ck_code(lockshm_create(NULL, "lockshm-hosts-none", &options, &error), LOCKSHM_INVALID);
	ck_contains(error.message, "quorum");
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, the_replica_has_it);
	tcase_add_test(tc, the_replica_does_not_answer);
	tcase_add_test(tc, there_are_too_few);
	tcase_add_test(tc, wrong_settings);
}

int main(void)
{
	return hosts_main("global-replicas", add);
}
