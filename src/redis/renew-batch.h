/* SPDX-License-Identifier: MIT */
/* renew-batch.h - many leases renewed by one script, where nothing else is to be done for them */
#ifndef LOCKSHM_REDIS_RENEW_BATCH_H
#define LOCKSHM_REDIS_RENEW_BATCH_H

#include "redis/client.h"
#include "redis/nodes.h"

/* Under way at once: one for each server, and as many as all leases of a segment fill. */
#define REDIS_GROUPS (REDIS_SERVERS_MAX + 4096 / REDIS_MANY)

struct redis_group {
	struct redis_node *node; /* NULL = not in use */
	bool sent;
	struct redis_command *cmd[REDIS_MANY];
	struct redis_many many;
	struct redis_op op;
};

struct renew_batch {
	struct redis_group group[REDIS_GROUPS];
};

/* May the lease be renewed with others?  Not in a cluster, where the leases are in many slots. */
bool renew_batch_fits(const struct redis_command *cmd, const struct redis_nodes *nodes);
/* Adds it to those that the node gets next; false = no room. */
bool renew_batch_add(struct renew_batch *r, struct redis_node *node, struct redis_command *cmd);
/*
 * After its last step: sets the result of the leases that are renewed, and of all if the outcome is unknown: these are
 * `batched`.  All others are to be sent one by one.  The group is free again.
 */
void redis_group_end(struct redis_group *g);

#endif
