/* SPDX-License-Identifier: MIT */
/* standby.h - the thread of a process that uses global keys: stands by to be the bridge of its host */
#ifndef LOCKSHM_BRIDGE_STANDBY_H
#define LOCKSHM_BRIDGE_STANDBY_H

#include "segment/segment.h"

/* Start it unless it runs.  LOCKSHM_BRIDGE (built without it, or a library that it needs cannot be
 * used), NO_MEMORY, SYSTEM. */
MUST_CHECK int standby_start(struct lockshm *s, struct lockshm_error *error);
/* Why the helper of this process cannot take part although no process of this host is the bridge
 * now; 0 = it can, or one is. */
int standby_trouble(struct lockshm *s, struct lockshm_error *error);
/* How many of those who take part in the segment are the helper: 0 or 1, until the unlock.  Outside s->lock; for the
 * thread that closes, as nobody else may stop it meanwhile.  NULL = there is none, which standby_unlock() takes, too. */
struct standby *standby_lock(struct lockshm *s, uint32_t *refs);
void standby_unlock(struct standby *h);
/* If it runs: what nobody holds is given back, and the thread is gone. */
void standby_stop(struct lockshm *s);
/*
 * In a forked child: there is none here.  After fork() the child closes the sockets that came along, so that the server
 * sees the end of the parent's.  Not after a clone past the C library (@own_descriptors false): the table may be the
 * parent's too, or the numbers may be of other files by the time of the first call.
 */
void standby_forget(struct lockshm *s, bool own_descriptors);

/* Once for all segments, as the innermost lock around fork(): hiredis is not being loaded meanwhile. */
void standby_before_fork(void);
void standby_after_fork(void); /* on both sides */
/* The same for a child that was made past the C library. */
void standby_forget_loading(void);

#endif
