/* SPDX-License-Identifier: MIT */
/* settings.h - what a segment is told at its creation about Redis */
#ifndef LOCKSHM_REDIS_SETTINGS_H
#define LOCKSHM_REDIS_SETTINGS_H

#include "sys/compiler.h"
#include "segment/layout.h"
#include "lockshm.h"

/* Are they complete and sound?  0, LOCKSHM_INVALID, or LOCKSHM_BRIDGE where the library was
 * built without the bridge. */
MUST_CHECK int redis_settings_check(const struct lockshm_create_options *o, struct lockshm_error *error);

/* What the segment keeps of settings that are sound.  LOCKSHM_SYSTEM without random numbers. */
MUST_CHECK int redis_settings_fill(struct shm_redis *out, const struct lockshm_create_options *o,
				   struct lockshm_error *error);

#endif
