/* SPDX-License-Identifier: MIT */
/*
 * barge.h - declared barging (R12): a released lock stays open to its thread until the successor runs
 *
 * A hand-over to a sleeper takes as long as its wake-up, and the lock is unused meanwhile.  The release of a
 * LOCKSHM_BARGE hold does not grant the successor but leaves the hold BARGEABLE and wakes the successor: the thread may
 * resume the hold by one CAS, the successor may end it by another, and the first CAS wins.  No other request overtakes.
 */
#ifndef LOCKSHM_HOLD_BARGE_H
#define LOCKSHM_HOLD_BARGE_H

#include "hold/hold.h"

/* Release the hold @h of @self, which is granted as @word with requests after it, and leave it bargeable.  False =
 * release it as any other: its streak is over, or something has changed.  True and barge.index 0: released, not
 * bargeable. */
bool barge(struct participant *self, const struct hold *h, uint64_t word);

/* Resume what @self left bargeable as @state, if it is still and its key is @known.  @a: ttl_ns and now are set.  False =
 * nothing has happened. */
bool barge_resume(struct participant *self, const struct known_key *known, const struct acquire *a,
		  const char *tag, enum request_state state, struct grant *out);

/* End the barge window of @self: the successor is granted. */
void barge_end(struct participant *self);

/* ---------------------------------------------------------------- holds of loops */

/*
 * Any thread of the process may release a hold of a loop, and only the loop's own fills its records.  So a release leaves
 * the barge window in a place of the process, where the next acquire of that loop takes it from: one window for all
 * loops, and a thread that finds another one there does without.
 */
struct barge_place {
	uint32_t busy; /* a thread is there */
	uint64_t loop; /* whose record it is: h->loop */
	struct participant process;
};

/* As barge(), for the hold @h of a loop. */
bool barge_of_loop(struct lockshm *s, const struct hold *h, uint64_t word);

/* If the window is of @loop, it is the one of @self from now on. */
void barge_take(struct participant *self, uint64_t loop);

#endif
