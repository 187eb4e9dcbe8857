/* SPDX-License-Identifier: MIT */
/*
 * stop-loop.c - granted at every step of the call that begins to wait, before its wait is where the service thread looks
 *
 * The victim is stopped in lockshm_loop_acquire() of a held key, and the holder releases.  The service thread answers
 * that and sleeps again; it is stopped there, so that its self-check does not come.  Then the victim runs on: there must
 * be an outcome, by the call itself.
 *
 *   stop-loop           some of the points that are not alike
 *   stop-loop all       all of those
 *   stop-loop every     every point
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "step-arrange.h"
#include "step-trace.h"
#include "support/fixture.h"
#include "sys/futex.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define SAMPLE 60 /* of which the second half, with the first look at the queue, is tried */

static bool all;
static unsigned frozen;

static const struct step_op op = { .name = "loop-acquire-to-the-end", .arrange = key_is_held, .prepare = has_loop,
				   .act = loop_acquire_to_the_end, .unblock = holder_lets_go, .threads = true };

/* Has the service thread seen all that rang?  A slot that has lost its owner may have bits for ever. */
static bool is_answered(pid_t tid)
{
	uint32_t i;

	for (i = 0; i < seg->n_owners; i++) {
		const struct shm_doorbell *b = (const void *)(seg->lives + (size_t)i * LIFE_BYTES + DOORBELL_OFFSET);

		if (__atomic_load_n(&b->rung_words, __ATOMIC_ACQUIRE) != 0 &&
		    load_relaxed32(&seg->owners[i].tid) == (uint32_t)tid)
			return false;
	}
	return true;
}

static long system_call_of(pid_t tid)
{
	char path[48];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)tid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

struct service {
	pid_t tid;
	bool frozen;
};

/* In its sleep, where it holds no lock; or it waits for a lock, which the stopped victim has. */
static bool freeze(void *arg)
{
	struct service *service = arg;
	long number = system_call_of(service->tid);

	if (number == SYS_futex)
		return true;
	if (number != SYS_futex_waitv || !is_answered(service->tid))
		return false;
	seize_thread(service->tid);
	service->frozen = system_call_of(service->tid) == SYS_futex_waitv && is_answered(service->tid);
	if (!service->frozen)
		ck_assert_int_eq(ptrace(PTRACE_DETACH, service->tid, NULL, NULL), 0);
	return service->frozen;
}

/* A tracee that was not seized stops by a signal, which goes no further. */
static void stop_asleep(pid_t tid)
{
	int status, stopped;

	ck_assert_int_eq(syscall(SYS_tgkill, tid, tid, SIGSTOP), 0);
	/* The trap of the step that put it to sleep may come first. */
	for (stopped = 0; stopped != SIGSTOP; stopped = WSTOPSIG(status)) {
		if (stopped)
			ck_assert_int_eq(ptrace(PTRACE_CONT, tid, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(tid, &status, 0), tid);
		ck_assert(WIFSTOPPED(status));
	}
	take_pending_trap(tid);
}

static void run_on_without_service(struct caught *c)
{
	struct service service = { other_thread_of(c->pid), false };
	int status;

	ck_assert_msg(await(freeze, &service), "the service thread does not answer: it is in system call %ld",
		      system_call_of(service.tid));
	frozen += service.frozen;
	if (c->asleep)
		stop_asleep(c->pid);
	ck_assert_int_eq(ptrace(PTRACE_DETACH, c->pid, NULL, NULL), 0);
	if (service.frozen)
		ck_assert_int_eq(waitpid(service.tid, &status, __WALL), service.tid);
	ck_assert_int_eq(waitpid(c->pid, &status, 0), c->pid);
}

/* One round; returns its number of points. */
static unsigned grant_at(struct scene *s, unsigned point)
{
	struct caught c;

	scene_begin(s, &op);
	c = step_to(&op, s, point);
	if (!c.ran_through) {
		holder_lets_go(s, c.pid);
		run_on_without_service(&c);
	}
	ck_assert_msg(s->result->finished && s->result->code == 0, "point %u: %s", point,
		      outcome_name(s->result->code));
	scene_newcomer(s, c.pid);
	scene_check_leaks(s);
	return c.points;
}

START_TEST(grant_during_the_call_has_an_outcome)
{
	unsigned n, points, stride;
	struct scene s;

	if (!futex_has_waitv()) {
		puts("left out: no futex_waitv here");
		return;
	}
	scene_open(&s, &op, LOCKSHM_FOREVER, SCENE_ROBUST);
	step_new_path(0);
	points = grant_at(&s, UINT32_MAX);
	stride = all || points < SAMPLE ? 1 : points / SAMPLE;
	for (n = all ? 0 : points / 2; n < points; n += stride)
		(void)grant_at(&s, n);
	scene_end(&s);
	printf("%u points, %u times without the service thread\n", points, frozen);
	ck_assert_uint_gt(frozen, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_set_timeout(tc, all ? 7200 : 600);
	tcase_add_test(tc, grant_during_the_call_has_an_outcome);
}

int main(int argc, char **argv)
{
	bool every = argc > 1 && strcmp(argv[1], "every") == 0;

	all = every || (argc > 1 && strcmp(argv[1], "all") == 0);
	if (!step_possible()) {
		puts("cannot single-step here");
		return 77;
	}
	step_points = every || !step_knows_touches() ? STEP_EVERY : STEP_TOUCHES;
	return fixture_main("stop-loop", add);
}
