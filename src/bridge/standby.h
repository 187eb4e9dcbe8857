/* SPDX-License-Identifier: MIT */
/* standby.h - the thread of a process that uses global keys: stands by to lead the bridge of its host */
#ifndef LOCKSHM_BRIDGE_STANDBY_H
#define LOCKSHM_BRIDGE_STANDBY_H

#include "segment/segment.h"

/* Start it unless it runs.  LOCKSHM_BRIDGE (built without it, or a library that it needs cannot be used), NO_MEMORY,
 * SYSTEM. */
MUST_CHECK int standby_start(struct lockshm *s, struct lockshm_error *error);

/* Why the standby of this process cannot take part although no process of this host leads now; 0 = it can, or one
 * does. */
int standby_trouble(struct lockshm *s, struct lockshm_error *error);

/* If it runs: host leases that no request uses are given back, and the thread ends. */
void standby_stop(struct lockshm *s);

#endif
