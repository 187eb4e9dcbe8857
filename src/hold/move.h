/* SPDX-License-Identifier: MIT */
/* move.h - change of a hold's owner */
#ifndef LOCKSHM_HOLD_MOVE_H
#define LOCKSHM_HOLD_MOVE_H

#include "lockshm.h"
#include "sys/compiler.h"

/* lockshm_move(), with the segment kept mapped.  For LOCKSHM_TO_PROCESS the service thread must run already. */
MUST_CHECK int hold_move(lockshm_hold_t *hold, int to);

#endif
