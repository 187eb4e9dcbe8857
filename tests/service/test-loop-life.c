/* SPDX-License-Identifier: MIT */
/*
 * test-loop-life.c - event loops and what lives and ends around them: the loop itself, handle, segment, forks,
 * threads
 *
 * Processes of a case share the board; what its places mean stands at the case.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED
#define MANY 100

static struct agent *a, *b, *c;
static lockshm_loop_t *loop;
static struct task t[4], many[MANY];

static void cast(void)
{
	a = agent_start();
	b = agent_start();
	c = agent_start();
}

static int open_descriptors(void)
{
	int fd, n = 0;

	for (fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static bool has_descriptors(void *n)
{
	return open_descriptors() == *(int *)n;
}

/* The service thread has a file of /proc open now and then. */
static void await_descriptors(int n)
{
	ck_assert_msg(await(has_descriptors, &n), "%d descriptors, not %d", open_descriptors(), n);
}

/* ---------------------------------------------------------------- the end of a loop */

/* k: a, t0, b.  m: granted to t1, not collected, then c.  Both t are gone at once. */
START_TEST(what_waits_and_what_was_granted_is_released)
{
	cast();
	loop = loop_new();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	held_by(c, "m", X);
	task_wait(loop, &t[1], "m", X);
	ck_code(agent_release(c), 0);
	loop_await(loop);
	ck_code(agent_acquire(c, "m", X), AGENT_BLOCKED);
	ck_code(lockshm_loop_close(loop), 0);
	ck_queue("m", 1, 0); /* granted to c by then, and not by the end of a lease */
	ck_code(agent_end(c), 0);
	ck_queue("k", 1, 1);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_code(task_release(&t[0]), LOCKSHM_NOT_HELD);
	ck_code(task_release(&t[1]), LOCKSHM_NOT_HELD);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	verify_clean();
}
END_TEST

/* Its memory is the program's again. */
START_TEST(nothing_is_touched_after_the_end)
{
	static unsigned char pattern[sizeof(t)];

	cast();
	loop = loop_new();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "k", X);
	ck_code(lockshm_loop_close(loop), 0);
	memset(pattern, 0xa5, sizeof(pattern));
	memset(t, 0xa5, sizeof(t));
	ck_code(agent_release(a), 0);
	ck_code(agent_try(b, "k", X), 0);
	ck_assert_int_eq(memcmp(t, pattern, sizeof(t)), 0);
}
END_TEST

START_TEST(one_of_two_loops_ends)
{
	lockshm_loop_t *other;

	cast();
	loop = loop_new();
	other = loop_new();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	task_wait(other, &t[1], "k", X);
	task_wait(loop, &t[2], "k", X);
	ck_code(lockshm_loop_close(loop), 0);
	ck_queue("k", 1, 1);
	ck_code(agent_release(a), 0);
	ck_outcome(other, &t[1], 0);
	ck_code(task_release(&t[1]), 0);
	ck_code(lockshm_loop_close(other), 0);
	verify_clean();
}
END_TEST

START_TEST(loops_come_and_go)
{
	int before, i, j;

	cast();
	ck_code(lockshm_loop_close(loop_new()), 0);
	before = open_descriptors(); /* nothing waits yet */
	held_by(a, "k", X);
	for (i = 0; i < 100; i++) {
		loop = loop_new();
		await_descriptors(before + 2);
		for (j = 0; j < 4; j++)
			task_wait(loop, &t[j], "k", j % 2 ? X : S);
		ck_code(lockshm_loop_cancel(loop, &t[i % 4].hold), 0);
		ck_code(lockshm_loop_close(loop), 0);
	}
	await_descriptors(before);
	ck_assert_uint_eq(stat_now().requests_used, 1);
	ck_assert_uint_le(stat_now().requests_reserved, stat_now().requests / 2);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- handle and segment */

START_TEST(the_handle_is_closed_first)
{
	lockshm_loop_t *other = (void *)&loop;

	cast();
	loop = loop_new();
	held_by(a, "k", X);
	held_by(b, "m", X);
	ck_code(task_begin(loop, &t[2], "held", X), 0);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "m", X);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_loop_open(&other, seg, -1, NULL), LOCKSHM_INVALID);
	ck_assert_ptr_null(other);
	seg = NULL;
	ck_code(agent_release(a), 0);
	ck_code(task_end(loop, &t[0]), 0);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(lockshm_check(&t[2].hold, NULL), 0);
	ck_code(agent_try(a, "k", S), LOCKSHM_BUSY);
	ck_code(agent_try(a, "held", S), LOCKSHM_BUSY);
	ck_code(task_release(&t[0]), 0);
	ck_code(agent_try(a, "k", X), 0);
	ck_code(lockshm_loop_cancel(loop, &t[1].hold), 0);
	ck_code(lockshm_loop_close(loop), 0);
	/* Nothing is left that keeps the hold. */
	ck_assert_int_ge(agent_take(c, "held"), 0);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
	ck_assert_uint_eq(stat_now().requests_used, 3);
	verify_clean();
}
END_TEST

/* The holds go on as long as another loop is there. */
START_TEST(the_last_loop_keeps_the_holds)
{
	lockshm_loop_t *other;

	cast();
	loop = loop_new();
	other = loop_new();
	ck_code(task_begin(loop, &t[0], "k", X), 0);
	ck_code(lockshm_close(seg), 0);
	seg = NULL;
	ck_code(lockshm_loop_close(loop), 0);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(agent_try(a, "k", S), LOCKSHM_BUSY);
	ck_code(lockshm_loop_close(other), 0);
	ck_assert_int_ge(agent_take(a, "k"), 0);
	ck_code(task_release(&t[0]), LOCKSHM_NOT_HELD);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
}
END_TEST

/* By its calls, or by other means. */
START_TEST(the_segment_is_removed)
{
	int i;

	cast();
	loop = loop_new();
	held_by(a, "k", X);
	held_by(b, "m", X);
	ck_code(task_begin(loop, &t[3], "held", X), 0);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "k", X);
	task_wait(loop, &t[2], "m", S);
	if (_i)
		ck_assert_int_eq(unlink(path_of(seg_name)), 0);
	else
		ck_code(lockshm_destroy(seg_name, NULL), 0);
	for (i = 0; i < 3; i++)
		ck_code(loop_collect(loop)->status, LOCKSHM_NO_SEGMENT);
	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(t[i].outcomes, 1);
		ck_code(t[i].report.error.code, LOCKSHM_NO_SEGMENT);
	}
	loop_idle(loop);
	ck_code(task_begin(loop, &t[0], "k", X), LOCKSHM_NO_SEGMENT);
	ck_code(task_begin(loop, &t[0], "free", X), LOCKSHM_NO_SEGMENT);
	ck_code(lockshm_renew(&t[3].hold, LOCKSHM_SECONDS(60)), 0);
	ck_code(task_release(&t[3]), 0);
	ck_code(agent_release(a), 0);
	ck_code(lockshm_loop_close(loop), 0);
	ck_code(lockshm_loop_open(&loop, seg, -1, NULL), LOCKSHM_NO_SEGMENT);
	ck_assert_ptr_null(loop);
}
END_TEST

/* ---------------------------------------------------------------- fork */

/* Everything in the child that the parent's loop offers: which call was not refused, 0 = none.  Without an assertion,
 * as libcheck has a lock that another thread of the parent may hold. */
static int use_the_parents(void)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("free", X) };
	struct task own;
	int i, codes[10];

	task_init(&own, "free", X);
	codes[0] = lockshm_loop_acquire(loop, &own.request, &own.hold, NULL);
	codes[1] = lockshm_loop_acquire_many(loop, &own.request, keys, 1, &own.hold, NULL);
	codes[2] = lockshm_loop_next(loop, &outcome);
	codes[3] = lockshm_loop_cancel(loop, &t[0].hold);
	codes[4] = lockshm_loop_cancel(loop, &t[1].hold);
	codes[5] = lockshm_loop_fd(loop);
	codes[6] = lockshm_loop_close(loop);
	codes[7] = lockshm_release(&t[0].hold, 0);
	codes[8] = lockshm_check(&t[2].hold, NULL);
	codes[9] = lockshm_release(&t[2].hold, 0);
	for (i = 0; i < 10; i++)
		if (codes[i] != LOCKSHM_NOT_HELD)
			return i + 1;
	return 0;
}

/* t0 waits, t1 is granted and not collected, t2 is held. */
static void before_the_fork(void)
{
	cast();
	loop = loop_new();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	held_by(b, "m", X);
	task_wait(loop, &t[1], "m", X);
	ck_code(agent_release(b), 0);
	loop_await(loop);
	ck_code(task_begin(loop, &t[2], "held", X), 0);
}

static void after_the_fork(void)
{
	ck_queue("k", 1, 1);
	ck_code(task_end(loop, &t[1]), 0);
	loop_idle(loop);
	ck_code(lockshm_check(&t[2].hold, NULL), 0);
	ck_code(agent_release(a), 0);
	ck_code(task_end(loop, &t[0]), 0);
	ck_code(task_release(&t[0]), 0);
	ck_code(task_release(&t[1]), 0);
	ck_code(task_release(&t[2]), 0);
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
}

START_TEST(a_child_has_nothing_of_it)
{
	before_the_fork();
	ck_assert_int_eq(process_end(process_start(use_the_parents)), 0);
	after_the_fork();
}
END_TEST

static int with_a_loop_of_its_own(void)
{
	lockshm_loop_t *own;

	ck_assert_int_eq(use_the_parents(), 0);
	own = loop_new();
	task_wait(own, &many[0], "k", X);
	task_wait(own, &many[1], "held", X);
	ck_code(task_begin(own, &many[2], "free", X), 0);
	board_add(0, 1);
	ck_code(task_end(own, &many[1]), 0);
	ck_code(task_release(&many[1]), 0);
	ck_code(lockshm_loop_cancel(own, &many[0].hold), 0);
	ck_code(task_release(&many[2]), 0);
	ck_code(lockshm_loop_close(own), 0);
	return 0;
}

START_TEST(a_child_opens_its_own)
{
	pid_t child;

	board_new();
	before_the_fork();
	child = process_start(with_a_loop_of_its_own);
	board_await(0, 1);
	ck_queue("held", 1, 1);
	ck_queue("k", 1, 2);
	ck_code(task_release(&t[2]), 0);
	ck_assert_int_eq(process_end(child), 0);
	ck_code(task_begin(loop, &t[2], "held", X), 0);
	after_the_fork();
}
END_TEST

static int only_exits(void)
{
	return 0;
}

static int closes_everything(void)
{
	ck_code(lockshm_loop_close(loop), LOCKSHM_NOT_HELD);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_loop_close(loop), LOCKSHM_NOT_HELD);
	return 0;
}

START_TEST(children_end)
{
	int i;

	before_the_fork();
	for (i = 0; i < 10; i++)
		ck_assert_int_eq(process_end(process_start(i % 2 ? only_exits : closes_everything)), 0);
	after_the_fork();
}
END_TEST

/* A loop of the parent's that ended there is none in the child either, and a new one may have its address. */
START_TEST(a_fork_between_two_loops)
{
	cast();
	held_by(a, "k", X);
	loop = loop_new();
	ck_code(lockshm_loop_close(loop), 0);
	ck_assert_int_eq(process_end(process_start(only_exits)), 0);
	loop = loop_new();
	task_wait(loop, &t[0], "k", X);
	ck_assert_int_eq(process_end(process_start(only_exits)), 0);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[0], 0);
}
END_TEST

static int forking;

static void *fork_all_the_time(void *unused)
{
	(void)unused;
	while (__atomic_load_n(&forking, __ATOMIC_RELAXED))
		ck_assert_int_eq(process_end(process_start(use_the_parents)), 0);
	return NULL;
}

/* Another thread forks while this one is inside calls on the loop. */
START_TEST(forks_at_any_moment)
{
	pthread_t thread;
	int round;

	cast();
	loop = loop_new();
	ck_code(task_begin(loop, &t[2], "held", X), 0);
	__atomic_store_n(&forking, 1, __ATOMIC_RELAXED);
	ck_assert_int_eq(pthread_create(&thread, NULL, fork_all_the_time, NULL), 0);
	for (round = 0; round < 150; round++) {
		held_by(a, "k", X);
		task_wait(loop, &t[3], "k", X);
		ck_code(agent_release(a), 0);
		ck_code(task_end(loop, &t[3]), 0);
		ck_code(task_release(&t[3]), 0);
	}
	__atomic_store_n(&forking, 0, __ATOMIC_RELAXED);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_code(lockshm_check(&t[2].hold, NULL), 0);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- threads */

#define THREADS 4
#define ROUNDS 250

static int guarded[3];

/* Two tasks in turn, each with one of three keys, which guard counters of all threads. */
static void *work(void *seed)
{
	lockshm_loop_t *own = loop_new();
	struct task mine[2];
	unsigned i, n = (unsigned)(intptr_t)seed;

	for (i = 0; i < ROUNDS; i++) {
		struct task *one = &mine[i % 2];
		int code, which = (int)((i * 7 + n * 5) % 3);

		code = task_begin(own, one, which == 0 ? "k" : which == 1 ? "m" : "n", X);
		if (code == LOCKSHM_PENDING)
			code = task_end(own, one);
		ck_code(code, 0);
		__atomic_store_n(&guarded[which], __atomic_load_n(&guarded[which], __ATOMIC_RELAXED) + 1,
				 __ATOMIC_RELAXED);
		ck_code(task_release(one), 0);
	}
	loop_idle(own);
	ck_code(lockshm_loop_close(own), 0);
	return NULL;
}

START_TEST(loops_of_several_threads)
{
	pthread_t threads[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i), 0);
	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(guarded[0] + guarded[1] + guarded[2], THREADS * ROUNDS);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

static void *collect_one(void *unused)
{
	(void)unused;
	return loop_collect(loop);
}

static void *begin_one(void *task)
{
	task_wait(loop, task, "k", X);
	return NULL;
}

static void *run(void *(*act)(void *), void *arg)
{
	pthread_t thread;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, act, arg), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return result;
}

/* One thread at a time, any thread: begun, collected and closed by threads that are gone. */
START_TEST(a_loop_moves_between_threads)
{
	cast();
	loop = loop_new();
	held_by(a, "k", X);
	run(begin_one, &t[0]);
	run(begin_one, &t[1]);
	task_wait(loop, &t[2], "k", X);
	ck_queue("k", 1, 3);
	ck_code(agent_release(a), 0);
	ck_assert_ptr_eq(run(collect_one, NULL), &t[0]);
	ck_code(task_release(&t[0]), 0);
	ck_outcome(loop, &t[1], 0);
	ck_code(task_release(&t[1]), 0);
	ck_assert_ptr_eq(run(collect_one, NULL), &t[2]);
	ck_code(task_release(&t[2]), 0);
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, what_waits_and_what_was_granted_is_released);
	tcase_add_test(tc, nothing_is_touched_after_the_end);
	tcase_add_test(tc, one_of_two_loops_ends);
	tcase_add_test(tc, loops_come_and_go);
	tcase_add_test(tc, the_handle_is_closed_first);
	tcase_add_test(tc, the_last_loop_keeps_the_holds);
	tcase_add_loop_test(tc, the_segment_is_removed, 0, 2);
	if (emulated()) {
		printf("left out under emulation: forks beside a loop\n");
	} else {
		tcase_add_test(tc, a_child_has_nothing_of_it);
		tcase_add_test(tc, a_child_opens_its_own);
		tcase_add_test(tc, children_end);
		tcase_add_test(tc, a_fork_between_two_loops);
		tcase_add_test(tc, forks_at_any_moment);
	}
	tcase_add_test(tc, loops_of_several_threads);
	tcase_add_test(tc, a_loop_moves_between_threads);
}

int main(void)
{
	return fixture_main("loop-life", add);
}
