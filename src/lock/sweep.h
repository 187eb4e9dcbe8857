/* SPDX-License-Identifier: MIT */
/* sweep.h - giving back what dead threads left */
#ifndef LOCKSHM_LOCK_SWEEP_H
#define LOCKSHM_LOCK_SWEEP_H

#include "segment/segment.h"

/* Clear away everything of the dead thread in @slot.  True = the slot is free now. */
bool sweep_slot(struct lockshm *s, uint32_t slot);

/* The same for a thread that has just ended its part as @ref: its list of chunks is complete, so no others are
 * searched. */
void sweep_left(struct lockshm *s, uint32_t slot, uint64_t ref, const uint32_t *chunks, uint32_t n);

/* The same for the slots from where the last of these calls ended, in any process, on and round, until @most have been
 * freed.  It ends early after so many owners in a row that live that the rest is left to the next call: the cost does not
 * grow with the living.  Returns the number freed. */
int sweep_some(struct lockshm *s, uint32_t most);

/* The same for every slot.  Returns the number of slots freed. */
int sweep_all(struct lockshm *s);

/* The same after probing every owner that seems to live, which costs a look at /proc each; also ends cooldowns that are
 * over. */
int sweep_probing(struct lockshm *s);

#endif
