/* SPDX-License-Identifier: MIT */
/*
 * redis-options.c - options of create that concern Redis; see segment/redis-options.h
 *
 * URIs are stored as given; each new bridge parses them again.  They contain no secret (segment/redis-uri.h).
 */
#include "segment/redis-options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "segment/global-keys.h"
#include "segment/redis-uri.h"
#include "sys/error.h"

#define DEFAULT_PREFIX "lk:"

/* ---------------------------------------------------------------- check */

static int check_servers(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	struct redis_server servers[REDIS_SERVERS_MAX];
	size_t n;
	int err;

	if (strnlen(o->redis, REDIS_SERVERS_BYTES) == REDIS_SERVERS_BYTES)
		return error_set(error, LOCKSHM_INVALID, "the Redis URIs have more than %d bytes", REDIS_SERVERS_BYTES - 1);
	err = redis_uri_parse(o->redis, NULL, servers, REDIS_SERVERS_MAX, &n, error);
	if (!err && n == 2 && (o->flags & LOCKSHM_CREATE_REDIS_QUORUM))
		return error_set(error, LOCKSHM_INVALID,
				 "a quorum of 2 servers: both are needed, which is less available than one");
	return err;
}

static int check_ways(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	if (o->redis_policy == LOCKSHM_REDIS_LOCAL_ONLY)
		return error_set(error, LOCKSHM_INVALID,
				 "redis_policy: a segment's is fail or wait; local-only is for single requests");
	if (o->redis_policy != LOCKSHM_REDIS_FAIL && o->redis_policy != LOCKSHM_REDIS_WAIT)
		return error_set(error, LOCKSHM_INVALID, "redis_policy is %d, no enum lockshm_redis_policy", o->redis_policy);
	if (o->redis_prefix && strnlen(o->redis_prefix, REDIS_PREFIX_BYTES) == REDIS_PREFIX_BYTES)
		return error_set(error, LOCKSHM_INVALID, "redis_prefix has more than %d bytes", REDIS_PREFIX_BYTES - 1);
	if (o->redis_ttl_ns < LOCKSHM_SECONDS(1) || o->redis_ttl_ns > LOCKSHM_SECONDS(3600))
		return error_set(error, LOCKSHM_INVALID,
				 "redis_ttl_ns (--redis-ttl) is %lld ns, must be one second to one hour",
				 (long long)o->redis_ttl_ns);
	if (o->redis_retain_ns < 0 || o->redis_retain_ns >= o->redis_ttl_ns)
		return error_set(error, LOCKSHM_INVALID,
				 "redis_retain_ns (--redis-retain) is %lld ns, must be 0 to less than redis_ttl_ns "
				 "(--redis-ttl)",
				 (long long)o->redis_retain_ns);
	if (o->redis_gap_ns < 0 || o->redis_gap_ns > LOCKSHM_SECONDS(10) || o->redis_gap_ns > o->redis_ttl_ns / 2)
		return error_set(error, LOCKSHM_INVALID,
				 "redis_gap_ns (--redis-gap) is %lld ns, must be 0 to half of redis_ttl_ns "
				 "(--redis-ttl), at most 10 s",
				 (long long)o->redis_gap_ns);
	if (o->redis_wait > REDIS_WAIT_MAX)
		return error_set(error, LOCKSHM_INVALID, "redis_wait is %u, must be 0..%u", o->redis_wait, REDIS_WAIT_MAX);
	if (o->redis_wait && (o->flags & LOCKSHM_CREATE_REDIS_QUORUM))
		return error_set(error, LOCKSHM_INVALID, "redis_wait is for replicas of one server, not for a quorum");
	return 0;
}

int redis_options_check(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	int err;

	if (!o->redis && o->global_keys)
		return error_set(error, LOCKSHM_INVALID, "global_keys are keys across hosts, but no Redis server is named");
	if (!o->redis && (o->redis_prefix || (o->flags & LOCKSHM_CREATE_REDIS_QUORUM)))
		return error_set(error, LOCKSHM_INVALID, "settings for Redis, but no Redis server is named");
	if (!o->redis)
		return 0;
	if (o->host_leases < 1 || o->host_leases > HOST_LEASES_MAX)
		return error_set(error, LOCKSHM_INVALID, "host_leases is %u, must be 1..%u", o->host_leases, HOST_LEASES_MAX);
	err = check_ways(o, error);
	if (!err && o->global_keys)
		err = global_keys_check(o->global_keys, error);
	return err ? err : check_servers(o, error);
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
	const char *prefix = o->redis_prefix ? o->redis_prefix : DEFAULT_PREFIX;

	memset(out, 0, sizeof(*out));
	if (!o->redis)
		return 0;
	if (!make_host(out->host))
		return error_system(error, LOCKSHM_SYSTEM, errno, "getrandom");
	out->policy = (uint32_t)o->redis_policy;
	out->flags = (o->flags & LOCKSHM_CREATE_REDIS_QUORUM ? REDIS_QUORUM : 0) | o->redis_wait << REDIS_WAIT_SHIFT;
	out->ttl_ms = (uint64_t)(o->redis_ttl_ns / LOCKSHM_MS(1));
	out->retain_ms = (uint32_t)(o->redis_retain_ns / LOCKSHM_MS(1));
	out->gap_ms = (uint32_t)(o->redis_gap_ns / LOCKSHM_MS(1));
	memcpy(out->prefix, prefix, strlen(prefix));
	memcpy(out->servers, o->redis, strlen(o->redis));
	if (o->global_keys)
		memcpy(out->global_keys, o->global_keys, strlen(o->global_keys));
	return 0;
}
