/* SPDX-License-Identifier: MIT */
/* acquire.h - acquiring on this host, for checked requests */
#ifndef LOCKSHM_HOLD_ACQUIRE_H
#define LOCKSHM_HOLD_ACQUIRE_H

#include "hold/hold.h"

#define NOT_TAKEN (-1000) /* not a public code: nothing has changed */

/* The whole local acquire: join, make the entry, wait.  With LOCKSHM_AUTO_RENEW the service thread must run already. */
int acquire_local(struct lockshm *s, const struct lockshm_request *q, lockshm_hold_t *hold,
		  struct lockshm_error *error);

/* The fast path for requests that are not plain: one CAS, if the key is known and free.  Else NOT_TAKEN. */
int acquire_if_free(struct participant *self, const struct lockshm_request *q, struct hold *h);

/* Resume the hold that this thread left bargeable, local or @global, if the request is for its key.  Else NOT_TAKEN. */
int acquire_resume(struct participant *self, const struct lockshm_request *q, struct hold *h, bool global);

/* @h was granted on a damaged lock: store the damage in the hold and the report.  Returns the status. */
int acquire_report_damage(struct lockshm *s, const struct lockshm_request *q, struct hold *h);

/* The first lease of a hold: at most max_hold_ns. */
static inline int64_t request_first_ttl(const struct lockshm_request *q)
{
	bool bounded = (q->flags & LOCKSHM_AUTO_RENEW) && q->max_hold_ns != 0;

	return bounded && q->max_hold_ns < q->ttl_ns ? q->max_hold_ns : q->ttl_ns;
}

#endif
