/* SPDX-License-Identifier: MIT */
/*
 * hold-access.h - the checks at the begin of each call on a hold
 *
 * The hold must be unchanged in its place (the seal), of this process and not its parent, and of this thread or of the
 * whole process; and while its record is granted to it the other fields of the record must agree.  Then the request's
 * word decides: (gen, GRANTED) or LOST.  An expirer changes the same word, so the result is exact (P5).
 */
#ifndef LOCKSHM_HOLD_HOLD_ACCESS_H
#define LOCKSHM_HOLD_HOLD_ACCESS_H

#include "hold/hold.h"
#include "hold/renewal.h"
#include "hostlease/host-lease.h"
#include "lock/deadline.h"
#include "lock/tend.h"

struct access {
	struct hold *h;
	struct lockshm *s;
	struct shm_request *r;
	struct shm_entry *e;
	struct participant *self; /* NULL = the thread takes no part, and the hold is of the process */
	struct renewal *renewal;  /* that of the hold, found in the renewals; NULL = it has none */
	struct tend *tend;	  /* of a tended hold, else NULL */
	uint64_t gen;		  /* of a tended hold: that of its record, which the renewals' lock keeps as it is */
	uint64_t owner;		  /* owner_ref of the thread, or of the process */
	bool locked;		  /* renewals' lock is held */
	bool referenced;	  /* the segment is kept mapped for this call */
};

/* Is it a hold of the calling thread, and not of the process? */
static inline bool access_of_thread(const struct access *g)
{
	return likely(g->self != NULL) && likely(g->self->uid == g->h->owner);
}

static inline uint64_t access_gen(const struct access *g)
{
	if (unlikely(g->tend != NULL))
		return g->gen;
	return unlikely(g->renewal != NULL) ? g->renewal->gen : g->h->grant.gen;
}

static inline bool access_granted(const struct access *g, uint64_t w)
{
	return likely(word_gen(w) == access_gen(g)) && likely(word_holds(w));
}

/* 0 = a hold of the caller, perhaps lost by now: hold_leave() must follow.  Else LOCKSHM_INVALID or LOCKSHM_NOT_HELD.
 * Safe for any memory. */
MUST_CHECK int hold_enter(struct access *g, const lockshm_hold_t *hold);

/* The same, with the renewals' lock held if it is a hold of the process: no other such access is under way. */
MUST_CHECK int hold_enter_alone(struct access *g, const lockshm_hold_t *hold);

/*
 * For checks of arguments: if @h is a hold of the caller, the result of @use, which ends with hold_leave(); else false.
 * No reference is taken, so the check cannot end a thread of the library.
 */
bool hold_visit(struct hold *h, bool (*use)(struct access *g, void *arg), void *arg);

static inline int hold_leave(const struct access *g, int result)
{
	if (unlikely(g->locked))
		renewals_unlock(g->s);
	if (unlikely(g->referenced))
		segment_unref(g->s);
	return result;
}

/* Has @deadline passed?  Far from it the coarse clock is enough. */
static inline bool access_passed(const struct lockshm *s, int64_t deadline)
{
	if (deadline == INT64_MAX || likely(segment_now_at_most(s) < deadline))
		return false;
	return segment_now(s) > deadline;
}

static inline int64_t access_deadline(const struct access *g)
{
	if (unlikely(g->h->host_lease != 0) || unlikely(g->tend != NULL))
		return deadline_ns(load_acquire(&g->r->deadline));
	return unlikely(g->renewal != NULL) ? g->renewal->deadline : g->h->grant.end;
}

/* 0 or LATE; with LOCKSHM_GLOBAL also LOST: granted on this host, but another host may hold it by now. */
static inline int access_late_or_ok(const struct access *g)
{
	if (unlikely(g->h->host_lease != 0) && !host_lease_holds(g->s, g->h->host_lease - 1, g->h->host_lease_word))
		return LOCKSHM_LOST;
	return unlikely(access_passed(g->s, access_deadline(g))) ? LOCKSHM_LATE : 0;
}

/* The hold is lost: store its successor's token in it.  Returns LOCKSHM_LOST. */
int access_lost(const struct access *g);

/* The result for a hold that is granted on this host. */
static inline int access_result(const struct access *g)
{
	int outcome = access_late_or_ok(g);

	return unlikely(outcome == LOCKSHM_LOST) ? access_lost(g) : outcome;
}

/* Grant the requests that were waiting for this one, which was released or changed its mode. */
void access_grant_next(const struct access *g);

#endif
