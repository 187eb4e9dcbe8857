/* SPDX-License-Identifier: MIT */
/* test-global-foreign.c - keys that other programs lock in Redis, too: plain clients, libraries, readers and writers */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "redis-support/foreign.h"

#define LOCK "lock"

static const struct foreign *kinds[3]; /* NULL = plain commands */
static int n_kinds;
static struct agent *a, *b;

/* The name in Redis is the key itself. */
static void hosts_without_prefix(void)
{
	struct lockshm_create_options options = host_options();
	unsigned i;

	strcpy(options.redis_prefix, "");
	for (i = 0; i < 2; i++)
		host_make(i, &options);
	a = on_host(0);
	b = on_host(1);
}

static void others(int i)
{
	hosts_without_prefix();
	if (kinds[i])
		foreign_start(kinds[i]);
}

/* SET NX PX; a release compares the value first. */
static bool acquire_plain(const char *line)
{
	if (strncmp(line, "lock", 4) == 0)
		return strcmp(redis_say(redis, "SET " LOCK " plain NX PX 30000"), "OK") == 0;
	if (strcmp(redis_say(redis, "GET " LOCK), "plain") != 0)
		return false;
	return strcmp(redis_say(redis, strncmp(line, "unlock", 6) == 0 ? "DEL " LOCK : "PEXPIRE " LOCK " 30000"),
		      "1") == 0;
}

static bool acquire(int i, const char *line)
{
	return kinds[i] ? foreign_ask(line) : acquire_plain(line);
}

/* From the release of the other program until the waiter has the key. */
static int64_t pass_on(int kind)
{
	int64_t released;

	global_send(a, LOCK, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {" LOCK "}:q", "1");
	ck_assert(acquire(kind, "extend 30000"));
	ck_assert_int_eq(agent_poll(a), AGENT_BLOCKED);
	ck_assert(acquire(kind, "unlock"));
	released = now_ns();
	ck_code(agent_end(a), 0);
	return a->answer.at_ns - released;
}

#define PASSES 10
#define POLLED LOCKSHM_MS(300) /* between two looks at a key that is watched, which do not depend on the release */

START_TEST(it_holds)
{
	int64_t fastest = INT64_MAX, took;
	int i;

	others(_i);
	ck_assert(acquire(_i, "lock 30000"));
	ck_code(global_try(a, LOCK, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_contains(a->answer.report.error.message, "another program");
	ck_code(global_try(b, LOCK, LOCKSHM_SHARED), LOCKSHM_BUSY);
	/* Notified: a stalled machine may delay some, not all. */
	for (i = 0; i < PASSES && fastest >= POLLED / 15; i++) {
		ck_assert(i == 0 || acquire(_i, "lock 30000"));
		took = pass_on(_i);
		fastest = took < fastest ? took : fastest;
		ck_code(agent_release(a), 0);
		redis_has("EXISTS " LOCK, "0");
	}
	ck_assert_int_lt(fastest, POLLED / 15);
}
END_TEST

START_TEST(we_write)
{
	int64_t end;

	others(_i);
	ck_code(global_wait(a, LOCK, LOCKSHM_EXCLUSIVE), 0);
	for (end = now_ns() + LOCKSHM_MS(1500); now_ns() < end; pass(now_ns() + LOCKSHM_MS(50))) {
		ck_assert(!acquire(_i, "lock 30000"));
		ck_code(agent_call(a, AGENT_CHECK), 0);
	}
	ck_redis(lease_of(0, LOCK).value, redis, "GET " LOCK);
	ck_code(agent_release(a), 0);
	redis_has("EXISTS " LOCK, "0");
	ck_assert(acquire(_i, "lock 30000"));
	ck_code(global_try(a, LOCK, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_assert(acquire(_i, "unlock"));
	ck_redis("0", redis, "EXISTS " LOCK);
}
END_TEST

START_TEST(we_read)
{
	int64_t end;

	others(_i);
	ck_code(global_wait(a, LOCK, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, LOCK, LOCKSHM_SHARED), 0);
	for (end = now_ns() + LOCKSHM_MS(1500); now_ns() < end; pass(now_ns() + LOCKSHM_MS(50))) {
		ck_assert(!acquire(_i, "lock 30000"));
		ck_code(agent_call(a, AGENT_CHECK), 0);
		ck_code(agent_call(b, AGENT_CHECK), 0);
	}
	ck_code(agent_release(a), 0);
	ck_code(agent_release(b), 0);
	redis_has("EXISTS " LOCK, "0");
	ck_assert(acquire(_i, "lock 30000"));
	ck_assert(acquire(_i, "unlock"));
}
END_TEST

/* It overslept, and its late commands must not harm the new holder. */
START_TEST(it_is_late)
{
	others(_i);
	ck_assert(acquire(_i, "lock 30000"));
	ck_redis("1", redis, "DEL " LOCK);
	ck_code(global_wait(a, LOCK, LOCKSHM_EXCLUSIVE), 0);
	ck_assert(!acquire(_i, "extend 30000"));
	ck_assert(!acquire(_i, "unlock"));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_redis(lease_of(0, LOCK).value, redis, "GET " LOCK);
	ck_code(agent_release(a), 0);
}
END_TEST

/* Alternating holds, with a number that is written by holders only. */
START_TEST(alternating)
{
	int i, n = 0;

	others(_i);
	for (i = 0; i < 20; i++) {
		if (i % 2) {
			ck_code(global_wait(i % 4 == 1 ? a : b, LOCK, LOCKSHM_EXCLUSIVE), 0);
			ck_assert(!acquire(_i, "lock 30000"));
		} else {
			while (!acquire(_i, "lock 30000"))
				;
			ck_code(global_try(a, LOCK, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
		}
		ck_assert_int_eq(atoi(redis_say(redis, "INCR number")), ++n);
		if (i % 2)
			ck_code(agent_release(i % 4 == 1 ? a : b), 0);
		else
			ck_assert(acquire(_i, "unlock"));
	}
}
END_TEST

/* ---------------------------------------------------------------- readers and writers: K and K:lock-intent */

START_TEST(readers_of_both_kinds)
{
	int64_t end;

	hosts_without_prefix();
	ck_code(global_wait(a, LOCK, LOCKSHM_SHARED), 0);
	/* Their reader joins, and gives the whole set a shorter time than ours has: it is renewed in time. */
	for (end = now_ns() + LOCKSHM_MS(1800); now_ns() < end; pass(now_ns() + LOCKSHM_MS(100))) {
		ck_redis("set", redis, "TYPE " LOCK);
		redis_say(redis, "SADD " LOCK " r1");
		ck_redis("1", redis, "PEXPIRE " LOCK " 700");
		ck_code(agent_call(a, AGENT_CHECK), 0);
	}
	ck_code(agent_release(a), 0);
	redis_has("SCARD " LOCK, "1");
	ck_code(global_try(b, LOCK, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(global_wait(b, LOCK, LOCKSHM_SHARED), 0);
	ck_redis("1", redis, "SREM " LOCK " r1");
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_code(agent_release(b), 0);
	redis_has("EXISTS " LOCK, "0");
}
END_TEST

START_TEST(our_writers_intent_blocks_their_readers)
{
	hosts_without_prefix();
	ck_redis("1", redis, "SADD " LOCK " r1");
	ck_redis("1", redis, "PEXPIRE " LOCK " 40000");
	global_send(a, LOCK, LOCKSHM_EXCLUSIVE);
	redis_has("EXISTS " LOCK ":lock-intent", "1");
	ck_assert_int_eq(agent_poll(a), AGENT_BLOCKED);
	ck_redis("1", redis, "SREM " LOCK " r1");
	ck_code(agent_end(a), 0);
	ck_redis("string", redis, "TYPE " LOCK);
	ck_redis("0", redis, "EXISTS " LOCK ":lock-intent");
}
END_TEST

START_TEST(their_writers_intent_is_honoured)
{
	hosts_without_prefix();
	ck_code(global_wait(a, LOCK, LOCKSHM_SHARED), 0);
	ck_redis("OK", redis, "SET " LOCK ":lock-intent 1 PX 40000");
	ck_code(global_try(b, LOCK, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_contains(b->answer.report.error.message, "writer");
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	redis_has("EXISTS " LOCK, "0");
	/* Their writer acquires, and deletes the intent key, also another's. */
	ck_redis("OK", redis, "SET " LOCK " w1 NX PX 40000");
	redis_say(redis, "DEL " LOCK ":lock-intent");
	ck_code(global_try(a, LOCK, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	global_send(b, LOCK, LOCKSHM_SHARED);
	redis_has("ZCARD {" LOCK "}:q", "1");
	ck_redis("1", redis, "DEL " LOCK);
	ck_code(agent_end(b), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, it_holds, 0, n_kinds);
	tcase_add_loop_test(tc, we_write, 0, n_kinds);
	tcase_add_loop_test(tc, we_read, 0, n_kinds);
	tcase_add_loop_test(tc, it_is_late, 0, n_kinds);
	tcase_add_loop_test(tc, alternating, 0, n_kinds);
	tcase_add_test(tc, readers_of_both_kinds);
	tcase_add_test(tc, our_writers_intent_blocks_their_readers);
	tcase_add_test(tc, their_writers_intent_is_honoured);
}

static void find(const struct foreign *f)
{
	if (foreign_is_there(f))
		kinds[n_kinds++] = f;
	else
		printf("left out: %s\n", f->missing);
}

int main(void)
{
	n_kinds = 1; /* plain commands need no program */
	find(&foreign_redis_py);
	find(&foreign_redlock);
	return hosts_main("global-foreign", add);
}
