/* SPDX-License-Identifier: MIT */
/* test-threads.c - holds belong to threads and can be moved; many threads at once */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/asan.h"
#include "support/fixture.h"

static int move(struct agent *a, int to)
{
	return agent_do(a, (struct agent_command){ .op = AGENT_MOVE, .how = to });
}

START_TEST(other_threads_hold_is_not_held)
{
	static const enum agent_op ops[] = { AGENT_CHECK, AGENT_UPGRADE, AGENT_DOWNGRADE, AGENT_ACKNOWLEDGE, AGENT_RELEASE };
	struct agent *a = agent_start(), *b = agent_thread(a);

	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_call(b, ops[_i]), LOCKSHM_NOT_HELD);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_RENEW, .ns = LOCKSHM_SECONDS(1) }),
		LOCKSHM_NOT_HELD);
	ck_code(move(b, LOCKSHM_TO_PROCESS), LOCKSHM_NOT_HELD);
	ck_code(move(b, LOCKSHM_TO_CALLER), LOCKSHM_NOT_HELD);
	ck_code(agent_call(a, AGENT_CHECK), 0); /* and it did not empty the hold */
	ck_code(agent_release(a), 0);
}
END_TEST

START_TEST(threads_exclude_each_other)
{
	struct agent *a = agent_start(), *b = agent_thread(a);
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE, .hold = 1 };

	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_begin(b, c), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_int_eq(a->pid, b->pid);
	ck_assert_int_ne(a->tid, b->tid);
}
END_TEST

START_TEST(hold_of_the_process_is_for_all_its_threads)
{
	struct agent *a = agent_start(), *b = agent_thread(a), *other = agent_start();

	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(move(a, LOCKSHM_TO_PROCESS), 0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_code(agent_try(other, "k", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(agent_release(b), 0);
	ck_code(agent_try(other, "k", LOCKSHM_SHARED), 0);
	verify_clean();
}
END_TEST

START_TEST(hold_of_the_process_outlives_its_thread)
{
	struct agent *a = agent_start(), *b = agent_thread(a), *w = agent_start();

	ck_code(agent_acquire(b, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(move(b, LOCKSHM_TO_PROCESS), 0);
	ck_code(agent_call(b, AGENT_EXIT_THREAD), AGENT_DIED);
	agent_gone(b);
	ck_code(lockshm_sweep(seg, NULL), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(hold_of_the_process_dies_with_it)
{
	struct agent *a = agent_start(), *w = agent_start();

	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(move(a, LOCKSHM_TO_PROCESS), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	if (_i)
		agent_kill(a);
	else
		ck_code(agent_call(a, AGENT_EXEC), AGENT_DIED);
	ck_code(agent_end(w), LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(w->answer.report.damage.pid, a->pid);
}
END_TEST

START_TEST(moved_from_thread_to_thread)
{
	struct agent *a = agent_start(), *b = agent_thread(a), *w = agent_start();
	uint64_t token;

	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	ck_code(move(a, LOCKSHM_TO_PROCESS), 0);
	ck_code(move(b, LOCKSHM_TO_CALLER), 0);
	ck_assert_uint_ge(b->answer.token, token);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_NOT_HELD);
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_call(b, AGENT_EXIT_THREAD), AGENT_DIED);
	ck_code(agent_end(w), LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(w->answer.report.damage.tid, b->tid);
}
END_TEST

START_TEST(move_to_itself_and_twice_changes_nothing)
{
	struct agent *a = agent_start();

	ck_code(agent_acquire(a, "k", LOCKSHM_SHARED), 0);
	ck_code(move(a, LOCKSHM_TO_CALLER), 0);
	ck_code(move(a, LOCKSHM_TO_PROCESS), 0);
	ck_code(move(a, LOCKSHM_TO_PROCESS), 0);
	ck_code(move(a, LOCKSHM_TO_CALLER), 0);
	ck_code(move(a, 99), LOCKSHM_INVALID);
	ck_code(agent_release(a), 0);
	ck_code(move(a, LOCKSHM_TO_PROCESS), LOCKSHM_NOT_HELD);
	verify_clean();
}
END_TEST

START_TEST(moved_hold_keeps_its_lease_and_order)
{
	struct agent *a = agent_start(), *w1 = agent_start(), *w2 = agent_start();

	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						    .ns = LOCKSHM_SECONDS(60), .tag = "moving" }),
		0);
	ck_code(agent_acquire(w1, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_acquire(w2, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(move(a, LOCKSHM_TO_PROCESS), 0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_int_gt(a->answer.remaining_ns, LOCKSHM_SECONDS(50));
	ck_assert_int_le(a->answer.remaining_ns, LOCKSHM_SECONDS(60) + LOCKSHM_MS(20));
	ck_code(agent_release(a), 0);
	ck_code(agent_end(w1), 0);
	ck_assert(agent_waits(w2, "k"));
	ck_code(agent_release(w1), 0);
	ck_code(agent_end(w2), 0);
}
END_TEST

START_TEST(moved_overdue_and_lost_holds_are_reported)
{
	struct agent *a = agent_start(), *w = agent_start();
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE, .ns = LOCKSHM_MS(5) };

	ck_code(agent_do(a, c), 0);
	pass(a->answer.at_ns + LOCKSHM_MS(30));
	ck_code(move(a, LOCKSHM_TO_PROCESS), LOCKSHM_LATE);
	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(move(a, LOCKSHM_TO_CALLER), LOCKSHM_LOST);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_code(agent_call(w, AGENT_CHECK), 0);
}
END_TEST

#if !UNDER_ASAN
/* Its cancellation is asked for already, and comes at the first point where it can. */
static void *move_while_cancelled(void *arg)
{
	lockshm_hold_t hold;

	(void)arg;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	ck_code(take(&hold, "cancelled", LOCKSHM_EXCLUSIVE), 0);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	(void)lockshm_move(&hold, LOCKSHM_TO_PROCESS);
	pthread_testcancel();
	return NULL;
}

START_TEST(cancelled_thread_leaves_the_service_thread_to_others)
{
	lockshm_hold_t hold;
	pthread_t thread;
	void *end;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, move_while_cancelled, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, &end), 0);
	ck_assert_ptr_eq(end, PTHREAD_CANCELED);
	ck_code(lockshm_move(&hold, LOCKSHM_TO_PROCESS), 0); /* would wait for ever for a lock of the dead */
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

/* It probes the overdue reader before it, which reads files, while it has the renewals' lock. */
static void *release_while_cancelled(void *arg)
{
	struct lockshm_request request = request_for("k", LOCKSHM_SHARED);
	lockshm_hold_t hold;

	(void)arg;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	request.ttl_ns = LOCKSHM_SECONDS(60);
	request.flags = LOCKSHM_AUTO_RENEW;
	ck_assert_int_ge(lockshm_acquire(seg, &request, &hold), 0);
	pass(now_ns() + LOCKSHM_MS(30));
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	(void)lockshm_release(&hold, 0);
	pthread_testcancel();
	return NULL;
}

START_TEST(cancelled_thread_leaves_the_renewals_to_others)
{
	struct agent_command reads = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_SHARED, .ns = LOCKSHM_MS(20) };
	struct lockshm_request request = request_for("other", LOCKSHM_EXCLUSIVE);
	struct agent *a = agent_start();
	lockshm_hold_t hold;
	pthread_t thread;
	void *end;

	ck_code(agent_do(a, reads), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, release_while_cancelled, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, &end), 0);
	ck_assert_ptr_eq(end, PTHREAD_CANCELED);
	request.ttl_ns = LOCKSHM_SECONDS(60);
	request.flags = LOCKSHM_AUTO_RENEW;
	ck_code(lockshm_acquire(seg, &request, &hold), 0); /* would wait for ever for a lock of the dead */
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST
#endif

START_TEST(slot_of_an_exited_thread_is_given_back)
{
	struct agent *a, *b;
	int i;

	segment_with(64, 64, 3);
	a = agent_inherit();
	for (i = 0; i < 10; i++) {
		b = agent_thread(a);
		ck_code(agent_try(b, "k", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(b), 0);
		ck_code(agent_call(b, AGENT_EXIT_THREAD), AGENT_DIED);
		agent_gone(b);
	}
	ck_assert_uint_eq(stat_now().owners_used, 0);
	ck_assert_uint_eq(stat_now().requests_reserved, 0);
}
END_TEST

/* Threads of the test itself, so that a thread sanitizer sees both sides of every pair. */
#define THREADS 8
#define ROUNDS 1500

static long counters[4];

/* Returns its argument, which is not NULL, if something went wrong. */
static void *count_up(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct lockshm_request request = request_for("0", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;
	char key[2] = "0";
	int i;

	request.key = key;
	request.timeout_ns = PATIENCE;
	for (i = 0; i < ROUNDS; i++) {
		int which = (int)((seed * 7 + (unsigned)i * 13) % 4);

		key[0] = (char)('0' + which);
		if (lockshm_acquire(seg, &request, &hold) != 0)
			return arg;
		counters[which]++;
		if (lockshm_release(&hold, 0) != 0)
			return arg;
	}
	return NULL;
}

START_TEST(many_threads_lose_no_update)
{
	pthread_t threads[THREADS];
	void *failed;
	uintptr_t i;

	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, count_up, (void *)(i + 1)), 0);
	for (i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
		ck_assert_ptr_null(failed);
	}
	ck_assert_int_eq(counters[0] + counters[1] + counters[2] + counters[3], THREADS * ROUNDS);
	ck_assert_uint_eq(stat_now().acquires, THREADS * ROUNDS);
	ck_assert_uint_eq(stat_now().owners_used, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, other_threads_hold_is_not_held, 0, 5);
	tcase_add_test(tc, threads_exclude_each_other);
	tcase_add_test(tc, hold_of_the_process_is_for_all_its_threads);
	tcase_add_test(tc, hold_of_the_process_outlives_its_thread);
	tcase_add_loop_test(tc, hold_of_the_process_dies_with_it, 0, 2);
	tcase_add_test(tc, moved_from_thread_to_thread);
	tcase_add_test(tc, move_to_itself_and_twice_changes_nothing);
	tcase_add_test(tc, moved_hold_keeps_its_lease_and_order);
	tcase_add_test(tc, moved_overdue_and_lost_holds_are_reported);
	/* AddressSanitizer takes a cancelled thread's stack for used after its end. */
#if !UNDER_ASAN
	tcase_add_test(tc, cancelled_thread_leaves_the_service_thread_to_others);
	tcase_add_test(tc, cancelled_thread_leaves_the_renewals_to_others);
#endif
	tcase_add_test(tc, slot_of_an_exited_thread_is_given_back);
	tcase_add_test(tc, many_threads_lose_no_update);
}

int main(void)
{
	return fixture_main("threads", add);
}
