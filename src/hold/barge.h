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

#endif
