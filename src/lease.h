/* SPDX-License-Identifier: MIT */
/* lease.h - moving the end of a granted request (R8) */
#ifndef LOCKSHM_LEASE_H
#define LOCKSHM_LEASE_H

#include "segment.h"

/* Its first half: set the deadline of the granted request (@index, @gen).  False = it is no longer granted. */
bool lease_set_deadline(struct lockshm *s, uint32_t index, uint64_t gen, int64_t end);

/*
 * Renew the granted request (@index, *@gen) so that it ends at @end (INT64_MAX = strict).
 * True: *@gen is the new generation, and nobody else had the lock until now.  False: it is no longer granted.
 */
bool lease_renew(struct lockshm *s, uint32_t index, uint64_t *gen, int64_t end);

#endif
