/* SPDX-License-Identifier: MIT */
/*
 * test-first-use.c - what the first call of a process that needs the service thread waits for
 *
 * Not for the kernel, which registers a process with threads after a grace period; not for the service thread, where a
 * renewal or a notice needs it only later.  A filter holds those system calls for as long as the case likes, so that a
 * call that waited for one would never return.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/chunks.h"
#include "segment/segment.h"
#include "service/service.h"
#include "support/agent.h"
#include "support/fixture.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE
#define REGISTER MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
#define MEMBARRIER_GET_REGISTRATIONS (1 << 9) /* Linux 6.3 */
#define LEFT_OUT 77

static lockshm_hold_t hold;

/* ---------------------------------------------------------------- held system calls */

static int held = -1; /* the filter's listener */

/* From now on each call of @number, with @arg for its first argument unless that is 0, stays in the kernel.  False = such
 * filters do not exist here. */
static bool hold_calls(unsigned number, unsigned arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arg, 0, arg ? 1 : 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	held = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? -1 :
	       (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC |
				    SECCOMP_FILTER_FLAG_TSYNC_ESRCH, &program);
	if (held < 0)
		printf("left out: no filter that holds system calls: %s\n", strerror(errno));
	return held >= 0;
}

static bool is_held(void *unused)
{
	struct pollfd p = { .fd = held, .events = POLLIN };

	(void)unused;
	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

/* One of them goes on; the thread that made it. */
static pid_t let_go_on(void)
{
	struct seccomp_notif call = { 0 };
	struct seccomp_notif_resp reply = { 0 };

	ck_assert(await(is_held, NULL));
	ck_assert_int_eq(ioctl(held, SECCOMP_IOCTL_NOTIF_RECV, &call), 0);
	reply.id = call.id;
	reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	ck_assert_int_eq(ioctl(held, SECCOMP_IOCTL_NOTIF_SEND, &reply), 0);
	return (pid_t)call.pid;
}

static void *sit(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void second_thread(void)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, sit, NULL), 0);
}

static bool has_ended(void *pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)*(pid_t *)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Runs @act in a child; 0, or it was left out. */
static void ck_runs(int (*act)(void))
{
	pid_t pid = process_start(act);
	int status;

	ck_assert_msg(await(has_ended, &pid), "a call does not return");
	status = process_end(pid);
	ck_assert_msg(status == 0 || status == LEFT_OUT, "status %d", status);
}

/* ---------------------------------------------------------------- the calls */

static int renewed(void)
{
	struct lockshm_request q = LOCKSHM_REQUEST("k");

	q.flags = LOCKSHM_AUTO_RENEW;
	return lockshm_acquire(seg, &q, &hold);
}

static int renewed_several(void)
{
	const struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("k", X), LOCKSHM_MANY_KEY("l", X) };
	struct lockshm_request common = LOCKSHM_REQUEST_INIT;
	static lockshm_hold_t holds[2];

	common.flags = LOCKSHM_AUTO_RENEW;
	return lockshm_acquire_many(seg, &common, keys, 2, holds);
}

static int watched(void)
{
	int status = take(&hold, "k", X);

	return status ? status : lockshm_notify(&hold, eventfd(0, EFD_NONBLOCK));
}

static int moved(void)
{
	int status = take(&hold, "k", X);

	return status ? status : lockshm_move(&hold, LOCKSHM_TO_PROCESS);
}

static int looped(void)
{
	lockshm_loop_t *loop;

	return lockshm_loop_open(&loop, seg, -1, NULL);
}

static int (*const calls[])(void) = { renewed, renewed_several, watched, moved, looped };
#define WITHOUT_SLOT 3 /* of them */

/* ---------------------------------------------------------------- the registration */

static int (*first_call)(void);

static int calls_while_registration_is_held(void)
{
	second_thread();
	if (!hold_calls(SYS_membarrier, REGISTER))
		return LEFT_OUT;
	ck_code(first_call(), 0);
	return 0;
}

/* A process with threads. */
START_TEST(no_call_waits_for_the_registration)
{
	first_call = calls[_i];
	ck_runs(calls_while_registration_is_held);
}
END_TEST

static int is_registered_at_once(void)
{
	long registered;

	ck_code(first_call(), 0);
	registered = syscall(SYS_membarrier, MEMBARRIER_GET_REGISTRATIONS, 0, 0);
	if (registered >= 0)
		ck_assert_msg(registered & REGISTER, "not registered: 0x%lx", (unsigned long)registered);
	return 0;
}

START_TEST(process_with_one_thread_is_registered_at_once)
{
	first_call = calls[_i];
	ck_runs(is_registered_at_once);
}
END_TEST

/* ---------------------------------------------------------------- its slot */

static uint32_t slot_flags(void)
{
	return load_acquire32(&seg->owners[owner_ref_slot(load_relaxed(&seg->process_ref))].flags);
}

static bool flag_is_cleared(void *unused)
{
	(void)unused;
	return !(slot_flags() & OWNER_UNREGISTERED);
}

static int registers_by_another_thread(void)
{
	pid_t by;

	second_thread();
	if (!hold_calls(SYS_membarrier, REGISTER))
		return LEFT_OUT;
	ck_code(moved(), 0);
	ck_assert(slot_flags() & OWNER_UNREGISTERED);
	by = let_go_on();
	ck_assert_int_ne(by, getpid());
	ck_assert_int_ne(by, (pid_t)load_relaxed32(&seg->owners[owner_ref_slot(seg->process_ref)].tid));
	ck_assert(await(flag_is_cleared, NULL));
	return 0;
}

START_TEST(slot_shows_the_registration)
{
	ck_runs(registers_by_another_thread);
}
END_TEST

static int child_registers(void)
{
	ck_code(moved(), 0);
	ck_assert(!(slot_flags() & OWNER_UNREGISTERED));
	return 0;
}

static int forks_unregistered(void)
{
	second_thread();
	ck_code(moved(), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_runs(child_registers);
	return 0;
}

START_TEST(forked_child_registers_for_itself)
{
	ck_runs(forks_unregistered);
}
END_TEST

/* ---------------------------------------------------------------- a death meanwhile */

static void *count(void *unused)
{
	for (;;)
		board_add(1, 1);
	return unused;
}

static int holds_unregistered(void)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, count, NULL), 0);
	(void)hold_calls(SYS_membarrier, REGISTER); /* without it the registration may be done by then */
	ck_code(moved(), 0);
	board_await(1, 1);
	board_add(0, 1);
	for (;;)
		pause();
	return 0;
}

/* No thread of the dead process runs on when the next holder has the lock. */
START_TEST(unregistered_process_dies)
{
	struct agent *waiter = agent_start(), *looker = agent_start();
	uint32_t counted;
	pid_t pid;

	board_new();
	pid = process_start(holds_unregistered);
	board_await(0, 1);
	ck_code(agent_acquire(waiter, "k", X), AGENT_BLOCKED);
	process_kill(pid);
	ck_code(agent_end(waiter), LOCKSHM_OWNER_DIED);
	counted = board_get(1);
	ck_code(agent_release(waiter), 0);
	ck_code(agent_try(looker, "k", X), LOCKSHM_OWNER_DIED);
	ck_assert_uint_eq(board_get(1), counted);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- the service thread */

#ifdef __GLIBC__
/* The first system call of a new thread. */
static int calls_before_the_thread_runs(void)
{
	if (!hold_calls(SYS_set_robust_list, 0))
		return LEFT_OUT;
	ck_code(first_call(), 0);
	ck_assert(await(is_held, NULL));
	return 0;
}

START_TEST(a_renewal_does_not_wait_for_the_thread)
{
	first_call = calls[_i];
	ck_runs(calls_before_the_thread_runs);
}
END_TEST
#endif

static int joins_later(void)
{
	ck_code(renewed(), 0);
	ck_assert_uint_eq(stat_now().owners_used, 1); /* this thread's */
	ck_code(lockshm_move(&hold, LOCKSHM_TO_PROCESS), 0);
	ck_assert_uint_eq(stat_now().owners_used, 2);
	ck_code(lockshm_release(&hold, 0), 0);
	return 0;
}

START_TEST(the_thread_takes_its_slot_when_it_needs_it)
{
	ck_runs(joins_later);
}
END_TEST

/* As it joins it may end the claim of a dead thread, which takes a record. */
START_TEST(the_thread_has_records_before_the_first_loop)
{
	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_move(&hold, LOCKSHM_TO_PROCESS), 0);
	ck_assert_uint_ne(request_take(service_participant(seg)), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

static void add(TCase *tc)
{
	const int n = sizeof(calls) / sizeof(calls[0]);

	if (emulated())
		return;
	tcase_add_loop_test(tc, no_call_waits_for_the_registration, 0, n);
	tcase_add_loop_test(tc, process_with_one_thread_is_registered_at_once, 0, n);
	tcase_add_test(tc, slot_shows_the_registration);
	tcase_add_test(tc, forked_child_registers_for_itself);
	tcase_add_test(tc, unregistered_process_dies);
#ifdef __GLIBC__
	tcase_add_loop_test(tc, a_renewal_does_not_wait_for_the_thread, 0, WITHOUT_SLOT);
#endif
	tcase_add_test(tc, the_thread_takes_its_slot_when_it_needs_it);
	tcase_add_test(tc, the_thread_has_records_before_the_first_loop);
}

int main(void)
{
	return fixture_main("first-use", add);
}
