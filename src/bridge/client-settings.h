/* SPDX-License-Identifier: MIT */
/* client-settings.h - the settings that a segment has for the Redis client */
#ifndef LOCKSHM_BRIDGE_CLIENT_SETTINGS_H
#define LOCKSHM_BRIDGE_CLIENT_SETTINGS_H

#include "redis/client.h"
#include "segment/layout.h"

/* Of the checked copy of a segment, which must stay as long as they are used. */
void bridge_client_settings(struct redis_settings *out, const struct shm_redis *from);

#endif
