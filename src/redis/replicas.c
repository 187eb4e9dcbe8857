/* SPDX-License-Identifier: MIT */
/* replicas.c - a lease counts when enough replicas of its server have it; see redis/replicas.h */
#define _GNU_SOURCE
#include "redis/replicas.h"

#include <stdio.h>

#include "redis/resp.h"

static bool granted(const struct bridge_ask *ask)
{
	return ask->code == 0 && !ask->put_off && ask->answer.status == BRIDGE_GRANTED;
}

/* Half of the time, so that the answer comes in time. */
static void ask_replicas(struct bridge_node *node, unsigned replicas, int64_t io_ns)
{
	char n[16], ms[24];
	const char *argv[] = { "WAIT", n, ms };
	size_t lens[3] = { 4, 0, 0 };

	node->copies = -1;
	lens[1] = (size_t)snprintf(n, sizeof(n), "%u", replicas);
	lens[2] = (size_t)snprintf(ms, sizeof(ms), "%lld", (long long)(io_ns / 2 / BRIDGE_MS(1)));
	node->waits = bridge_conn_ready(node->conn) && !bridge_conn_send(node->conn, bridge_now() + io_ns, 3, argv, lens) &&
		      !bridge_conn_pump(node->conn);
}

/* True = it waits still. */
static bool hear_replicas(struct bridge_node *node)
{
	struct bridge_reply *reply = node->waits ? bridge_conn_take(node->conn) : NULL;

	if (reply) {
		if (!bridge_conn_judge(node->conn, reply))
			node->copies = bridge_reply_integer(reply, -1);
		bridge_reply_free(reply);
	}
	node->waits = node->waits && !reply && !bridge_conn_closed(node->conn);
	return node->waits;
}

static size_t add_once(struct bridge_conn **conns, size_t n, struct bridge_conn *conn)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (conns[i] == conn)
			return n;
	conns[n] = conn;
	return n + 1;
}

static void refuse(struct bridge_ask *ask, const struct bridge_node *node, unsigned replicas)
{
	struct bridge_error why = { 0 };

	if (node->copies >= 0)
		bridge_fail(&why, BRIDGE_RETRY, "%.60s: only %lld of %u replicas have it", bridge_conn_label(node->conn),
			    (long long)node->copies, replicas);
	else
		why = *bridge_conn_error(node->conn);
	ask->code = why.code ? why.code : BRIDGE_UNKNOWN;
	ask->unsent = false;
	snprintf(ask->why, sizeof(ask->why), "%.250s", why.code ? why.text : bridge_code_name(ask->code));
}

void bridge_replicas_await(struct bridge_ask *const *asks, struct bridge_node *const *nodes, size_t n, unsigned replicas,
			   int64_t io_ns)
{
	struct bridge_conn *waiting[BRIDGE_CONNS_MAX];
	size_t i, k;

	for (i = 0; i < n; i++)
		nodes[i]->waits = false;
	for (i = 0; i < n; i++)
		if (granted(asks[i]) && !nodes[i]->waits)
			ask_replicas(nodes[i], replicas, io_ns);
	do {
		for (i = k = 0; i < n; i++)
			if (hear_replicas(nodes[i]))
				k = add_once(waiting, k, nodes[i]->conn);
		if (k)
			bridge_conns_poll(waiting, k, INT64_MAX);
	} while (k);
	for (i = 0; i < n; i++)
		if (granted(asks[i]) && nodes[i]->copies < (int64_t)replicas)
			refuse(asks[i], nodes[i], replicas);
}
