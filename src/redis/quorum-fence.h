/* SPDX-License-Identifier: MIT */
/*
 * quorum-fence.h - tokens of a quorum, mostly in the round trip that acquires
 *
 * Each server takes a range of tokens, from its own end of the last one, its clock, or the clock that a requester
 * proposes, whichever is highest.  A range that a majority took from one number is the requester's: any other majority
 * shares a server with this one, where one of two ranges was taken after the other and begins above it.  The proposal
 * is meant to be a little above the clocks of all; then only what these servers had not seen alike makes a difference,
 * and is levelled by a second round.  model/tokens.pml explores it.
 */
#ifndef LOCKSHM_REDIS_QUORUM_FENCE_H
#define LOCKSHM_REDIS_QUORUM_FENCE_H

#include "redis/quorum-round.h"

/* A time in us that the clocks of a majority have not reached when they get it; 0 = they are not known. */
int64_t quorum_fence_clock(const struct redis_quorum *q);
/* The number from which server @i took tokens; 0 = it has not granted. */
int64_t quorum_fence_taken(const struct round *granted, size_t i);
/* The number from which a majority took tokens; 0 = there is none. */
int64_t quorum_fence_agreed(const struct redis_quorum *q, const struct round *granted);
/* The highest number from which a server took tokens; one far beyond the clocks of a majority counts only if a majority
 * is there. */
int64_t quorum_fence_highest(const struct redis_quorum *q, const struct round *granted);

#endif
