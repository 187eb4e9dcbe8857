/* SPDX-License-Identifier: MIT */
/* bench-side.h - a process with an event loop of lockshm, for the scenarios loop-* */
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H

#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lockshm.h"

#define KEY "loop"
#define WAIT_MS 120000

struct side {
	lockshm_t *segment;
	lockshm_loop_t *loop;
	int epoll;
};

static inline void must(int code, const char *what)
{
	if (code >= 0)
		return;
	errno = 0;
	fprintf(stderr, "lockshm-bench: lockshm: %s\n", lockshm_strerror(code));
	bench_fail(what);
}

static inline void watch(struct side *me, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(me->epoll, EPOLL_CTL_ADD, fd, &event))
		bench_fail("epoll_ctl");
}

static inline void attach(struct side *me)
{
	struct lockshm_error error;

	if (lockshm_open(&me->segment, lockshm_bench_segment(), 0, &error) ||
	    lockshm_loop_open(&me->loop, me->segment, -1, &error)) {
		fprintf(stderr, "lockshm-bench: lockshm: %s\n", error.message);
		bench_fail("a loop");
	}
	me->epoll = epoll_create1(EPOLL_CLOEXEC);
	watch(me, lockshm_loop_fd(me->loop));
}

static inline void detach(struct side *me)
{
	must(lockshm_loop_close(me->loop), "lockshm_loop_close");
	close(me->epoll);
	must(lockshm_close(me->segment), "lockshm_close");
}

static inline struct lockshm_request request_for(enum bench_mode mode)
{
	struct lockshm_request q = LOCKSHM_REQUEST(KEY);

	q.mode = mode == BENCH_SHARED ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;
	q.timeout_ns = LOCKSHM_MS(WAIT_MS);
	return q;
}

static inline void epoll_once(const struct side *me)
{
	struct epoll_event event;

	if (epoll_wait(me->epoll, &event, 1, WAIT_MS) != 1)
		bench_fail("epoll_wait: no event");
}

/* Sleeps in epoll until there is an outcome, which is held. */
static inline void collect(const struct side *me, struct lockshm_outcome *outcome)
{
	int n;

	while ((n = lockshm_loop_next(me->loop, outcome)) == 0)
		epoll_once(me);
	must(n, "lockshm_loop_next");
	must(outcome->status, "the outcome of a wait");
}

/* No other one, and the descriptor is not readable any more. */
static inline void collect_none(const struct side *me)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	if (lockshm_loop_next(me->loop, &outcome) != 0)
		bench_fail("an outcome too many");
}

static inline bool fits_loops(const struct point *p, const struct lock_adapter *lock)
{
	(void)p;
	return lock == &adapter_lockshm && bench_cpus > 1;
}

#endif
