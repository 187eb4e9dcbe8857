/* SPDX-License-Identifier: MIT */
/*
 * settings.c - create options to the settings of a client; see redis/settings.h
 *
 * URIs are stored as given; each new bridge parses them again.  They contain no password (redis/uri.h).
 */
#include "redis/settings.h"

#include <string.h>

#include "redis/quorum.h"
#include "redis/script.h"
#include "redis/uri.h"
#include "sys/error.h"

#define DEFAULT_PREFIX "lk:"

static int check_servers(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	struct redis_server servers[REDIS_SERVERS_MAX];
	struct redis_error why = { 0 };
	size_t n;

	if (strnlen(o->redis, REDIS_URIS_LEN + 1) > REDIS_URIS_LEN)
		return error_set(error, LOCKSHM_INVALID, "the Redis URIs have more than %d bytes", REDIS_URIS_LEN);
	if (redis_uri_parse(o->redis, REDIS_PUBLIC, servers, REDIS_SERVERS_MAX, &n, &why) != 0)
		return error_set(error, LOCKSHM_INVALID, "%s", why.text);
	if ((o->flags & LOCKSHM_CREATE_REDIS_QUORUM) && n == 2)
		return error_set(error, LOCKSHM_INVALID, "a quorum of 2 servers: %s", redis_quorum_warning(n));
	return 0;
}

int redis_settings_check(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	if (o->redis_policy == LOCKSHM_REDIS_LOCAL_ONLY)
		return error_set(error, LOCKSHM_INVALID,
				 "redis_policy: a segment's is fail or wait; local-only is for single requests");
	if (o->redis_policy != LOCKSHM_REDIS_FAIL && o->redis_policy != LOCKSHM_REDIS_WAIT)
		return error_set(error, LOCKSHM_INVALID, "redis_policy is %d, no enum lockshm_redis_policy", o->redis_policy);
	if (o->redis_prefix && strnlen(o->redis_prefix, REDIS_PREFIX_LEN + 1) > REDIS_PREFIX_LEN)
		return error_set(error, LOCKSHM_INVALID, "redis_prefix has more than %d bytes", REDIS_PREFIX_LEN);
	if (o->redis_ttl_ns < LOCKSHM_SECONDS(1) || o->redis_ttl_ns > LOCKSHM_SECONDS(3600))
		return error_set(error, LOCKSHM_INVALID, "redis_ttl_ns is %lld, must be one second to one hour",
				 (long long)o->redis_ttl_ns);
	if (o->redis_retain_ns < 0 || o->redis_retain_ns >= o->redis_ttl_ns)
		return error_set(error, LOCKSHM_INVALID, "redis_retain_ns is %lld, must be 0 to less than redis_ttl_ns",
				 (long long)o->redis_retain_ns);
	if (o->redis_wait > REDIS_REPLICAS_MAX)
		return error_set(error, LOCKSHM_INVALID, "redis_wait is %u, must be 0..%d", o->redis_wait,
				 REDIS_REPLICAS_MAX);
	if (o->redis_wait && (o->flags & LOCKSHM_CREATE_REDIS_QUORUM))
		return error_set(error, LOCKSHM_INVALID, "redis_wait is for replicas of one server, not for a quorum");
	return check_servers(o, error);
}

int redis_settings_make(struct redis_settings *out, const struct lockshm_create_options *o,
			struct lockshm_error *error)
{
	struct redis_host host;

	if (!redis_host_make(&host))
		return error_set(error, LOCKSHM_SYSTEM, "no random numbers");
	*out = (struct redis_settings){
		.servers = o->redis,
		.prefix = o->redis_prefix ? o->redis_prefix : DEFAULT_PREFIX,
		.policy = o->redis_policy,
		.ttl_ms = (uint64_t)(o->redis_ttl_ns / LOCKSHM_MS(1)),
		.retain_ms = (uint64_t)(o->redis_retain_ns / LOCKSHM_MS(1)),
		.quorum = (o->flags & LOCKSHM_CREATE_REDIS_QUORUM) != 0,
		.replicas = o->redis_wait,
	};
	memcpy(out->host, host.id, sizeof(out->host));
	return 0;
}
