/* SPDX-License-Identifier: MIT */
/* fork.h - loading what the bridge needs, and what a forked child must not inherit of it */
#ifndef LOCKSHM_BRIDGE_FORK_H
#define LOCKSHM_BRIDGE_FORK_H

#include "segment/segment.h"

/* Add the hooks and load hiredis, and OpenSSL for servers that want it.  LOCKSHM_BRIDGE. */
MUST_CHECK int bridge_load(struct lockshm *s, struct lockshm_error *error);

#endif
