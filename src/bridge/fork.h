/* SPDX-License-Identifier: MIT */
/* fork.h - loading the libraries of the bridge, and what a forked child must not inherit of them */
#ifndef LOCKSHM_BRIDGE_FORK_H
#define LOCKSHM_BRIDGE_FORK_H

#include "segment/segment.h"

/* Add the hooks and load hiredis, and OpenSSL for servers that need it.  LOCKSHM_BRIDGE. */
MUST_CHECK int bridge_load(struct lockshm *s, struct lockshm_error *error);

#endif
