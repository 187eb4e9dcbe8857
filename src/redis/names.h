/* SPDX-License-Identifier: MIT */
/*
 * names.h - the names of one lock in Redis
 *
 *   K               the lock: string = token of the writer, set = tokens of the readers
 *   K:lock-intent   a writer waits for the readers
 *   B:q B:qx        queue of the hosts, and until when each counts as waiting
 *   B:rx            until when each reader counts
 *   B:f             fence
 *
 * K is prefix and name as they are, so that other programs can use the same lock.  B is K if that has a {tag} of its
 * own, else {K}.  In a cluster all names of a lock must fall into one slot, which Redis computes from the tag: then the
 * mark is B:lock-intent, and names for which no such B exists are refused.
 */
#ifndef LOCKSHM_REDIS_NAMES_H
#define LOCKSHM_REDIS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/redis-error.h"

#define REDIS_KEYS 6
#define REDIS_NAME_MAX 65535

/* Of these names only what others may change is looked at when it does.  The rest changes whenever a host says that it
 * still waits: whoever looked then, and wrote, would make that host look, without end. */
#define REDIS_KEYS_WATCHED 3 /* the lock, the mark, the queue */
/* As long as there is a writer it is changed by the writer's host alone, which is not told of what it did itself. */
#define REDIS_KEY_FENCE 5

struct redis_keys {
	char *bytes;
	const char *key[REDIS_KEYS];
	size_t len[REDIS_KEYS];
	int mode; /* what they were made for */
};

enum redis_keys_mode {
	REDIS_KEYS_SINGLE = 2, /* one server, or several that know nothing of each other */
	REDIS_KEYS_CLUSTER = 3, /* a Redis Cluster */
	/* A Redis Cluster, and others use K:lock-intent: K must have a tag of its own. */
	REDIS_KEYS_CLUSTER_SHARED = 4,
};

/* Freed with redis_keys_free(), also after an error. */
int redis_keys_make(struct redis_keys *out, int mode, const char *prefix, const void *name, size_t len,
		     struct redis_error *error);
void redis_keys_free(struct redis_keys *keys);

/* The slot of a Redis Cluster into which they all fall, if they were made for one. */
#define REDIS_SLOTS 16384
unsigned redis_keys_slot(const struct redis_keys *keys);

#endif
