/* SPDX-License-Identifier: MIT */
/*
 * renew-batch.c - many leases renewed by one script; see redis/renew-batch.h
 *
 * The validity of each counts from before the first byte of the script.  Without a reply the outcome of all is unknown,
 * as it would be for single renewals: a renewal creates nothing, so it is sent again while the lease is valid.
 */
#include "redis/renew-batch.h"

#include <stdio.h>
#include <string.h>

bool renew_batch_fits(const struct redis_command *cmd, const struct redis_nodes *nodes)
{
	return cmd->plain && !cmd->alone && !nodes->cluster;
}

/* A group of this node that is not full; NULL = all groups are in use. */
static struct redis_group *group_of(struct renew_batch *r, struct redis_node *node)
{
	struct redis_group *free = NULL;
	size_t i;

	for (i = 0; i < REDIS_GROUPS; i++) {
		struct redis_group *g = &r->group[i];

		if (g->node == node && !g->sent && g->many.n < REDIS_MANY)
			return g;
		if (!g->node)
			free = g;
	}
	if (!free)
		return NULL;
	free->node = node;
	free->sent = false;
	free->many.n = 0;
	free->many.fences = node->untracked;
	return free;
}

bool renew_batch_add(struct renew_batch *r, struct redis_node *node, struct redis_command *cmd)
{
	struct redis_group *g = group_of(r, node);

	if (!g)
		return false;
	g->cmd[g->many.n] = cmd;
	g->many.keys[g->many.n] = cmd->keys;
	g->many.value[g->many.n++] = cmd->args.value;
	return true;
}

static void apply_reply(struct redis_command *cmd, const struct redis_op *op)
{
	cmd->batched = true;
	cmd->code = op->code;
	if (op->code) {
		snprintf(cmd->why, sizeof(cmd->why), "%.250s", op->why);
		return;
	}
	/* As renew.lua would reply. */
	memset(&cmd->reply, 0, sizeof(cmd->reply));
	cmd->reply.status = REDIS_DONE;
	cmd->reply.kind = REDIS_KIND_HOST;
	cmd->reply.server_ms = -1;
	cmd->reply.left_ms = cmd->args.ttl_ms;
	cmd->valid_until = redis_valid_until(op->began, cmd->args.ttl_ms);
}

/* An error reply may concern one of the leases only (a right to its names): each is sent by itself. */
static void apply(const struct redis_group *g, const struct redis_op *op)
{
	size_t k, first = REDIS_MANY;

	if (op->code && op->code != REDIS_UNKNOWN)
		return;
	for (k = 0; k < g->many.n; k++) {
		if (!op->code && !redis_op_renewed(op, k))
			continue;
		apply_reply(g->cmd[k], op);
		first = k < first ? k : first;
		g->cmd[k]->shared = k != first;
	}
}

void redis_group_end(struct redis_group *g)
{
	apply(g, &g->op);
	redis_op_end(&g->op);
	g->node = NULL;
}
