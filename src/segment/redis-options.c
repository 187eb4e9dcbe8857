/* SPDX-License-Identifier: MIT */
/*
 * redis-options.c - options of create for Redis; see segment/redis-options.h
 *
 * URIs are stored as given; each new bridge parses them again.  They contain no secret (segment/redis-uri.h).
 */
#include "segment/redis-options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "sys/error.h"

_Static_assert(REDIS_SERVERS_BYTES == LOCKSHM_REDIS_MAX + 1 && REDIS_PREFIX_BYTES == LOCKSHM_REDIS_PREFIX_MAX + 1 &&
		       GLOBAL_KEYS_BYTES == LOCKSHM_GLOBAL_KEYS_MAX + 1,
	       "the segment has room for the texts of the options");

static int check_quorum(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	const char *comma = strchr(o->redis, ',');

	if (comma && !strchr(comma + 1, ','))
		return error_set(error, LOCKSHM_INVALID,
				 "a quorum of 2 servers: both are needed, which is less available than one");
	if (o->redis_wait)
		return error_set(error, LOCKSHM_INVALID, "redis_wait is for replicas of one server, not for a quorum");
	return 0;
}

int redis_options_check(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	if (o->redis_retain_ns >= o->redis_ttl_ns)
		return error_set(error, LOCKSHM_INVALID, "redis_retain must be less than redis_ttl");
	if (o->redis_gap_ns > o->redis_ttl_ns / 2)
		return error_set(error, LOCKSHM_INVALID, "redis_gap must be half of redis_ttl at most");
	return o->flags & LOCKSHM_CREATE_REDIS_QUORUM ? check_quorum(o, error) : 0;
}

/* ---------------------------------------------------------------- store */

static bool make_host(char out[REDIS_HOST_BYTES])
{
	unsigned char bytes[REDIS_HOST_BYTES / 2];
	char digits[3];
	size_t i;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return false;
	for (i = 0; i < sizeof(bytes); i++) {
		snprintf(digits, sizeof(digits), "%02x", bytes[i]);
		memcpy(out + 2 * i, digits, 2);
	}
	return true;
}

int redis_options_store(struct shm_redis *out, const struct lockshm_create_options *o, struct lockshm_error *error)
{
	memset(out, 0, sizeof(*out));
	if (!*o->redis)
		return 0;
	if (!make_host(out->host))
		return error_system(error, LOCKSHM_SYSTEM, errno, "getrandom");
	out->policy = (uint32_t)o->redis_policy;
	out->flags = (o->flags & LOCKSHM_CREATE_REDIS_QUORUM ? REDIS_QUORUM : 0) | o->redis_wait << REDIS_WAIT_SHIFT;
	out->ttl_ms = (uint64_t)(o->redis_ttl_ns / LOCKSHM_MS(1));
	out->retain_ms = (uint32_t)(o->redis_retain_ns / LOCKSHM_MS(1));
	out->gap_ms = (uint32_t)(o->redis_gap_ns / LOCKSHM_MS(1));
	memcpy(out->prefix, o->redis_prefix, strlen(o->redis_prefix));
	memcpy(out->servers, o->redis, strlen(o->redis));
	memcpy(out->global_keys, o->global_keys, strlen(o->global_keys));
	return 0;
}
