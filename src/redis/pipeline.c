/* SPDX-License-Identifier: MIT */
/*
 * pipeline.c - commands under way; see redis/pipeline.h
 *
 * After each pump all replies that came with it are taken, before anything else pumps: a reply that stayed in the buffer
 * would make no descriptor readable.
 */
#define _GNU_SOURCE
#include "redis/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "redis/replicas.h"

#define TRACKING_AGAIN_NS REDIS_MS(1000)

enum stage { QUEUED, SENT, GROUPED, GRANTED, COPIED, OVER };

void redis_pipeline_init(struct redis_pipeline *p)
{
	p->end = &p->first;
}

int redis_pipeline_keys_mode(const struct redis_pipeline *p)
{
	return p->nodes.cluster ? REDIS_KEYS_CLUSTER : REDIS_KEYS_SINGLE;
}

void redis_pipeline_add(struct redis_pipeline *p, struct redis_command *cmd)
{
	cmd->stage = QUEUED;
	cmd->followed = cmd->alone = false;
	cmd->node = redis_nodes_of(&p->nodes, cmd->keys);
	cmd->next = NULL;
	*p->end = cmd;
	p->end = &cmd->next;
}

/* ---------------------------------------------------------------- connections */

bool redis_node_is_awaited(const struct redis_node *node)
{
	const struct redis_conn *c = node->conn;

	return !redis_conn_closed(c) && (!redis_conn_ready(c) || redis_conn_sent(c) != redis_conn_taken(c));
}

/* Those that a command uses, ready ones as well: a connection that ended is noticed before the next command. */
static void pump(struct redis_pipeline *p)
{
	struct redis_command *cmd;
	size_t i;

	for (i = 0; i < p->nodes.n; i++)
		p->nodes.node[i].used = redis_node_is_awaited(&p->nodes.node[i]);
	for (cmd = p->first; cmd; cmd = cmd->next)
		cmd->node->used = true;
	for (i = 0; i < p->nodes.n; i++) {
		struct redis_node *node = &p->nodes.node[i];

		if (node->used)
			(void)redis_conn_pump(node->conn);
		if (node->arms)
			(void)redis_conn_pump(tracking_conn(node->tracking));
	}
}

/* From a refusal, or nonsense in the place of hints, until the next attempt. */
static bool pauses(struct redis_node *node)
{
	const struct redis_conn *hints = tracking_conn(node->tracking);

	if (!node->untracked && redis_conn_closed(hints) && redis_conn_error(hints)->code == REDIS_PROTOCOL) {
		node->untracked = true;
		node->arm_again = redis_now() + TRACKING_AGAIN_NS;
	}
	return node->untracked && redis_now() < node->arm_again;
}

/* True if anything happened. */
static bool arm(struct redis_pipeline *p, struct redis_node *node)
{
	int code;

	if (!node->arms) {
		if (!redis_conn_ready(node->conn) || pauses(node))
			return false;
		tracking_arm(&node->arming, node->tracking, node->conn, p->io_ns);
		node->arms = true;
	}
	code = tracking_step(&node->arming);
	if (code == REDIS_AGAIN)
		return node->arming.moved;
	node->arms = false;
	node->untracked = code != 0;
	node->arm_again = redis_now() + TRACKING_AGAIN_NS;
	return node->arming.moved || code;
}

static bool arm_all(struct redis_pipeline *p)
{
	bool moved = false;
	size_t i;

	for (i = 0; i < p->nodes.n; i++)
		moved = arm(p, &p->nodes.node[i]) || moved;
	return moved;
}

/* ---------------------------------------------------------------- sending */

static void fail(struct redis_command *cmd, int code, const char *why)
{
	cmd->stage = OVER;
	cmd->code = code;
	snprintf(cmd->why, sizeof(cmd->why), "%.250s", *why ? why : redis_code_name(code));
}

static void begin(struct redis_pipeline *p, struct redis_command *cmd)
{
	cmd->stage = SENT;
	(void)redis_op_begin(&cmd->op, cmd->node->conn, cmd->script, cmd->keys, &cmd->args, redis_now() + p->io_ns);
}

/* True if anything happened. */
static bool send_one(struct redis_pipeline *p, struct redis_command *cmd)
{
	struct redis_node *node = cmd->node;
	bool opened = node->opening;
	int code = redis_node_connect(node, redis_now() + p->io_ns);

	if (code == REDIS_AGAIN)
		return !opened;
	if (code) {
		/* A node that backs off keeps its earlier error: of that time. */
		fail(cmd, code, redis_conn_error(node->conn)->text);
		cmd->unsent = true;
		cmd->sent_at = redis_conn_tried(node->conn);
		return true;
	}
	/* A connection may find that it is a cluster, where names have another form. */
	cmd->put_off = cmd->keys->mode != redis_pipeline_keys_mode(p);
	if (cmd->put_off) {
		cmd->stage = OVER;
		return true;
	}
	if (node->waits)
		return false;
	if (renew_batch_fits(cmd, &p->nodes) && renew_batch_add(&p->renewals, node, cmd))
		cmd->stage = GROUPED;
	else
		begin(p, cmd);
	return true;
}

/* A single lease is renewed by its own command. */
static void send_groups(struct redis_pipeline *p)
{
	size_t i;

	for (i = 0; i < REDIS_GROUPS; i++) {
		struct redis_group *g = &p->renewals.group[i];

		if (!g->node || g->sent)
			continue;
		g->sent = g->many.n > 1;
		if (g->sent) {
			(void)redis_op_begin_many(&g->op, g->node->conn, &g->many, g->cmd[0]->args.ttl_ms,
						   redis_now() + p->io_ns);
			continue;
		}
		g->node = NULL;
		begin(p, g->cmd[0]);
	}
}

static bool send_queued(struct redis_pipeline *p)
{
	struct redis_command *cmd;
	bool moved = false;

	for (cmd = p->first; cmd; cmd = cmd->next)
		if (cmd->stage == QUEUED)
			moved = send_one(p, cmd) || moved;
	send_groups(p);
	return moved;
}

/* ---------------------------------------------------------------- replies */

static void take_error(struct redis_pipeline *p, struct redis_command *cmd)
{
	const struct redis_op *op = &cmd->op;
	struct redis_node *to = NULL;
	struct redis_error why;

	if (strstr(op->why, "CLUSTERDOWN"))
		redis_nodes_forget(&p->nodes, cmd->keys, cmd->node);
	if (op->code == REDIS_MOVED)
		to = redis_nodes_moved(&p->nodes, cmd->node, op->why);
	if (to && !cmd->followed) {
		cmd->followed = true;
		cmd->node = to;
		cmd->stage = QUEUED;
		return;
	}
	/* The slot moved to a node that cannot be reached now, or not at all: retry later. */
	fail(cmd, op->code == REDIS_MOVED ? REDIS_RETRY : op->code, op->why);
	if (op->code == REDIS_MOVED) {
		(void)redis_fail(&why, cmd->code, "%s", cmd->why);
		redis_refusals_add(redis_conn_refusals(cmd->node->conn), redis_now(), &why);
	}
	cmd->unsent = op->code == REDIS_UNREACHABLE;
	redis_node_failed(cmd->node);
}

static void take_reply(struct redis_pipeline *p, struct redis_command *cmd)
{
	const struct redis_op *op = &cmd->op;

	if (op->code) {
		take_error(p, cmd);
		return;
	}
	cmd->code = 0;
	cmd->reply = op->reply;
	cmd->valid_until = redis_valid_until(op->began, cmd->args.ttl_ms);
	cmd->stage = p->replicas && cmd->reply.status == REDIS_GRANTED ? GRANTED : OVER;
}

static void end_group(struct redis_group *g)
{
	size_t i;

	if (g->op.code)
		redis_node_failed(g->node);
	redis_group_end(g);
	for (i = 0; i < g->many.n; i++) {
		g->cmd[i]->stage = g->cmd[i]->batched ? OVER : QUEUED;
		g->cmd[i]->alone = true;
	}
}

static bool take_replies(struct redis_pipeline *p)
{
	struct redis_command *cmd;
	bool moved = false;
	size_t i;

	for (cmd = p->first; cmd; cmd = cmd->next) {
		if (cmd->stage != SENT)
			continue;
		moved = redis_op_step(&cmd->op) || moved;
		if (cmd->op.done) {
			take_reply(p, cmd);
			moved = true;
		}
	}
	for (i = 0; i < REDIS_GROUPS; i++) {
		struct redis_group *g = &p->renewals.group[i];

		if (!g->node)
			continue;
		moved = redis_op_step(&g->op) || moved;
		if (g->op.done) {
			end_group(g);
			moved = true;
		}
	}
	return moved;
}

/* Of all commands of that node in that stage; the next stage. */
static bool advance(struct redis_pipeline *p, struct redis_node *node, enum stage from, enum stage to)
{
	struct redis_command *cmd;
	bool any = false;

	for (cmd = p->first; cmd; cmd = cmd->next) {
		if (cmd->node != node || cmd->stage != (int)from)
			continue;
		any = true;
		cmd->stage = to;
		if (to == OVER)
			redis_replicas_check(cmd, node, p->replicas);
	}
	return any;
}

/* One WAIT at a time for each node, for all that it granted since the last. */
static bool take_copies(struct redis_pipeline *p)
{
	bool moved = false;
	size_t i;

	for (i = 0; p->replicas && i < p->nodes.n; i++) {
		struct redis_node *node = &p->nodes.node[i];

		if (node->waits && redis_replicas_take(node))
			moved = advance(p, node, COPIED, OVER) || moved;
		if (!node->waits && advance(p, node, GRANTED, COPIED)) {
			redis_replicas_request(node, p->replicas, p->io_ns);
			moved = true;
		}
	}
	return moved;
}

/* ---------------------------------------------------------------- all of it */

static struct redis_command **sweep(struct redis_pipeline *p, struct redis_command **over)
{
	struct redis_command **at = &p->first, *cmd;

	while ((cmd = *at)) {
		if (cmd->stage != OVER) {
			at = &cmd->next;
			continue;
		}
		*at = cmd->next;
		cmd->next = NULL;
		*over = cmd;
		over = &cmd->next;
	}
	p->end = at;
	return over;
}

struct redis_command **redis_pipeline_step(struct redis_pipeline *p, int64_t io_ns, struct redis_command **over)
{
	bool moved;

	p->io_ns = io_ns;
	do {
		pump(p);
		moved = redis_nodes_advance(&p->nodes);
		moved = take_replies(p) || moved;
		moved = take_copies(p) || moved;
		moved = send_queued(p) || moved;
		moved = arm_all(p) || moved;
	} while (moved);
	redis_nodes_try_again(&p->nodes);
	return sweep(p, over);
}
