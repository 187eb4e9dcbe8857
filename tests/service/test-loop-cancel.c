/* SPDX-License-Identifier: MIT */
/*
 * test-loop-cancel.c - the end of a wait on an event loop before its time: lockshm_loop_cancel(), which is final, and
 * cancellers, which give an outcome
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/inside.h"
#include "support/loops.h"
#include "service/waits.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static struct agent *a, *b, *c;
static lockshm_loop_t *loop;
static struct task t[4];
static lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT, second = LOCKSHM_CANCELLER_INIT;

static void cast(void)
{
	a = agent_start();
	b = agent_start();
	c = agent_start();
	loop = loop_new();
}

static int cancellable(struct task *task, const char *key, lockshm_canceller_t *with)
{
	task_init(task, key, X);
	task->request.canceller = with;
	return task_acquire(loop, task);
}

/* ---------------------------------------------------------------- lockshm_loop_cancel() */

START_TEST(while_it_waits)
{
	cast();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), 0);
	ck_queue("k", 1, 0);
	loop_idle(loop);
	ck_code(task_release(&t[0]), LOCKSHM_NOT_HELD);
	ck_assert_uint_eq(stat_now().requests_used, 1);
	ck_code(agent_release(a), 0);
	/* The hold may be used again at once. */
	ck_code(task_begin(loop, &t[0], "k", X), 0);
	ck_code(task_release(&t[0]), 0);
	loop_idle(loop);
	verify_clean();
}
END_TEST

/* The release grants, and nothing was collected: the next waiter runs. */
START_TEST(granted_and_not_collected)
{
	int code;

	cast();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	if (_i)
		ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	ck_queue("k", 1, _i);
	code = lockshm_loop_cancel(loop, &t[0].hold);
	if (code != 1 && machine_stalled())
		return;
	ck_code(code, 1);
	if (_i)
		ck_code(agent_end(b), 0);
	else
		ck_code(agent_try(b, "k", X), 0);
	ck_code(task_release(&t[0]), LOCKSHM_NOT_HELD);
	loop_idle(loop);
	ck_assert_uint_eq(stat_now().expired, 0);
	ck_code(agent_release(b), 0);
	ck_queue("k", 0, 0);
	verify_clean();
}
END_TEST

START_TEST(a_time_out_that_is_not_collected)
{
	int code;

	cast();
	held_by(a, "k", X);
	task_init(&t[0], "k", X);
	t[0].request.timeout_ns = LOCKSHM_MS(30);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	loop_await(loop);
	code = lockshm_loop_cancel(loop, &t[0].hold);
	ck_assert_msg(code == 0, "%d", code);
	loop_idle(loop);
	ck_queue("k", 1, 0);
}
END_TEST

START_TEST(collected_already)
{
	cast();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[0], 0);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), LOCKSHM_NOT_HELD);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(task_release(&t[0]), 0);
	/* Held at once: there was no wait. */
	ck_code(task_begin(loop, &t[1], "k", X), 0);
	ck_code(lockshm_loop_cancel(loop, &t[1].hold), LOCKSHM_NOT_HELD);
	ck_code(lockshm_check(&t[1].hold, NULL), 0);
}
END_TEST

START_TEST(twice)
{
	cast();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "k", X);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), 0);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), LOCKSHM_NOT_HELD);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	ck_code(lockshm_loop_cancel(loop, &t[1].hold), 1);
	ck_code(lockshm_loop_cancel(loop, &t[1].hold), LOCKSHM_NOT_HELD);
	loop_idle(loop);
	verify_clean();
}
END_TEST

START_TEST(another_loops_wait)
{
	lockshm_loop_t *other;

	cast();
	other = loop_new();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	ck_code(lockshm_loop_cancel(other, &t[0].hold), LOCKSHM_NOT_HELD);
	ck_queue("k", 1, 1);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	ck_code(lockshm_loop_cancel(other, &t[0].hold), LOCKSHM_NOT_HELD);
	ck_outcome(loop, &t[0], 0);
	ck_code(lockshm_loop_close(other), 0);
}
END_TEST

/* After the call the memory is the caller's, whatever comes later. */
START_TEST(nothing_is_touched_afterwards)
{
	static unsigned char pattern[sizeof(struct task)];
	lockshm_canceller_t other;
	int code;

	cast();
	held_by(a, "k", X);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	task_wait(loop, &t[1], "k", X);
	if (_i) {
		ck_code(agent_release(a), 0);
		loop_await(loop);
	}
	code = lockshm_loop_cancel(loop, &t[0].hold);
	if (code != _i && machine_stalled())
		return;
	ck_code(code, _i);
	memset(pattern, 0xa5, sizeof(pattern));
	memset(&t[0], 0xa5, sizeof(t[0]));
	memset(&canceller, 0xa5, sizeof(canceller));
	if (!_i)
		ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[1], 0);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	ck_code(task_release(&t[1]), 0);
	ck_code(agent_end(b), 0);
	loop_idle(loop);
	memset(&other, 0xa5, sizeof(other));
	ck_assert_int_eq(memcmp(&t[0], pattern, sizeof(t[0])), 0);
	ck_assert_int_eq(memcmp(&canceller, &other, sizeof(other)), 0);
}
END_TEST

/* Reader a; writer t0; readers t1 and b. */
START_TEST(in_the_middle_lets_the_rest_through)
{
	cast();
	held_by(a, "k", S);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "k", S);
	ck_code(agent_acquire(b, "k", S), AGENT_BLOCKED);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), 0);
	ck_outcome(loop, &t[1], 0);
	ck_code(agent_end(b), 0);
	ck_queue("k", 3, 0);
	verify_clean();
}
END_TEST

#define MANY 600

/* From the head, from the tail, from everywhere. */
START_TEST(many_in_any_order)
{
	struct task *many = calloc(MANY, sizeof(*many));
	unsigned i, n = 0;

	cast();
	held_by(a, "k", X);
	for (i = 0; i < MANY; i++)
		task_wait(loop, &many[i], "k", i % 5 ? X : S);
	for (i = 0; i < MANY; i++) {
		unsigned which = _i == 0 ? i : _i == 1 ? MANY - 1 - i : i * 7 % MANY;

		if (which % 100 == 50)
			continue;
		ck_code(lockshm_loop_cancel(loop, &many[which].hold), 0);
		n++;
	}
	ck_assert_uint_eq(n, MANY - MANY / 100);
	ck_assert_uint_eq(stat_now().requests_used, 1 + MANY / 100);
	ck_code(agent_release(a), 0);
	for (i = 50; i < MANY; i += 100) {
		struct task *now = loop_collect(loop);

		ck_code(now->status, 0);
		ck_code(task_release(now), 0);
	}
	loop_idle(loop);
	for (i = 0; i < MANY; i++)
		ck_assert_int_eq(many[i].outcomes, i % 100 == 50);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
	free(many);
}
END_TEST

/* ---------------------------------------------------------------- cancellers */

START_TEST(a_canceller_gives_an_outcome)
{
	cast();
	held_by(a, "k", X);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	task_wait(loop, &t[1], "k", X);
	ck_code(lockshm_cancel(&canceller), 0);
	ck_outcome(loop, &t[0], LOCKSHM_CANCELLED);
	ck_code(t[0].report.error.code, LOCKSHM_CANCELLED);
	ck_assert_uint_eq(t[0].report.token, 0);
	ck_code(task_release(&t[0]), LOCKSHM_NOT_HELD);
	ck_queue("k", 1, 1);
	loop_idle(loop);
	ck_assert_uint_eq(stat_now().timeouts, 1);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), LOCKSHM_NOT_HELD);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[1], 0);
	verify_clean();
}
END_TEST

/* @code is that of a call on the busy key "k": at once or as an outcome. */
static int end_of(struct task *task, int code)
{
	return code == LOCKSHM_PENDING ? task_end(loop, task) : code;
}

START_TEST(cancelled_before_the_wait)
{
	cast();
	held_by(a, "k", X);
	ck_code(lockshm_cancel(&canceller), 0);
	ck_code(end_of(&t[0], cancellable(&t[0], "k", &canceller)), LOCKSHM_CANCELLED);
	ck_code(t[0].report.error.code, LOCKSHM_CANCELLED);
	ck_code(end_of(&t[0], cancellable(&t[0], "k", &canceller)), LOCKSHM_CANCELLED); /* stays so ... */
	ck_queue("k", 1, 0);
	canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING); /* ... until it is reset */
	ck_code(lockshm_cancel(&canceller), 0);
	ck_outcome(loop, &t[0], LOCKSHM_CANCELLED);
	loop_idle(loop);
}
END_TEST

START_TEST(a_grant_stays_granted)
{
	cast();
	held_by(a, "k", X);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	ck_code(lockshm_cancel(&canceller), 0);
	ck_outcome(loop, &t[0], 0);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

START_TEST(a_canceller_is_for_one_wait)
{
	cast();
	held_by(a, "k", X);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	ck_code(cancellable(&t[1], "k", &canceller), LOCKSHM_INVALID);
	ck_code(cancellable(&t[1], "k", &second), LOCKSHM_PENDING);
	ck_queue("k", 1, 2);
	ck_code(lockshm_cancel(&canceller), 0);
	ck_outcome(loop, &t[0], LOCKSHM_CANCELLED);
	ck_queue("k", 1, 1);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[1], 0);
}
END_TEST

/* After each end of its wait: granted, timed out, cancelled for good. */
START_TEST(a_canceller_is_free_again)
{
	cast();
	held_by(a, "k", X);
	task_init(&t[0], "k", X);
	t[0].request.canceller = &canceller;
	t[0].request.timeout_ns = LOCKSHM_MS(20);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], LOCKSHM_TIMEOUT);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), 0);
	ck_code(cancellable(&t[1], "k", &canceller), LOCKSHM_PENDING);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[1], 0);
	ck_code(cancellable(&t[2], "k", &canceller), LOCKSHM_PENDING);
	ck_code(task_release(&t[1]), 0);
	loop_await(loop);
	ck_code(lockshm_loop_cancel(loop, &t[2].hold), 1);
	held_by(a, "k", X);
	ck_code(cancellable(&t[3], "k", &canceller), LOCKSHM_PENDING);
	ck_code(lockshm_loop_close(loop), 0);
	loop = loop_new();
	ck_code(cancellable(&t[3], "k", &canceller), LOCKSHM_PENDING);
	ck_code(lockshm_cancel(&canceller), 0);
	ck_outcome(loop, &t[3], LOCKSHM_CANCELLED);
}
END_TEST

START_TEST(no_wait_is_ended_after_it)
{
	cast();
	held_by(a, "k", X);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	ck_code(lockshm_loop_cancel(loop, &t[0].hold), 0);
	task_wait(loop, &t[1], "k", X); /* perhaps with the same record */
	ck_code(lockshm_cancel(&canceller), 0);
	ck_queue("k", 1, 1);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[1], 0);
}
END_TEST

static void *cancel_it(void *with)
{
	ck_code(lockshm_cancel(with), 0);
	return NULL;
}

START_TEST(from_another_thread)
{
	pthread_t thread;

	cast();
	held_by(a, "k", X);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	ck_assert_int_eq(pthread_create(&thread, NULL, cancel_it, &canceller), 0);
	ck_outcome(loop, &t[0], LOCKSHM_CANCELLED);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* ---------------------------------------------------------------- signal handlers */

static volatile sig_atomic_t handled;

static void cancel_in_handler(int number)
{
	(void)number;
	lockshm_cancel(&canceller);
	handled = 1;
}

static void handle(int number)
{
	struct sigaction action = { .sa_handler = cancel_in_handler };

	ck_assert_int_eq(sigaction(number, &action, NULL), 0);
}

START_TEST(from_a_signal_handler)
{
	cast();
	handle(SIGUSR1);
	held_by(a, "k", X);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	raise(SIGUSR1);
	ck_outcome(loop, &t[0], LOCKSHM_CANCELLED);
}
END_TEST

/* The handler runs at any point of the calls on the loop, also where they hold a lock of the library. */
START_TEST(from_a_signal_handler_inside_a_call)
{
	struct itimerval off = { .it_value = { .tv_usec = 0 } };
	int round, code = 0, cancelled = 0;

	cast();
	handle(SIGALRM);
	held_by(a, "k", X);
	for (round = 0; round < 1500; round++) {
		struct itimerval timer = { .it_value = { .tv_usec = 1 + round * 37 % 60 } };
		struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

		canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
		handled = 0;
		ck_assert_int_eq(setitimer(ITIMER_REAL, &timer, NULL), 0);
		while (!handled) {
			code = cancellable(&t[0], "k", &canceller);
			if (code == LOCKSHM_CANCELLED || lockshm_loop_next(loop, &outcome) == 1)
				continue;
			ck_code(code, LOCKSHM_PENDING);
			ck_assert_int_ge(lockshm_loop_cancel(loop, &t[0].hold), 0);
		}
		cancelled += code == LOCKSHM_CANCELLED;
	}
	ck_assert_int_eq(setitimer(ITIMER_REAL, &off, NULL), 0);
	printf("%d of %d cancelled as they began\n", cancelled, round);
	loop_idle(loop);
	ck_queue("k", 1, 0);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- races */

/* Of each wait exactly one end, and the lock is free after it. */
static void is_over(int round)
{
	loop_idle(loop);
	ck_assert_msg(stat_now().requests_used == 0, "round %d leaves a request", round);
}

START_TEST(races_with_a_grant)
{
	int round, code, granted = 0;

	cast();
	for (round = 0; round < 400; round++) {
		held_by(a, "k", X);
		task_wait(loop, &t[0], "k", X);
		agent_send(a, (struct agent_command){ .op = AGENT_RELEASE });
		pass(now_ns() + round % 40 * 2000);
		code = lockshm_loop_cancel(loop, &t[0].hold);
		ck_assert_msg(code == 0 || code == 1, "%d", code);
		granted += code;
		ck_code(agent_end(a), 0);
		is_over(round);
	}
	printf("%d of %d had been granted\n", granted, round);
	verify_clean();
}
END_TEST

/* As above, with others before and behind it, and one that is not cancelled. */
START_TEST(races_with_a_grant_in_a_row)
{
	int round, code;

	cast();
	for (round = 0; round < 150; round++) {
		held_by(a, "k", X);
		task_wait(loop, &t[0], "k", X);
		task_wait(loop, &t[1], "k", S);
		task_wait(loop, &t[2], "k", S);
		agent_send(a, (struct agent_command){ .op = AGENT_RELEASE });
		code = lockshm_loop_cancel(loop, &t[0].hold);
		ck_assert_msg(code == 0 || code == 1, "%d", code);
		code = lockshm_loop_cancel(loop, &t[1].hold);
		ck_assert_msg(code == 0 || code == 1, "%d", code);
		ck_outcome(loop, &t[2], 0);
		ck_code(task_release(&t[2]), 0);
		ck_code(agent_end(a), 0);
		is_over(round);
	}
	verify_clean();
}
END_TEST

static void *cancel_soon(void *round)
{
	pass(now_ns() + *(int *)round % 40 * 2000);
	ck_code(lockshm_cancel(&canceller), 0);
	return NULL;
}

/* The grant, the canceller and the time-out: one outcome. */
START_TEST(a_canceller_races_with_a_grant_and_a_time_out)
{
	int round, code, ends[3] = { 0 };
	pthread_t thread;

	cast();
	for (round = 0; round < 300; round++) {
		canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
		held_by(a, "k", X);
		task_init(&t[0], "k", X);
		t[0].request.canceller = &canceller;
		if (round % 3 == 0)
			t[0].request.timeout_ns = 100000;
		code = task_acquire(loop, &t[0]);
		ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, &round), 0);
		agent_send(a, (struct agent_command){ .op = AGENT_RELEASE });
		code = end_of(&t[0], code);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		ck_code(agent_end(a), 0);
		ck_assert_msg(code == 0 || code == LOCKSHM_CANCELLED || code == LOCKSHM_TIMEOUT, "%s",
			      outcome_name(code));
		ends[code == 0 ? 0 : code == LOCKSHM_TIMEOUT ? 1 : 2]++;
		ck_code(task_release(&t[0]), code == 0 ? 0 : LOCKSHM_NOT_HELD);
		is_over(round);
	}
	printf("%d granted, %d timed out, %d cancelled\n", ends[0], ends[1], ends[2]);
	verify_clean();
}
END_TEST

static void *cancel_main(void *arg)
{
	ck_code(lockshm_cancel(arg), 0);
	return NULL;
}

static uint32_t cancelled_request;

static bool has_state(void *arg)
{
	return word_is(load_acquire(&seg->requests[cancelled_request].word), *(unsigned *)arg);
}

/* The canceller ends the request, a granter frees it, and only then the process looks at its word. */
START_TEST(cancelled_and_unlinked_before_a_look)
{
	unsigned abandoned = REQUEST_ABANDONED, unlinked = REQUEST_FREE;
	pthread_t thread;

	cast();
	held_by(a, "k", X);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	cancelled_request = nth_from_tail(entry_of("k"), 1);
	waits_lock(seg->waits);
	ck_assert_int_eq(pthread_create(&thread, NULL, cancel_main, &canceller), 0);
	ck_assert(await(has_state, &abandoned));
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert(await(has_state, &unlinked));
	waits_unlock(seg->waits);
	pthread_join(thread, NULL);
	ck_code(agent_release(b), 0);
	ck_outcome(loop, &t[0], LOCKSHM_CANCELLED);
	verify_clean();
}
END_TEST

/* The record of a cancelled wait is another request's before the outcome is collected: its hint leads elsewhere. */
START_TEST(cancelled_and_its_record_used_again)
{
	unsigned unlinked = REQUEST_FREE;

	cast();
	held_by(a, "k", X);
	ck_code(cancellable(&t[0], "k", &canceller), LOCKSHM_PENDING);
	cancelled_request = nth_from_tail(entry_of("k"), 0);
	ck_code(lockshm_cancel(&canceller), 0);
	ck_assert(await(has_state, &unlinked));
	task_init(&t[1], "other", X);
	t[1].request.ttl_ns = LOCKSHM_SECONDS(300);
	t[1].request.flags = LOCKSHM_ROBUST;
	ck_code(task_acquire(loop, &t[1]), 0);
	ck_assert_uint_eq(nth_from_tail(entry_of("other"), 0), cancelled_request);
	ck_code(agent_acquire(b, "other", X), AGENT_BLOCKED);
	agent_stop(b);
	ck_code(lockshm_renew(&t[1].hold, LOCKSHM_MS(20)), 0);
	usleep(60000);
	ck_outcome(loop, &t[0], LOCKSHM_CANCELLED);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	agent_cont(b);
	ck_code(agent_end(b), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(task_release(&t[1]), LOCKSHM_LOST);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, while_it_waits);
	tcase_add_loop_test(tc, granted_and_not_collected, 0, 2);
	tcase_add_test(tc, a_time_out_that_is_not_collected);
	tcase_add_test(tc, collected_already);
	tcase_add_test(tc, twice);
	tcase_add_test(tc, another_loops_wait);
	tcase_add_loop_test(tc, nothing_is_touched_afterwards, 0, 2);
	tcase_add_test(tc, in_the_middle_lets_the_rest_through);
	tcase_add_loop_test(tc, many_in_any_order, 0, 3);
	tcase_add_test(tc, a_canceller_gives_an_outcome);
	tcase_add_test(tc, cancelled_before_the_wait);
	tcase_add_test(tc, a_grant_stays_granted);
	tcase_add_test(tc, a_canceller_is_for_one_wait);
	tcase_add_test(tc, a_canceller_is_free_again);
	tcase_add_test(tc, no_wait_is_ended_after_it);
	tcase_add_test(tc, from_another_thread);
	tcase_add_test(tc, from_a_signal_handler);
	tcase_add_test(tc, from_a_signal_handler_inside_a_call);
	tcase_add_test(tc, races_with_a_grant);
	tcase_add_test(tc, races_with_a_grant_in_a_row);
	tcase_add_test(tc, a_canceller_races_with_a_grant_and_a_time_out);
	tcase_add_test(tc, cancelled_and_unlinked_before_a_look);
	tcase_add_test(tc, cancelled_and_its_record_used_again);
}

int main(void)
{
	return fixture_main("loop-cancel", add);
}
