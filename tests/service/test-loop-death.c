/* SPDX-License-Identifier: MIT */
/*
 * test-loop-death.c - processes with event loops that are killed, stopped or end, and holders that are
 *
 * Processes of a case share the board; what its places mean stands at the case.
 */
#define _GNU_SOURCE
#include <errno.h>
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
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
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
		ck_assert_int_eq(t[0].report.damage.pid, child);
		ck_assert_str_eq(t[0].report.damage.tag, "hundred");
		ck_code(task_release(&t[0]), 0);
	} else {
		ck_code(agent_end(b), LOCKSHM_OWNER_DIED);
		ck_assert_int_eq(b->answer.report.damage.pid, child);
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
	ck_code(agent_take(b, "k"), LOCKSHM_OWNER_DIED);
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
	ck_assert_int_ge(agent_take(c, "held"), 0);
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

/* ---------------------------------------------------------------- deaths that the kernel does not report */

/* k is held by a thread that called exec, see tests/lock/test-unreported-death.c; the waits are of this process. */
static void leave_held(void)
{
	struct agent *h = agent_thread(agent_start());

	held_by(h, "k", X);
	ck_code(agent_call(h, AGENT_EXEC), AGENT_DIED);
	loop = loop_new();
	task_init(&t[0], "k", X);
}

/* So seldom that the service thread's next look comes when there is no wait. */
START_TEST(unreported_and_waits_are_short)
{
	int i, status = LOCKSHM_TIMEOUT;

	leave_held();
	t[0].request.timeout_ns = LOCKSHM_MS(2);
	for (i = 0; i < 5 && status == LOCKSHM_TIMEOUT; i++) {
		status = task_acquire(loop, &t[0]);
		if (status == LOCKSHM_PENDING)
			status = loop_collect(loop)->status;
		pass(now_ns() + LOCKSHM_MS(20));
	}
	ck_code(status, 0);
}
END_TEST

START_TEST(unreported_and_waits_are_cancelled)
{
	int i, status = LOCKSHM_PENDING;

	leave_held();
	for (i = 0; i < 3 && status == LOCKSHM_PENDING; i++) {
		status = task_acquire(loop, &t[0]);
		if (status == LOCKSHM_PENDING)
			ck_assert_int_ge(lockshm_loop_cancel(loop, &t[0].hold), 0);
	}
	ck_code(status, 0);
}
END_TEST

START_TEST(unreported_and_waits_have_a_canceller)
{
	static lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;
	int i, status = LOCKSHM_CANCELLED;

	leave_held();
	t[0].request.canceller = &canceller;
	for (i = 0; i < 3 && status == LOCKSHM_CANCELLED; i++) {
		status = task_acquire(loop, &t[0]);
		if (status != LOCKSHM_PENDING)
			break;
		ck_code(lockshm_cancel(&canceller), 0);
		status = loop_collect(loop)->status;
		canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	}
	ck_code(status, 0);
}
END_TEST

START_TEST(unreported_and_a_stopped_one_waits_before)
{
	cast();
	leave_held();
	ck_code(agent_begin(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .ns = LOCKSHM_MS(50), .how = X,
						       .flags = AGENT_PLAIN }),
		AGENT_BLOCKED);
	agent_stop(a);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_code(loop_collect(loop)->status, 0);
	agent_cont(a);
}
END_TEST

static void add(TCase *tc)
{
	if (emulated())
		printf("left out under emulation: a process killed with waits for many keys\n");
	else
		tcase_add_test(tc, killed_with_waits_for_a_hundred_keys);
	tcase_add_loop_test(tc, killed_with_a_hundred_waits, 0, 2);
	tcase_add_loop_test(tc, killed_with_a_hold, 0, 2);
	tcase_add_native(tc, a_death_is_noticed_at_once);
	tcase_add_native(tc, more_holders_than_can_be_watched);
	tcase_add_native(tc, where_only_one_word_can_be_watched);
	tcase_add_test(tc, stopped_with_a_grant);
	tcase_add_test(tc, stopped_before_the_grant);
	tcase_add_loop_test(tc, a_process_ends_with_its_waits, 0, 2);
	tcase_add_native(tc, unreported_and_waits_are_short);
	tcase_add_native(tc, unreported_and_waits_are_cancelled);
	tcase_add_native(tc, unreported_and_waits_have_a_canceller);
	tcase_add_native(tc, unreported_and_a_stopped_one_waits_before);
}

int main(void)
{
	return fixture_main("loop-death", add);
}
