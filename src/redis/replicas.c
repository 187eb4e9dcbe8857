/* SPDX-License-Identifier: MIT */
/* replicas.c - a lease counts when enough replicas of its server have it; see redis/replicas.h */
#define _GNU_SOURCE
#include "redis/replicas.h"

#include <stdio.h>

#include "redis/resp.h"

static bool granted(const struct redis_command *cmd)
{
	return cmd->code == 0 && !cmd->put_off && cmd->reply.status == REDIS_GRANTED;
}

/* WAIT for half of the time, so that the reply comes before the deadline. */
static void request_copies(struct redis_node *node, unsigned replicas, int64_t io_ns)
{
	char n[16], ms[24];
	const char *argv[] = { "WAIT", n, ms };
	size_t lens[3] = { 4, 0, 0 };

	node->copies = -1;
	lens[1] = (size_t)snprintf(n, sizeof(n), "%u", replicas);
	lens[2] = (size_t)snprintf(ms, sizeof(ms), "%lld", (long long)(io_ns / 2 / REDIS_MS(1)));
	node->waits = redis_conn_ready(node->conn) && !redis_conn_send(node->conn, redis_now() + io_ns, 3, argv, lens) &&
		      !redis_conn_pump(node->conn);
}

/* True = the reply is still awaited. */
static bool take_copies(struct redis_node *node)
{
	struct redis_reply *reply = node->waits ? redis_conn_take(node->conn) : NULL;

	if (reply) {
		if (!redis_conn_reply_error(node->conn, reply))
			node->copies = redis_reply_integer(reply, -1);
		redis_reply_free(reply);
	}
	node->waits = node->waits && !reply && !redis_conn_closed(node->conn);
	return node->waits;
}

static size_t add_once(struct redis_conn **conns, size_t n, struct redis_conn *conn)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (conns[i] == conn)
			return n;
	conns[n] = conn;
	return n + 1;
}

static void refuse(struct redis_command *cmd, const struct redis_node *node, unsigned replicas)
{
	struct redis_error why = { 0 };

	if (node->copies >= 0)
		redis_fail(&why, REDIS_RETRY, "%.60s: only %lld of %u replicas have it", redis_conn_label(node->conn),
			    (long long)node->copies, replicas);
	else
		why = *redis_conn_error(node->conn);
	cmd->code = why.code ? why.code : REDIS_UNKNOWN;
	cmd->unsent = false;
	snprintf(cmd->why, sizeof(cmd->why), "%.250s", why.code ? why.text : redis_code_name(cmd->code));
}

void redis_replicas_await(struct redis_command *const *cmds, struct redis_node *const *nodes, size_t n,
			  unsigned replicas, int64_t io_ns)
{
	struct redis_conn *waiting[REDIS_CONNS_MAX];
	size_t i, k;

	for (i = 0; i < n; i++)
		nodes[i]->waits = false;
	for (i = 0; i < n; i++)
		if (granted(cmds[i]) && !nodes[i]->waits)
			request_copies(nodes[i], replicas, io_ns);
	do {
		for (i = k = 0; i < n; i++)
			if (take_copies(nodes[i]))
				k = add_once(waiting, k, nodes[i]->conn);
		if (k)
			redis_conns_poll(waiting, k, INT64_MAX);
	} while (k);
	for (i = 0; i < n; i++)
		if (granted(cmds[i]) && nodes[i]->copies < (int64_t)replicas)
			refuse(cmds[i], nodes[i], replicas);
}
