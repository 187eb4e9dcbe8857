/* SPDX-License-Identifier: MIT */
/*
 * hold-access.h - what each call on a hold begins with: may the caller, and is it still granted?
 *
 * The hold is where it was filled and as it was left, of this process and not its parent, and of this thread or of the
 * whole process; and as long as its record is granted to it the rest of that says the same.  Then the request's word
 * decides: still (gen, GRANTED) or LOST.  The same word is what an expirer changes, so the answer is the truth (P5).
 */
#ifndef LOCKSHM_HOLD_HOLD_ACCESS_H
#define LOCKSHM_HOLD_HOLD_ACCESS_H

#include "hold/hold.h"
#include "hold/renewal.h"
#include "lock/deadline.h"
#include "hostlease/host-lease.h"

struct access {
	struct hold *h;
	struct lockshm *s;
	struct shm_request *r;
	struct shm_entry *e;
	struct participant *self; /* NULL for a hold of the process used by a thread that takes no part */
	struct renewal *renewal;  /* that of the hold, found in the renewals; NULL = it has none */
	uint64_t owner;		  /* owner_ref of that life: the thread's, or the process' */
	bool locked;		  /* renewals' lock is held */
	bool referenced;	  /* the segment is kept mapped for this call */
};

static inline uint64_t access_gen(const struct access *g)
{
	return unlikely(g->renewal != NULL) ? g->renewal->gen : g->h->grant.gen;
}

static inline bool access_granted(const struct access *g, uint64_t w)
{
	return likely(word_gen(w) == access_gen(g)) && likely(word_is(w, REQUEST_GRANTED));
}

/* 0: it is a hold of the caller, perhaps lost by now, and hold_leave() is to follow.  Else LOCKSHM_INVALID or
 * LOCKSHM_NOT_HELD.  Safe for any memory. */
MUST_CHECK int hold_enter(struct access *g, const lockshm_hold_t *hold);

/*
 * For the check of an argument: is @h a hold of the caller, and what does @use say of it, which ends with hold_leave()?
 * False if it is none.  No reference is taken, so that the check cannot end a thread of the library.
 */
bool hold_visit(struct hold *h, bool (*use)(struct access *g));

static inline int hold_leave(const struct access *g, int result)
{
	if (unlikely(g->locked))
		renewals_unlock(g->s);
	if (unlikely(g->referenced))
		segment_unref(g->s);
	return result;
}

/* Has that time passed?  The coarse clock answers when it is far away. */
static inline bool access_passed(const struct lockshm *s, int64_t deadline)
{
	if (deadline == INT64_MAX || likely(segment_now_at_most(s) < deadline))
		return false;
	return segment_now(s) > deadline;
}

static inline int64_t access_deadline(const struct access *g)
{
	if (unlikely(g->h->host_lease != 0))
		return deadline_ns(load_acquire(&g->r->deadline));
	return unlikely(g->renewal != NULL) ? g->renewal->deadline : g->h->grant.end;
}

/* 0 or LATE; with LOCKSHM_GLOBAL also LOST: what nobody took away on this host somebody elsewhere may have. */
static inline int access_late_or_ok(const struct access *g)
{
	if (unlikely(g->h->host_lease != 0) && !host_lease_holds(g->s, g->h->host_lease - 1, g->h->host_lease_word))
		return LOCKSHM_LOST;
	return unlikely(access_passed(g->s, access_deadline(g))) ? LOCKSHM_LATE : 0;
}

/* It is not the caller's any more: whose it is now goes into the hold.  LOCKSHM_LOST. */
int access_lost(const struct access *g);

/* What is to be told of a hold that is granted here. */
static inline int access_result(const struct access *g)
{
	int outcome = access_late_or_ok(g);

	return unlikely(outcome == LOCKSHM_LOST) ? access_lost(g) : outcome;
}

/* Grant whoever may go now that I have died or changed my mode. */
void access_grant_next(const struct access *g);

#endif
