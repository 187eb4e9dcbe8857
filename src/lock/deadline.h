/* SPDX-License-Identifier: MIT */
/* deadline.h - moving the end of a granted request (R8) */
#ifndef LOCKSHM_LOCK_DEADLINE_H
#define LOCKSHM_LOCK_DEADLINE_H

#include "segment/segment.h"

#define PRECISE_BELOW_NS 1000000000 /* a shorter lease is measured with the precise clock */

/* The time from which a lease of that length counts if it is granted now; never too early, so it never ends early. */
static inline int64_t deadline_clock(const struct lockshm *s, int64_t ttl_ns)
{
	return likely(ttl_ns >= PRECISE_BELOW_NS) ? segment_now_at_most(s) : segment_now(s);
}

/* Has a cooldown ended that no request has cleared away yet?  @word was read before @deadline. */
static inline bool cooldown_is_over(const struct lockshm *s, uint64_t word, uint64_t deadline)
{
	return word_is(word, REQUEST_COOLING) && deadline < DEADLINE_NEVER && segment_now(s) > (int64_t)deadline;
}

/* First half of a renewal: set the deadline of the granted request (@index, @gen).  False = it is no longer granted. */
bool deadline_set(struct lockshm *s, uint32_t index, uint64_t gen, int64_t end);

/*
 * Renew the granted request (@index, *@gen) so that it ends at @end (INT64_MAX = strict).
 * True: *@gen is the new generation, and the hold was not interrupted.  False: it is no longer granted.
 */
bool deadline_renew(struct lockshm *s, uint32_t index, uint64_t *gen, int64_t end);

/* R14: as deadline_renew(), of a request that is granted and not entered; the same CAS enters it. */
bool deadline_enter(struct lockshm *s, uint32_t index, uint64_t *gen, int64_t end);

#endif
