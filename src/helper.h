/* SPDX-License-Identifier: MIT */
/* helper.h - the thread of a process that uses global keys: stands by to be the bridge of its host */
#ifndef LOCKSHM_HELPER_H
#define LOCKSHM_HELPER_H

#include "segment.h"

/* Start it unless it runs.  LOCKSHM_BRIDGE (built without it, or hiredis is missing), NO_MEMORY, SYSTEM. */
MUST_CHECK int helper_start(struct lockshm *s, struct lockshm_error *error);
/* If it runs: what nobody holds is given back, and the thread is gone. */
void helper_stop(struct lockshm *s);
/* In a forked child: there is none here; closes the sockets that came along. */
void helper_forget(struct lockshm *s);

#endif
