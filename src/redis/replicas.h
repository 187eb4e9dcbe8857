/* SPDX-License-Identifier: MIT */
/* replicas.h - a lease counts when enough replicas of its server have it */
#ifndef LOCKSHM_REDIS_REPLICAS_H
#define LOCKSHM_REDIS_REPLICAS_H

#include "redis/client.h"
#include "redis/nodes.h"

/*
 * A lease granted to one of the @n commands by its node counts when @replicas of that server have it.  If not, the
 * outcome is unknown: the caller sends the command again or takes the lease back.  Takes @io_ns at most.
 */
void redis_replicas_await(struct redis_command *const *cmds, struct redis_node *const *nodes, size_t n,
			  unsigned replicas, int64_t io_ns);

#endif
