/* SPDX-License-Identifier: MIT */
/* test-loop-many.c - several keys at once on an event loop, all or none */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED
#define KEYS_MAX LOCKSHM_MANY_MAX

/* One request for several keys, with what must stay where it is. */
struct batch {
	struct lockshm_request common;
	struct lockshm_report report;
	struct lockshm_key keys[KEYS_MAX];
	char names[KEYS_MAX][8];
	lockshm_hold_t holds[KEYS_MAX];
	size_t n;
};

static struct agent *a, *b;
static lockshm_loop_t *loop;
static struct batch m[2];

static void cast(void)
{
	a = agent_start();
	b = agent_start();
	loop = loop_new();
}

static void batch_init(struct batch *batch)
{
	memset(batch, 0, sizeof(*batch));
	batch->common = (struct lockshm_request)LOCKSHM_REQUEST_INIT;
	batch->report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	batch->common.timeout_ns = PATIENCE;
	batch->common.report = &batch->report;
}

static void batch_add(struct batch *batch, const char *key, int mode)
{
	size_t n = batch->n++;

	snprintf(batch->names[n], sizeof(batch->names[n]), "%s", key);
	batch->keys[n] = (struct lockshm_key)LOCKSHM_MANY_KEY(batch->names[n], mode);
}

/* Of keys with one letter. */
static void batch_of(struct batch *batch, const char *letters)
{
	batch_init(batch);
	for (; *letters; letters++)
		batch_add(batch, (const char[]){ *letters, 0 }, 0);
}

static int batch_acquire(lockshm_loop_t *on, struct batch *batch)
{
	return lockshm_loop_acquire_many(on, &batch->common, batch->keys, batch->n, batch->holds, batch);
}

/* The status of the one outcome, which must be that of @batch. */
static int batch_end(lockshm_loop_t *on, struct batch *batch)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	int64_t end = now_ns() + PATIENCE;
	int n;

	while ((n = lockshm_loop_next(on, &outcome)) == 0) {
		ck_assert_msg(now_ns() < end, "no outcome comes");
		loop_await(on);
	}
	ck_assert_int_eq(n, 1);
	ck_assert_ptr_eq(outcome.user, batch);
	ck_assert_ptr_eq(outcome.hold, batch->holds);
	ck_assert_ptr_eq(outcome.report, batch->common.report);
	return outcome.status;
}

static void none_held(struct batch *batch)
{
	size_t i;

	for (i = 0; i < batch->n; i++) {
		ck_code(lockshm_check(&batch->holds[i], NULL), LOCKSHM_NOT_HELD);
		ck_assert_uint_eq(lockshm_token(&batch->holds[i]), 0);
	}
}

static void all_held(struct batch *batch)
{
	size_t i;

	for (i = 0; i < batch->n; i++) {
		ck_code(lockshm_check(&batch->holds[i], NULL), 0);
		ck_assert_uint_gt(lockshm_token(&batch->holds[i]), 0);
	}
}

/* No request of this process, neither held nor waiting. */
static void none_of_mine(const char *key)
{
	struct seen seen;
	size_t i;

	look(key, &seen);
	for (i = 0; i < seen.holders + seen.waiters; i++)
		ck_assert_int_ne(seen.requests[i].pid, getpid());
}

static int batch_release(struct batch *batch)
{
	return lockshm_release_many(batch->holds, batch->n);
}

static struct agent_command command(const char *key, int hold)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = X, .hold = hold };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return c;
}

static void hold_letters(struct agent *agent, const char *letters)
{
	int i;

	for (i = 0; letters[i]; i++)
		ck_code(agent_do(agent, command((const char[]){ letters[i], 0 }, i)), 0);
}

static void release_nth(struct agent *agent, int i)
{
	ck_code(agent_do(agent, (struct agent_command){ .op = AGENT_RELEASE, .hold = i }), 0);
}

/* ---------------------------------------------------------------- held */

START_TEST(all_free)
{
	cast();
	batch_of(&m[0], "abc");
	m[0].keys[1].mode = S;
	ck_code(batch_acquire(loop, &m[0]), 0);
	all_held(&m[0]);
	loop_idle(loop);
	ck_code(agent_try(a, "a", S), LOCKSHM_BUSY);
	ck_code(agent_try(a, "b", S), 0);
	ck_code(agent_release(a), 0);
	ck_code(lockshm_loop_cancel(loop, m[0].holds), LOCKSHM_NOT_HELD);
	ck_code(batch_release(&m[0]), 0);
	none_held(&m[0]);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
	loop_idle(loop);
	verify_clean();
}
END_TEST

/* The first, a middle one, the last one, in the order of the call. */
START_TEST(one_is_not_free)
{
	const char key[] = { (char)('a' + _i), 0 };

	cast();
	hold_letters(a, key);
	batch_of(&m[0], "abcd");
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	none_held(&m[0]);
	loop_idle(loop);
	/* Key bytes and arrays of the call may go. */
	memset(m[0].names, 'z', sizeof(m[0].names));
	memset(m[0].keys, 0xa5, sizeof(m[0].keys));
	release_nth(a, 0);
	ck_code(batch_end(loop, &m[0]), 0);
	all_held(&m[0]);
	loop_idle(loop);
	ck_assert_int_gt(m[0].report.waited_ns, 0);
	ck_code(agent_try(a, "a", S), LOCKSHM_BUSY);
	ck_code(agent_try(a, "d", S), LOCKSHM_BUSY);
	ck_code(batch_release(&m[0]), 0);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
	verify_clean();
}
END_TEST

/* Forwards, backwards. */
START_TEST(released_one_by_one)
{
	int i, n = 6;

	cast();
	hold_letters(a, "abcdef");
	batch_of(&m[0], "fedcba");
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	for (i = 0; i < n; i++) {
		ck_assert_int_eq(lockshm_loop_next(loop, &(struct lockshm_outcome)LOCKSHM_OUTCOME_INIT), 0);
		release_nth(a, _i ? n - 1 - i : i);
	}
	ck_code(batch_end(loop, &m[0]), 0);
	all_held(&m[0]);
	loop_idle(loop);
	ck_code(batch_release(&m[0]), 0);
	verify_clean();
}
END_TEST

START_TEST(as_many_as_possible)
{
	char key[8];
	int i;

	cast();
	batch_init(&m[0]);
	for (i = 0; i < KEYS_MAX; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		batch_add(&m[0], key, i % 2 ? S : X);
		if (i < AGENT_HOLDS)
			ck_code(agent_do(a, command(key, i)), 0);
	}
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	for (i = 0; i < AGENT_HOLDS; i++)
		release_nth(a, i);
	ck_code(batch_end(loop, &m[0]), 0);
	all_held(&m[0]);
	ck_code(batch_release(&m[0]), 0);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
	verify_clean();
}
END_TEST

START_TEST(duplicates_count_once)
{
	struct seen seen;

	cast();
	hold_letters(a, "a");
	batch_init(&m[0]);
	batch_add(&m[0], "a", S);
	batch_add(&m[0], "b", 0);
	batch_add(&m[0], "a", X);
	batch_add(&m[0], "a", S);
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	release_nth(a, 0);
	ck_code(batch_end(loop, &m[0]), 0);
	look("a", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_int_eq(seen.mode, X);
	ck_code(lockshm_check(&m[0].holds[0], NULL), 0);
	ck_code(lockshm_check(&m[0].holds[1], NULL), 0);
	ck_code(lockshm_check(&m[0].holds[2], NULL), LOCKSHM_NOT_HELD);
	ck_code(lockshm_check(&m[0].holds[3], NULL), LOCKSHM_NOT_HELD);
	ck_code(batch_release(&m[0]), 0);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
}
END_TEST

/* The worst of all keys, and all of them held. */
START_TEST(a_killed_holder_of_one)
{
	cast();
	hold_letters(a, "b");
	batch_of(&m[0], "abc");
	m[0].common.flags = LOCKSHM_ROBUST;
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	agent_kill(a);
	ck_code(batch_end(loop, &m[0]), LOCKSHM_OWNER_DIED);
	all_held(&m[0]);
	ck_assert_int_eq(m[0].report.damage.pid, a->pid);
	ck_code(batch_release(&m[0]), 0);
}
END_TEST

/* ---------------------------------------------------------------- not held */

START_TEST(a_try)
{
	cast();
	hold_letters(a, "b");
	batch_of(&m[0], "abc");
	m[0].common.timeout_ns = 0;
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_BUSY);
	none_held(&m[0]);
	ck_assert_int_eq(m[0].report.blocker.pid, a->pid);
	ck_assert_uint_eq(stat_now().requests_used, 1);
	loop_idle(loop);
	verify_clean();
}
END_TEST

START_TEST(a_time_out)
{
	cast();
	hold_letters(a, "b");
	batch_of(&m[0], "abc");
	m[0].common.timeout_ns = LOCKSHM_MS(40);
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	ck_code(batch_end(loop, &m[0]), LOCKSHM_TIMEOUT);
	none_held(&m[0]);
	ck_assert_int_eq(m[0].report.blocker.pid, a->pid);
	ck_assert_int_ge(m[0].report.waited_ns, LOCKSHM_MS(40));
	ck_assert_uint_eq(stat_now().requests_used, 1);
	ck_assert_uint_eq(stat_now().keys_busy, 1);
	loop_idle(loop);
	verify_clean();
}
END_TEST

/* Each key is granted in time, the last one not: one time-out for all. */
START_TEST(one_time_out_for_all)
{
	int64_t begin;
	int i;

	cast();
	for (i = 0; i < 3; i++) {
		struct agent_command c = command((const char[]){ (char)('a' + i), 0 }, i);

		c.ns = i < 2 ? LOCKSHM_MS(60) : 0;
		ck_code(agent_do(a, c), 0);
	}
	batch_of(&m[0], "abc");
	m[0].common.timeout_ns = LOCKSHM_MS(200);
	begin = now_ns();
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	ck_code(batch_end(loop, &m[0]), LOCKSHM_TIMEOUT);
	ck_assert_int_ge(now_ns() - begin, LOCKSHM_MS(200));
	none_held(&m[0]);
	none_of_mine("a");
	none_of_mine("b");
	none_of_mine("c");
}
END_TEST

/* At the first key, in the middle, at the last one. */
START_TEST(cancelled_while_it_waits)
{
	const char key[] = { (char)('a' + _i), 0 };

	cast();
	hold_letters(a, key);
	batch_of(&m[0], "abc");
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	ck_code(lockshm_loop_cancel(loop, m[0].holds), 0);
	none_held(&m[0]);
	ck_assert_uint_eq(stat_now().requests_used, 1);
	ck_code(lockshm_loop_cancel(loop, m[0].holds), LOCKSHM_NOT_HELD);
	loop_idle(loop);
	/* At once again. */
	batch_of(&m[0], "abc");
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	release_nth(a, 0);
	ck_code(batch_end(loop, &m[0]), 0);
	ck_code(batch_release(&m[0]), 0);
	verify_clean();
}
END_TEST

START_TEST(cancelled_after_a_grant)
{
	int code;

	cast();
	hold_letters(a, "abc");
	batch_of(&m[0], "abc");
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	release_nth(a, 0);
	release_nth(a, 1);
	release_nth(a, 2);
	loop_await(loop);
	code = lockshm_loop_cancel(loop, m[0].holds);
	ck_assert_msg(code == 0 || code == 1, "%d", code);
	none_held(&m[0]);
	loop_idle(loop);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	hold_letters(b, "abc");
	verify_clean();
}
END_TEST

START_TEST(ended_by_a_canceller)
{
	lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;

	cast();
	hold_letters(a, "b");
	batch_of(&m[0], "abc");
	m[0].common.canceller = &canceller;
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	ck_code(lockshm_cancel(&canceller), 0);
	ck_code(batch_end(loop, &m[0]), LOCKSHM_CANCELLED);
	none_held(&m[0]);
	ck_assert_uint_eq(stat_now().requests_used, 1);
	loop_idle(loop);
}
END_TEST

START_TEST(ended_by_the_end_of_the_loop)
{
	cast();
	hold_letters(a, _i ? "b" : "abc");
	batch_of(&m[0], "abc");
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	if (_i) {
		release_nth(a, 0);
		loop_await(loop);
	}
	ck_code(lockshm_loop_close(loop), 0);
	none_held(&m[0]);
	ck_assert_uint_eq(stat_now().requests_used, _i ? 0 : 3);
	verify_clean();
}
END_TEST

START_TEST(wrong_calls)
{
	cast();
	batch_of(&m[0], "abc");
	ck_code(lockshm_loop_acquire_many(loop, NULL, m[0].keys, 3, m[0].holds, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire_many(loop, &m[0].common, NULL, 3, m[0].holds, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire_many(loop, &m[0].common, m[0].keys, 3, NULL, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire_many(loop, &m[0].common, m[0].keys, 0, m[0].holds, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire_many(loop, &m[0].common, m[0].keys, KEYS_MAX + 1, m[0].holds, NULL),
		LOCKSHM_INVALID);
	m[0].keys[1].mode = 7;
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_INVALID);
	m[0].keys[1].mode = 0;
	m[0].keys[2].len = 0;
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_INVALID);
	m[0].keys[2].len = LOCKSHM_KEY_MAX + 1;
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_KEY_TOO_LONG);
	batch_of(&m[0], "abc");
	m[0].common.flags = LOCKSHM_GLOBAL;
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_INVALID);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	loop_idle(loop);
}
END_TEST

/* Its first hold, or any other of the array. */
START_TEST(awaited_holds_are_not_used_twice)
{
	struct task t;

	cast();
	hold_letters(a, "b");
	batch_of(&m[0], "abc");
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_PENDING);
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_INVALID);
	task_init(&t, "free", X);
	ck_code(lockshm_loop_acquire(loop, &t.request, &m[0].holds[_i], NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire_many(loop, &m[0].common, m[0].keys, 1, &m[0].holds[_i], NULL), LOCKSHM_INVALID);
	ck_code(lockshm_release(&m[0].holds[_i], 0), LOCKSHM_NOT_HELD);
	release_nth(a, 0);
	ck_code(batch_end(loop, &m[0]), 0);
	all_held(&m[0]);
	ck_code(batch_acquire(loop, &m[0]), LOCKSHM_INVALID);
	all_held(&m[0]);
	ck_code(batch_release(&m[0]), 0);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- leases */

/* Which of two keys a request for both takes first: the other one is held by @a then, in hold 0. */
static const char *take_second(struct batch *batch)
{
	static const char *const names[] = { "a", "b" };
	struct seen seen;
	int i;

	for (i = 0; i < 2; i++) {
		hold_letters(a, names[i]);
		batch_of(batch, "ab");
		batch->common.ttl_ns = LOCKSHM_MS(100);
		ck_code(batch_acquire(loop, batch), LOCKSHM_PENDING);
		look(names[1 - i], &seen);
		if (seen.holders == 1)
			return names[1 - i];
		ck_code(lockshm_loop_cancel(loop, batch->holds), 0);
		release_nth(a, 0);
	}
	ck_abort_msg("both orders begin with the key that is held");
	return NULL;
}

/* The first key's lease ends while the second one is waited for, and b takes it: taken again, behind b. */
START_TEST(a_lease_that_ends_before_the_last_key)
{
	const char *first;
	uint64_t token;
	int code, i;

	cast();
	first = take_second(&m[0]);
	code = agent_acquire(b, first, X);
	if (code == AGENT_BLOCKED)
		code = agent_end(b);
	ck_code(code, 0); /* no mark: the program was not inside before all keys were granted */
	token = b->answer.token;
	release_nth(a, 0);
	loop_await(loop);
	ck_assert_int_eq(lockshm_loop_next(loop, &(struct lockshm_outcome)LOCKSHM_OUTCOME_INIT), 0);
	none_held(&m[0]);
	ck_code(agent_release(b), 0);
	code = batch_end(loop, &m[0]);
	/* Of a machine that stands still the leases keep ending. */
	if (code == LOCKSHM_TIMEOUT) {
		none_held(&m[0]);
		return;
	}
	ck_code(code, 0);
	for (i = 0; i < 2; i++)
		ck_assert(lockshm_token(&m[0].holds[i]) != 0);
	ck_assert_uint_gt(lockshm_token(&m[0].holds[first[0] - 'a']), token);
	(void)batch_release(&m[0]);
}
END_TEST

/* ---------------------------------------------------------------- two at once */

/* Two loops of one thread, keys in both orders, many rounds: each gets all, one after the other. */
START_TEST(crosswise_in_one_process)
{
	lockshm_loop_t *loops[2];
	int round, first;

	cast();
	loops[0] = loop;
	loops[1] = loop_new();
	for (round = 0; round < 200; round++) {
		hold_letters(a, "b");
		batch_of(&m[0], "abc");
		batch_of(&m[1], "cba");
		ck_code(batch_acquire(loops[0], &m[0]), LOCKSHM_PENDING);
		ck_code(batch_acquire(loops[1], &m[1]), LOCKSHM_PENDING);
		release_nth(a, 0);
		first = round % 2;
		while (lockshm_loop_next(loops[first], &(struct lockshm_outcome)LOCKSHM_OUTCOME_INIT) == 0)
			first = 1 - first;
		all_held(&m[first]);
		none_held(&m[1 - first]);
		ck_code(batch_release(&m[first]), 0);
		ck_code(batch_end(loops[1 - first], &m[1 - first]), 0);
		all_held(&m[1 - first]);
		ck_code(batch_release(&m[1 - first]), 0);
	}
	ck_code(lockshm_loop_close(loops[1]), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

#define ROUNDS 300

static int take_and_release(const char *letters)
{
	int round, code;

	loop = loop_new();
	for (round = 0; round < ROUNDS; round++) {
		batch_of(&m[0], letters);
		code = batch_acquire(loop, &m[0]);
		if (code == LOCKSHM_PENDING)
			code = batch_end(loop, &m[0]);
		ck_code(code, 0);
		board_add(0, 1);
		ck_assert_int_ge(batch_release(&m[0]), 0);
	}
	ck_code(lockshm_loop_close(loop), 0);
	return 0;
}

static int upwards(void)
{
	return take_and_release("abcd");
}

static int downwards(void)
{
	return take_and_release("dcba");
}

START_TEST(crosswise_in_four_processes)
{
	pid_t pids[4];
	int i;

	board_new();
	for (i = 0; i < 4; i++)
		pids[i] = process_start(i % 2 ? upwards : downwards);
	for (i = 0; i < 4; i++)
		ck_assert_int_eq(process_end(pids[i]), 0);
	ck_assert_uint_eq(board_get(0), 4 * ROUNDS);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, all_free);
	tcase_add_loop_test(tc, one_is_not_free, 0, 4);
	tcase_add_loop_test(tc, released_one_by_one, 0, 2);
	tcase_add_test(tc, as_many_as_possible);
	tcase_add_test(tc, duplicates_count_once);
	tcase_add_test(tc, a_killed_holder_of_one);
	tcase_add_test(tc, a_try);
	tcase_add_test(tc, a_time_out);
	tcase_add_test(tc, one_time_out_for_all);
	tcase_add_loop_test(tc, cancelled_while_it_waits, 0, 3);
	tcase_add_test(tc, cancelled_after_a_grant);
	tcase_add_test(tc, ended_by_a_canceller);
	tcase_add_loop_test(tc, ended_by_the_end_of_the_loop, 0, 2);
	tcase_add_test(tc, wrong_calls);
	tcase_add_loop_test(tc, awaited_holds_are_not_used_twice, 0, 3);
	tcase_add_test(tc, a_lease_that_ends_before_the_last_key);
	tcase_add_test(tc, crosswise_in_one_process);
	tcase_add_test(tc, crosswise_in_four_processes);
}

int main(void)
{
	return fixture_main("loop-many", add);
}
