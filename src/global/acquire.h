/* SPDX-License-Identifier: MIT */
/* acquire.h - acquire of a cross-host key */
#ifndef LOCKSHM_GLOBAL_ACQUIRE_H
#define LOCKSHM_GLOBAL_ACQUIRE_H

#include "segment/segment.h"

/* For a checked request with LOCKSHM_GLOBAL, or for a key that the segment makes global.  With LOCKSHM_AUTO_RENEW the
 * service thread must run already. */
int global_acquire(struct lockshm *s, const struct lockshm_request *q, lockshm_hold_t *hold,
		   struct lockshm_error *error);

#endif
