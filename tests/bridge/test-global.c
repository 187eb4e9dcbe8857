/* SPDX-License-Identifier: MIT */
/* test-global.c - keys that are exclusive across hosts, from the view of a user of the library */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "support/trample.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct agent *a, *b, *c;

/* ---------------------------------------------------------------- one host */

/* By a lock object, again and again. */
START_TEST(lock_object_of_a_global_key)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_lock_t lock;
	uint64_t last = 0;
	int i;

	hosts_make(1);
	q.key = K;
	q.key_len = sizeof(K) - 1;
	q.flags = LOCKSHM_GLOBAL;
	ck_code(lockshm_lock_init(&lock, hosts[0].s, &q), 0);
	for (i = 0; i < 3; i++) {
		ck_code(lockshm_lock(&lock, hosts[0].s), 0);
		ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
		ck_code(lockshm_check(lockshm_lock_hold(&lock), NULL), 0);
		ck_assert_uint_gt(lockshm_token(lockshm_lock_hold(&lock)), last);
		last = lockshm_token(lockshm_lock_hold(&lock));
		ck_code(lockshm_unlock(&lock), 0);
		redis_has("EXISTS lk:" K, "0");
	}
}
END_TEST

/* Messages for a waiting host are published under its name, and nothing longer. */
START_TEST(a_host_waits_under_its_name)
{
	char queue[40];

	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	snprintf(queue, sizeof(queue), "[X:%s]", bridge_of(1).host);
	redis_has("ZRANGE {lk:" K "}:q 0 -1", queue);
}
END_TEST

START_TEST(taken_here_is_taken_in_redis)
{
	cast("0", &a);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
	ck_assert_int_eq(strncmp(lease_of(0, K).value, bridge_of(0).host, 16), 0);
	ck_assert_uint_eq(bridge_of(0).host_leases_held, 1);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_int_gt(a->answer.remaining_ns, 0);
	ck_assert_int_le(a->answer.remaining_ns, LOCKSHM_SECONDS(1)); /* that of the host, not the 30 s of the hold */
	ck_code(agent_release(a), 0);
	redis_has("EXISTS lk:" K, "0");
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
}
END_TEST

START_TEST(shared_is_shared_there)
{
	cast("00", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_redis("set", redis, "TYPE lk:" K);
	ck_redis("1", redis, "SCARD lk:" K);
	ck_assert_uint_ne(a->answer.token, b->answer.token);
	ck_code(agent_release(a), 0);
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_redis("1", redis, "SCARD lk:" K);
	ck_code(agent_release(b), 0);
	redis_has("EXISTS lk:" K, "0");
}
END_TEST

/* On its own host; of another host only the message says so. */
START_TEST(what_is_in_the_way_is_named)
{
	const struct lockshm_blocker *on_b, *on_c;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	struct agent *d;

	cast("0011", &a, &b, &c, &d);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	on_b = &b->answer.report.blocker;
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_assert_int_eq(on_b->state, LOCKSHM_HOLDING);
	ck_assert_int_eq(on_b->pid, a->pid);
	on_c = &c->answer.report.blocker;
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_assert_int_eq(on_c->state, 0);
	ck_assert_int_eq(on_c->pid, 0);
	ck_assert_ptr_nonnull(strstr(c->answer.report.error.message, "not free: "));
	ck_code(lockshm_stat(hosts[1].s, &stat), 0);
	ck_assert_uint_eq(stat.tries_failed, 1);
	/* The next on its host, but not a holder yet. */
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(global_try(d, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_assert_int_eq(d->answer.report.blocker.state, LOCKSHM_WAITING);
	ck_assert_int_eq(d->answer.report.blocker.pid, c->pid);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(c), 0);
}
END_TEST

/* The second holder enters under the lease of the first, without a command to Redis. */
START_TEST(the_next_here_needs_no_redis)
{
	uint64_t acquired, last;
	int i;

	cast("00", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	acquired = bridge_of(0).acquired;
	for (i = 0, last = a->answer.token; i < 20; i++) {
		struct agent *next = i % 2 ? a : b, *holder = i % 2 ? b : a;

		global_send(next, K, LOCKSHM_EXCLUSIVE);
		waits_on_host(next, 0, K);
		ck_code(agent_release(holder), 0);
		ck_code(agent_end(next), 0);
		ck_assert_uint_gt(next->answer.token, last);
		last = next->answer.token;
	}
	ck_assert_uint_eq(bridge_of(0).acquired, acquired);
	ck_assert_uint_eq(bridge_of(0).released, 0);
	ck_assert_uint_eq(lease_of(0, K).local_grants, 21);
}
END_TEST

START_TEST(kept_as_long_as_it_is_held)
{
	int64_t end;

	cast("0", &a);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	end = now_ns() + LOCKSHM_SECONDS(3);
	while (now_ns() < end) {
		ck_code(agent_call(a, AGENT_CHECK), 0);
		ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
		pass(now_ns() + LOCKSHM_MS(50));
	}
	ck_assert_uint_ge(bridge_of(0).renewed, 6);
	ck_assert_uint_eq(bridge_of(0).acquired, 1);
	ck_code(agent_release(a), 0);
}
END_TEST

START_TEST(retained_for_the_next)
{
	struct lockshm_create_options options = host_options();

	options.redis_retain_ns = LOCKSHM_MS(900);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_assert_uint_eq(bridge_of(0).acquired, 1);
	redis_has("EXISTS lk:" K, "0");
}
END_TEST

/* The hold's own lease ends it as any other, whatever the host has. */
START_TEST(a_hold_ends_with_its_own_lease)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	cast("00", &a, &b);
	args.ns = LOCKSHM_MS(300);
	ck_code(agent_do(a, args), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_ge(b->answer.at_ns - a->answer.at_ns, LOCKSHM_MS(290));
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(agent_call(b, AGENT_CHECK), 0);
}
END_TEST

START_TEST(renewed_by_its_owner_or_by_the_service_thread)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	cast("0", &a);
	args.ns = LOCKSHM_MS(300);
	args.flags |= LOCKSHM_AUTO_RENEW;
	ck_code(agent_do(a, args), 0);
	pass(now_ns() + LOCKSHM_SECONDS(2));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RENEW,
						    .ns = LOCKSHM_SECONDS(5) }),
		0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_int_le(a->answer.remaining_ns, LOCKSHM_SECONDS(1));
	ck_code(agent_release(a), 0);
	redis_has("EXISTS lk:" K, "0");
}
END_TEST

START_TEST(cooldown_keeps_other_hosts_out)
{
	int64_t released;

	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .ns = LOCKSHM_MS(1500) }), 0);
	released = a->answer.at_ns;
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_ge(b->answer.at_ns - released, LOCKSHM_MS(1490));
}
END_TEST

/* ---------------------------------------------------------------- two hosts */

START_TEST(hosts_exclude_each_other)
{
	uint64_t token;

	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_contains(b->answer.report.error.message, "another host");
	ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_redis("0", redis, "EXISTS {lk:" K "}:q");
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_assert_int_eq(agent_poll(b), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_uint_gt(b->answer.token, token);
	ck_redis(lease_of(1, K).value, redis, "GET lk:" K);
}
END_TEST

/* With a local waiter, or under a lease that other hosts wait for, it is busy, and the error does not blame Redis. */
START_TEST(a_try_with_waiters)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(a, K, LOCKSHM_SHARED);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_contains(b->answer.report.error.message, "another host");
	ck_assert_int_eq(agent_poll(a), AGENT_BLOCKED);
	ck_code(agent_release(c), 0);
	ck_code(agent_end(a), 0);
}
END_TEST

static bool is_demanded(void *arg)
{
	(void)arg;
	return lease_of(0, K).other_hosts_waiting != 0;
}

START_TEST(a_try_where_others_are_first)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	ck_assert(await(is_demanded, NULL));
	pass(now_ns() + LOCKSHM_MS(201)); /* how long a lease continues among local holders */
	ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_contains(b->answer.report.error.message, "other hosts");
	ck_code(agent_release(a), 0);
	ck_code(agent_end(c), 0);
}
END_TEST

START_TEST(a_fence_that_fell_is_raised)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	uint64_t token;

	cast("0", &a);
	ck_code(agent_do(a, args), 0);
	token = a->answer.token + (UINT64_C(1) << 30);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	fence_becomes(0, K, token);
	ck_code(agent_do(a, args), 0);
	ck_assert_uint_ge(a->answer.token, token);
}
END_TEST

START_TEST(readers_of_all_hosts_together)
{
	cast("012", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_redis("2", redis, "SCARD lk:" K);
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	/* A new reader is queued after the writer. */
	ck_code(global_try(a, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_assert_int_eq(agent_poll(c), AGENT_BLOCKED);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(c), 0);
}
END_TEST

START_TEST(hosts_wait_in_order)
{
	cast("012", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "2");
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_int_eq(agent_poll(c), AGENT_BLOCKED);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(c), 0);
}
END_TEST

/* Each host watches names that the other writes: that must not lead to an exchange of writes. */
static void sends_little_while_one_waits(int mode)
{
	struct timespec two = { .tv_sec = 2 };
	uint64_t before;

	cast("01", &a, &b);
	ck_code(global_wait(a, K, mode), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	before = bridge_of(0).commands + bridge_of(1).commands;
	nanosleep(&two, NULL);
	/* 6 renewals, each of which makes the other look; and a look each 300 ms. */
	ck_assert_uint_le(bridge_of(0).commands + bridge_of(1).commands - before, 30);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
}

START_TEST(a_writer_waits_for_a_writer)
{
	sends_little_while_one_waits(LOCKSHM_EXCLUSIVE);
}
END_TEST

START_TEST(a_writer_waits_for_readers)
{
	sends_little_while_one_waits(LOCKSHM_SHARED);
}
END_TEST

/* Under a remote writer the queue position belongs to the host, whichever request gave up. */
START_TEST(a_reader_has_the_queue_position_of_a_writer)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	struct agent *writer, *reader, *third;

	hosts_make(3);
	a = on_host(0);
	writer = on_host(1);
	reader = on_host(1);
	third = on_host(2);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	args.timeout_ns = LOCKSHM_SECONDS(1);
	agent_send(writer, args);
	redis_has("ZCARD {lk:" K "}:q", "1");
	global_send(reader, K, LOCKSHM_SHARED);
	waits_on_host(reader, 1, K);
	global_send(third, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "2");
	ck_code(agent_end(writer), LOCKSHM_TIMEOUT);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(reader), 0);
	ck_assert_int_eq(agent_poll(third), AGENT_BLOCKED);
	ck_code(agent_release(reader), 0);
	ck_code(agent_end(third), 0);
}
END_TEST

/* The writers have given up, and other hosts read: a waiting reader, or a try, joins them, and the writer's intent key
 * is deleted. */
START_TEST(a_reader_replaces_a_writers_request)
{
	struct lockshm_create_options options = host_options();
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	struct agent *reader;

	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	host_make(0, &options);
	host_make(1, &options);
	reader = on_host(1);
	ck_code(global_wait(reader, K, LOCKSHM_SHARED), 0);
	a = on_host(0);
	b = on_host(0);
	args.timeout_ns = LOCKSHM_SECONDS(1);
	agent_send(a, args);
	redis_has("EXISTS lk:" K ":lock-intent", "1");
	bridge_freeze(0);
	ck_code(agent_end(a), LOCKSHM_TIMEOUT);
	args = global_command(K, LOCKSHM_SHARED);
	if (_i)
		args.timeout_ns = AGENT_TRY;
	agent_send(b, args);
	wanted_by(1);
	bridge_thaw(0);
	ck_code(agent_end(b), 0);
	ck_redis("0", redis, "EXISTS lk:" K ":lock-intent");
	ck_redis("2", redis, "SCARD lk:" K);
	ck_redis("0", redis, "ZCARD {lk:" K "}:q");
}
END_TEST

START_TEST(tokens_rise_from_host_to_host)
{
	uint64_t last = 0;
	int i;

	cast("01", &a, &b);
	for (i = 0; i < 30; i++) {
		struct agent *agent = i % 3 ? a : b;

		ck_code(global_wait(agent, K, LOCKSHM_EXCLUSIVE), 0);
		ck_assert_uint_gt(agent->answer.token, last);
		ck_assert_uint_eq(agent->answer.token, agent->answer.report.token);
		last = agent->answer.token;
		if (i == 15)
			ck_redis("OK", redis, "SCRIPT FLUSH");
		ck_code(agent_release(agent), 0);
		/* The server's clock is the lower bound, also after it has forgotten all else. */
		if (i % 5 == 4) {
			lease_becomes(agent == b, K, LOCKSHM_HOST_LEASE_NONE);
			ck_redis("OK", redis, "FLUSHALL");
			pass(now_ns() + LOCKSHM_MS(3)); /* it counts milliseconds */
		}
	}
	ck_assert_uint_lt(last, UINT64_C(1) << 53);
}
END_TEST

static bool knows_of_waiters(void *arg)
{
	(void)arg;
	return lease_of(0, K).other_hosts_waiting > 0;
}

/* While another host waits, and this one knows it, the lease continues here for a time, not for ever. */
START_TEST(a_local_crowd_lets_others_in)
{
	struct lockshm_create_options options = host_options();
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	unsigned local_grants = 0;

	options.redis_ttl_ns = LOCKSHM_SECONDS(10);
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(0);
	c = on_host(1);
	seg = hosts[0].s;
	ck_code(agent_do(a, args), 0);
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_assert(await(knows_of_waiters, NULL));
	/* This host's queue is never empty: without the bound, c would wait for ever. */
	while (agent_poll(c) == AGENT_BLOCKED) {
		struct agent *next = local_grants % 2 ? a : b, *holder = local_grants % 2 ? b : a;

		agent_send(next, args);
		while (!agent_waits(next, K))
			;
		ck_code(agent_release(holder), 0);
		while (agent_poll(next) == AGENT_BLOCKED)
			if (c->busy && agent_poll(c) != AGENT_BLOCKED) {
				ck_code(c->answer.code, 0);
				ck_code(agent_release(c), 0);
			}
		ck_code(next->answer.code, 0);
		local_grants++;
		if (!c->busy)
			break;
	}
	ck_assert_uint_le(local_grants, 66);
	ck_assert_uint_ge(bridge_of(0).acquired, 2);
}
END_TEST

START_TEST(a_timed_out_waiter_leaves_the_queue)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	args.timeout_ns = LOCKSHM_MS(300);
	ck_code(agent_do(b, args), LOCKSHM_TIMEOUT);
	ck_assert_int_ge(b->answer.report.waited_ns, LOCKSHM_MS(290));
	ck_assert_uint_eq(b->answer.token, 0);
	redis_has("ZCARD {lk:" K "}:q", "0");
	lease_becomes(1, K, LOCKSHM_HOST_LEASE_NONE);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

static bool cancelled(void *arg)
{
	return agent_poll(arg) != AGENT_BLOCKED;
}

START_TEST(a_wait_can_be_cancelled)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	struct agent *t;

	cast("01", &a, &b);
	t = agent_thread(b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	args.cancellable = true;
	agent_send(b, args);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(agent_call(t, AGENT_CANCEL), 0);
	ck_assert(await(cancelled, b));
	ck_code(b->answer.code, LOCKSHM_CANCELLED);
	redis_has("ZCARD {lk:" K "}:q", "0");
}
END_TEST

static long sleeps_of(const struct agent *agent)
{
	char path[64], line[128];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", agent->pid, agent->tid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (n < 0 && fgets(line, sizeof(line), f))
		(void)sscanf(line, "voluntary_ctxt_switches: %ld", &n);
	fclose(f);
	ck_assert_int_ge(n, 0);
	return n;
}

/* Its local request is renewed twice a second; cancelled, it does not wait for that. */
START_TEST(a_blocked_wait_sleeps)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	struct agent *t;
	int64_t begun, least = INT64_MAX;
	long sleeps;
	int i;

	cast("01", &a, &b);
	t = agent_thread(b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	args.timeout_ns = LOCKSHM_SECONDS(3);
	sleeps = sleeps_of(b);
	ck_code(agent_do(b, args), LOCKSHM_TIMEOUT);
	ck_assert_int_le(sleeps_of(b) - sleeps, 30);
	args.timeout_ns = PATIENCE;
	args.cancellable = true;
	for (i = 0; i < 10 && least > LOCKSHM_MS(40); i++) {
		agent_send(b, args);
		redis_has("ZCARD {lk:" K "}:q", "1");
		begun = ran_ns();
		ck_code(agent_call(t, AGENT_CANCEL), 0);
		ck_code(agent_end(b), LOCKSHM_CANCELLED);
		if (ran_ns() - begun < least)
			least = ran_ns() - begun;
		redis_has("ZCARD {lk:" K "}:q", "0");
	}
	ck_assert_int_le(least, LOCKSHM_MS(40));
}
END_TEST

START_TEST(gives_up_where_another_host_is_booked_longer)
{
	struct lockshm_create_options options = host_options();
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);

	options.redis_ttl_ns = LOCKSHM_SECONDS(30);
	host_make(0, &options);
	host_make(1, &options);
	a = on_host(0);
	b = on_host(1);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	args.flags |= LOCKSHM_ONLY_IF_FREE_IN_TIME;
	args.timeout_ns = LOCKSHM_SECONDS(10);
	ck_code(agent_do(b, args), LOCKSHM_BUSY);
	ck_assert_int_lt(b->answer.report.waited_ns - stalled_ns(), LOCKSHM_SECONDS(5));
}
END_TEST

START_TEST(many_at_once)
{
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("m1", 0), LOCKSHM_MANY_KEY("m2", LOCKSHM_SHARED),
				      LOCKSHM_MANY_KEY("m3", 0) };
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t holds[3] = { LOCKSHM_HOLD_INIT };

	cast("1", &b);
	q.flags = LOCKSHM_GLOBAL;
	ck_code(lockshm_acquire_many(hosts[0].s, &q, keys, 3, holds), 0);
	ck_code(global_try(b, "m1", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(global_try(b, "m3", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(global_try(b, "m2", LOCKSHM_SHARED), 0);
	ck_code(lockshm_release_many(holds, 3), 0);
	ck_code(global_wait(b, "m1", LOCKSHM_EXCLUSIVE), LOCKSHM_INVALID); /* hold 0 is in use */
	ck_code(agent_release(b), 0);
	ck_code(global_wait(b, "m1", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

#define PAIRS 3

/* Takes b<n> and a<n> on the host, in a process of its own. */
static pid_t take_pair(unsigned host, unsigned n, unsigned flags)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t holds[2] = { LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT };
	char first[8], second[8];
	struct lockshm_key keys[] = { { .data = first }, { .data = second } };
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	keys[0].len = (size_t)snprintf(first, sizeof(first), "b%u", n);
	keys[1].len = (size_t)snprintf(second, sizeof(second), "a%u", n);
	q.flags = flags;
	q.timeout_ns = PATIENCE;
	_exit(lockshm_acquire_many(hosts[host].s, &q, keys, 2, holds) == 0 &&
	      lockshm_release_many(holds, 2) == 0 ? 0 : 1);
}

static void ends_well(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

/* Keeps b<n> on the host. */
static void keep_second(struct agent *agent, unsigned n, unsigned flags)
{
	struct agent_command args = global_command("", LOCKSHM_EXCLUSIVE);

	snprintf(args.key, sizeof(args.key), "b%u", n);
	args.flags = flags;
	args.hold = (int)n;
	args.ns = 0;
	ck_code(agent_do(agent, args), 0);
}

static void give_second(struct agent *agent, unsigned n)
{
	ck_code(agent_do(agent, (struct agent_command){ .op = AGENT_RELEASE, .hold = (int)n }), 0);
}

/* A process that waits for the second key has the first one, on each host, so two of them never have one each. */
START_TEST(hosts_take_many_in_one_order)
{
	pid_t pids[2 * PAIRS];
	char key[8];
	unsigned n;

	cast("01", &a, &b);
	for (n = 0; n < 2 * PAIRS; n++) {
		keep_second(n % 2 ? a : b, n, LOCKSHM_GLOBAL);
		pids[n] = take_pair(n % 2, n, LOCKSHM_GLOBAL);
	}
	for (n = 0; n < 2 * PAIRS; n++) {
		/* Its record may be still to come. */
		snprintf(key, sizeof(key), "a%u", n);
		lease_becomes(n % 2, key, LOCKSHM_HOST_LEASE_HELD);
	}
	for (n = 0; n < 2 * PAIRS; n++)
		give_second(n % 2 ? a : b, n);
	for (n = 0; n < 2 * PAIRS; n++)
		ends_well(pids[n]);
}
END_TEST

static bool first_is_held(void *arg)
{
	struct lockshm_row row;

	return key_row(hosts[0].s, arg, strlen(arg), &row) == 0 && row.holders > 0;
}

/* They meet the global ones of their host. */
START_TEST(local_ones_take_many_in_the_same_order)
{
	pid_t pids[2 * PAIRS];
	char key[8];
	unsigned n;

	cast("0", &a);
	for (n = 0; n < 2 * PAIRS; n++) {
		keep_second(a, n, 0);
		pids[n] = take_pair(0, n, 0);
	}
	for (n = 0; n < 2 * PAIRS; n++) {
		snprintf(key, sizeof(key), "a%u", n);
		ck_assert_msg(await(first_is_held, key), "%s is not taken first", key);
	}
	for (n = 0; n < 2 * PAIRS; n++)
		give_second(a, n);
	for (n = 0; n < 2 * PAIRS; n++)
		ends_well(pids[n]);
}
END_TEST

/* A local request for the same key excludes on its host. */
START_TEST(local_requests_keep_out_global_ones_here)
{
	cast("001", &a, &b, &c);
	ck_code(agent_try(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_eq(bridge_of(0).acquired, 0);
}
END_TEST

START_TEST(a_child_may_use_it_at_once)
{
	cast("01", &a, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	b = agent_child(a);
	ck_code(agent_call(b, AGENT_CHECK), LOCKSHM_NOT_HELD);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_try(c, "other", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_release(b), 0);
	ck_code(agent_release(a), 0);
	redis_has("EXISTS lk:" K " lk:other", "0");
}
END_TEST

/* Of the test's own process.  @_i: alone, kept by the service thread, upgraded. */
START_TEST(one_word_of_a_hold_written_over)
{
	lockshm_hold_t hold, other, earlier;
	struct lockshm_request request;

	hosts_make(1);
	seg = hosts[0].s;
	request = request_for(K, LOCKSHM_EXCLUSIVE);
	request.flags = LOCKSHM_GLOBAL | (_i == 1 ? LOCKSHM_AUTO_RENEW : 0);
	request.ttl_ns = LOCKSHM_SECONDS(60);
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	memcpy(&earlier, &hold, sizeof(hold));
	ck_code(lockshm_release(&hold, 0), 0);
	request.key = "other";
	request.key_len = 5;
	ck_code(lockshm_acquire(seg, &request, &other), 0);
	request.key = K;
	request.key_len = strlen(K);
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	if (_i == 2) {
		ck_code(lockshm_downgrade(&hold), 0);
		ck_code(lockshm_upgrade(&hold), 0);
	}
	trample_kind = "global";
	trample(&hold, &other, &earlier);
	ck_code(lockshm_release(&hold, 0), 0);
	trample_says_not_held(memcpy(&hold, &earlier, sizeof(hold)), true);
	ck_code(lockshm_release(&other, 0), 0);
	redis_has("EXISTS lk:" K " lk:other", "0");
	seg = NULL;
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, lock_object_of_a_global_key);
	tcase_add_test(tc, a_host_waits_under_its_name);
	tcase_add_test(tc, taken_here_is_taken_in_redis);
	tcase_add_test(tc, shared_is_shared_there);
	tcase_add_test(tc, what_is_in_the_way_is_named);
	tcase_add_test(tc, the_next_here_needs_no_redis);
	tcase_add_test(tc, kept_as_long_as_it_is_held);
	tcase_add_test(tc, retained_for_the_next);
	tcase_add_test(tc, a_hold_ends_with_its_own_lease);
	tcase_add_test(tc, renewed_by_its_owner_or_by_the_service_thread);
	tcase_add_test(tc, cooldown_keeps_other_hosts_out);
	tcase_add_test(tc, hosts_exclude_each_other);
	tcase_add_test(tc, a_try_with_waiters);
	tcase_add_test(tc, a_try_where_others_are_first);
	tcase_add_test(tc, a_fence_that_fell_is_raised);
	tcase_add_test(tc, readers_of_all_hosts_together);
	tcase_add_test(tc, hosts_wait_in_order);
	tcase_add_test(tc, a_writer_waits_for_a_writer);
	tcase_add_test(tc, a_writer_waits_for_readers);
	tcase_add_loop_test(tc, a_reader_replaces_a_writers_request, 0, 2);
	tcase_add_test(tc, a_reader_has_the_queue_position_of_a_writer);
	tcase_add_test(tc, tokens_rise_from_host_to_host);
	tcase_add_test(tc, a_local_crowd_lets_others_in);
	tcase_add_test(tc, a_timed_out_waiter_leaves_the_queue);
	tcase_add_test(tc, a_wait_can_be_cancelled);
	tcase_add_test(tc, a_blocked_wait_sleeps);
	tcase_add_test(tc, gives_up_where_another_host_is_booked_longer);
	tcase_add_test(tc, many_at_once);
	tcase_add_test(tc, hosts_take_many_in_one_order);
	tcase_add_test(tc, local_ones_take_many_in_the_same_order);
	tcase_add_test(tc, local_requests_keep_out_global_ones_here);
	tcase_add_test(tc, a_child_may_use_it_at_once);
	tcase_add_loop_test(tc, one_word_of_a_hold_written_over, 0, 3);
}

int main(void)
{
	return hosts_main("global", add);
}
