/* SPDX-License-Identifier: MIT */
/* client-settings.c - the settings that a segment has for the Redis client; see bridge/client-settings.h */
#include "bridge/client-settings.h"

#include <string.h>

#include "bridge/credentials.h"

const char *bridge_credentials;

void bridge_client_settings(struct redis_settings *out, const struct shm_redis *from)
{
	_Static_assert(sizeof(from->host) == REDIS_HOST_LEN, "a host's id is what the segment has of it");
	*out = (struct redis_settings){
		.servers = from->servers,
		.credentials = bridge_credentials,
		.ttl_ms = from->ttl_ms,
		.quorum = (from->flags & REDIS_QUORUM) != 0,
		.replicas = REDIS_WAIT(from->flags),
	};
	memcpy(out->host, from->host, sizeof(from->host));
}
