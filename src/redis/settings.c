/* SPDX-License-Identifier: MIT */
/*
 * settings.c - checking what a segment is told about Redis
 *
 * No server is asked: a segment is made at boot, maybe before the network is there.  URIs are kept as they were given,
 * and parsed again by whoever becomes the bridge; a password is never in them (redis/uri.h).
 */
#include "redis/settings.h"

#include <string.h>

#include "sys/error.h"

#define DEFAULT_PREFIX "lk:"

#ifdef HAVE_BRIDGE
#include "redis/quorum.h"
#include "redis/script.h"
#include "redis/uri.h"

static int check_servers(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	struct redis_server servers[REDIS_SERVERS_MAX];
	struct redis_error why = { 0 };
	size_t n;

	if (strnlen(o->redis, REDIS_SERVERS_BYTES) >= REDIS_SERVERS_BYTES)
		return error_set(error, LOCKSHM_INVALID, "the Redis URIs have more than %d bytes", REDIS_SERVERS_BYTES - 1);
	if (redis_uri_parse(o->redis, REDIS_PUBLIC, servers, REDIS_SERVERS_MAX, &n, &why) != 0)
		return error_set(error, LOCKSHM_INVALID, "%s", why.text);
	if ((o->flags & LOCKSHM_CREATE_REDIS_QUORUM) && n == 2)
		return error_set(error, LOCKSHM_INVALID, "a quorum of 2 servers: %s", redis_quorum_warning(n));
	return 0;
}

static int make_host(char out[REDIS_HOST_BYTES], struct lockshm_error *error)
{
	struct redis_host host;

	_Static_assert(REDIS_HOST_BYTES == REDIS_HOST_LEN, "the segment keeps what the bridge calls a host");
	if (!redis_host_make(&host))
		return error_set(error, LOCKSHM_SYSTEM, "no random numbers");
	memcpy(out, host.id, REDIS_HOST_BYTES);
	return 0;
}
#else
static int check_servers(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	(void)o;
	return error_set(error, LOCKSHM_BRIDGE, "this library was built without the bridge to Redis");
}

static int make_host(char out[REDIS_HOST_BYTES], struct lockshm_error *error)
{
	(void)out;
	return error_set(error, LOCKSHM_BRIDGE, "this library was built without the bridge to Redis");
}
#endif

int redis_settings_check(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	if (!o->redis) {
		if (o->redis_prefix || (o->flags & LOCKSHM_CREATE_REDIS_QUORUM))
			return error_set(error, LOCKSHM_INVALID, "settings for Redis, but no Redis server is named");
		return 0;
	}
	if (o->redis_policy < LOCKSHM_REDIS_FAIL || o->redis_policy > LOCKSHM_REDIS_LOCAL_ONLY)
		return error_set(error, LOCKSHM_INVALID, "redis_policy is %d, no enum lockshm_redis_policy", o->redis_policy);
	if (o->redis_prefix && strnlen(o->redis_prefix, REDIS_PREFIX_BYTES) >= REDIS_PREFIX_BYTES)
		return error_set(error, LOCKSHM_INVALID, "redis_prefix has more than %d bytes", REDIS_PREFIX_BYTES - 1);
	if (o->redis_leases < 1 || o->redis_leases > HOST_LEASES_MAX)
		return error_set(error, LOCKSHM_INVALID, "redis_leases is %u, must be 1..%u", o->redis_leases, HOST_LEASES_MAX);
	if (o->redis_ttl_ns < LOCKSHM_SECONDS(1) || o->redis_ttl_ns > LOCKSHM_SECONDS(3600))
		return error_set(error, LOCKSHM_INVALID, "redis_ttl_ns is %lld, must be one second to one hour",
				 (long long)o->redis_ttl_ns);
	if (o->redis_retain_ns < 0 || o->redis_retain_ns >= o->redis_ttl_ns)
		return error_set(error, LOCKSHM_INVALID, "redis_retain_ns is %lld, must be 0 to less than redis_ttl_ns",
				 (long long)o->redis_retain_ns);
	if (o->redis_wait > REDIS_WAIT_MAX)
		return error_set(error, LOCKSHM_INVALID, "redis_wait is %u, must be 0..%u", o->redis_wait, REDIS_WAIT_MAX);
	if (o->redis_wait && (o->flags & LOCKSHM_CREATE_REDIS_QUORUM))
		return error_set(error, LOCKSHM_INVALID, "redis_wait is for replicas of one server, not for a quorum");
	return check_servers(o, error);
}

int redis_settings_fill(struct shm_redis *out, const struct lockshm_create_options *o, struct lockshm_error *error)
{
	const char *prefix = o->redis_prefix ? o->redis_prefix : DEFAULT_PREFIX;

	out->policy = (uint32_t)o->redis_policy;
	out->flags = (o->flags & LOCKSHM_CREATE_REDIS_QUORUM ? REDIS_QUORUM : 0) | o->redis_wait << REDIS_WAIT_SHIFT;
	out->ttl_ms = (uint64_t)(o->redis_ttl_ns / LOCKSHM_MS(1));
	out->retain_ms = (uint64_t)(o->redis_retain_ns / LOCKSHM_MS(1));
	memcpy(out->prefix, prefix, strlen(prefix));
	memcpy(out->servers, o->redis, strlen(o->redis));
	return make_host(out->host, error);
}
