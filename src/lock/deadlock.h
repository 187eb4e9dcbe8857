/* SPDX-License-Identifier: MIT */
/* deadlock.h - does a wait close a cycle? */
#ifndef LOCKSHM_LOCK_DEADLOCK_H
#define LOCKSHM_LOCK_DEADLOCK_H

#include "lock/participant.h"

/* 0, or LOCKSHM_DEADLOCK with the cycle described in @error. */
MUST_CHECK int deadlock_check(struct participant *self, uint32_t index, uint64_t gen, struct lockshm_error *error);

#endif
