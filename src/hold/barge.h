/* SPDX-License-Identifier: MIT */
/*
 * barge.h - declared barging (R12): a released lock stays open to its thread until the next in line runs
 *
 * A hand-over to a sleeper takes as long as its wake-up, and the lock is nobody's meanwhile.  A hold of
 * LOCKSHM_BARGE does not pass the lock on at its release but lets it linger: its thread may take it up again by one
 * CAS, the request right behind, which is woken at once, may end that by another, and whoever comes first wins.
 * Nobody else passes anybody.
 */
#ifndef LOCKSHM_HOLD_BARGE_H
#define LOCKSHM_HOLD_BARGE_H

#include "hold/hold.h"

/* Release the hold @h of @self, which is granted as @word with others behind, so that it lingers.  False =
 * release it as any other: it has lingered for long enough, or something has changed.  True and linger.index 0:
 * released, nothing lingers. */
bool barge(struct participant *self, const struct hold *h, uint64_t word);

/* Take up what @self let linger, if it is the key that @known says and still lingers.  @a: ttl_ns, now and entry are
 * set.  False = nothing has happened. */
bool barge_resume(struct participant *self, const struct known_key *known, const struct acquire *a,
		    const char *tag, struct grant *out);

/* What @self let linger goes to the next in line, if it still lingers. */
void barge_end(struct participant *self);

#endif
