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

/* A group of this node that is not full; NULL = all groups are in use. */
static struct redis_group *group_of(struct renew_batch *r, struct redis_node *node)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		if (r->node[i] == node && r->group[i].many.n < REDIS_MANY)
			return &r->group[i];
	if (r->n == REDIS_GROUPS)
		return NULL;
	r->node[r->n] = node;
	r->group[r->n].many.n = 0;
	r->group[r->n].many.fences = node->untracked;
	return &r->group[r->n++];
}

static bool add(struct renew_batch *r, struct redis_nodes *nodes, struct redis_command *cmd)
{
	struct redis_group *g = group_of(r, redis_nodes_of(nodes, cmd->keys));

	if (!g)
		return false;
	g->cmd[g->many.n] = cmd;
	g->many.keys[g->many.n] = cmd->keys;
	g->many.value[g->many.n++] = cmd->args.value;
	return true;
}

/* A single lease is renewed by its own command; so are those of an unreachable server, and each gets the error. */
static void drop_unfit(struct renew_batch *r)
{
	size_t i, k = 0;

	for (i = 0; i < r->n; i++) {
		/* A connection that ended is noticed now, not with the script. */
		if (r->group[i].many.n >= 2)
			(void)redis_conn_pump(r->node[i]->conn);
		if (r->group[i].many.n < 2 || redis_node_code(r->node[i]))
			continue;
		if (k < i) {
			r->group[k] = r->group[i];
			r->node[k] = r->node[i];
		}
		k++;
	}
	r->n = k;
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

static void run(struct renew_batch *r, struct redis_nodes *nodes, int64_t io_ns)
{
	size_t i;

	drop_unfit(r);
	for (i = 0; i < r->n; i++)
		(void)redis_op_begin_many(&r->op[i], r->node[i]->conn, &r->group[i].many,
					   r->group[i].cmd[0]->args.ttl_ms, redis_now() + io_ns);
	for (i = 0; i < r->n; i++)
		(void)redis_conn_pump(r->op[i].conn);
	redis_ops_wait(r->op, r->n);
	for (i = 0; i < r->n; i++) {
		apply(&r->group[i], &r->op[i]);
		redis_op_end(&r->op[i]);
		r->node[i]->failed = redis_conn_closed(r->op[i].conn);
	}
	for (i = 0; i < nodes->n; i++)
		if (nodes->node[i].failed)
			redis_node_back_off(&nodes->node[i]);
	r->n = 0;
}

void renew_batch_run(struct renew_batch *r, struct redis_nodes *nodes, struct redis_command *cmds, size_t n,
			 int64_t io_ns)
{
	size_t i;

	for (i = 0; i < n && !nodes->cluster; i++) {
		if (!cmds[i].plain || add(r, nodes, &cmds[i]))
			continue;
		run(r, nodes, io_ns);
		(void)add(r, nodes, &cmds[i]);
	}
	run(r, nodes, io_ns);
}
