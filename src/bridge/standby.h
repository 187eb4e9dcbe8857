/* SPDX-License-Identifier: MIT */
/* standby.h - the thread of a process with global keys that stands by to lead the bridge of its host */
#ifndef LOCKSHM_BRIDGE_STANDBY_H
#define LOCKSHM_BRIDGE_STANDBY_H

#include "segment/segment.h"

/* Start it unless it runs.  LOCKSHM_BRIDGE (built without the bridge, or a library that it needs cannot be used),
 * NO_MEMORY, SYSTEM. */
MUST_CHECK int standby_start(struct lockshm *s, struct lockshm_error *error);

/* Why the standby of this process cannot lead, if no process of this host leads now; 0 = it can, or one does. */
int standby_trouble(struct lockshm *s, struct lockshm_error *error);

/* If it runs: release the host leases that no request uses, and end the thread. */
void standby_stop(struct lockshm *s);

#endif
