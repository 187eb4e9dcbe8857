/* SPDX-License-Identifier: MIT */
/* replicas.c - a lease counts when enough replicas of its server have it; see redis/replicas.h */
#define _GNU_SOURCE
#include "redis/replicas.h"

#include <stdio.h>

#include "redis/resp.h"

/* WAIT for half of the time, so that the reply comes before the deadline. */
void redis_replicas_request(struct redis_node *node, unsigned replicas, int64_t io_ns)
{
	char n[16], ms[24];
	const char *argv[] = { "WAIT", n, ms };
	size_t lens[3] = { 4, 0, 0 };

	node->copies = -1;
	node->waits = true;
	node->wait_generation = redis_conn_generation(node->conn);
	node->wait_number = redis_conn_sent(node->conn);
	lens[1] = (size_t)snprintf(n, sizeof(n), "%u", replicas);
	lens[2] = (size_t)snprintf(ms, sizeof(ms), "%lld", (long long)(io_ns / 2 / REDIS_MS(1)));
	/* Not sent: redis_replicas_take() finds the connection closed. */
	(void)redis_conn_send(node->conn, redis_now() + io_ns, 3, argv, lens);
}

bool redis_replicas_take(struct redis_node *node)
{
	struct redis_reply *reply = NULL;
	bool lost = redis_conn_generation(node->conn) != node->wait_generation;

	if (!lost && redis_conn_taken(node->conn) == node->wait_number)
		reply = redis_conn_take(node->conn);
	if (reply && !redis_conn_reply_error(node->conn, reply))
		node->copies = redis_reply_integer(reply, -1);
	node->waits = !reply && !lost && redis_conn_ready(node->conn);
	redis_reply_free(reply);
	return !node->waits;
}

void redis_replicas_check(struct redis_command *cmd, const struct redis_node *node, unsigned replicas)
{
	struct redis_error why = { 0 };

	if (node->copies >= (int64_t)replicas)
		return;
	if (node->copies >= 0)
		redis_fail(&why, REDIS_RETRY, "%.60s: only %lld of %u replicas have it", redis_conn_label(node->conn),
			    (long long)node->copies, replicas);
	else
		why = *redis_conn_error(node->conn);
	if (redis_conn_ready(node->conn))
		redis_refusals_add(redis_conn_refusals(node->conn), redis_now(), &why);
	cmd->code = why.code ? why.code : REDIS_UNKNOWN;
	cmd->unsent = false;
	snprintf(cmd->why, sizeof(cmd->why), "%.250s", why.code ? why.text : redis_code_name(cmd->code));
}
