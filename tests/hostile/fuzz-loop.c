/* SPDX-License-Identifier: MIT */
/*
 * fuzz-loop.c - the calls of a program on its event loop, see fuzz.h
 *
 * Whatever the segment says, the tables of waits are the process's own: each wait has one outcome, in the end, and
 * until then it can be cancelled.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

static void expect(bool condition)
{
	if (!condition)
		abort();
}

static void end_loop(struct fuzz_loop *l)
{
	unsigned i;

	if (l->loop)
		expect(lockshm_loop_close(l->loop) == 0);
	l->loop = NULL;
	for (i = 0; i < LOOP_WAITS; i++)
		l->waits[i].pending = false;
}

static bool has_loop(struct fuzz_loop *l, lockshm_t *segment)
{
	if (!l->loop && lockshm_loop_open(&l->loop, segment, -1, NULL) != 0)
		l->loop = NULL;
	return l->loop != NULL;
}

static void begin(struct fuzz_loop *l, struct fuzz_wait *w, const struct lockshm_request *request, size_t n_keys,
		  const struct lockshm_key *keys)
{
	struct lockshm_request own = *request;
	int code;

	if (w->pending || lockshm_token(w->holds))
		return;
	memset(w->holds, 0, sizeof(w->holds));
	w->report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	own.report = &w->report;
	if (n_keys)
		code = lockshm_loop_acquire_many(l->loop, &own, keys, n_keys, w->holds, w);
	else
		code = lockshm_loop_acquire(l->loop, &own, w->holds, w);
	w->pending = code == LOCKSHM_PENDING;
}

static void collect(struct fuzz_loop *l)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct fuzz_wait *w;
	int n = lockshm_loop_next(l->loop, &outcome);

	expect(n == 0 || n == 1);
	if (n == 0)
		return;
	w = outcome.user;
	expect(w >= l->waits && w < l->waits + LOOP_WAITS && w->pending);
	expect(outcome.hold == w->holds && outcome.report == &w->report && outcome.status != LOCKSHM_PENDING);
	w->pending = false;
}

static void cancel(struct fuzz_loop *l, struct fuzz_wait *w)
{
	int code = lockshm_loop_cancel(l->loop, w->holds);

	expect(w->pending ? code == 0 || code == 1 : code == LOCKSHM_NOT_HELD);
	w->pending = false;
}

void fuzz_loop_call(struct fuzz_loop *l, lockshm_t *segment, const struct fuzz_command *c,
		    const struct lockshm_request *request, size_t n_keys, const struct lockshm_key *keys)
{
	struct fuzz_wait *w = &l->waits[c->arg % LOOP_WAITS];

	if (!has_loop(l, segment))
		return;
	switch (c->op) {
	case OP_LOOP_ACQUIRE:
		begin(l, w, request, 0, NULL);
		break;
	case OP_LOOP_MANY:
		begin(l, w, request, n_keys, keys);
		break;
	case OP_LOOP_NEXT:
		collect(l);
		break;
	case OP_LOOP_CANCEL:
		cancel(l, w);
		break;
	case OP_LOOP_RELEASE:
		lockshm_release_many(w->holds, LOOP_HOLDS);
		break;
	default:
		end_loop(l);
	}
}

static bool any_waits(const struct fuzz_loop *l)
{
	unsigned i;

	for (i = 0; i < LOOP_WAITS; i++)
		if (l->waits[i].pending)
			return true;
	return false;
}

/* The time-outs are short.  A wait that never ends is found as a program that takes too long. */
void fuzz_loop_finish(struct fuzz_loop *l)
{
	while (l->loop && any_waits(l)) {
		struct pollfd p = { .fd = lockshm_loop_fd(l->loop), .events = POLLIN };

		(void)poll(&p, 1, 10);
		collect(l);
	}
	end_loop(l);
}
