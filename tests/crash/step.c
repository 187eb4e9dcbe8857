/* SPDX-License-Identifier: MIT */
/* step.c - see step.h */
#define _GNU_SOURCE
#include "step.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fixture.h"
#include "step-trace.h"

#define STEPS_MAX 4000000
#define STEPS_AWAKE 20000

lockshm_hold_t victim_holds[VICTIM_HOLDS];

/* ---------------------------------------------------------------- the victim */

static void __attribute__((noinline)) step_begin(void)
{
#if defined(__x86_64__)
	__asm__ volatile("int3");
#elif defined(__aarch64__)
	__asm__ volatile("brk #0");
#endif
}

void __attribute__((noinline)) step_end(void)
{
	__asm__ volatile("");
}

static void run_victim(const struct step_op *op, const struct scene *s)
{
	struct victim_result *r = s->result;
	int code;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(100);
	memset(r, 0, sizeof(*r));
	r->prepared = op->prepare ? op->prepare(s) : 0;
	step_begin();
	code = op->act(s);
	step_end();
	r->code = code;
	r->token = lockshm_token(victim_hold());
	r->check = lockshm_check(victim_hold(), NULL);
	r->finished = 1;
	victim_inside(s, 0, 0);
	_exit(0);
}

/* ---------------------------------------------------------------- the tracer */

static void start_victim(struct stepper *t)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		run_victim(t->op, t->scene);
	t->c.pid = t->c.tid = pid;
	t->c.may_go = &t->scene->result->may_go;
	for (;;) {
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_msg(WIFSTOPPED(status), "%s: ends while it prepares: %#x", t->op->name, (unsigned)status);
		if (WSTOPSIG(status) == SIGTRAP)
			break;
		ck_assert_int_eq(ptrace(PTRACE_CONT, pid, NULL, (void *)(intptr_t)WSTOPSIG(status)), 0);
	}
	ck_assert_msg(t->scene->result->prepared >= 0, "%s: preparation: %s", t->op->name,
		      outcome_name(t->scene->result->prepared));
	step_over_break_point(pid);
}

/* From here on the service thread is stepped, and the thread that has called the library waits for permission. */
static void follow_service(struct stepper *t)
{
	t->c.tid = other_thread_of(t->c.pid);
	seize_thread(t->c.tid);
	ck_assert_int_eq(ptrace(PTRACE_DETACH, t->c.pid, NULL, NULL), 0);
}

static void permit(const struct caught *c)
{
	__atomic_store_n(c->may_go, 1, __ATOMIC_RELEASE);
}

void unblock_once(struct stepper *t)
{
	if (t->op->unblock && !t->unblocked)
		t->op->unblock(t->scene, t->c.pid);
	t->unblocked = true;
}

/* The victim sleeps: that is a point; then the test unblocks it. */
static bool asleep(struct stepper *t, int *status)
{
	if (t->op->by_service) {
		t->over = t->c.asleep = true;
		return true;
	}
	path_note_sleep(t);
	if (passes(t, true, true)) {
		t->c.asleep = true;
		return true;
	}
	unblock_once(t);
	ck_assert_int_eq(waitpid(t->c.tid, status, __WALL), t->c.tid);
	return false;
}

/* A point that counts: true = caught. */
static bool counts(struct stepper *t)
{
	if (t->alike)
		return true;
	if (t->c.points++ != t->target)
		return false;
	t->alike = t->scene->deep ? path_alike(t->target) : 1;
	return t->alike == 1;
}

bool passes(struct stepper *t, bool point, bool behind)
{
	t->at += point;
	if (step_points == STEP_EVERY ? point : behind)
		return counts(t);
	return point && t->alike && --t->alike == 1;
}

/* One instruction.  True = caught. */
static bool one_step(struct stepper *t)
{
	uintptr_t before = t->c.pc;
	bool ours = before >= t->text.from && before < t->text.to;
	bool call = is_system_call(t->c.tid, before), behind;
	int status;

	if (call && passes(t, true, false))
		return true;
	touch_before(t, ours, call);
	ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, t->c.tid, NULL, (void *)(intptr_t)t->signal), 0);
	t->signal = 0;
	/* The service thread was stopped in its sleep, and begins anew behind the call. */
	if (!next_stop(t->c.tid, call || t->op->by_service, &status) && asleep(t, &status))
		return true;
	ck_assert_msg(WIFSTOPPED(status), "%s: the victim ended by itself: %#x", t->op->name, (unsigned)status);
	if (WSTOPSIG(status) != SIGTRAP)
		t->signal = WSTOPSIG(status);
	t->c.pc = pc_of(t->c.tid);
	if (ours && t->signal == 0 && is_private(t->c.pc)) {
		run_through_call(t->c.tid);
		t->c.pc = pc_of(t->c.tid);
	}
	behind = touch_after(t) || t->at == 0;
	return passes(t, ours || call || behind || segment_changed(), behind);
}

/* Some points behind the grant: true = caught. */
static bool caught_by_state(struct stepper *t)
{
	struct scene_request request;

	if (!t->scene->watched || t->entered)
		return false;
	request = scene_request_of(t->scene, t->c.pid);
	if (!t->granted && (request.granted || request.entered)) {
		t->granted = true;
		t->granted_at = t->at;
	}
	if (!t->granted)
		return false;
	if (request.entered) {
		t->entered = true;
		t->scene->enters_after = t->at - t->granted_at;
		return t->scene->catch_after == STEP_ENTERED;
	}
	return t->at - t->granted_at >= t->scene->catch_after;
}

static void finish(struct stepper *t)
{
	int status;

	if (t->c.asleep)
		interrupt_thread(t->c.tid);
	ck_assert_int_eq(ptrace(PTRACE_DETACH, t->c.tid, NULL, NULL), 0);
	permit(&t->c);
	ck_assert_int_eq(waitpid(t->c.pid, &status, 0), t->c.pid);
	ck_assert_msg(status == 0, "%s: victim: %#x", t->op->name, (unsigned)status);
	t->c.ran_through = true;
}

/* Both on one processor: handing it over is much faster than waking the other one, twice for each step. */
static void share_processor(pid_t victim, cpu_set_t *before)
{
	cpu_set_t one;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(*before), before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
	(void)sched_setaffinity(victim, sizeof(one), &one);
}

struct caught step_to(const struct step_op *op, struct scene *s, unsigned point)
{
	struct stepper t = { .op = op, .scene = s, .target = point, .text = text_of_library() };
	cpu_set_t processors;
	unsigned steps;
	bool caught;

	s->point = point;
	start_victim(&t);
	if (op->by_service)
		follow_service(&t);
	if (op->surround)
		op->surround(s);
	(void)segment_changed();
	share_processor(t.c.tid, &processors);
	t.c.pc = pc_of(t.c.tid);
	caught = path_skip(&t);
	if (!caught)
		touch_begin(&t);
	for (steps = 0; !caught && !t.over && t.c.pc != (uintptr_t)step_end; steps++) {
		ck_assert_msg(steps < STEPS_MAX, "%s: no end after %u steps", op->name, steps);
		if (steps == STEPS_AWAKE)
			unblock_once(&t); /* so slow that whenever it would sleep, its next self-check is due already */
		path_note(&t);
		caught = one_step(&t) || caught_by_state(&t);
	}
	(void)sched_setaffinity(0, sizeof(processors), &processors);
	(void)sched_setaffinity(t.c.tid, sizeof(processors), &processors);
	if (!caught || t.over)
		finish(&t);
	return t.c;
}

static void await_end(pid_t pid)
{
	int status = 0;

	do
		if (waitpid(pid, &status, __WALL) < 0 && errno != EINTR)
			return;
	while (!WIFSIGNALED(status));
}

void step_kill(struct caught *c)
{
	if (c->ran_through)
		return;
	kill(c->pid, SIGKILL);
	/* The process ends with the last of its threads, and a tracee is seen to end. */
	if (c->tid != c->pid)
		await_end(c->tid);
	await_end(c->pid);
}

static bool has_stopped(void *arg)
{
	return state_of(*(pid_t *)arg) == 'T';
}

static bool is_group_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

/* The main thread takes the signal, and that stops the tracee as well. */
static void stop_service(struct caught *c)
{
	int status = 0, stopped;

	kill(c->pid, SIGSTOP);
	while (c->asleep && !is_group_stop(status)) {
		ck_assert_int_eq(waitpid(c->tid, &status, __WALL), c->tid);
		ck_assert(WIFSTOPPED(status));
		stopped = WSTOPSIG(status);
		if (!is_group_stop(status))
			ck_assert_int_eq(ptrace(PTRACE_CONT, c->tid, NULL,
						(void *)(intptr_t)(stopped == SIGTRAP ? 0 : stopped)), 0);
	}
	take_pending_trap(c->tid);
	ck_assert(await(has_stopped, &c->pid));
	ck_assert_int_eq(ptrace(PTRACE_DETACH, c->tid, NULL, NULL), 0);
	ck_assert(await(has_stopped, &c->tid));
}

void step_stop(struct caught *c)
{
	int status, stopped;

	if (c->ran_through)
		return;
	if (c->tid != c->pid) {
		stop_service(c);
		return;
	}
	/* Before the next instruction.  A SIGTRAP of the stepping that is pending still, as behind the entry of a
	 * signal handler, comes first, and would kill it once it is let go. */
	kill(c->pid, SIGSTOP);
	for (stopped = 0; stopped != SIGSTOP; stopped = WSTOPSIG(status)) {
		if (!c->asleep || stopped != 0)
			ck_assert_int_eq(ptrace(PTRACE_CONT, c->pid, NULL,
						(void *)(intptr_t)(stopped == SIGTRAP ? 0 : stopped)), 0);
		ck_assert_int_eq(waitpid(c->pid, &status, 0), c->pid);
		ck_assert(WIFSTOPPED(status));
	}
	ck_assert_int_eq(ptrace(PTRACE_DETACH, c->pid, NULL, (void *)(intptr_t)SIGSTOP), 0);
	ck_assert(await(has_stopped, &c->pid));
}

void step_continue(struct caught *c)
{
	if (c->ran_through)
		return;
	permit(c);
	kill(c->pid, SIGCONT);
}

bool step_ended(struct caught *c)
{
	int status;
	pid_t got;

	if (c->ran_through)
		return true;
	got = waitpid(c->pid, &status, WNOHANG);
	ck_assert_int_ge(got, 0);
	if (got == 0)
		return false;
	ck_assert_msg(status == 0, "the victim did not survive its stop: %#x", (unsigned)status);
	c->ran_through = true;
	return true;
}

bool step_possible(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !(defined(__x86_64__) || defined(__aarch64__))
	return false;
#else
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return false;
	if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return false;
	}
	waitpid(pid, &status, 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return true;
#endif
}
