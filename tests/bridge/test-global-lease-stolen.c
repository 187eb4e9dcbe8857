/* SPDX-License-Identifier: MIT */
/* test-global-lease-stolen.c - the lease is deleted in Redis: flushed, stolen, evicted; the holder's loss, and how soon
 * it is noticed */
#define _GNU_SOURCE
#include "support/asan.h"
#include "redis-support/hosts.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostlease/host-lease.h"

static struct agent *a, *b, *c;
static uint64_t token; /* of the lost hold */

static void one_holder(void)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
}

/* Noticed at once, and final; the next local acquire goes through Redis again. */
static void is_robbed(const char *command)
{
	int64_t done;

	one_holder();
	token = a->answer.token;
	redis_say(redis, "%s", command);
	done = ran_ns();
	lost_is_reported(a);
	ck_assert_int_lt(ran_ns() - done, LOCKSHM_MS(250)); /* the next renewal would be due after 333 ms */
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_assert_uint_eq(bridge_of(0).lost, 1);
}

START_TEST(flushed)
{
	is_robbed("FLUSHALL");
	ck_assert_int_ge(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0); /* damaged, if the leader was faster than a */
	ck_assert_uint_gt(b->answer.token, token);
}
END_TEST

START_TEST(deleted)
{
	is_robbed("DEL lk:" K);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(stolen)
{
	is_robbed("SET lk:" K " thief");
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_contains(c->answer.report.error.message, "another program");
	ck_redis("thief", redis, "GET lk:" K);
	/* The foreign value is not touched; once it goes the next waiter gets the key at once. */
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_redis("1", redis, "DEL lk:" K);
	ck_assert_int_ge(agent_end(b), 0);
}
END_TEST

START_TEST(a_waiter_here_is_not_left_behind_a_lost_hold)
{
	one_holder();
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(b, 0, K);
	ck_redis("OK", redis, "FLUSHALL");
	ck_code(agent_end(b), 0); /* although a has 30 s by its own lease */
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
}
END_TEST

START_TEST(readers_are_robbed_together)
{
	cast("001", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(c, K, LOCKSHM_SHARED), 0);
	ck_redis("1", redis, "SREM lk:" K " %s", lease_of(0, K).value);
	lost_is_reported(a);
	lost_is_reported(b);
	ck_code(agent_call(c, AGENT_CHECK), 0);
}
END_TEST

/* An exchange is a theft as well. */
START_TEST(exchanged)
{
	one_holder();
	ck_redis(lease_of(0, K).value, redis, "GETSET lk:" K " thief");
	lost_is_reported(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(global_try(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_redis("thief", redis, "GET lk:" K);
}
END_TEST

/* Data of another type in its place: no lock any more, and not touched. */
START_TEST(replaced_by_data)
{
	one_holder();
	ck_redis("OK", redis, "MULTI");
	redis_say(redis, "DEL lk:" K);
	redis_say(redis, "HSET lk:" K " user data");
	redis_say(redis, "EXEC");
	lost_is_reported(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(c->answer.report.error.message, "not a lock");
	ck_redis("data", redis, "HGET lk:" K " user");
	ck_redis("1", redis, "DEL lk:" K);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(evicted)
{
	int64_t done;

	own_server();
	ck_redis("OK", redis, "CONFIG SET maxmemory-policy allkeys-random");
	one_holder();
	token = a->answer.token;
	ck_redis("OK", redis, "CONFIG SET maxmemory 1");
	while (strcmp(redis_say(redis, "EXISTS lk:" K), "0") != 0)
		;
	done = ran_ns();
	ck_redis("OK", redis, "CONFIG SET maxmemory 0");
	lost_is_reported(a);
	ck_assert_int_lt(ran_ns() - done, LOCKSHM_MS(250));
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(c->answer.token, token);
}
END_TEST

static int64_t time_until_lost(const char *command)
{
	int64_t done;

	redis_say(redis, "%s", command);
	done = ran_ns();
	lost_is_reported(a);
	return ran_ns() - done;
}

/* The best of a few: this machine may be busy. */
START_TEST(noticed_at_once)
{
	static const char *const commands[] = { "FLUSHALL", "DEL lk:" K, "SET lk:" K " thief" };
	int64_t best, ns;
	size_t i;
	int k;

	cast("0", &a);
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		for (best = INT64_MAX, k = 0; best > LOCKSHM_MS(50) && k < 10; k++) {
			redis_say(redis, "DEL lk:" K);
			ck_assert_int_ge(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
			ns = time_until_lost(commands[i]);
			best = ns < best ? ns : best;
			ck_code(agent_release(a), LOCKSHM_LOST);
		}
		ck_assert_msg(best <= LOCKSHM_MS(50), "%s: %lld us at best", commands[i], (long long)best / 1000);
	}
}
END_TEST

/* An endless stream of invalidations for the host does not stop its work. */
START_TEST(flooded_with_invalidations)
{
	struct lockshm_create_options options = host_options();
	char line[4096] = "";
	size_t n = 0;
	int64_t end;
	pid_t pid;
	FILE *out;

	/* As much as a machine may stall. */
	options.redis_ttl_ns = LOCKSHM_SECONDS(6);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	while (n + 80 < sizeof(line))
		n += (size_t)snprintf(line + n, sizeof(line) - n, "PUBLISH lockshm:%.16s lk:" K "\r\n",
				      lease_of(0, K).value);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		redis->say = NULL;
		redis_say(redis, "PING");
		out = redis->say;
		fputs("CLIENT REPLY OFF\r\n", out);
		while (fputs(line, out) >= 0)
			fflush(out);
		_exit(0);
	}
	for (end = now_ns() + LOCKSHM_SECONDS(7); now_ns() < end; pass(now_ns() + LOCKSHM_MS(20))) {
		ck_code(agent_call(a, AGENT_CHECK), 0);
		ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(b), 0);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* Without the right to subscribe: at the next renewal. */
START_TEST(without_invalidations)
{
	struct lockshm_create_options options = host_options();
	char uri[200];
	int k;

	ck_redis("OK", redis, "ACL SETUSER deaf on >pw ~* +@all -subscribe -client|tracking");
	snprintf(uri, sizeof(uri), "unix://deaf:pw@%s", redis->socket);
	strcpy(options.redis, uri);
	host_make(0, &options);
	a = on_host(0);
	for (k = 0; k < 3; k++) {
		ck_assert_int_ge(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
		ck_assert_int_lt(time_until_lost("DEL lk:" K), LOCKSHM_MS(333 + 300));
		ck_code(agent_release(a), LOCKSHM_LOST);
	}
}
END_TEST

/* ---- the leader short of memory, at the worst moment */

#ifndef OTHERS_MALLOC
static struct bridge_service bridge;
static bool short_of_memory;
static unsigned refused;

void *__libc_malloc(size_t size);

/* No memory for the leader's thread of hosts[0] while a test says so. */
void *malloc(size_t size)
{
	if (__atomic_load_n(&short_of_memory, __ATOMIC_ACQUIRE) &&
	    pthread_equal(pthread_self(), bridge.thread)) {
		__atomic_add_fetch(&refused, 1, __ATOMIC_RELEASE);
		return NULL;
	}
	return __libc_malloc(size);
}

static bool was_refused(void *arg)
{
	(void)arg;
	return __atomic_load_n(&refused, __ATOMIC_ACQUIRE) > 2;
}

/* A hold that cannot be ended now is ended later: the lease keeps its state until then. */
START_TEST(a_hold_that_could_not_be_ended_is_ended_later)
{
	struct agent_command strict = global_command(K, LOCKSHM_EXCLUSIVE);
	struct lockshm_create_options options = host_options();

	/* For a moment it cannot send commands, either. */
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make_bare(0, &options);
	a = on_host(0);
	b = on_host(0);
	bridge_service_start(&bridge, 0);
	strict.ns = 0;
	ck_code(agent_do(a, strict), 0);
	agent_send(b, strict);
	waits_on_host(b, 0, K);
	/* The lease is over, as any process finds that looks. */
	__atomic_store_n(&short_of_memory, true, __ATOMIC_RELEASE);
	store_release(&hosts[0].s->host_leases[record_of(0, K)].valid_until, 1);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_assert(await(was_refused, NULL));
	__atomic_store_n(&short_of_memory, false, __ATOMIC_RELEASE);
	ck_code(agent_end(b), 0);
	ck_code(agent_release(a), LOCKSHM_LOST);
	bridge_service_stop(&bridge);
}
END_TEST
#define add_without_memory(tc) tcase_add_test(tc, a_hold_that_could_not_be_ended_is_ended_later)
#else
#define add_without_memory(tc) (void)(tc)
#endif

static void add(TCase *tc)
{
	tcase_add_test(tc, flushed);
	tcase_add_test(tc, deleted);
	tcase_add_test(tc, stolen);
	tcase_add_test(tc, a_waiter_here_is_not_left_behind_a_lost_hold);
	tcase_add_test(tc, readers_are_robbed_together);
	tcase_add_test(tc, exchanged);
	tcase_add_test(tc, replaced_by_data);
	tcase_add_test(tc, evicted);
	tcase_add_test(tc, noticed_at_once);
	tcase_add_test(tc, flooded_with_invalidations);
	tcase_add_test(tc, without_invalidations);
	add_without_memory(tc);
}

int main(void)
{
	return hosts_main("global-taken", add);
}
