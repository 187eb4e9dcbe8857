/* SPDX-License-Identifier: MIT */
/*
 * loop-lease.c - the second phase of a wait for a global key: granted on this host, it waits for the host lease
 *
 * The loop's thread shows the demand, enters the hold and gives up: it fills the loop's records, so none of them is
 * another request's meanwhile.  The service thread only looks (waits_look_for_lease()).  See waits.h for their crash
 * points, and global/acquire.c for those of the record.
 */
#include "service/loop.h"

#include <stdlib.h>

#include "lock/deadline.h"
#include "sys/error.h"

static bool renew_local(struct lease_wait *g)
{
	struct wait *w = caa_container_of(g, struct wait_lease, g)->of;

	return wait_take_local(w);
}

struct wait_lease *wait_make_lease(struct wait *w)
{
	struct wait_lease *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->of = w;
	l->g = (struct lease_wait){ .s = w->loop->s, .q = &w->request, .key = l->key, .error = &l->error,
				    .renew_local = renew_local };
	return l;
}

void wait_make_local(struct lockshm_request *q)
{
	q->flags = (q->flags & ~(LOCKSHM_GLOBAL | LOCKSHM_BARGE)) | ACQUIRE_OUTSIDE;
	q->ttl_ns = PATIENCE_NS;
}

bool wait_take_local(struct wait *w)
{
	struct lockshm *s = w->loop->s;

	return deadline_renew(s, w->index, &w->grant.gen, segment_now(s) + PATIENCE_NS);
}

/* A try waits for replies of Redis: the time for all of them, and for further keys, begins with the first wait. */
static void set_deadline(struct wait *w)
{
	const struct lockshm *s = w->loop->s;
	struct lease_wait *g = &w->lease->g;

	if (g->deadline == 0 && lease_is_try(&w->request)) {
		g->deadline = lease_wait_deadline(&w->request);
		w->deadline = g->deadline + s->clock_offset;
	} else {
		g->deadline = w->deadline == INT64_MAX ? INT64_MAX : w->deadline - s->clock_offset;
	}
}

/* Into the tables; it may be decided at once. */
static int wait_on(struct wait *w)
{
	struct waits *all = w->loop->all;
	bool write;

	wait_set_awaited(w);
	waits_lock(all);
	w->lease->g.round = &all->round;
	waits_add_for_lease(all, w);
	waits_look_for_lease(all, w);
	write = !cds_list_empty(&all->to_write);
	waits_unlock(all);
	if (write)
		waits_write(all, false);
	return LOCKSHM_PENDING;
}

/* @result: of a try or look.  0 = held, WAIT_AGAIN, or a code; if not held, the local request is released. */
static int end(struct wait *w, int result, struct lockshm_report *report)
{
	struct wait_lease *l = w->lease;

	if (result == LOCKSHM_LOCAL_ONLY)
		lease_wait_go_local(&l->g);
	l->local_only = result == LOCKSHM_LOCAL_ONLY;
	if ((result == LEASE_ENTERED || l->local_only) && wait_take_grant(w)) {
		if (w->request.canceller)
			canceller_end(w->request.canceller);
		l->second = false;
		return 0;
	}
	(void)wait_give_up(w);
	l->second = false;
	if (result >= 0)
		return WAIT_AGAIN;
	if (report)
		report->error = l->error;
	return result;
}

int wait_begin_lease(struct wait *w, struct lockshm_report *report)
{
	struct wait_lease *l = w->lease;
	int result;

	l->g.index = w->index;
	l->g.id = w->key.id;
	l->g.owner = w->loop->self->ref;
	l->g.round = NULL;
	l->second = true;
	set_deadline(w);
	if (w->request.canceller)
		canceller_begin(w->request.canceller, w->loop->s, w->index, w->grant.gen);
	result = lease_wait_begin(&l->g);
	/* In lockshm_loop_next() it may be held at once; lockshm_loop_acquire() always leaves it pending. */
	if (result == 0 && w->collected)
		result = lease_wait_first_try(&l->g);
	return result == 0 ? wait_on(w) : end(w, result, report);
}

int wait_collect_lease(struct wait *w, struct lockshm_report *report)
{
	struct lease_wait *g = &w->lease->g;
	int result = w->status;

	g->round = NULL;
	if (result == 0) {
		g->renewed = 0; /* the time for collecting it is less than for waiting */
		result = lease_wait_try(g);
	}
	if (result == 0)
		return wait_on(w);
	result = end(w, result == WAIT_AGAIN ? LEASE_AGAIN : result, report);
	return result == WAIT_AGAIN ? wait_submit(w, NULL, report) : result;
}
