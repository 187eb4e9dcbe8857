/* SPDX-License-Identifier: MIT */
/* replicas.h - a lease counts when enough replicas of its server have it */
#ifndef LOCKSHM_REDIS_REPLICAS_H
#define LOCKSHM_REDIS_REPLICAS_H

#include "redis/client.h"
#include "redis/nodes.h"

/*
 * What was granted to one of the @n @asks, by its @nodes, counts when @replicas of that server have it.  If not it is
 * as if nobody had answered: it is there, maybe, and the caller asks again or takes it back.  Takes @io_ns at most.
 */
void redis_replicas_await(struct redis_command *const *cmds, struct redis_node *const *nodes, size_t n, unsigned replicas,
			   int64_t io_ns);

#endif
