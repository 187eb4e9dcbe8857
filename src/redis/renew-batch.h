/* SPDX-License-Identifier: MIT */
/* renew-batch.h - many leases are renewed by one script, where there is nothing else to do for them */
#ifndef LOCKSHM_REDIS_RENEW_BATCH_H
#define LOCKSHM_REDIS_RENEW_BATCH_H

#include "redis/client.h"
#include "redis/nodes.h"

/* Under way at once: one for each server, and some for those that have more. */
#define REDIS_GROUPS (REDIS_SERVERS_MAX + 4)

struct redis_group {
	struct redis_command *cmd[REDIS_MANY];
	struct redis_many many;
};

struct renew_batch {
	struct redis_group group[REDIS_GROUPS];
	struct redis_node *node[REDIS_GROUPS];
	struct redis_op op[REDIS_GROUPS];
	size_t n;
};

/*
 * Settles those of the @n @asks that are plain, and found to be, at servers that are connected.  Whatever else is found
 * of one, or said of all, is left to be asked about each by itself.  Not in a cluster, where they are in many slots.
 */
void renew_batch_run(struct renew_batch *r, struct redis_nodes *nodes, struct redis_command *cmds, size_t n,
			 int64_t io_ns);

#endif
