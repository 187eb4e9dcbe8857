/* SPDX-License-Identifier: MIT */
/* acquire.h - what the fast path of an acquire leaves to the rest of it */
#ifndef LOCKSHM_HOLD_ACQUIRE_H
#define LOCKSHM_HOLD_ACQUIRE_H

#include "hold/hold.h"

/* The whole of lockshm_acquire(): every check, joining, making the entry, waiting. */
int acquire_careful(struct lockshm *s, const struct lockshm_request *q, lockshm_hold_t *hold);

/* The fast path for requests that are not plain, after the checks: one CAS, if the key is known and nobody has it.
 * NOT_TAKEN = anything else. */
int acquire_if_free(struct participant *self, const struct lockshm_request *q, struct hold *h);

/* What this thread let linger under a host lease, if the request is for that and the lease goes
 * on.  NOT_TAKEN = it is not. */
int acquire_again(struct participant *self, const struct lockshm_request *q, struct hold *h);

#define NOT_TAKEN (-1000) /* no code of the interface */

/* @h has just been granted on a lock that is marked: note of what it is told, and the status to return. */
int acquire_report_damage(struct lockshm *s, const struct lockshm_request *q, struct hold *h);

#endif
