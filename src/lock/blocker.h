/* SPDX-License-Identifier: MIT */
/* blocker.h - what is in the way of a request, for the report of one that is not granted */
#ifndef LOCKSHM_LOCK_BLOCKER_H
#define LOCKSHM_LOCK_BLOCKER_H

#include "lock/queue.h"

/* Fill *@out with the live request @at.  False, and *@out zero = it has changed since its word was read. */
bool blocker_take(const struct lockshm *s, struct qpos at, struct lockshm_blocker *out);

/* The same with the newest holder of the queue, from @from on back, or with its oldest request if none holds; @own is not
 * one.  *@out is zero if there is none, or the queue keeps changing. */
void blocker_find(const struct lockshm *s, struct qpos from, uint32_t own, struct lockshm_blocker *out);

#endif
