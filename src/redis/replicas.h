/* SPDX-License-Identifier: MIT */
/* replicas.h - a lease counts when enough replicas of its server have it */
#ifndef LOCKSHM_REDIS_REPLICAS_H
#define LOCKSHM_REDIS_REPLICAS_H

#include "redis/client.h"
#include "redis/nodes.h"

/* WAIT for all that was written over this connection so far; node->waits until the reply is taken.  The server replies
 * to nothing else on it meanwhile, so no command may be sent before that. */
void redis_replicas_request(struct redis_node *node, unsigned replicas, int64_t io_ns);
/* True = the reply has come, or can come no more; node->copies is set. */
bool redis_replicas_take(struct redis_node *node);
/* A granted lease that too few replicas have: the outcome is unknown, so the caller sends the command again or takes
 * the lease back. */
void redis_replicas_check(struct redis_command *cmd, const struct redis_node *node, unsigned replicas);

#endif
