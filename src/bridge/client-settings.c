/* SPDX-License-Identifier: MIT */
/* client-settings.c - the settings that a segment has for the Redis client; see bridge/client-settings.h */
#include "bridge/client-settings.h"

#include <string.h>

void bridge_client_settings(struct redis_settings *out, const struct shm_redis *from)
{
	*out = (struct redis_settings){
		.servers = from->servers,
		.prefix = from->prefix,
		.policy = (int)from->policy,
		.ttl_ms = from->ttl_ms,
		.retain_ms = from->retain_ms,
		.quorum = (from->flags & REDIS_QUORUM) != 0,
		.replicas = REDIS_WAIT(from->flags),
	};
	memcpy(out->host, from->host, sizeof(from->host));
}
