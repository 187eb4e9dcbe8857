/* SPDX-License-Identifier: MIT */
/*
 * test-global-batched-wakeups.c - a key that is handed over quickly: releases do not ring for the leader, and other
 * hosts get it all the same
 *
 * The test itself is the holder.  All orders of release, scan and ring are in
 * model/close.pml.
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <pthread.h>

#include "hostlease/host-lease.h"

static lockshm_t *s;
static struct shm_host_lease *lease;
static lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

static void takes(void)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;

	q.key = K;
	q.key_len = strlen(K);
	q.flags = LOCKSHM_GLOBAL;
	ck_code(lockshm_acquire(s, &q, &hold), 0);
}

static void gives(void)
{
	ck_code(lockshm_release(&hold, 0), 0);
}

static void two_hosts(int64_t ttl_ns)
{
	struct lockshm_create_options options = host_options();
	struct lockshm_error error;

	options.redis_ttl_ns = ttl_ns;
	host_make(0, &options);
	host_make(1, &options);
	ck_code(lockshm_open(&s, hosts[0].name, 0, &error), 0);
	takes();
	lease = &s->host_leases[record_of(0, K)];
}

/* ---------------------------------------------------------------- rings */

/* Does a release ring while suppress_until is @until, host time? */
static bool rings(int64_t until)
{
	uint32_t before = load_acquire32(&s->bridge->doorbell);

	store_release(&lease->suppress_until, (uint64_t)until);
	gives();
	return load_acquire32(&s->bridge->doorbell) != before;
}

START_TEST(a_release_rings_unless_suppressed)
{
	int64_t until;
	bool rung;

	two_hosts(LOCKSHM_SECONDS(60));
	bridge_freeze(0);
	/* The lease is held: entering needs no leader. */
	ck_assert(rings(0));
	do {
		takes();
		until = host_now(s) + LOCKSHM_MS(HOST_LEASE_SUPPRESS_MS);
		rung = rings(until);
	} while (host_now(s) >= until); /* that took too long to tell */
	ck_assert(!rung);
	/* Over. */
	takes();
	ck_assert(rings(1));
	/* No leader suppresses for so long: damage. */
	takes();
	ck_assert(rings(host_now(s) + LOCKSHM_SECONDS(3600)));
	bridge_thaw(0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_assert_uint_eq(load_acquire(&lease->suppress_until), 0);
}
END_TEST

/* ---------------------------------------------------------------- quick hand-overs */

/* Another thread acquires and releases in a loop. */
static bool enough;

static void *hand_over_quickly(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&enough, __ATOMIC_ACQUIRE)) {
		takes();
		gives();
	}
	return NULL;
}

static pthread_t begin_hand_overs(void)
{
	pthread_t thread;

	gives();
	__atomic_store_n(&enough, false, __ATOMIC_RELEASE);
	ck_assert_int_eq(pthread_create(&thread, NULL, hand_over_quickly, NULL), 0);
	return thread;
}

static void end_hand_overs(pthread_t thread)
{
	__atomic_store_n(&enough, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

static bool is_suppressed(void *arg)
{
	(void)arg;
	return load_acquire(&lease->suppress_until) > (uint64_t)host_now(s);
}

/* And the lease is released when that is over, by the leader's own scans. */
START_TEST(the_leader_suppresses)
{
	pthread_t thread;

	two_hosts(LOCKSHM_SECONDS(60));
	thread = begin_hand_overs();
	ck_assert(await(is_suppressed, NULL));
	end_hand_overs(thread);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_assert_uint_eq(load_acquire(&lease->suppress_until), 0);
	redis_has("EXISTS lk:" K, "0");
	/* Single holds ring. */
	takes();
	gives();
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
}
END_TEST

START_TEST(another_host_gets_it)
{
	struct agent *other;
	pthread_t thread;
	int turns;

	two_hosts(LOCKSHM_SECONDS(60));
	other = on_host(1);
	thread = begin_hand_overs();
	ck_assert(await(is_suppressed, NULL));
	for (turns = 0; turns < 5; turns++) {
		ck_code(global_wait(other, K, LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(other), 0);
	}
	end_hand_overs(thread);
}
END_TEST

/* It is not queued, so it depends on moments without demand on the host. */
START_TEST(a_program_that_polls_gets_it)
{
	const char *answer = "";
	int64_t end = now_ns() + PATIENCE;
	pthread_t thread;

	two_hosts(LOCKSHM_SECONDS(60));
	thread = begin_hand_overs();
	ck_assert(await(is_suppressed, NULL));
	while (strcmp(answer, "OK") != 0 && now_ns() < end)
		answer = redis_say(redis, "SET lk:" K " foreign NX PX 30000");
	ck_assert_str_eq(answer, "OK");
	redis_say(redis, "DEL lk:" K);
	end_hand_overs(thread);
}
END_TEST

static void add_cases(TCase *tc)
{
	tcase_add_test(tc, a_release_rings_unless_suppressed);
	tcase_add_test(tc, the_leader_suppresses);
	tcase_add_test(tc, another_host_gets_it);
	tcase_add_test(tc, a_program_that_polls_gets_it);
}

int main(void)
{
	return hosts_main("global-quiet", add_cases);
}
