/* SPDX-License-Identifier: MIT */
/*
 * names.h - the names of one lock in Redis
 *
 *   K               the lock: string = value of the writer, set = values of the readers
 *   K:lock-intent   intent key: a writer waits for the readers
 *   B:q B:qx        queue of the hosts; deadline of each waiter
 *   B:rx            deadline of each reader
 *   B:f             fence
 *
 * K is prefix and name unchanged, so that other programs can use the same lock.  B is K if K has a {tag}, else {K}.  In
 * a cluster all names of a lock must fall into one slot, which Redis computes from the tag: then the intent key is
 * B:lock-intent, and names without such a B are refused.
 */
#ifndef LOCKSHM_REDIS_NAMES_H
#define LOCKSHM_REDIS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/redis-error.h"

#define REDIS_KEYS 6
#define REDIS_NAME_MAX 65535

/*
 * Only keys that other hosts change are tracked.  The rest changes each time a waiting host repeats its command: two
 * hosts that reacted to that with commands would never stop.
 */
#define REDIS_KEYS_WATCHED 3 /* lock, intent key, queue */
/*
 * Not tracked with these: while there is a writer only its own host changes it, and a host gets no hints of its own
 * changes.
 */
#define REDIS_KEY_FENCE 5

struct redis_keys {
	char *bytes;
	const char *key[REDIS_KEYS];
	size_t len[REDIS_KEYS];
	int mode; /* that they were made for */
};

enum redis_keys_mode {
	REDIS_KEYS_SINGLE = 2, /* one server, or several independent ones */
	REDIS_KEYS_CLUSTER = 3, /* a Redis Cluster */
	/* A Redis Cluster, and other programs use K:lock-intent: K must have a tag. */
	REDIS_KEYS_CLUSTER_SHARED = 4,
};

/* Freed with redis_keys_free(), also after an error. */
int redis_keys_make(struct redis_keys *out, int mode, const char *prefix, const void *name, size_t len,
		     struct redis_error *error);
void redis_keys_free(struct redis_keys *keys);

/* The slot of all names, if they were made for a cluster. */
#define REDIS_SLOTS 16384
unsigned redis_keys_slot(const struct redis_keys *keys);

#endif
