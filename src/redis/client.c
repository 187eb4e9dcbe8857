/* SPDX-License-Identifier: MIT */
/* client.c - the servers of a segment; see redis/client.h */
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

#define WAKE_REST_NS BRIDGE_MS(1000)
#define QUIET_NS BRIDGE_MS(5000) /* a silent connection for hints is asked for a sign of life */

#define BATCH 64

struct batch {
	struct bridge_ask *ask[BATCH];
	struct bridge_node *node[BATCH]; /* who is asked */
	struct bridge_op op[BATCH];
	size_t n;
};

struct bridge_net {
	struct bridge_nodes nodes;
	struct batch batch; /* the one that is under way */
	struct bridge_renewals renewals; /* before that */
	struct bridge_quorum *quorum; /* instead */
	size_t n_quorum;
	size_t next_ask; /* of those that may be put off, who is first */
	size_t next_hint; /* whose turn it is */
	int64_t check_at;
	int64_t deaf_until; /* those that give no hints are left alone */
	unsigned replicas; /* that must have what is granted */
	void (*between)(void *arg);
	void *between_arg;
};

/* ---------------------------------------------------------------- making */

static int add_servers(struct bridge_net *net, const struct shm_redis *settings, struct bridge_error *error)
{
	struct bridge_quorum_options options = { .quarantine_ms = (int64_t)settings->ttl_ms,
						  .token_is_shared = true };
	struct bridge_server servers[BRIDGE_SERVERS_MAX];
	size_t n, i;
	int code = bridge_uri_parse(settings->servers, BRIDGE_PUBLIC, servers, BRIDGE_SERVERS_MAX, &n, error);

	if (!code && (settings->flags & REDIS_QUORUM)) {
		net->n_quorum = n;
		return bridge_quorum_new(&net->quorum, servers, n, &options, error);
	}
	for (i = 0; !code && i < n; i++)
		code = bridge_nodes_add(&net->nodes, &servers[i], error);
	net->nodes.n_given = net->nodes.n;
	return code;
}

int bridge_net_new(struct bridge_net **out, const struct shm_redis *settings, struct bridge_error *error)
{
	struct bridge_net *net = calloc(1, sizeof(*net));
	int code;

	*out = NULL;
	if (!net)
		return bridge_fail(error, BRIDGE_NO_MEMORY, "out of memory");
	memcpy(net->nodes.host.id, settings->host, BRIDGE_HOST_LEN);
	net->replicas = REDIS_WAIT(settings->flags);
	code = add_servers(net, settings, error);
	if (code)
		bridge_net_free(net);
	else
		*out = net;
	return code;
}

void bridge_net_free(struct bridge_net *net)
{
	if (!net)
		return;
	bridge_nodes_end(&net->nodes);
	bridge_quorum_free(net->quorum);
	free(net);
}

void bridge_net_abandon(struct bridge_net *net)
{
	bridge_nodes_abandon(&net->nodes);
	if (net->quorum)
		bridge_quorum_abandon(net->quorum);
}

int bridge_net_keys_mode(const struct bridge_net *net)
{
	return net->nodes.cluster ? BRIDGE_KEYS_CLUSTER : BRIDGE_KEYS_SINGLE;
}

/* ---------------------------------------------------------------- asking */

static void fail_ask(struct bridge_ask *ask, int code, const char *why)
{
	ask->code = code;
	snprintf(ask->why, sizeof(ask->why), "%.250s", *why ? why : bridge_code_name(code));
}

static void between(struct bridge_net *net)
{
	if (net->between)
		net->between(net->between_arg);
}

/* Who is left alone says what it said before: that is no younger now.  @tried is when. */
static void not_asked(struct bridge_ask *ask, int code, const char *why, int64_t tried)
{
	fail_ask(ask, code, why);
	ask->unsent = true;
	ask->asked = tried;
}

/* Whoever cannot be asked has its answer; the others are under way. */
static void send_batch(struct bridge_net *net, int64_t io_ns)
{
	struct batch *b = &net->batch;
	size_t i, k = 0;

	between(net);
	bridge_nodes_connect(&net->nodes, b->node, b->n, io_ns);
	for (i = 0; i < b->n; i++) {
		struct bridge_ask *ask = b->ask[i];
		struct bridge_node *node = b->node[i];
		int code = bridge_node_code(node);

		/* Only a connection tells that it is a cluster, where names are others. */
		ask->put_off = !code && ask->keys->mode != bridge_net_keys_mode(net);
		if (code)
			not_asked(ask, code, bridge_conn_error(node->conn)->text, bridge_conn_tried(node->conn));
		if (code || ask->put_off)
			continue;
		b->ask[k] = ask;
		b->node[k] = node;
		(void)bridge_op_begin(&b->op[k++], node->conn, ask->script, ask->keys, &ask->wish, bridge_now() + io_ns);
	}
	b->n = k;
	for (i = 0; i < k; i++)
		(void)bridge_conn_pump(b->op[i].conn);
	bridge_ops_wait(b->op, k);
}

static void take_answer(struct bridge_ask *ask, struct bridge_node *node, const struct bridge_op *op)
{
	if (op->code) {
		/* Another node of the cluster, or none that could be found: the next time, maybe. */
		fail_ask(ask, op->code == BRIDGE_MOVED ? BRIDGE_RETRY : op->code, op->why);
		ask->unsent = op->code == BRIDGE_UNREACHABLE;
		node->failed = bridge_conn_closed(op->conn);
		return;
	}
	ask->code = 0;
	ask->answer = op->answer;
	ask->valid_until = bridge_valid_until(op->began, ask->wish.ttl_ms);
}

/* Keeps those of the batch that another node of a cluster is to be asked about. */
static void take_answers(struct bridge_net *net, bool follow, int64_t io_ns)
{
	struct batch *b = &net->batch;
	size_t i, k = 0;

	for (i = 0; i < b->n; i++)
		take_answer(b->ask[i], b->node[i], &b->op[i]);
	if (net->replicas) {
		between(net);
		bridge_replicas_await(b->ask, b->node, b->n, net->replicas, io_ns);
	}
	for (i = 0; i < b->n; i++) {
		struct bridge_node *to = NULL;

		if (b->op[i].code && strstr(b->op[i].why, "CLUSTERDOWN"))
			bridge_nodes_forget(&net->nodes, b->ask[i]->keys, b->node[i]);
		if (b->op[i].code == BRIDGE_MOVED)
			to = bridge_nodes_moved(&net->nodes, b->node[i], b->op[i].why);
		if (!to || !follow)
			continue;
		b->ask[k] = b->ask[i];
		b->node[k++] = to;
	}
	b->n = k;
	for (i = 0; i < net->nodes.n; i++)
		if (net->nodes.node[i].failed)
			bridge_node_rest(&net->nodes.node[i]);
}

static void run_batch(struct bridge_net *net, int64_t io_ns)
{
	struct batch *b = &net->batch;
	size_t i;

	for (i = 0; i < b->n; i++)
		b->node[i] = bridge_nodes_of(&net->nodes, b->ask[i]->keys);
	send_batch(net, io_ns);
	take_answers(net, true, io_ns);
	if (b->n) {
		send_batch(net, io_ns);
		take_answers(net, false, io_ns);
	}
	b->n = 0;
}

/* There is no queue in a quorum: who is refused asks again. */
static void ask_quorum(struct bridge_net *net, struct bridge_ask *ask, int64_t io_ns)
{
	int64_t deadline = bridge_now() + io_ns;
	struct bridge_lease lease = { 0 };
	const struct bridge_error *error = bridge_quorum_error(net->quorum);
	bool waits;

	memset(&ask->answer, 0, sizeof(ask->answer));
	ask->code = 0;
	switch (ask->script) {
	case BRIDGE_ACQUIRE_S:
	case BRIDGE_ACQUIRE_X:
		ask->code = bridge_quorum_acquire(net->quorum, ask->script, ask->keys, &ask->wish, deadline, &lease);
		break;
	case BRIDGE_UPGRADE:
		ask->code = bridge_quorum_acquire(net->quorum, ask->script, ask->keys, &ask->wish, deadline, &lease);
		ask->doubt = lease.doubt;
		/* That it is not known is as good as no: what was done is taken back. */
		if (ask->code && lease.sent) {
			ask->code = 0;
			lease.status = BRIDGE_BUSY;
		}
		break;
	case BRIDGE_DOWNGRADE:
		ask->code = bridge_quorum_downgrade(net->quorum, ask->keys, &ask->wish, deadline, &lease);
		break;
	case BRIDGE_RENEW:
		ask->code = bridge_quorum_renew(net->quorum, ask->exclusive ? BRIDGE_ACQUIRE_X : BRIDGE_ACQUIRE_S,
						ask->keys, &ask->wish, deadline, &lease);
		break;
	case BRIDGE_RELEASE:
		lease.status = BRIDGE_DONE;
		/* What a majority has forgotten is in nobody's way. */
		if (bridge_quorum_release(net->quorum, ask->keys, &ask->wish, deadline) <= net->n_quorum / 2)
			ask->code = BRIDGE_UNKNOWN;
		break;
	case BRIDGE_FENCE:
		lease.status = BRIDGE_DONE;
		ask->code = bridge_quorum_fence(net->quorum, ask->keys, &ask->wish, deadline);
		break;
	default:
		/* BRIDGE_LEAVE: there is no queue. */
		lease.status = BRIDGE_DONE;
		break;
	}
	if (ask->code)
		fail_ask(ask, ask->code, error->code ? error->text : "");
	if (ask->code && !lease.sent)
		ask->asked = bridge_quorum_tried(net->quorum, ask->asked);
	ask->unsent = ask->code && bridge_is_acquire(ask->script) && !lease.sent;
	waits = bridge_is_acquire(ask->script) && !strchr(ask->wish.flags ? ask->wish.flags : "t", 't');
	ask->answer.status = lease.status == BRIDGE_BUSY && waits ? BRIDGE_QUEUED : lease.status;
	ask->answer.kind = lease.kind ? lease.kind : BRIDGE_KIND_NONE;
	ask->answer.left_ms = lease.left_ms;
	ask->answer.fence = lease.fence;
	ask->valid_until = lease.valid_until;
}

/* What keeps leases, or is needed for that, does not wait for those who want one. */
static bool urgent(const struct bridge_ask *ask)
{
	return ask->script == BRIDGE_RENEW || ask->script == BRIDGE_FENCE;
}

/* Of several, what ended since the last round is found out now, of all at once. */
static bool all_ready(const struct bridge_nodes *nodes)
{
	bool all = true;
	size_t i;

	for (i = 0; i < nodes->n; i++) {
		if (nodes->n > 1)
			(void)bridge_conn_pump(nodes->node[i].conn);
		all = all && bridge_conn_ready(nodes->node[i].conn);
	}
	return all;
}

/* To all that anything is asked of: those that are away cost one wait, not one in each batch that asks them. */
static void connect_all(struct bridge_nodes *nodes, const struct bridge_ask *asks, size_t n, int64_t io_ns)
{
	struct bridge_node *wanted[BRIDGE_CONNS_MAX];
	bool is_wanted[BRIDGE_CONNS_MAX] = { false };
	size_t i, k = 0;

	if (all_ready(nodes))
		return;
	for (i = 0; i < n; i++)
		is_wanted[bridge_nodes_likely(nodes, asks[i].keys) - nodes->node] = true;
	for (i = 0; i < nodes->n; i++)
		if (is_wanted[i])
			wanted[k++] = &nodes->node[i];
	bridge_nodes_connect(nodes, wanted, k, io_ns);
}

static void run_all(struct bridge_net *net, struct bridge_ask *asks, size_t n, int64_t io_ns)
{
	struct batch *b = &net->batch;
	size_t i;
	int pass;

	between(net);
	connect_all(&net->nodes, asks, n, io_ns);
	between(net);
	bridge_renewals_run(&net->renewals, &net->nodes, asks, n, io_ns);
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < n; i++) {
			if (asks[i].settled || urgent(&asks[i]) != (pass == 0))
				continue;
			b->ask[b->n++] = &asks[i];
			if (b->n == BATCH)
				run_batch(net, io_ns);
		}
	if (b->n)
		run_batch(net, io_ns);
}

/* False: there is no majority, nor will there be one for the rest of this round. */
static bool ask_one(struct bridge_net *net, struct bridge_ask *ask, int64_t io_ns)
{
	between(net);
	ask_quorum(net, ask, io_ns);
	return !ask->code || bridge_quorum_reachable(net->quorum);
}

/*
 * A majority is asked for one lease after the other.  What would put off the next round of renewals is left for that,
 * and then it is the turn of those that had none.
 */
static void run_quorum(struct bridge_net *net, struct bridge_ask *asks, size_t n, int64_t io_ns)
{
	int64_t end = bridge_now() + 2 * io_ns;
	size_t i, k, first = n ? net->next_ask % n : 0;
	bool there = true;
	int pass;

	for (pass = 0; pass < 2; pass++)
		for (k = 0; k < n; k++) {
			i = (first + k) % n;
			if (urgent(&asks[i]) != (pass == 0))
				continue;
			asks[i].put_off = pass && there && bridge_now() >= end;
			if (asks[i].put_off)
				continue;
			net->next_ask = pass ? i + 1 : net->next_ask;
			if (there)
				there = ask_one(net, &asks[i], io_ns);
			else
				not_asked(&asks[i], BRIDGE_UNREACHABLE, bridge_quorum_error(net->quorum)->text,
					  bridge_quorum_tried(net->quorum, asks[i].asked));
		}
}

void bridge_net_begin(struct bridge_net *net)
{
	net->nodes.began = bridge_now();
}

void bridge_net_between(struct bridge_net *net, void (*call)(void *arg), void *arg)
{
	net->between = call;
	net->between_arg = arg;
}

void bridge_net_run(struct bridge_net *net, struct bridge_ask *asks, size_t n, int64_t io_ns)
{
	if (net->quorum)
		run_quorum(net, asks, n, io_ns);
	else
		run_all(net, asks, n, io_ns);
}

/* ---------------------------------------------------------------- hints */

/* Those that gave none are asked again together: each at its own time would keep the bridge
 * from its leases more often. */
static void arm(struct bridge_net *net, int64_t io_ns)
{
	struct bridge_arming arming[BRIDGE_CONNS_MAX];
	struct bridge_node *node[BRIDGE_CONNS_MAX];
	bool again = bridge_now() >= net->deaf_until, deaf = false;
	size_t i, n = 0;

	for (i = 0; i < net->nodes.n; i++) {
		struct bridge_node *s = &net->nodes.node[i];

		if (!bridge_conn_ready(s->conn) || (s->deaf && !again))
			continue;
		arming[n].wake = s->wake;
		arming[n].commands = s->conn;
		node[n++] = s;
	}
	bridge_wakes_arm(arming, n, bridge_now() + io_ns);
	for (i = 0; i < n; i++) {
		node[i]->deaf = arming[i].code != 0;
		deaf = deaf || node[i]->deaf;
	}
	if (deaf)
		net->deaf_until = bridge_now() + WAKE_REST_NS;
}

bool bridge_net_arm(struct bridge_net *net, int64_t io_ns)
{
	int64_t next;
	bool all = !net->quorum;
	size_t i;

	arm(net, io_ns);
	net->check_at = INT64_MAX;
	for (i = 0; i < net->nodes.n; i++) {
		struct bridge_node *s = &net->nodes.node[i];

		if (!bridge_conn_ready(s->conn))
			continue;
		all = all && !s->deaf;
		next = bridge_wake_check(s->wake, bridge_now(), QUIET_NS);
		(void)bridge_conn_pump(bridge_wake_conn(s->wake));
		if (next < net->check_at)
			net->check_at = next;
	}
	return all;
}

int64_t bridge_net_due(const struct bridge_net *net)
{
	return net->check_at;
}

enum bridge_hint bridge_net_hint(struct bridge_net *net, const char **key, size_t *len)
{
	for (; net->next_hint < net->nodes.n; net->next_hint++) {
		struct bridge_node *s = &net->nodes.node[net->next_hint];
		enum bridge_hint hint;

		(void)bridge_conn_pump(bridge_wake_conn(s->wake));
		hint = bridge_wake_next(s->wake, key, len);
		if (hint != BRIDGE_HINT_NONE)
			return hint;
	}
	net->next_hint = 0;
	return BRIDGE_HINT_NONE;
}

void bridge_net_watch(struct bridge_net *net, int epoll)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	size_t i;

	for (i = 0; i < net->nodes.n; i++) {
		int fd = bridge_conn_fd(bridge_wake_conn(net->nodes.node[i].wake));

		if (fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) != 0 && errno == ENOENT)
			(void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	}
}
