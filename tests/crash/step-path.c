/* SPDX-License-Identifier: MIT */
/*
 * step-path.c - runs to the n-th point without stepping through all before it
 *
 * Stepping to point n through all before it, for every n, would take time by the square of their number.  So the path
 * is remembered: the instruction at each point of the rounds before.  The victim runs at full speed into a break point
 * on one of the last instructions before the wanted point, as many times as the path came by there, and is stepped from
 * there.  If its path differs, it is recorded anew from there; if it misses the break point, the round is repeated
 * without one.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "support/fixture.h"
#include "step-trace.h"

struct path {
	uintptr_t *pc; /* by points passed; 0 = of no use */
	unsigned *counted; /* the same: how many of them count */
	unsigned n, cap;
	unsigned slept; /* points passed when it slept first; UINT_MAX = has not */
	unsigned slept_counted;
	uintptr_t last;
	bool on_foot; /* the last round missed its break point: the next one does not skip */
};

static struct path paths[2] = { { .slept = UINT_MAX }, { .slept = UINT_MAX } }, *path = &paths[0];

#define HIT_COST 10 /* of running into a break point, in steps */

void step_use_path(unsigned which)
{
	path = &paths[which];
}

bool step_missed(void)
{
	return path->on_foot;
}

void step_new_path(unsigned which)
{
	step_use_path(which);
	path->n = 0;
	path->slept = UINT_MAX;
}

void path_note(const struct stepper *t)
{
	uintptr_t pc = t->c.pc;
	unsigned at = t->at;

	/* The same again is one instruction that repeats itself. */
	if (pc == path->last || pc < t->text.from || pc >= t->text.to) {
		path->last = pc;
		return;
	}
	path->last = pc;
	if (at < path->n && path->pc[at] == pc) {
		path->counted[at] = t->c.points;
		return;
	}
	if (path->slept != UINT_MAX && path->slept >= at)
		path->slept = UINT_MAX;
	if (at >= path->cap) {
		path->cap = 2 * at + 4096;
		path->pc = realloc(path->pc, path->cap * sizeof(*path->pc));
		path->counted = realloc(path->counted, path->cap * sizeof(*path->counted));
		ck_assert(path->pc && path->counted);
	}
	for (; path->n < at; path->n++)
		path->pc[path->n] = 0;
	path->pc[at] = pc;
	path->counted[at] = t->c.points;
	path->n = at + 1;
}

void path_note_sleep(const struct stepper *t)
{
	if (t->at >= path->slept)
		return;
	path->slept = t->at;
	path->slept_counted = t->c.points;
}

/* The first point from which @counted are passed that count; the end, if that is not known. */
static unsigned first_behind(unsigned counted)
{
	unsigned at;

	for (at = 0; at < path->n && (!path->pc[at] || path->counted[at] < counted); at++)
		;
	return at;
}

unsigned path_alike(unsigned n)
{
	unsigned from = first_behind(n + 1), to = first_behind(n + 2);

	return to > from ? to - from : 1;
}

struct way {
	unsigned points;
	unsigned hits; /* 0 = step from the start */
};

/* The cheapest way to @target. */
static struct way choose_way(const struct stepper *t)
{
	static uint32_t *hits;
	struct way best = { 0, 0 };
	unsigned at, cost, end = first_behind(t->target + 1), best_cost = end, size = (unsigned)(t->text.to - t->text.from);

	if (!hits)
		hits = malloc(size * sizeof(*hits));
	ck_assert_ptr_nonnull(hits);
	memset(hits, 0, size * sizeof(*hits));
	for (at = 0; at < end && at < path->slept; at++) {
		if (!path->pc[at])
			continue;
		cost = ++hits[path->pc[at] - t->text.from] * HIT_COST + (end - at);
		if (cost <= best_cost) {
			best_cost = cost;
			best = (struct way){ at, hits[path->pc[at] - t->text.from] };
		}
	}
	return best;
}

/* Runs until it stops at @b or at the end of the call, which is true; false if it sleeps and depends on another
 * process. */
static bool run_to(struct stepper *t, const struct break_point *b, const struct break_point *end, bool may_sleep)
{
	int status;

	for (;;) {
		ck_assert_int_eq(ptrace(PTRACE_CONT, t->c.pid, NULL, (void *)(intptr_t)t->signal), 0);
		t->signal = 0;
		while (!next_stop(t->c.pid, may_sleep || (t->op->unblock && !t->unblocked), &status)) {
			if (may_sleep)
				return false;
			unblock_once(t); /* not where it was expected */
		}
		ck_assert_msg(WIFSTOPPED(status), "%s: the victim ended by itself: %#x", t->op->name, (unsigned)status);
		if (WSTOPSIG(status) != SIGTRAP)
			t->signal = WSTOPSIG(status);
		else if ((b && is_at_break(t->c.pid, b)) || is_at_break(t->c.pid, end))
			return true;
	}
}

static void missed(struct stepper *t)
{
	t->c.missed = path->on_foot = true;
	t->c.pc = (uintptr_t)step_end;
}

static void skip_to_break(struct stepper *t, struct way way)
{
	struct break_point here, end;
	uintptr_t pc = path->pc[way.points];
	int status;

	set_break(t->c.pid, &end, (uintptr_t)step_end);
	for (;;) {
		if (t->c.pc != pc) {
			set_break(t->c.pid, &here, pc);
			(void)run_to(t, &here, &end, false);
			clear_break(t->c.pid, &here);
			t->c.pc = pc_of(t->c.pid);
		}
		if (t->c.pc != pc || --way.hits == 0)
			break;
		ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, t->c.pid, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(t->c.pid, &status, 0), t->c.pid);
		ck_assert(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
		t->c.pc = pc_of(t->c.pid);
	}
	clear_break(t->c.pid, &end);
	if (t->c.pc != pc)
		missed(t);
	t->at = way.points;
	t->c.points = path->counted[way.points];
}

/* Runs at full speed until it sleeps, and on.  True = caught. */
static bool skip_to_sleep(struct stepper *t)
{
	struct break_point end, wake = { 0 };
	uintptr_t pc;
	int status;

	set_break(t->c.pid, &end, (uintptr_t)step_end);
	t->at = path->slept + 1;
	t->c.points = path->slept_counted + 1;
	if (!run_to(t, NULL, &end, true)) {
		if (path->slept_counted == t->target) {
			clear_break(t->c.pid, &end);
			t->c.asleep = true;
			return true;
		}
		pc = sleeps_at(t->c.pid);
		if (pc)
			set_break(t->c.pid, &wake, pc);
		unblock_once(t);
		ck_assert_int_eq(waitpid(t->c.pid, &status, 0), t->c.pid);
		ck_assert_msg(WIFSTOPPED(status), "%s: the victim ended by itself: %#x", t->op->name, (unsigned)status);
		if (WSTOPSIG(status) != SIGTRAP)
			t->signal = WSTOPSIG(status);
		else if (!is_at_break(t->c.pid, &wake))
			ck_assert(is_at_break(t->c.pid, &end));
	}
	clear_break(t->c.pid, &wake);
	clear_break(t->c.pid, &end);
	t->c.pc = pc_of(t->c.pid);
	if (t->c.pc == (uintptr_t)step_end)
		missed(t);
	return passes(t, true, true) && !t->c.missed;
}

bool path_skip(struct stepper *t)
{
	struct way way;
	bool on_foot = path->on_foot || t->target == UINT_MAX;

	path->on_foot = false;
	/* An untraced thread would die of a break point. */
	if (on_foot || !CAN_BREAK || t->op->threads)
		return false;
	if (path->slept != UINT_MAX && path->slept_counted <= t->target)
		return skip_to_sleep(t);
	way = choose_way(t);
	if (way.hits)
		skip_to_break(t, way);
	return false;
}
