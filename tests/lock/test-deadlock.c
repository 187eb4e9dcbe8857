/* SPDX-License-Identifier: MIT */
/*
 * test-deadlock.c - a wait that would close a cycle is refused at once, with the cycle in words
 *
 * In the waits-for graphs below "A -k-> B" means: A waits for key k, which B holds or waits for before A.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "support/agent.h"
#include "support/fixture.h"

/*
 * The agent takes @key into its hold @hold and is expected to get @outcome.  A request that will be refused is among
 * the waiters for a moment, so the queue is checked only if it is to wait.
 */
static void wants(struct agent *a, int hold, const char *key, int mode, int outcome)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode, .hold = hold };

	snprintf(c.key, sizeof(c.key), "%s", key);
	if (outcome == AGENT_BLOCKED) {
		ck_code(agent_begin(a, c), outcome);
	} else {
		agent_send(a, c);
		ck_code(agent_end(a), outcome);
	}
}

static void names_pid(const char *message, const struct agent *a)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)a->pid);
	ck_assert_msg(strstr(message, pid), "no %s in: %s", pid, message);
}

static void names_key(const char *message, const char *key)
{
	ck_assert_msg(strstr(message, key), "no %s in: %s", key, message);
}

static void gives_up(struct agent *a, int hold)
{
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .hold = hold }), 0);
}

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

START_TEST(own_key_is_the_shortest_cycle)
{
	struct agent *a = agent_start();

	wants(a, 0, "key-1", _i & 1 ? X : S, 0);
	wants(a, 1, "key-1", _i & 2 ? X : S, _i == 0 ? 0 : LOCKSHM_DEADLOCK);
	if (_i) {
		names_key(a->answer.report.error.message, "key-1");
		ck_assert_uint_eq(stat_now().deadlocks, 1);
		ck_assert_uint_eq(stat_now().requests_used, 1);
	}
	gives_up(a, 0);
	verify_clean();
}
END_TEST

/* A -two-> B -one-> A */
START_TEST(two_cycle_of_writers)
{
	struct agent *a = agent_start(), *b = agent_start();

	wants(a, 0, "key-one", X, 0);
	wants(b, 0, "key-two", X, 0);
	wants(a, 1, "key-two", X, AGENT_BLOCKED);
	wants(b, 1, "key-one", X, LOCKSHM_DEADLOCK);
	names_pid(b->answer.report.error.message, a);
	names_pid(b->answer.report.error.message, b);
	names_key(b->answer.report.error.message, "key-one");
	names_key(b->answer.report.error.message, "key-two");
	ck_assert(agent_waits(a, "key-two"));
	gives_up(b, 0);
	ck_code(agent_end(a), 0);
	ck_assert_uint_eq(stat_now().deadlocks, 1);
	verify_clean();
}
END_TEST

/* A -two-> B -three-> C -one-> A */
START_TEST(three_cycle_of_writers)
{
	struct agent *a = agent_start(), *b = agent_start(), *c = agent_start();

	wants(a, 0, "key-one", X, 0);
	wants(b, 0, "key-two", X, 0);
	wants(c, 0, "key-three", X, 0);
	wants(a, 1, "key-two", X, AGENT_BLOCKED);
	wants(b, 1, "key-three", X, AGENT_BLOCKED);
	wants(c, 1, "key-one", X, LOCKSHM_DEADLOCK);
	names_pid(c->answer.report.error.message, a);
	names_pid(c->answer.report.error.message, b);
	names_pid(c->answer.report.error.message, c);
	names_key(c->answer.report.error.message, "key-three");
	gives_up(c, 0);
	ck_code(agent_end(b), 0);
	gives_up(b, 0);
	gives_up(b, 1);
	ck_code(agent_end(a), 0);
}
END_TEST

/* Two readers of both keys: A -two-> B -one-> A, through shared holds */
START_TEST(cycle_of_writers_behind_readers)
{
	struct agent *a = agent_start(), *b = agent_start();

	wants(a, 0, "key-one", S, 0);
	wants(b, 0, "key-two", S, 0);
	wants(a, 1, "key-two", X, AGENT_BLOCKED);
	wants(b, 1, "key-one", X, LOCKSHM_DEADLOCK);
	gives_up(b, 0);
	ck_code(agent_end(a), 0);
}
END_TEST

/* A reads k, W waits for k, A's second reading of k would wait for W: A -k-> W -k-> A */
START_TEST(second_shared_request_behind_a_waiting_writer)
{
	struct agent *a = agent_start(), *w = agent_start();

	wants(a, 0, "key-k", S, 0);
	wants(w, 0, "key-k", X, AGENT_BLOCKED);
	wants(a, 1, "key-k", S, LOCKSHM_DEADLOCK);
	names_pid(a->answer.report.error.message, w);
	gives_up(a, 0);
	ck_code(agent_end(w), 0);
}
END_TEST

/* A holds one; W waits for two behind reader B; C waits behind W.  B -one-> A.  A -two-> W -two-> B -one-> A: found
 * although A's request is shared and does not conflict with B's hold. */
START_TEST(cycle_through_a_waiter_in_between)
{
	struct agent *a = agent_start(), *b = agent_start(), *w = agent_start();

	wants(a, 0, "key-one", X, 0);
	wants(b, 0, "key-two", S, 0);
	wants(w, 0, "key-two", X, AGENT_BLOCKED);
	wants(b, 1, "key-one", X, AGENT_BLOCKED);
	wants(a, 1, "key-two", S, LOCKSHM_DEADLOCK);
	gives_up(a, 0);
	ck_code(agent_end(b), 0);
	gives_up(b, 0);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(waiting_beside_a_cycle_is_no_cycle)
{
	struct agent *a = agent_start(), *b = agent_start(), *c = agent_start();

	wants(a, 0, "key-one", X, 0);
	wants(b, 0, "key-two", X, 0);
	wants(c, 0, "key-three", X, 0);
	wants(a, 1, "key-two", X, AGENT_BLOCKED);
	wants(c, 1, "key-one", X, AGENT_BLOCKED); /* C -one-> A -two-> B, which does not wait */
	wants(b, 1, "key-four", X, 0);
	gives_up(b, 0);
	ck_code(agent_end(a), 0);
	gives_up(a, 0);
	ck_code(agent_end(c), 0);
	ck_assert_uint_eq(stat_now().deadlocks, 0);
}
END_TEST

START_TEST(readers_of_each_others_keys_do_not_wait)
{
	struct agent *a = agent_start(), *b = agent_start();

	wants(a, 0, "key-one", S, 0);
	wants(b, 0, "key-two", S, 0);
	wants(a, 1, "key-two", S, 0);
	wants(b, 1, "key-one", S, 0);
	ck_assert_uint_eq(stat_now().deadlocks, 0);
}
END_TEST

START_TEST(threads_of_one_process_are_different_parties)
{
	struct agent *a = agent_start(), *b = agent_thread(a);

	wants(a, 0, "key-one", X, 0);
	wants(b, 1, "key-one", X, AGENT_BLOCKED); /* waits, since another thread will release it */
	gives_up(a, 0);
	ck_code(agent_end(b), 0);
	wants(a, 2, "key-two", X, 0);
	wants(a, 3, "key-one", X, AGENT_BLOCKED);
	wants(b, 4, "key-two", X, LOCKSHM_DEADLOCK);
	gives_up(b, 1);
	ck_code(agent_end(a), 0);
}
END_TEST

START_TEST(dead_member_is_no_cycle)
{
	struct agent *a = agent_start(), *b = agent_start();

	wants(a, 0, "key-one", X, 0);
	wants(b, 0, "key-two", X, 0);
	wants(a, 1, "key-two", X, AGENT_BLOCKED);
	agent_kill(a);
	wants(b, 1, "key-one", X, LOCKSHM_OWNER_DIED);
}
END_TEST

/* A waits behind an overdue hold of B, which waits for A: an overdue hold is taken over at once. */
START_TEST(overdue_member_is_no_cycle)
{
	struct agent *a = agent_start(), *b = agent_start();
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "key-two", .how = X, .ns = LOCKSHM_MS(5) };

	wants(a, 0, "key-one", X, 0);
	ck_code(agent_do(b, c), 0);
	wants(b, 1, "key-one", X, AGENT_BLOCKED);
	pass(now_ns() + LOCKSHM_MS(30));
	wants(a, 1, "key-two", X, LOCKSHM_TOOK_OVER_EXPIRED);
	gives_up(a, 0);
	ck_code(agent_end(b), 0);
	ck_assert_uint_eq(stat_now().deadlocks, 0);
}
END_TEST

START_TEST(overdue_reader_before_others_is_no_cycle)
{
	struct agent *a = agent_start(), *b = agent_start(), *r = agent_start();
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "key-two", .how = S, .ns = LOCKSHM_SECONDS(100) };
	struct agent_command shorten = { .op = AGENT_RENEW, .ns = LOCKSHM_MS(1) };

	wants(a, 0, "key-one", X, 0);
	ck_code(agent_do(b, c), 0);
	wants(r, 0, "key-two", S, 0); /* stands behind it and is fine */
	ck_code(agent_do(b, shorten), 0);
	wants(b, 1, "key-one", X, AGENT_BLOCKED);
	pass(now_ns() + LOCKSHM_MS(30));
	wants(a, 1, "key-two", X, AGENT_BLOCKED);
	gives_up(r, 0);
	ck_code(agent_end(a), 0);
}
END_TEST

START_TEST(cycle_that_ended_by_a_timeout_is_no_cycle)
{
	struct agent *a = agent_start(), *b = agent_start();

	wants(a, 0, "key-one", X, 0);
	wants(b, 0, "key-two", X, 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "key-two", .how = X, .hold = 1,
						    .timeout_ns = LOCKSHM_MS(20) }),
		LOCKSHM_TIMEOUT);
	wants(b, 1, "key-one", X, AGENT_BLOCKED);
	gives_up(a, 0);
	ck_code(agent_end(b), 0);
	ck_assert_uint_eq(stat_now().deadlocks, 0);
}
END_TEST

START_TEST(long_message_is_cut_and_terminated)
{
	struct agent *a[12];
	char key[100], next[100];
	const char *message;
	int i;

	memset(key, 'k', sizeof(key));
	memset(next, 'k', sizeof(next));
	for (i = 0; i < 12; i++) {
		a[i] = agent_start();
		snprintf(key + 80, 20, "%d", i);
		wants(a[i], 0, key, X, 0);
	}
	for (i = 0; i < 12; i++) {
		snprintf(next + 80, 20, "%d", (i + 1) % 12);
		wants(a[i], 1, next, X, i < 11 ? AGENT_BLOCKED : LOCKSHM_DEADLOCK);
	}
	message = a[11]->answer.report.error.message;
	ck_assert_ptr_nonnull(memchr(message, '\0', sizeof(a[11]->answer.report.error.message)));
	ck_assert_uint_gt(strlen(message), 40);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, own_key_is_the_shortest_cycle, 0, 4);
	tcase_add_test(tc, two_cycle_of_writers);
	tcase_add_test(tc, three_cycle_of_writers);
	tcase_add_test(tc, cycle_of_writers_behind_readers);
	tcase_add_test(tc, second_shared_request_behind_a_waiting_writer);
	tcase_add_test(tc, cycle_through_a_waiter_in_between);
	tcase_add_test(tc, waiting_beside_a_cycle_is_no_cycle);
	tcase_add_test(tc, readers_of_each_others_keys_do_not_wait);
	tcase_add_test(tc, threads_of_one_process_are_different_parties);
	tcase_add_test(tc, dead_member_is_no_cycle);
	tcase_add_test(tc, overdue_member_is_no_cycle);
	tcase_add_test(tc, overdue_reader_before_others_is_no_cycle);
	tcase_add_test(tc, cycle_that_ended_by_a_timeout_is_no_cycle);
	tcase_add_test(tc, long_message_is_cut_and_terminated);
}

int main(void)
{
	return fixture_main("deadlock", add);
}
