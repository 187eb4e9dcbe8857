/* SPDX-License-Identifier: MIT */
/* renew-batch.h - many leases are renewed by one script, where there is nothing else to do for them */
#ifndef LOCKSHM_BRIDGE_RENEWALS_H
#define LOCKSHM_BRIDGE_RENEWALS_H

#include "redis/client.h"
#include "redis/nodes.h"

/* Under way at once: one for each server, and some for those that have more. */
#define BRIDGE_GROUPS (BRIDGE_SERVERS_MAX + 4)

struct bridge_group {
	struct bridge_ask *ask[BRIDGE_MANY];
	struct bridge_many many;
};

struct bridge_renewals {
	struct bridge_group group[BRIDGE_GROUPS];
	struct bridge_node *node[BRIDGE_GROUPS];
	struct bridge_op op[BRIDGE_GROUPS];
	size_t n;
};

/*
 * Settles those of the @n @asks that are plain, and found to be, at servers that are connected.  Whatever else is found
 * of one, or said of all, is left to be asked about each by itself.  Not in a cluster, where they are in many slots.
 */
void bridge_renewals_run(struct bridge_renewals *r, struct bridge_nodes *nodes, struct bridge_ask *asks, size_t n,
			 int64_t io_ns);

#endif
