/* SPDX-License-Identifier: MIT */
/* acquire.h - acquiring on this host: the ways of a checked request */
#ifndef LOCKSHM_HOLD_ACQUIRE_H
#define LOCKSHM_HOLD_ACQUIRE_H

#include "hold/hold.h"

#define NOT_TAKEN (-1000) /* no code of the interface: nothing has happened */

/* All of it: joining, making the entry, waiting; with LOCKSHM_AUTO_RENEW the service thread runs already. */
int acquire_local(struct lockshm *s, const struct lockshm_request *q, lockshm_hold_t *hold, struct lockshm_error *error);

/* The fast path for requests that are not plain: one CAS, if the key is known and free.  Else NOT_TAKEN. */
int acquire_if_free(struct participant *self, const struct lockshm_request *q, struct hold *h);

/* What this thread left bargeable, on this host or @global, if the request is for that.  Else NOT_TAKEN. */
int acquire_resume(struct participant *self, const struct lockshm_request *q, struct hold *h, bool global);

/* @h has just been granted on a damaged lock: store what is reported of it, and return the status. */
int acquire_report_damage(struct lockshm *s, const struct lockshm_request *q, struct hold *h);

/* The lease a hold begins with: never longer than the whole hold may be. */
static inline int64_t request_first_ttl(const struct lockshm_request *q)
{
	bool bounded = (q->flags & LOCKSHM_AUTO_RENEW) && q->max_hold_ns != 0;

	return bounded && q->max_hold_ns < q->ttl_ns ? q->max_hold_ns : q->ttl_ns;
}

#endif
