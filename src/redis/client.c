/* SPDX-License-Identifier: MIT */
/* client.c - one client for all servers of a segment; see redis/client.h */
#define _GNU_SOURCE
#include "redis/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "redis/pipeline.h"
#include "redis/quorum.h"

#define SILENCE_NS REDIS_MS(5000) /* silence on a tracking connection before a PING is sent */

#define VOTING 1 /* stage of a command */

_Static_assert((int)EPOLLIN == POLLIN && (int)EPOLLOUT == POLLOUT, "events of a connection are those of epoll");

struct redis_client {
	struct redis_pipeline pipeline;
	struct redis_quorum *quorum; /* instead of it */
	size_t n_quorum;
	struct redis_command *votes, **votes_end; /* under way there */
	struct redis_command *over, **over_end;
	size_t next_hint; /* node to take hints from next, modulo their number */
	int64_t check_at;
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
		code = redis_nodes_add(&client->pipeline.nodes, &servers[i], error);
	client->pipeline.nodes.n_given = client->pipeline.nodes.n;
	return code;
}

int redis_client_new(struct redis_client **out, const struct redis_settings *settings, struct redis_error *error)
{
	struct redis_client *client = calloc(1, sizeof(*client));
	int code;

	*out = NULL;
	if (!client)
		return redis_fail(error, REDIS_NO_MEMORY, "out of memory");
	redis_pipeline_init(&client->pipeline);
	memcpy(client->pipeline.nodes.host.id, settings->host, sizeof(settings->host));
	client->pipeline.replicas = settings->replicas;
	client->votes_end = &client->votes;
	client->over_end = &client->over;
	client->check_at = INT64_MAX;
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
	redis_nodes_end(&client->pipeline.nodes);
	redis_quorum_free(client->quorum);
	free(client);
}

bool redis_client_renews_tokens(const struct redis_client *client)
{
	return !client->quorum;
}

bool redis_client_renews_many(const struct redis_client *client)
{
	return !client->quorum;
}

int redis_client_keys_mode(const struct redis_client *client)
{
	return redis_pipeline_keys_mode(&client->pipeline);
}

/* ---------------------------------------------------------------- a majority */

static void is_over(struct redis_client *client, struct redis_command *cmd)
{
	*client->over_end = cmd;
	client->over_end = &cmd->next;
}

static void begin_vote(struct redis_client *client, struct redis_command *cmd, int64_t io_ns)
{
	struct redis_vote *v = &cmd->vote;

	memset(v, 0, sizeof(*v));
	v->script = cmd->script;
	v->acquired_by = cmd->exclusive ? REDIS_ACQUIRE_X : REDIS_ACQUIRE_S;
	v->keys = cmd->keys;
	v->args = cmd->args;
	v->deadline = redis_now() + io_ns;
	cmd->stage = VOTING;
	/* There is no queue to leave. */
	v->over = cmd->script == REDIS_LEAVE;
	if (!v->over)
		redis_quorum_begin(client->quorum, v);
}

/* A quorum has no queue: a refused acquire is sent again. */
static void take_result(struct redis_client *client, struct redis_command *cmd)
{
	const struct redis_vote *v = &cmd->vote;
	bool acquire = redis_is_acquire(cmd->script);
	bool waits = acquire && !strchr(cmd->args.flags ? cmd->args.flags : "t", 't');

	cmd->code = v->code;
	/* A lock that a majority has forgotten blocks no other host. */
	if (cmd->script == REDIS_RELEASE && v->lease.servers <= client->n_quorum / 2)
		cmd->code = REDIS_UNKNOWN;
	if (cmd->code)
		snprintf(cmd->why, sizeof(cmd->why), "%.250s", *v->why ? v->why : redis_code_name(cmd->code));
	if (cmd->code && !v->lease.sent)
		cmd->sent_at = redis_quorum_tried(client->quorum, cmd->sent_at);
	cmd->unsent = cmd->code && acquire && !v->lease.sent;
	memset(&cmd->reply, 0, sizeof(cmd->reply));
	cmd->reply.status = acquire || cmd->script == REDIS_RENEW ? v->lease.status : REDIS_DONE;
	if (cmd->reply.status == REDIS_BUSY && waits)
		cmd->reply.status = REDIS_QUEUED;
	cmd->parts = acquire && (cmd->code || cmd->reply.status != REDIS_GRANTED);
	cmd->reply.kind = REDIS_KIND_NONE;
	cmd->reply.server_ms = -1;
	cmd->reply.left_ms = v->lease.left_ms;
	cmd->reply.fence = v->lease.fence;
	cmd->reply.noted = v->lease.noted || cmd->script == REDIS_RELEASE;
	cmd->reply.bad = cmd->script == REDIS_RELEASE ? (size_t)v->lease.bad > client->n_quorum / 2 : v->lease.bad;
	cmd->reply.good = v->lease.good;
	memcpy(cmd->reply.why, v->lease.why, sizeof(cmd->reply.why));
	cmd->valid_until = v->lease.valid_until;
}

static void step_quorum(struct redis_client *client, int64_t io_ns)
{
	struct redis_command **at, *cmd;

	for (cmd = client->votes; cmd; cmd = cmd->next)
		if (cmd->stage != VOTING)
			begin_vote(client, cmd, io_ns);
	redis_quorum_step(client->quorum);
	for (at = &client->votes; (cmd = *at);) {
		if (!cmd->vote.over) {
			at = &cmd->next;
			continue;
		}
		*at = cmd->next;
		cmd->next = NULL;
		take_result(client, cmd);
		is_over(client, cmd);
	}
	client->votes_end = at;
}

/* ---------------------------------------------------------------- commands */

void redis_client_add(struct redis_client *client, struct redis_command *cmd)
{
	cmd->batched = cmd->shared = cmd->put_off = cmd->unsent = cmd->parts = false;
	cmd->code = 0;
	cmd->next = NULL;
	if (!client->quorum) {
		redis_pipeline_add(&client->pipeline, cmd);
		return;
	}
	cmd->stage = 0;
	*client->votes_end = cmd;
	client->votes_end = &cmd->next;
}

/* Of connections for hints. */
static void check_silence(struct redis_client *client)
{
	size_t i;

	client->check_at = INT64_MAX;
	for (i = 0; i < client->pipeline.nodes.n; i++) {
		struct redis_node *node = &client->pipeline.nodes.node[i];
		int64_t next;

		if (!redis_conn_ready(node->conn) || node->arms)
			continue;
		next = tracking_check(node->tracking, redis_now(), SILENCE_NS);
		(void)redis_conn_pump(tracking_conn(node->tracking));
		if (next < client->check_at)
			client->check_at = next;
	}
}

void redis_client_step(struct redis_client *client, int64_t io_ns)
{
	if (client->quorum)
		step_quorum(client, io_ns);
	else
		client->over_end = redis_pipeline_step(&client->pipeline, io_ns, client->over_end);
	check_silence(client);
}

struct redis_command *redis_client_next(struct redis_client *client)
{
	struct redis_command *cmd = client->over;

	if (!cmd)
		return NULL;
	client->over = cmd->next;
	if (!client->over)
		client->over_end = &client->over;
	cmd->next = NULL;
	return cmd;
}

/* ---------------------------------------------------------------- waiting */

/* Connections to wait for. */
static size_t awaited(const struct redis_client *client, struct redis_conn *out[2 * REDIS_CONNS_MAX])
{
	size_t i, n = 0;

	for (i = 0; i < client->pipeline.nodes.n; i++) {
		const struct redis_node *node = &client->pipeline.nodes.node[i];

		if (redis_node_is_awaited(node))
			out[n++] = node->conn;
		if (node->arms)
			out[n++] = tracking_conn(node->tracking);
	}
	for (i = 0; i < client->n_quorum; i++)
		if (redis_quorum_awaits(client->quorum, i))
			out[n++] = redis_quorum_conn(client->quorum, i);
	return n;
}

void redis_client_wait(struct redis_client *client, int64_t until)
{
	struct redis_conn *conns[2 * REDIS_CONNS_MAX];
	size_t n = awaited(client, conns);

	if (!client->over)
		redis_conns_poll(conns, n < REDIS_CONNS_MAX ? n : REDIS_CONNS_MAX, until);
}

static void watch(int epoll, const struct redis_conn *conn, short events)
{
	struct epoll_event event = { .events = (unsigned short)events | EPOLLONESHOT };
	int fd = redis_conn_fd(conn);

	if (fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) != 0 && errno == ENOENT)
		(void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

void redis_client_watch(struct redis_client *client, int epoll)
{
	size_t i;

	for (i = 0; i < client->pipeline.nodes.n; i++) {
		struct redis_node *node = &client->pipeline.nodes.node[i];
		struct redis_conn *hints = tracking_conn(node->tracking);

		watch(epoll, hints, (short)(POLLIN | redis_conn_events(hints)));
		if (redis_node_is_awaited(node))
			watch(epoll, node->conn, redis_conn_events(node->conn));
	}
	for (i = 0; i < client->n_quorum; i++)
		if (redis_quorum_awaits(client->quorum, i))
			watch(epoll, redis_quorum_conn(client->quorum, i),
			      redis_conn_events(redis_quorum_conn(client->quorum, i)));
}

int64_t redis_client_due(const struct redis_client *client)
{
	struct redis_conn *conns[2 * REDIS_CONNS_MAX];
	size_t i, n = awaited(client, conns);
	int64_t due = client->over ? 0 : client->check_at;

	for (i = 0; i < n; i++)
		due = min64(due, redis_conn_due(conns[i]));
	for (i = 0; i < client->pipeline.nodes.n; i++)
		if (client->pipeline.nodes.node[i].arms)
			due = min64(due, client->pipeline.nodes.node[i].arming.deadline);
	return client->quorum ? min64(due, redis_quorum_due(client->quorum)) : due;
}

/* ---------------------------------------------------------------- hints */

bool redis_client_tracks(const struct redis_client *client)
{
	size_t i;
	bool all = !client->quorum;

	for (i = 0; i < client->pipeline.nodes.n; i++) {
		const struct redis_node *node = &client->pipeline.nodes.node[i];

		all = all && (!redis_conn_ready(node->conn) || (!node->arms && !node->untracked));
	}
	return all;
}

/* The servers in turn: one that sends hints for ever would hide those of the others. */
enum redis_hint redis_client_hint(struct redis_client *client, const char **key, size_t *len)
{
	enum redis_hint hint = REDIS_HINT_NONE;
	size_t i, n = client->pipeline.nodes.n;

	for (i = 0; i < n && hint == REDIS_HINT_NONE; i++) {
		struct redis_node *s = &client->pipeline.nodes.node[client->next_hint++ % n];

		/* Replies to the subscriptions are taken by tracking_step(). */
		if (s->arms)
			continue;
		(void)redis_conn_pump(tracking_conn(s->tracking));
		hint = tracking_next(s->tracking, key, len);
	}
	return hint;
}

/* ---------------------------------------------------------------- for the log */

static void report_server(struct redis_conn *conn, redis_server_fn fn, void *arg)
{
	const struct redis_error *refusal = redis_refusals_now(redis_conn_refusals(conn), redis_now());
	const struct redis_error *error = redis_conn_error(conn);

	if (refusal && (redis_conn_ready(conn) || !error->code))
		fn(redis_conn_label(conn), REDIS_SERVER_REFUSES, refusal, arg);
	else
		fn(redis_conn_label(conn), redis_conn_ready(conn) ? REDIS_SERVER_READY : REDIS_SERVER_LOST, error, arg);
}

void redis_client_each_server(const struct redis_client *client, redis_server_fn fn, void *arg)
{
	size_t i;

	for (i = 0; i < client->pipeline.nodes.n; i++)
		report_server(client->pipeline.nodes.node[i].conn, fn, arg);
	for (i = 0; i < client->n_quorum; i++)
		report_server(redis_quorum_conn(client->quorum, i), fn, arg);
}

void redis_client_each_fault(const struct redis_client *client, void (*fn)(const char *why))
{
	const struct redis_error *same = client->quorum ? redis_quorum_same(client->quorum) : NULL;
	size_t i;

	for (i = 0; i < client->pipeline.nodes.n; i++) {
		const struct redis_conn *hints = tracking_conn(client->pipeline.nodes.node[i].tracking);
		char why[320];

		if (!redis_conn_closed(hints) || redis_conn_error(hints)->code != REDIS_PROTOCOL)
			continue;
		snprintf(why, sizeof(why), "%.280s (on the connection for hints)", redis_conn_error(hints)->text);
		fn(why);
	}
	if (same && same->code)
		fn(same->text);
}
