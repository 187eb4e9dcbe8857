/* SPDX-License-Identifier: MIT */
/* renew-batch.h - many leases renewed by one script, where nothing else is to be done for them */
#ifndef LOCKSHM_REDIS_RENEW_BATCH_H
#define LOCKSHM_REDIS_RENEW_BATCH_H

#include "redis/client.h"
#include "redis/nodes.h"

/* Under way at once: one for each server, and some for servers with more leases. */
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
 * Renews those of the @n commands that are plain, and turn out to be, at connected servers.  All others, and all of a
 * script that got an error reply, are left to be sent one by one.  Not used in a cluster, where the leases are in many
 * slots.
 */
void renew_batch_run(struct renew_batch *r, struct redis_nodes *nodes, struct redis_command *cmds, size_t n,
			 int64_t io_ns);

#endif
