/* SPDX-License-Identifier: MIT */
/*
 * pipeline.h - commands under way on the nodes of a segment
 *
 * Commands for one node are sent in their order, as soon as it is connected, and replies come in that order.  A node
 * that is lost fails all that was sent to it: the outcome is unknown.  Nothing here waits.
 *
 *   queued --connected--> sent --reply--> over
 *                         sent --redirected, once--> queued, for the other node
 *                         sent --granted, and replicas must have it--> granted --WAIT sent--> copied --reply--> over
 *   queued --plain renewal--> grouped --reply of the script for many--> over, or queued alone
 */
#ifndef LOCKSHM_REDIS_PIPELINE_H
#define LOCKSHM_REDIS_PIPELINE_H

#include "redis/client.h"
#include "redis/nodes.h"
#include "redis/renew-batch.h"

struct redis_pipeline {
	struct redis_nodes nodes;
	unsigned replicas; /* that must have a lease before it counts */
	int64_t io_ns; /* of this step */
	struct redis_command *first, **end; /* under way */
	struct renew_batch renewals;
};

void redis_pipeline_init(struct redis_pipeline *p);
void redis_pipeline_add(struct redis_pipeline *p, struct redis_command *cmd);
/* Moves commands that are over to the end of a list, whose last pointer it returns. */
struct redis_command **redis_pipeline_step(struct redis_pipeline *p, int64_t io_ns, struct redis_command **over);
int redis_pipeline_keys_mode(const struct redis_pipeline *p);

/* For its connection to be waited for: a reply or the next step of a connect. */
bool redis_node_is_awaited(const struct redis_node *node);

#endif
