/* SPDX-License-Identifier: MIT */
/* client.c - one client for all servers of a segment; see redis/client.h */
#define _GNU_SOURCE
#include "redis/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "redis/nodes.h"
#include "redis/quorum.h"
#include "redis/renew-batch.h"
#include "redis/replicas.h"

#define TRACKING_AGAIN_NS REDIS_MS(1000)
#define SILENCE_NS REDIS_MS(5000) /* silence on a tracking connection before a PING is sent */

#define BATCH 64

struct batch {
	struct redis_command *cmd[BATCH];
	struct redis_node *node[BATCH]; /* that has the key */
	struct redis_op op[BATCH];
	size_t n;
};

struct redis_client {
	struct redis_nodes nodes;
	struct batch batch; /* being sent */
	struct renew_batch renewals; /* sent before it */
	struct redis_quorum *quorum; /* instead of nodes */
	size_t n_quorum;
	size_t next_command; /* of those that can be put off: the first of the next round */
	size_t next_hint; /* node to take hints from next */
	int64_t check_at;
	int64_t untracked_until; /* nodes without tracking are armed again then */
	unsigned replicas; /* that must have a lease before it counts */
	void (*between)(void *arg);
	void *between_arg;
};

/* ---------------------------------------------------------------- life cycle */

static int add_servers(struct redis_client *client, const struct redis_settings *settings, struct redis_error *error)
{
	struct redis_quorum_options options = { .quarantine_ms = (int64_t)settings->ttl_ms,
						  .value_is_shared = true };
	struct redis_server servers[REDIS_SERVERS_MAX];
	struct lockshm_error why;
	size_t n, i;
	int code = 0;

	if (redis_uri_parse(settings->servers, settings->credentials, servers, REDIS_SERVERS_MAX, &n, &why) != 0)
		return redis_fail(error, REDIS_INVALID, "%s", why.message);
	if (settings->quorum) {
		client->n_quorum = n;
		return redis_quorum_new(&client->quorum, servers, n, &options, error);
	}
	for (i = 0; !code && i < n; i++)
		code = redis_nodes_add(&client->nodes, &servers[i], error);
	client->nodes.n_given = client->nodes.n;
	return code;
}

int redis_client_new(struct redis_client **out, const struct redis_settings *settings, struct redis_error *error)
{
	struct redis_client *client = calloc(1, sizeof(*client));
	int code;

	*out = NULL;
	if (!client)
		return redis_fail(error, REDIS_NO_MEMORY, "out of memory");
	memcpy(client->nodes.host.id, settings->host, sizeof(settings->host));
	client->replicas = settings->replicas;
	code = add_servers(client, settings, error);
	if (code)
		redis_client_free(client);
	else
		*out = client;
	return code;
}

void redis_client_free(struct redis_client *client)
{
	if (!client)
		return;
	redis_nodes_end(&client->nodes);
	redis_quorum_free(client->quorum);
	free(client);
}

int redis_client_keys_mode(const struct redis_client *client)
{
	return client->nodes.cluster ? REDIS_KEYS_CLUSTER : REDIS_KEYS_SINGLE;
}

/* ---------------------------------------------------------------- commands */

static void fail_command(struct redis_command *cmd, int code, const char *why)
{
	cmd->code = code;
	snprintf(cmd->why, sizeof(cmd->why), "%.250s", *why ? why : redis_code_name(code));
}

static void between(struct redis_client *client)
{
	if (client->between)
		client->between(client->between_arg);
}

/* A node that backs off keeps its earlier error: @tried is the time of that. */
static void not_sent(struct redis_command *cmd, int code, const char *why, int64_t tried)
{
	fail_command(cmd, code, why);
	cmd->unsent = true;
	cmd->sent_at = tried;
}

/* Commands whose node cannot be reached fail here; the others stay in the batch. */
static void send_batch(struct redis_client *client, int64_t io_ns)
{
	struct batch *b = &client->batch;
	size_t i, k = 0;

	between(client);
	redis_nodes_connect(&client->nodes, b->node, b->n, io_ns);
	for (i = 0; i < b->n; i++) {
		struct redis_command *cmd = b->cmd[i];
		struct redis_node *node = b->node[i];
		int code = redis_node_code(node);

		/* A connection may find that it is a cluster, where names have another form. */
		cmd->put_off = !code && cmd->keys->mode != redis_client_keys_mode(client);
		if (code)
			not_sent(cmd, code, redis_conn_error(node->conn)->text, redis_conn_tried(node->conn));
		if (code || cmd->put_off)
			continue;
		b->cmd[k] = cmd;
		b->node[k] = node;
		(void)redis_op_begin(&b->op[k++], node->conn, cmd->script, cmd->keys, &cmd->args, redis_now() + io_ns);
	}
	b->n = k;
	for (i = 0; i < k; i++)
		(void)redis_conn_pump(b->op[i].conn);
	redis_ops_wait(b->op, k);
}

static void take_reply(struct redis_command *cmd, struct redis_node *node, const struct redis_op *op)
{
	if (op->code) {
		/* The slot moved to a node that cannot be reached now, or not at all: retry later. */
		fail_command(cmd, op->code == REDIS_MOVED ? REDIS_RETRY : op->code, op->why);
		cmd->unsent = op->code == REDIS_UNREACHABLE;
		node->failed = redis_conn_closed(op->conn);
		return;
	}
	cmd->code = 0;
	cmd->reply = op->reply;
	cmd->valid_until = redis_valid_until(op->began, cmd->args.ttl_ms);
}

/* Keeps those commands of the batch that go to another node of a cluster. */
static void take_replies(struct redis_client *client, bool follow, int64_t io_ns)
{
	struct batch *b = &client->batch;
	size_t i, k = 0;

	for (i = 0; i < b->n; i++)
		take_reply(b->cmd[i], b->node[i], &b->op[i]);
	if (client->replicas) {
		between(client);
		redis_replicas_await(b->cmd, b->node, b->n, client->replicas, io_ns);
	}
	for (i = 0; i < b->n; i++) {
		struct redis_node *to = NULL;

		if (b->op[i].code && strstr(b->op[i].why, "CLUSTERDOWN"))
			redis_nodes_forget(&client->nodes, b->cmd[i]->keys, b->node[i]);
		if (b->op[i].code == REDIS_MOVED)
			to = redis_nodes_moved(&client->nodes, b->node[i], b->op[i].why);
		if (!to || !follow)
			continue;
		b->cmd[k] = b->cmd[i];
		b->node[k++] = to;
	}
	b->n = k;
	for (i = 0; i < client->nodes.n; i++)
		if (client->nodes.node[i].failed)
			redis_node_back_off(&client->nodes.node[i]);
}

static void run_batch(struct redis_client *client, int64_t io_ns)
{
	struct batch *b = &client->batch;
	size_t i;

	for (i = 0; i < b->n; i++)
		b->node[i] = redis_nodes_of(&client->nodes, b->cmd[i]->keys);
	send_batch(client, io_ns);
	take_replies(client, true, io_ns);
	if (b->n) {
		send_batch(client, io_ns);
		take_replies(client, false, io_ns);
	}
	b->n = 0;
}

/* A quorum has no queue: a refused acquire is sent again. */
static void command_quorum(struct redis_client *client, struct redis_command *cmd, int64_t io_ns)
{
	int64_t deadline = redis_now() + io_ns;
	struct redis_lock lease = { 0 };
	const struct redis_error *error = redis_quorum_error(client->quorum);
	bool waits;

	memset(&cmd->reply, 0, sizeof(cmd->reply));
	cmd->code = 0;
	switch (cmd->script) {
	case REDIS_ACQUIRE_S:
	case REDIS_ACQUIRE_X:
		cmd->code = redis_quorum_acquire(client->quorum, cmd->script, cmd->keys, &cmd->args, deadline, &lease);
		break;
	case REDIS_RENEW:
		cmd->code = redis_quorum_renew(client->quorum, cmd->exclusive ? REDIS_ACQUIRE_X : REDIS_ACQUIRE_S,
						cmd->keys, &cmd->args, deadline, &lease);
		break;
	case REDIS_RELEASE:
		lease.status = REDIS_DONE;
		/* A lock that a majority has forgotten blocks no other host. */
		if (redis_quorum_release(client->quorum, cmd->keys, &cmd->args, deadline) <= client->n_quorum / 2)
			cmd->code = REDIS_UNKNOWN;
		break;
	case REDIS_FENCE:
		lease.status = REDIS_DONE;
		cmd->code = redis_quorum_fence(client->quorum, cmd->keys, &cmd->args, deadline);
		break;
	default:
		/* REDIS_LEAVE: there is no queue. */
		lease.status = REDIS_DONE;
		break;
	}
	if (cmd->code)
		fail_command(cmd, cmd->code, error->code ? error->text : "");
	if (cmd->code && !lease.sent)
		cmd->sent_at = redis_quorum_tried(client->quorum, cmd->sent_at);
	cmd->unsent = cmd->code && redis_is_acquire(cmd->script) && !lease.sent;
	waits = redis_is_acquire(cmd->script) && !strchr(cmd->args.flags ? cmd->args.flags : "t", 't');
	cmd->reply.status = lease.status == REDIS_BUSY && waits ? REDIS_QUEUED : lease.status;
	cmd->reply.kind = REDIS_KIND_NONE;
	cmd->reply.left_ms = lease.left_ms;
	cmd->reply.fence = lease.fence;
	cmd->valid_until = lease.valid_until;
}

/* Renewals, and fences that they need, go first. */
static bool urgent(const struct redis_command *cmd)
{
	return cmd->script == REDIS_RENEW || cmd->script == REDIS_FENCE;
}

/* With several servers, pumps all, so that connections that ended are found at once. */
static bool all_ready(const struct redis_nodes *nodes)
{
	bool all = true;
	size_t i;

	for (i = 0; i < nodes->n; i++) {
		if (nodes->n > 1)
			(void)redis_conn_pump(nodes->node[i].conn);
		all = all && redis_conn_ready(nodes->node[i].conn);
	}
	return all;
}

/* Connects to all nodes needed: unreachable ones cost one wait in all, not one for each batch. */
static void connect_all(struct redis_nodes *nodes, const struct redis_command *cmds, size_t n, int64_t io_ns)
{
	struct redis_node *wanted[REDIS_CONNS_MAX];
	bool is_wanted[REDIS_CONNS_MAX] = { false };
	size_t i, k = 0;

	if (all_ready(nodes))
		return;
	for (i = 0; i < n; i++)
		is_wanted[redis_nodes_likely(nodes, cmds[i].keys) - nodes->node] = true;
	for (i = 0; i < nodes->n; i++)
		if (is_wanted[i])
			wanted[k++] = &nodes->node[i];
	redis_nodes_connect(nodes, wanted, k, io_ns);
}

static void run_all(struct redis_client *client, struct redis_command *cmds, size_t n, int64_t io_ns)
{
	struct batch *b = &client->batch;
	size_t i;
	int pass;

	between(client);
	connect_all(&client->nodes, cmds, n, io_ns);
	between(client);
	renew_batch_run(&client->renewals, &client->nodes, cmds, n, io_ns);
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < n; i++) {
			if (cmds[i].batched || urgent(&cmds[i]) != (pass == 0))
				continue;
			b->cmd[b->n++] = &cmds[i];
			if (b->n == BATCH)
				run_batch(client, io_ns);
		}
	if (b->n)
		run_batch(client, io_ns);
}

/* False = no majority, and none for the rest of this round. */
static bool command_one(struct redis_client *client, struct redis_command *cmd, int64_t io_ns)
{
	between(client);
	command_quorum(client, cmd, io_ns);
	return !cmd->code || redis_quorum_reachable(client->quorum);
}

/* One lease after the other.  What would delay the next renewals is put off to the next round, which begins with it. */
static void run_quorum(struct redis_client *client, struct redis_command *cmds, size_t n, int64_t io_ns)
{
	int64_t end = redis_now() + 2 * io_ns;
	size_t i, k, first = n ? client->next_command % n : 0;
	bool there = true;
	int pass;

	for (pass = 0; pass < 2; pass++)
		for (k = 0; k < n; k++) {
			i = (first + k) % n;
			if (urgent(&cmds[i]) != (pass == 0))
				continue;
			cmds[i].put_off = pass && there && redis_now() >= end;
			if (cmds[i].put_off)
				continue;
			client->next_command = pass ? i + 1 : client->next_command;
			if (there)
				there = command_one(client, &cmds[i], io_ns);
			else
				not_sent(&cmds[i], REDIS_UNREACHABLE, redis_quorum_error(client->quorum)->text,
					  redis_quorum_tried(client->quorum, cmds[i].sent_at));
		}
}

void redis_client_begin(struct redis_client *client)
{
	client->nodes.began = redis_now();
}

void redis_client_between(struct redis_client *client, void (*call)(void *arg), void *arg)
{
	client->between = call;
	client->between_arg = arg;
}

void redis_client_run(struct redis_client *client, struct redis_command *cmds, size_t n, int64_t io_ns)
{
	if (client->quorum)
		run_quorum(client, cmds, n, io_ns);
	else
		run_all(client, cmds, n, io_ns);
}

/* ---------------------------------------------------------------- hints */

/*
 * Nodes without tracking are armed again together: with a time for each the bridge would neglect its leases more often.
 */
static void arm(struct redis_client *client, int64_t io_ns)
{
	struct redis_arming arming[REDIS_CONNS_MAX];
	struct redis_node *node[REDIS_CONNS_MAX];
	bool again = redis_now() >= client->untracked_until, untracked = false;
	size_t i, n = 0;

	for (i = 0; i < client->nodes.n; i++) {
		struct redis_node *s = &client->nodes.node[i];

		if (!redis_conn_ready(s->conn) || (s->untracked && !again))
			continue;
		arming[n].tracking = s->tracking;
		arming[n].commands = s->conn;
		node[n++] = s;
	}
	trackings_arm(arming, n, redis_now() + io_ns);
	for (i = 0; i < n; i++) {
		node[i]->untracked = arming[i].code != 0;
		untracked = untracked || node[i]->untracked;
	}
	if (untracked)
		client->untracked_until = redis_now() + TRACKING_AGAIN_NS;
}

bool redis_client_arm(struct redis_client *client, int64_t io_ns)
{
	int64_t next;
	bool all = !client->quorum;
	size_t i;

	arm(client, io_ns);
	client->check_at = INT64_MAX;
	for (i = 0; i < client->nodes.n; i++) {
		struct redis_node *s = &client->nodes.node[i];

		if (!redis_conn_ready(s->conn))
			continue;
		all = all && !s->untracked;
		next = tracking_check(s->tracking, redis_now(), SILENCE_NS);
		(void)redis_conn_pump(tracking_conn(s->tracking));
		if (next < client->check_at)
			client->check_at = next;
	}
	return all;
}

int64_t redis_client_due(const struct redis_client *client)
{
	return client->check_at;
}

enum redis_hint redis_client_hint(struct redis_client *client, const char **key, size_t *len)
{
	for (; client->next_hint < client->nodes.n; client->next_hint++) {
		struct redis_node *s = &client->nodes.node[client->next_hint];
		enum redis_hint hint;

		(void)redis_conn_pump(tracking_conn(s->tracking));
		hint = tracking_next(s->tracking, key, len);
		if (hint != REDIS_HINT_NONE)
			return hint;
	}
	client->next_hint = 0;
	return REDIS_HINT_NONE;
}

void redis_client_watch(struct redis_client *client, int epoll)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	size_t i;

	for (i = 0; i < client->nodes.n; i++) {
		int fd = redis_conn_fd(tracking_conn(client->nodes.node[i].tracking));

		if (fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) != 0 && errno == ENOENT)
			(void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	}
}

/* ---------------------------------------------------------------- for the log */

static void report_server(const struct redis_conn *conn, void (*fn)(const char *, bool, const char *, void *), void *arg)
{
	fn(redis_conn_label(conn), redis_conn_ready(conn), redis_conn_error(conn)->text, arg);
}

void redis_client_each_server(const struct redis_client *client,
			      void (*fn)(const char *label, bool ready, const char *why, void *arg), void *arg)
{
	size_t i;

	for (i = 0; i < client->nodes.n; i++)
		report_server(client->nodes.node[i].conn, fn, arg);
	for (i = 0; i < client->n_quorum; i++)
		report_server(redis_quorum_conn(client->quorum, i), fn, arg);
}
