/* SPDX-License-Identifier: MIT */
/*
 * test-loop-life.c - event loops and what lives and ends around them: the loop itself, handle, segment, processes,
 * threads
 *
 * Processes of a case share the board; what its places mean stands at the case.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

static void held_by(struct agent *agent, const char *key, int mode)
{
	ck_code(agent_acquire(agent, key, mode), 0);
}

/* Now or when its turn comes.  The test need not have the segment open. */
static int gets(struct agent *agent, const char *key)
{
	struct agent_command command = { .op = AGENT_ACQUIRE, .how = X };

	snprintf(command.key, sizeof(command.key), "%s", key);
	return agent_do(agent, command);
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
	ck_assert_uint_eq(stat_now().locks_damaged, 0);
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
		await_descriptors(before + 1);
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
	ck_code(lockshm_loop_open(seg, &other, -1, NULL), LOCKSHM_INVALID);
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
	ck_assert_int_ge(gets(c, "held"), 0);
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
	ck_assert_int_ge(gets(a, "k"), 0);
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
	ck_code(lockshm_renew(&t[3].hold, LOCKSHM_SECONDS(60), LOCKSHM_RENEW_RESET), 0);
	ck_code(task_release(&t[3]), 0);
	ck_code(agent_release(a), 0);
	ck_code(lockshm_loop_close(loop), 0);
	ck_code(lockshm_loop_open(seg, &loop, -1, NULL), LOCKSHM_NO_SEGMENT);
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

/* ---------------------------------------------------------------- killed, stopped, ended */

/* In k alone, or in a key each.  Board 0: ready. */
static bool apart;

static const char *key_of(int i)
{
	static char key[16];

	snprintf(key, sizeof(key), apart ? "k%d" : "k", i);
	return key;
}

static int wait_for_ever(void)
{
	int i;

	loop = loop_new();
	for (i = 0; i < MANY; i++)
		task_wait(loop, &many[i], key_of(i), i % 3 ? X : S);
	board_add(0, 1);
	for (;;)
		pause();
	return 0;
}

/* a, 100 waits of a process that is killed, b. */
START_TEST(killed_with_a_hundred_waits)
{
	pid_t child;

	board_new();
	cast();
	held_by(a, "k", X);
	child = process_start(wait_for_ever);
	board_await(0, 1);
	ck_queue("k", 1, MANY);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	if (_i == 0)
		process_kill(child);
	ck_code(agent_release(a), 0);
	/* Granted to the process, which does not look. */
	if (_i == 1)
		process_kill(child);
	ck_code(agent_end(b), 0); /* agents are robust: no mark */
	ck_assert_uint_eq(stat_now().locks_damaged, 0);
	ck_code(agent_release(b), 0);
	ck_code(lockshm_sweep(seg, NULL), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

/* 100 keys, of each: this process, then the killed one, then this one. */
START_TEST(killed_with_waits_for_a_hundred_keys)
{
	static struct task mine[MANY], next[MANY];
	pid_t child;
	int i;

	board_new();
	cast();
	apart = true;
	loop = loop_new();
	for (i = 0; i < MANY; i++)
		ck_code(task_begin(loop, &mine[i], key_of(i), X), 0);
	child = process_start(wait_for_ever);
	board_await(0, 1);
	for (i = 0; i < MANY; i++)
		task_wait(loop, &next[i], key_of(i), X);
	process_kill(child);
	for (i = 0; i < MANY; i++)
		ck_code(task_release(&mine[i]), 0);
	for (i = 0; i < MANY; i++)
		ck_code(loop_collect(loop)->status, 0);
	for (i = 0; i < MANY; i++)
		ck_assert_int_eq(next[i].outcomes, 1);
	ck_code(lockshm_sweep(seg, NULL), 0);
	verify_clean();
}
END_TEST

/* Board 0: 1 = waits, 2 = holds. */
static int wait_then_hold(void)
{
	loop = loop_new();
	task_init(&t[0], "k", X);
	t[0].request.flags = LOCKSHM_ROBUST;
	t[0].request.tag = "hundred";
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	board_add(0, 1);
	ck_code(task_end(loop, &t[0]), 0);
	board_add(0, 1);
	for (;;)
		pause();
	return 0;
}

/* The waits behind a killed process: a thread, or a task. */
START_TEST(killed_with_a_hold)
{
	pid_t child;

	board_new();
	cast();
	held_by(a, "k", X);
	child = process_start(wait_then_hold);
	board_await(0, 1);
	if (_i) {
		loop = loop_new();
		task_init(&t[0], "k", X);
		t[0].request.flags = LOCKSHM_ROBUST;
		ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	} else {
		ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	}
	ck_code(agent_release(a), 0);
	board_await(0, 2);
	process_kill(child);
	if (_i) {
		ck_code(task_end(loop, &t[0]), LOCKSHM_OWNER_DIED);
		ck_assert_int_eq(t[0].report.previous.pid, child);
		ck_assert_str_eq(t[0].report.previous.tag, "hundred");
		ck_code(task_release(&t[0]), 0);
	} else {
		ck_code(agent_end(b), LOCKSHM_OWNER_DIED);
		ck_assert_int_eq(b->answer.report.previous.pid, child);
		ck_code(agent_release(b), 0);
	}
	verify_clean();
}
END_TEST

#define VICTIMS 15

static int plain(struct agent *agent, const char *key, int hold)
{
	struct agent_command command = { .op = AGENT_ACQUIRE, .how = X, .flags = AGENT_PLAIN, .hold = hold };

	snprintf(command.key, sizeof(command.key), "%s", key);
	return agent_begin(agent, command);
}

static int compare(const void *left, const void *right)
{
	int64_t l = *(const int64_t *)left, r = *(const int64_t *)right;

	return (l > r) - (l < r);
}

/* From the death of a holder: the median of the delays of a task, and that of a thread that waits for another key.  The
 * task is not the first for its key: the one before it is cancelled. */
static void delays_after_deaths(int64_t *task, int64_t *thread)
{
	int64_t tasks[VICTIMS], threads[VICTIMS], killed;
	int i;

	for (i = 0; i < VICTIMS; i++) {
		struct agent *victim = agent_start();

		ck_code(plain(victim, "k", 0), 0);
		ck_code(plain(victim, "m", 1), 0);
		ck_code(plain(a, "m", 0), AGENT_BLOCKED);
		task_wait(loop, &t[0], "k", X);
		task_wait(loop, &t[1], "k", X);
		ck_code(lockshm_loop_cancel(loop, &t[0].hold), 0);
		pass(now_ns() + LOCKSHM_MS(2) + LOCKSHM_MS(7 * i));
		killed = now_ns();
		agent_kill(victim);
		ck_assert_int_ge(task_end(loop, &t[1]), 0);
		tasks[i] = now_ns() - killed;
		ck_assert_int_ge(agent_end(a), 0);
		threads[i] = a->answer.at_ns - killed;
		ck_code(task_release(&t[1]), 0);
		ck_code(agent_release(a), 0);
	}
	qsort(tasks, VICTIMS, sizeof(tasks[0]), compare);
	qsort(threads, VICTIMS, sizeof(threads[0]), compare);
	*task = tasks[VICTIMS / 2];
	*thread = threads[VICTIMS / 2];
}

/* The kernel reports it; nothing waits for the next self-check, which comes each 100 ms. */
START_TEST(a_death_is_noticed_at_once)
{
	int64_t task, thread;
	int tries = 0;

	cast();
	loop = loop_new();
	do {
		delays_after_deaths(&task, &thread);
		printf("after a death: task %.2f ms, thread %.2f ms\n", (double)task / 1e6, (double)thread / 1e6);
	} while (task > 3 * thread + LOCKSHM_MS(20) && ++tries < 4);
	ck_assert_int_lt(tries, 4);
}
END_TEST

#define PARTS 10 /* threads of each of 8 processes */

/* Each of 80 threads has a lock for which a task waits: more than the kernel can watch at a time.  One thread ends,
 * then the processes are killed. */
START_TEST(more_holders_than_can_be_watched)
{
	struct agent *threads[8 * PARTS];
	int i;

	apart = true;
	for (i = 0; i < 8 * PARTS; i++) {
		struct agent_command command = { .op = AGENT_ACQUIRE, .how = X, .hold = i % PARTS };

		threads[i] = i % PARTS ? agent_thread(threads[i - i % PARTS]) : agent_start();
		snprintf(command.key, sizeof(command.key), "%s", key_of(i));
		ck_code(agent_do(threads[i], command), 0);
	}
	loop = loop_new();
	for (i = 0; i < 8 * PARTS; i++)
		task_wait(loop, &many[i], key_of(i), X);
	ck_code(agent_call(threads[77], AGENT_EXIT_THREAD), AGENT_DIED);
	ck_assert_ptr_eq(loop_collect(loop), &many[77]);
	ck_code(agent_do(threads[78], (struct agent_command){ .op = AGENT_RELEASE, .hold = 78 % PARTS }), 0);
	ck_assert_ptr_eq(loop_collect(loop), &many[78]);
	loop_idle(loop);
	for (i = 0; i < 8 * PARTS; i += PARTS)
		agent_kill(threads[i]);
	for (i = 0; i < 8 * PARTS - 2; i++)
		ck_code(loop_collect(loop)->status, 0);
	loop_idle(loop);
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
}
END_TEST

/* Board 0: rounds that are over. */
static int without_futex_waitv(void)
{
	static struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 449 /* futex_waitv */, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { 4, program };
	int i;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 77;
	loop = loop_new();
	for (i = 0; i < 3; i++)
		task_wait(loop, &t[i], i < 2 ? "k" : "m", X);
	board_add(0, 1);
	for (i = 0; i < 3; i++) {
		struct task *one = loop_collect(loop);

		ck_assert_int_ge(one->status, 0);
		board_add(0, 1);
		ck_code(task_release(one), 0);
	}
	loop_idle(loop);
	ck_code(lockshm_loop_close(loop), 0);
	return 0;
}

/* A release is told by the doorbell all the same, and a death is looked for. */
START_TEST(where_only_one_word_can_be_watched)
{
	int status;
	pid_t child;

	board_new();
	cast();
	held_by(a, "k", X);
	held_by(b, "m", X);
	child = process_start(without_futex_waitv);
	board_await(0, 1);
	ck_code(agent_release(a), 0);
	board_await(0, 3);
	agent_kill(b);
	status = process_end(child);
	ck_assert_msg(status == 0 || status == 77, "status %d", status);
	verify_clean();
}
END_TEST

/* A child that is stopped while its wait is granted; it goes on afterwards. */
START_TEST(stopped_with_a_grant)
{
	pid_t child;

	board_new();
	cast();
	held_by(a, "k", X);
	child = process_start(wait_then_hold);
	board_await(0, 1);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	process_stop(child);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0); /* after the second that a grant lasts */
	process_cont(child);
	ck_code(agent_release(b), 0);
	board_await(0, 2);
	ck_code(agent_try(b, "k", X), LOCKSHM_BUSY);
	process_kill(child);
	ck_code(gets(b, "k"), LOCKSHM_OWNER_DIED);
	verify_clean();
}
END_TEST

/* Stopped in the middle of a queue, and all of its waits are for one key: each of them may last a second, not more. */
START_TEST(stopped_before_the_grant)
{
	pid_t child;

	board_new();
	cast();
	held_by(a, "k", S);
	child = process_start(wait_then_hold);
	board_await(0, 1);
	process_stop(child);
	loop = loop_new();
	task_wait(loop, &t[1], "k", S);
	task_wait(loop, &t[2], "k", X);
	ck_code(agent_release(a), 0);
	ck_code(task_end(loop, &t[1]), 0);
	ck_code(task_release(&t[1]), 0);
	ck_code(task_end(loop, &t[2]), 0);
	ck_code(task_release(&t[2]), 0);
	process_cont(child);
	board_await(0, 2);
	process_kill(child);
}
END_TEST

static int wait_then_end(void)
{
	loop = loop_new();
	ck_code(task_begin(loop, &t[1], "held", X), 0);
	task_wait(loop, &t[0], "k", X);
	board_add(0, 1);
	board_await(1, 1);
	if (board_get(2))
		execl("/bin/sleep", "sleep", "120", (char *)NULL);
	return 0;
}

/* Without a close; or it becomes another program. */
START_TEST(a_process_ends_with_its_waits)
{
	pid_t child;

	board_new();
	cast();
	held_by(a, "k", X);
	child = process_start(wait_then_end);
	board_await(0, 1);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	board_add(2, (uint32_t)_i);
	board_add(1, 1);
	ck_assert_int_ge(gets(c, "held"), 0);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	if (_i)
		process_kill(child);
	else
		ck_assert_int_eq(process_end(child), 0);
	ck_code(agent_release(b), 0);
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
		tcase_add_test(tc, killed_with_waits_for_a_hundred_keys);
	}
	tcase_add_loop_test(tc, killed_with_a_hundred_waits, 0, 2);
	tcase_add_loop_test(tc, killed_with_a_hold, 0, 2);
	tcase_add_native(tc, a_death_is_noticed_at_once);
	tcase_add_native(tc, more_holders_than_can_be_watched);
	tcase_add_native(tc, where_only_one_word_can_be_watched);
	tcase_add_test(tc, stopped_with_a_grant);
	tcase_add_test(tc, stopped_before_the_grant);
	tcase_add_loop_test(tc, a_process_ends_with_its_waits, 0, 2);
	tcase_add_test(tc, loops_of_several_threads);
	tcase_add_test(tc, a_loop_moves_between_threads);
}

int main(void)
{
	return fixture_main("loop-life", add);
}
