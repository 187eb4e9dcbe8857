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
#ifndef LOCKSHM_BRIDGE_KEYS_H
#define LOCKSHM_BRIDGE_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/redis-error.h"

#define BRIDGE_KEYS 6
#define BRIDGE_NAME_MAX 65535

/* Of these names only what others may change is looked at when it does.  The rest changes whenever a host says that it
 * still waits: whoever looked then, and wrote, would make that host look, without end. */
#define BRIDGE_KEYS_WATCHED 3 /* the lock, the mark, the queue */
/* As long as there is a writer it is changed by the writer's host alone, which is not told of what it did itself. */
#define BRIDGE_KEY_FENCE 5

struct bridge_keys {
	char *bytes;
	const char *key[BRIDGE_KEYS];
	size_t len[BRIDGE_KEYS];
	int mode; /* what they were made for */
};

enum bridge_keys_mode {
	BRIDGE_KEYS_SINGLE = 2, /* one server, or several that know nothing of each other */
	BRIDGE_KEYS_CLUSTER = 3, /* a Redis Cluster */
	/* A Redis Cluster, and others use K:lock-intent: K must have a tag of its own. */
	BRIDGE_KEYS_CLUSTER_SHARED = 4,
};

/* Freed with bridge_keys_free(), also after an error. */
int bridge_keys_make(struct bridge_keys *out, int mode, const char *prefix, const void *name, size_t len,
		     struct bridge_error *error);
void bridge_keys_free(struct bridge_keys *keys);

/* The slot of a Redis Cluster into which they all fall, if they were made for one. */
#define BRIDGE_SLOTS 16384
unsigned bridge_keys_slot(const struct bridge_keys *keys);

#endif
