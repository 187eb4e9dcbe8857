/* SPDX-License-Identifier: MIT */
/*
 * pid-namespace.c - processes with equal pids share a segment, and their deaths are not confused
 *
 * Subjects in pid namespaces of their own, as in containers that share /dev/shm: each is process 1, thread 1.  Holds
 * are strict, so only a death can hand a lock over.
 */
#define _GNU_SOURCE
#include "env.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct environment contained = { .pid_namespace = true, .mount_proc = true };
static const struct environment outside;

static int strict(struct subject *p, int hold, const char *key)
{
	return subject_acquire(p, hold, key, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, 0, 0);
}

/* A sweep reaps the dead, and not their living namesakes. */
static void sweep(uint32_t living)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	CHECK_CODE(lockshm_sweep(env_segment, NULL), 0);
	CHECK_CODE(lockshm_stat(env_segment, &stat), 0);
	CHECK(stat.owners_dead == 0);
	CHECK(stat.owners_used == living + 1);
}

/* A holder that dies in one namespace hands over to a namesake in another one; other holds stay. */
static void hand_over(const struct environment *a, const struct environment *b)
{
	struct subject *holder, *waiter, *namesake;

	env_create(NULL);
	holder = subject_start(a);
	waiter = subject_start(b);
	namesake = subject_start(a);
	CHECK_CODE(strict(holder, 0, "key"), 0);
	CHECK_CODE(strict(namesake, 0, "other"), 0);
	CHECK_CODE(strict(waiter, 1, "third"), 0);
	if (a->pid_namespace) {
		CHECK(holder->answer.pid == 1 && holder->answer.tid == 1);
		CHECK(namesake->answer.pid == 1);
	}
	subject_begin(waiter, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	subject_kill(holder);
	CHECK_CODE(subject_end(waiter), LOCKSHM_OWNER_DIED);
	CHECK(waiter->answer.report.damage.pid == holder->answer.pid);
	/* The others live, whatever their pids are. */
	CHECK_CODE(subject_check(namesake, 0), 0);
	CHECK_CODE(strict(waiter, 2, "other"), LOCKSHM_BUSY);
	sweep(2);
	CHECK_CODE(subject_check(namesake, 0), 0);
	CHECK_CODE(subject_check(waiter, 0), 0);
	CHECK_CODE(subject_check(waiter, 1), 0);
	env_verify();
	subject_kill(namesake);
	subject_kill(waiter);
	env_nothing_left(1);
}

/* A service thread and its process, all of them process 1. */
static int to_process(void)
{
	return lockshm_move(&my_holds[0], LOCKSHM_TO_PROCESS);
}

static void moved_holds(void)
{
	struct subject *a, *b, *c;

	env_create(NULL);
	a = subject_start(&contained);
	b = subject_start(&contained);
	c = subject_start(&contained);
	CHECK_CODE(strict(a, 0, "a"), 0);
	CHECK_CODE(strict(b, 0, "b"), 0);
	CHECK_CODE(subject_call(a, to_process), 0);
	CHECK_CODE(subject_call(b, to_process), 0);
	subject_kill(a);
	CHECK_CODE(subject_acquire(c, 0, "a", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_SECONDS(10), 0), LOCKSHM_OWNER_DIED);
	sweep(3);
	CHECK_CODE(strict(c, 1, "b"), LOCKSHM_BUSY);
	CHECK_CODE(subject_check(b, 0), 0);
	subject_kill(b);
	subject_kill(c);
	env_nothing_left(1);
}

/* A process that is out of sight must not count as dead. */
static int no_proc(void *arg)
{
	(void)arg;
	/* The one of this namespace, and the one below it. */
	while (umount2("/proc", MNT_DETACH) == 0)
		;
	return access("/proc/self", F_OK) == 0 ? -1 : 0;
}

/* The same for a subject without a robust list.  It becomes process 2, a number without a process in the other's
 * namespace. */
static int no_proc_no_life(void *arg)
{
	static const int calls[] = { SYS_get_robust_list };
	pid_t pid;

	if (no_proc(arg) != 0 || subject_forbid(calls, 1, EPERM) != 0)
		return -1;
	pid = fork();
	if (pid > 0) {
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	return pid;
}

static void without_proc_and_life(void)
{
	struct environment blind = contained;
	struct subject *a, *b;

	env_create(NULL);
	blind.prepare = no_proc_no_life;
	a = subject_start(&blind);
	blind.prepare = no_proc;
	b = subject_start(&blind);
	CHECK_CODE(strict(a, 0, "a"), 0);
	CHECK(a->answer.pid == 2);
	CHECK_CODE(strict(b, 1, "a"), LOCKSHM_BUSY);
	CHECK_CODE(subject_acquire(b, 1, "a", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_MS(50), 0), LOCKSHM_TIMEOUT);
	CHECK_CODE(subject_check(a, 0), 0);
	subject_kill(a);
	subject_kill(b);
}

static void without_proc(void)
{
	struct environment blind = contained;
	struct subject *a, *b;

	env_create(NULL);
	blind.prepare = no_proc;
	a = subject_start(&blind);
	b = subject_start(&blind);
	CHECK_CODE(strict(a, 0, "a"), 0);
	CHECK_CODE(strict(b, 0, "b"), 0);
	CHECK_CODE(strict(b, 1, "a"), LOCKSHM_BUSY);
	sweep(2);
	subject_kill(a);
	CHECK_CODE(strict(b, 1, "a"), LOCKSHM_OWNER_DIED);
	subject_kill(b);
	env_nothing_left(1);
}

/* The state of a thread that leaves, for an instant: its life word is unlocked and off the robust list, and
 * list_op_pending still makes the kernel check the word. */
static int unlock_life(void)
{
	struct robust_list_head *head;
	struct robust_list *life;
	size_t len;

	if (syscall(SYS_get_robust_list, 0, &head, &len) != 0)
		return -1;
	life = head->list.next;
	head->list_op_pending = life;
	head->list.next = life->next;
	__atomic_store_n((uint32_t *)((uintptr_t)life + (uintptr_t)head->futex_offset), 0, __ATOMIC_SEQ_CST);
	return 0;
}

/* If it is killed then, the kernel compares the word with its tid.  By then the word must not belong to another thread,
 * which may have the same tid in another namespace. */
static void killed_while_leaving(void)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct subject *a, *b;

	env_create(NULL);
	a = subject_start(&contained);
	CHECK_CODE(strict(a, 0, "a"), 0);
	CHECK_CODE(subject_call(a, unlock_life), 0);
	CHECK_CODE(lockshm_sweep(env_segment, NULL), 0);
	b = subject_start(&contained);
	CHECK_CODE(strict(b, 0, "b"), 0);
	CHECK(a->answer.tid == b->answer.tid);
	/* Others take it for dead. */
	CHECK_CODE(strict(b, 1, "a"), LOCKSHM_OWNER_DIED);
	subject_kill(a);
	request.key = "b";
	request.key_len = 1;
	request.timeout_ns = 0;
	CHECK_CODE(lockshm_acquire(env_segment, &request, &hold), LOCKSHM_BUSY);
	CHECK_CODE(subject_check(b, 0), 0);
	env_verify();
	subject_kill(b);
}

int main(void)
{
	env_need_root();
	env_need_robust_futexes();
	hand_over(&contained, &contained);
	hand_over(&contained, &outside);
	hand_over(&outside, &contained);
	moved_holds();
	killed_while_leaving();
	without_proc();
	without_proc_and_life();
	return 0;
}
