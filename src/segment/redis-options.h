/* SPDX-License-Identifier: MIT */
/* redis-options.h - how a segment reaches Redis: checked when it is created, stored in its header */
#ifndef LOCKSHM_SEGMENT_REDIS_OPTIONS_H
#define LOCKSHM_SEGMENT_REDIS_OPTIONS_H

#include "lockshm.h"
#include "segment/layout.h"
#include "sys/compiler.h"

/*
 * What options that are good each have to do with each other: 0 or LOCKSHM_INVALID.  No server is contacted, no file
 * read, and whether the bridge of this host has TLS is for the bridge to report.  A segment may be created at boot,
 * before the network is up.
 */
MUST_CHECK int redis_options_check(const struct lockshm_create_options *o, struct lockshm_error *error);

/* Checked options, with a new host id; zero if they name no server.  LOCKSHM_SYSTEM without random numbers. */
MUST_CHECK int redis_options_store(struct shm_redis *out, const struct lockshm_create_options *o,
				   struct lockshm_error *error);

#endif
