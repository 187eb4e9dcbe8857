/* SPDX-License-Identifier: MIT */
/* scribble-loop.c - see scribble-loop.h */
#define _GNU_SOURCE
#include "scribble-loop.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 6, OF_BATCH = 3 };

struct task {
	lockshm_hold_t holds[OF_BATCH];
	struct lockshm_report report;
	bool waits;
};

static lockshm_loop_t *loop;
static struct task tasks[TASKS];

static struct lockshm_request request_of(struct task *t, char key[16])
{
	struct lockshm_request request;

	fill_request(&request, key);
	request.report = &t->report;
	/* A wait that ends in time. */
	request.timeout_ns = below(20000000);
	return request;
}

static int begin(struct task *t)
{
	char text[OF_BATCH][16];
	struct lockshm_request request = request_of(t, text[0]), other;
	struct lockshm_key keys[OF_BATCH];
	unsigned i;
	int code;

	memset(t->holds, 0, sizeof(t->holds));
	t->report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	if (below(3)) {
		code = lockshm_loop_acquire(loop, &request, t->holds, t);
	} else {
		for (i = 0; i < OF_BATCH; i++) {
			fill_request(&other, text[i]);
			keys[i] = (struct lockshm_key)LOCKSHM_MANY_KEY(text[i], 0);
		}
		request.key = NULL;
		request.key_len = 0;
		code = lockshm_loop_acquire_many(loop, &request, keys, OF_BATCH, t->holds, t);
	}
	t->waits = code == LOCKSHM_PENDING;
	return t->waits ? 0 : code;
}

static int collect(void)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct task *t;
	int n = lockshm_loop_next(loop, &outcome);

	if (n != 1)
		return n;
	t = outcome.user;
	if (t < tasks || t >= tasks + TASKS || !t->waits || outcome.hold != t->holds || outcome.report != &t->report)
		exit(SCRIBBLE_LOST);
	t->waits = false;
	return outcome.status;
}

/* The tables of waits are the process's own, so this is known in any case. */
static int cancel(struct task *t)
{
	int code = lockshm_loop_cancel(loop, t->holds);

	if (code != (t->waits ? 0 : LOCKSHM_NOT_HELD) && !(t->waits && code == 1))
		exit(SCRIBBLE_LOST);
	t->waits = false;
	return 0;
}

static int open_loop(lockshm_t *segment)
{
	int code = lockshm_loop_open(&loop, segment, -1, NULL);

	if (code)
		loop = NULL;
	return code;
}

int loop_call(lockshm_t *segment)
{
	struct task *t = &tasks[below(TASKS)];

	if (!loop)
		return open_loop(segment);
	switch (below(12)) {
	case 0:
		return cancel(t);
	case 1:
		if (below(20) == 0)
			loop_end();
		return 0;
	case 2:
	case 3:
	case 4:
	case 5:
		return collect();
	default:
		if (t->waits)
			return collect();
		return lockshm_token(t->holds) ? use(t->holds) : begin(t);
	}
}

static bool any_waits(void)
{
	unsigned i;

	for (i = 0; i < TASKS; i++)
		if (tasks[i].waits)
			return true;
	return false;
}

void loop_finish(void)
{
	while (loop && any_waits()) {
		struct pollfd p = { .fd = lockshm_loop_fd(loop), .events = POLLIN };

		(void)poll(&p, 1, 100);
		(void)collect();
	}
}

void loop_end(void)
{
	unsigned i;

	if (loop)
		lockshm_loop_close(loop);
	loop = NULL;
	for (i = 0; i < TASKS; i++)
		tasks[i].waits = false;
}
