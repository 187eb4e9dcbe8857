/* SPDX-License-Identifier: MIT */
/* settings.h - which Redis servers a client uses, and how; checked when a segment is created */
#ifndef LOCKSHM_REDIS_SETTINGS_H
#define LOCKSHM_REDIS_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/compiler.h"
#include "lockshm.h"

/* The longest texts, without the terminating zero. */
#define REDIS_URIS_LEN 1111
#define REDIS_PREFIX_LEN 127
#define REDIS_HOST_LEN 16

#define REDIS_REPLICAS_MAX 15

/* The texts belong to the caller and must stay as long as the settings are used. */
struct redis_settings {
	const char *servers; /* URIs, separated by commas, without passwords */
	const char *prefix; /* of every key */
	char host[REDIS_HOST_LEN + 1]; /* this host's name in Redis: random hexadecimal digits */
	int policy; /* enum lockshm_redis_policy */
	uint64_t ttl_ms;
	uint64_t retain_ms; /* how long an idle lease is kept */
	bool quorum; /* a majority of the servers decides; else each key has one server */
	unsigned replicas; /* that must have a lease before it counts */
};

/*
 * Checks options that name a server: 0, LOCKSHM_INVALID, or LOCKSHM_BRIDGE in a library built without the bridge.
 * No server is contacted: a segment may be created at boot, before the network is up.
 */
MUST_CHECK int redis_settings_check(const struct lockshm_create_options *o, struct lockshm_error *error);

/* The settings of checked options, with a new host id.  LOCKSHM_SYSTEM without random numbers. */
MUST_CHECK int redis_settings_make(struct redis_settings *out, const struct lockshm_create_options *o,
				   struct lockshm_error *error);

#endif
