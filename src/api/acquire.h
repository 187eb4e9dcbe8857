/* SPDX-License-Identifier: MIT */
/* acquire.h - lockshm_acquire() for callers within the library */
#ifndef LOCKSHM_API_ACQUIRE_H
#define LOCKSHM_API_ACQUIRE_H

#include "segment/segment.h"

/* As lockshm_acquire(), but the request is not entered: see ACQUIRE_OUTSIDE. */
int acquire_outside(struct lockshm *s, const struct lockshm_request *q, lockshm_hold_t *hold);

#endif
