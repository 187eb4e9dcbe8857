/* SPDX-License-Identifier: MIT */
/* acquire.h - lockshm_acquire() for callers within the library, and its parts for lock objects */
#ifndef LOCKSHM_API_ACQUIRE_H
#define LOCKSHM_API_ACQUIRE_H

#include "lock/participant.h"

/* As lockshm_acquire(), but the request is not entered.  @how: ACQUIRE_OUTSIDE, with ACQUIRE_TRY or without. */
int acquire_outside(struct lockshm *s, const struct lockshm_request *q, lockshm_hold_t *hold, unsigned how);

/* Acquire for a checked request.  @given: as for acquire_local(). */
int acquire_dispatch(struct lockshm *s, const struct lockshm_request *q, const struct known_key *given,
		     lockshm_hold_t *hold, struct lockshm_error *error);

#endif
