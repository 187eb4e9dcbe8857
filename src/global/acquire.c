/* SPDX-License-Identifier: MIT */
/*
 * acquire.c - acquire of a cross-host key: the local lock first, then the host lease
 *
 * The local request is an ordinary one, which is not entered yet.  While it waits for the host lease it has a short
 * lease of its own, which its thread renews, so that a stopped thread does not keep the other requesters of its host
 * from trying.  Once it has the host lease it gets the requested ttl, and is entered.  Everything that ends a local
 * request ends this one too; in addition each check of the hold checks the host lease (hold/hold-access.h).
 *
 * Crash points:
 *   (1) granted on this host, not flagged: a request that was given up
 *   (2) flagged, waiting for the lease: the bridge finds no demand of the dead
 *   (3) number taken, not yet stored: a number that is never used
 *   (4) stored, not entered: a holder for the bridge, and for this host a request that was given up
 *   (5) entered: a hold like any other, and its death is the death of a holder
 */
#include "global/acquire.h"

#include <string.h>

#include "global/lease-wait.h"
#include "hold/acquire.h"
#include "hold/barge.h"
#include "hold/renewal.h"
#include "lock/participant.h"
#include "lock/wait.h"
#include "sys/min.h"

#define BLIND_NS LOCKSHM_MS(50) /* bound of each sleep where the kernel cannot watch several words */

/* A thread that waits in the call. */
struct blocked {
	struct lease_wait g;
	lockshm_hold_t *hold;
	struct participant *self;
};

/* ---------------------------------------------------------------- the whole acquire */

static int give_up(const struct blocked *b, int err)
{
	const struct lease_wait *g = &b->g;
	struct shm_request *r = &g->s->requests[g->index];

	/* Never granted under the host lease, so its release must not barge. */
	store_release32(&r->flags, load_relaxed32(&r->flags) & ~REQUEST_BARGES);
	(void)lockshm_release(b->hold, 0);
	lease_wait_withdraw(g);
	if (g->q->report)
		g->q->report->token = 0;
	acquire_count_failure(b->self, err);
	return err;
}

/* The local request lasts as long as this thread runs. */
static bool renew_local(struct lease_wait *g)
{
	const struct blocked *b = caa_container_of(g, struct blocked, g);

	return lockshm_renew(b->hold, PATIENCE_NS) >= 0;
}

/* Until the lease wakes its waiters, the segment is removed, or the wait is cancelled. */
static void sleep_once(const struct lease_wait *g)
{
	struct futex_watch watch[] = { lease_wait_watch(g), segment_watch(g->s), { NULL, 0 } };
	unsigned n = g->q->canceller ? 3 : 2;
	int64_t until = lease_wait_until(g);

	if (g->q->canceller)
		watch[2] = canceller_watch(g->q->canceller);
	futex_wait_any(watch, n, futex_has_waitv() ? until : min64(until, clock_precise() + BLIND_NS));
}

static int await_lease(struct lease_wait *g)
{
	int err;

	for (err = lease_wait_first_try(g); err == 0; err = lease_wait_try(g))
		sleep_once(g);
	return err;
}

/* The same, known to the thread that cancels it. */
static int await_lease_or_cancel(struct blocked *b)
{
	struct lease_wait *g = &b->g;
	int err;

	if (!g->q->canceller)
		return await_lease(g);
	canceller_begin(g->q->canceller, g->s, g->index, hold_of(b->hold)->grant.gen);
	err = await_lease(g);
	canceller_end(g->q->canceller);
	return err;
}

/* The local lock is held: go on to the host lease. */
static int with_local(struct blocked *b, int status)
{
	struct lease_wait *g = &b->g;
	uint64_t token;
	int err = lease_wait_begin(g);

	if (!err)
		err = await_lease_or_cancel(b);
	if (err < 0 || err == LEASE_AGAIN)
		return give_up(b, err);
	if (err == LOCKSHM_LOCAL_ONLY) {
		lease_wait_go_local(g);
		status = err;
	}
	/* From here on it has the requested ttl. */
	if (hold_of(b->hold)->renewal)
		renewals_limit(g->s, hold_of(b->hold), g->q->max_hold_ns);
	if (hold_begin_lease(b->hold, request_first_ttl(g->q), !(g->q->flags & ACQUIRE_OUTSIDE)) < 0)
		return give_up(b, LEASE_AGAIN);
	token = lease_wait_fill(g, hold_of(b->hold));
	if (g->q->report && status != LOCKSHM_LOCAL_ONLY)
		g->q->report->damage.status = 0;
	if (status != LOCKSHM_LOCAL_ONLY)
		status = lease_wait_status(g, g->q, acquire_status(g->s, g->q, hold_of(b->hold)));
	if (token)
		count_event(b->self, COUNT_GLOBAL);
	if (g->q->report)
		g->q->report->token = token;
	return status;
}

/* Resume what this thread left bargeable, if its host lease goes on. */
static int resume_streak(struct blocked *b, const struct lockshm_request *q)
{
	struct lease_wait *g = &b->g;
	struct participant *self = participant_find(g->s);
	int status = NOT_TAKEN;

	g->streak = 0;
	if (!self || self->barge.index == 0)
		return NOT_TAKEN;
	if (self->barge.host_lease &&
	    host_lease_goes_on(g->s, self->barge.host_lease - 1, self->barge.host_lease_word)) {
		g->streak = self->barge.fence;
		g->streak_lease = self->barge.host_lease - 1;
		g->streak_word = self->barge.host_lease_word;
		status = acquire_resume(self, q, NULL, hold_of(b->hold), true);
	}
	if (status != NOT_TAKEN)
		return status;
	g->streak = 0;
	barge_end(self);
	return NOT_TAKEN;
}

static int acquire_once(struct blocked *b)
{
	struct lease_wait *g = &b->g;
	struct lockshm_request q = *g->q;
	int status;

	/* Told once it is held. */
	q.flags = (q.flags & ~(LOCKSHM_GLOBAL | ACQUIRE_TRY)) | ACQUIRE_OUTSIDE;
	q.ttl_ns = PATIENCE_NS;
	q.max_hold_ns = 0;
	if (lease_is_try(g->q))
		q.timeout_ns = 0;
	else if (g->deadline != INT64_MAX)
		q.timeout_ns = timeout_until(g->deadline);
	status = resume_streak(b, &q);
	if (status == NOT_TAKEN)
		status = acquire_local(g->s, &q, NULL, b->hold, g->error);
	if (status < 0)
		return status;
	b->self = participant_find(g->s);
	g->owner = b->self->ref;
	g->index = hold_of(b->hold)->index;
	return with_local(b, status);
}

int global_acquire(struct lockshm *s, const struct lockshm_request *q, lockshm_hold_t *hold,
		   struct lockshm_error *error)
{
	struct blocked b = { .g = { .s = s, .q = q, .key = q->key, .key_len = q->key_len, .error = error,
				    .renew_local = renew_local },
			     .hold = hold };
	int64_t begun = q->report ? clock_precise() : 0;
	int err = lease_wait_check(s, q, error);

	if (err)
		return err;
	b.g.deadline = lease_wait_deadline(q);
	hash_key(&b.g.id, s->hash_secret, q->key, q->key_len);
	do
		err = acquire_once(&b);
	while (err == LEASE_AGAIN && clock_precise() < b.g.deadline);
	if (err == LEASE_AGAIN) {
		err = lease_wait_out_of_time(&b.g);
		acquire_count_failure(b.self, err);
	}
	if (q->report) {
		int64_t more = clock_precise() - begun - q->report->waited_ns;

		q->report->waited_ns += more;
		q->report->slept_ns += more;
	}
	return err;
}
