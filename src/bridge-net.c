/* SPDX-License-Identifier: MIT */
/* bridge-net.c - the servers of a segment; see bridge-net.h */
#define _GNU_SOURCE
#include "bridge-net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "bridge-quorum.h"
#include "hash.h"

#define REST_MIN_NS BRIDGE_MS(50) /* a server that does not answer is left alone, longer each time */
#define REST_MAX_NS BRIDGE_MS(400)
#define WAKE_REST_NS BRIDGE_MS(1000)
#define QUIET_NS BRIDGE_MS(5000) /* a silent connection for hints is asked for a sign of life */

struct server {
	struct bridge_conn *conn;
	struct bridge_wake *wake;
	int64_t rest_until, rest_ns;
	int64_t wake_rest_until;
	bool opening;
	bool failed; /* in this batch */
	bool waits; /* for its replicas */
	int64_t copies; /* they have; -1 = not known */
	bool deaf; /* it gives no hints, or not to us */
};

struct bridge_net {
	struct server servers[BRIDGE_SERVERS_MAX];
	size_t n;
	struct bridge_quorum *quorum; /* instead */
	size_t n_quorum;
	size_t next_ask; /* of those that may be put off, who is first */
	size_t next_hint; /* whose turn it is */
	int64_t check_at;
	unsigned replicas; /* that must have what is granted */
	struct bridge_host host;
};

/* ---------------------------------------------------------------- making */

static int add_server(struct bridge_net *net, const struct bridge_server *server, struct bridge_error *error)
{
	static const struct bridge_conn_options options = { .name = "lockshm",
							    .scripts = bridge_scripts,
							    .n_scripts = BRIDGE_N_SCRIPTS };
	struct server *s = &net->servers[net->n];
	int code = bridge_conn_new(&s->conn, server, &options, error);

	if (code)
		return code;
	net->n++;
	return bridge_wake_new(&s->wake, server, &net->host, error);
}

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
		code = add_server(net, &servers[i], error);
	return code;
}

int bridge_net_new(struct bridge_net **out, const struct shm_redis *settings, struct bridge_error *error)
{
	struct bridge_net *net = calloc(1, sizeof(*net));
	int code;

	*out = NULL;
	if (!net)
		return bridge_fail(error, BRIDGE_NO_MEMORY, "out of memory");
	memcpy(net->host.id, settings->host, BRIDGE_HOST_LEN);
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
	while (net->n > 0) {
		struct server *s = &net->servers[--net->n];

		bridge_wake_free(s->wake);
		bridge_conn_free(s->conn);
	}
	bridge_quorum_free(net->quorum);
	free(net);
}

void bridge_net_abandon(struct bridge_net *net)
{
	size_t i;

	for (i = 0; i < net->n; i++) {
		bridge_conn_abandon(net->servers[i].conn);
		if (net->servers[i].wake)
			bridge_conn_abandon(bridge_wake_conn(net->servers[i].wake));
	}
	if (net->quorum)
		bridge_quorum_abandon(net->quorum);
}

int bridge_net_keys_mode(const struct bridge_net *net)
{
	size_t i;

	for (i = 0; i < net->n; i++)
		if (bridge_conn_info(net->servers[i].conn)->cluster)
			return BRIDGE_KEYS_CLUSTER;
	return BRIDGE_KEYS_SINGLE;
}

/* ---------------------------------------------------------------- asking */

size_t bridge_server_of(const struct bridge_keys *keys, size_t n)
{
	return n == 1 ? 0 : (size_t)(hash_plain(keys->key[0], keys->len[0]) % n);
}

static struct server *server_of(struct bridge_net *net, const struct bridge_keys *keys)
{
	return &net->servers[bridge_server_of(keys, net->n)];
}

static void rest(struct server *s)
{
	s->rest_ns = s->rest_ns ? s->rest_ns * 2 : REST_MIN_NS;
	if (s->rest_ns > REST_MAX_NS)
		s->rest_ns = REST_MAX_NS;
	s->rest_until = bridge_now() + s->rest_ns;
}

/* While it rests its answer is what it was before. */
static bool rests(const struct server *s)
{
	return bridge_conn_closed(s->conn) && bridge_conn_error(s->conn)->code && bridge_now() < s->rest_until;
}

/* All servers that these asks need, at once: one that is away costs the others no more than ten do. */
static void connect_all(struct bridge_net *net, struct bridge_ask *const *asks, size_t n, int64_t io_ns)
{
	struct bridge_conn *waiting[BRIDGE_SERVERS_MAX];
	int64_t deadline = bridge_now() + io_ns;
	size_t i, k;

	for (i = 0; i < net->n; i++)
		net->servers[i].opening = net->servers[i].failed = false;
	for (i = 0; i < n; i++) {
		struct server *s = server_of(net, asks[i]->keys);

		/* One that ended meanwhile is noticed now, not with the next command. */
		if (!s->opening && bridge_conn_ready(s->conn))
			(void)bridge_conn_pump(s->conn);
		if (s->opening || bridge_conn_ready(s->conn) || rests(s))
			continue;
		s->opening = true;
		(void)bridge_conn_open(s->conn, deadline);
	}
	do {
		for (i = k = 0; i < net->n; i++)
			if (net->servers[i].opening && !bridge_conn_ready(net->servers[i].conn) &&
			    !bridge_conn_closed(net->servers[i].conn))
				waiting[k++] = net->servers[i].conn;
		if (k)
			bridge_conns_poll(waiting, k, deadline);
	} while (k);
	for (i = 0; i < net->n; i++) {
		struct server *s = &net->servers[i];

		if (s->opening && bridge_conn_ready(s->conn))
			s->rest_ns = 0;
		else if (s->opening)
			rest(s);
	}
}

static int code_of(const struct server *s)
{
	int code = bridge_conn_error(s->conn)->code;

	return bridge_conn_ready(s->conn) ? 0 : code ? code : BRIDGE_UNREACHABLE;
}

static void fail_ask(struct bridge_ask *ask, int code, const struct bridge_error *error)
{
	ask->code = code;
	snprintf(ask->why, sizeof(ask->why), "%.250s", error->code ? error->text : bridge_code_name(code));
}

static void take_answer(struct bridge_net *net, struct bridge_ask *ask, const struct bridge_op *op)
{
	struct server *s = server_of(net, ask->keys);

	if (op->code) {
		fail_ask(ask, op->code, bridge_conn_error(op->conn));
		s->failed = bridge_conn_closed(op->conn);
		return;
	}
	ask->code = 0;
	ask->answer = op->answer;
	ask->valid_until = bridge_valid_until(op->began, ask->wish.ttl_ms);
}

/* ---------------------------------------------------------------- replicas */

static bool granted(const struct bridge_ask *ask)
{
	return ask->code == 0 && ask->answer.status == BRIDGE_GRANTED;
}

/* Half of the time, so that the answer comes in time. */
static void ask_replicas(const struct bridge_net *net, struct server *s, int64_t io_ns)
{
	char n[16], ms[24];
	const char *argv[] = { "WAIT", n, ms };
	size_t lens[3] = { 4, 0, 0 };

	s->copies = -1;
	lens[1] = (size_t)snprintf(n, sizeof(n), "%u", net->replicas);
	lens[2] = (size_t)snprintf(ms, sizeof(ms), "%lld", (long long)(io_ns / 2 / BRIDGE_MS(1)));
	s->waits = bridge_conn_ready(s->conn) && !bridge_conn_send(s->conn, bridge_now() + io_ns, 3, argv, lens) &&
		   !bridge_conn_pump(s->conn);
}

/* True = it waits still. */
static bool hear_replicas(struct server *s)
{
	struct bridge_reply *reply = s->waits ? bridge_conn_take(s->conn) : NULL;

	if (reply) {
		if (!bridge_conn_judge(s->conn, reply))
			s->copies = bridge_reply_integer(reply, -1);
		bridge_reply_free(reply);
	}
	s->waits = s->waits && !reply && !bridge_conn_closed(s->conn);
	return s->waits;
}

static void refuse(const struct bridge_net *net, struct bridge_ask *ask, const struct server *s)
{
	struct bridge_error why = { 0 };

	if (s->copies >= 0)
		bridge_fail(&why, BRIDGE_RETRY, "%.60s: only %lld of %u replicas have it", bridge_conn_label(s->conn),
			    (long long)s->copies, net->replicas);
	else
		why = *bridge_conn_error(s->conn);
	fail_ask(ask, why.code ? why.code : BRIDGE_UNKNOWN, &why);
}

/* What was granted counts when enough replicas have it.  If not it is as if nobody had answered: it is there, maybe,
 * and the caller asks again or takes it back. */
static void await_replicas(struct bridge_net *net, struct bridge_ask *const *asks, size_t n, int64_t io_ns)
{
	struct bridge_conn *waiting[BRIDGE_SERVERS_MAX];
	size_t i, k;

	for (i = 0; i < net->n; i++)
		net->servers[i].waits = false;
	for (i = 0; i < n; i++)
		if (granted(asks[i]) && !server_of(net, asks[i]->keys)->waits)
			ask_replicas(net, server_of(net, asks[i]->keys), io_ns);
	do {
		for (i = k = 0; i < net->n; i++)
			if (hear_replicas(&net->servers[i]))
				waiting[k++] = net->servers[i].conn;
		if (k)
			bridge_conns_poll(waiting, k, INT64_MAX);
	} while (k);
	for (i = 0; i < n; i++)
		if (granted(asks[i]) && server_of(net, asks[i]->keys)->copies < (int64_t)net->replicas)
			refuse(net, asks[i], server_of(net, asks[i]->keys));
}

#define BATCH 64

static void run_batch(struct bridge_net *net, struct bridge_ask *const *asks, size_t n, int64_t io_ns)
{
	struct bridge_op *ops = calloc(n, sizeof(*ops));
	struct bridge_ask *of[BATCH];
	size_t i, k = 0;

	connect_all(net, asks, n, io_ns);
	for (i = 0; i < n; i++) {
		struct server *s = server_of(net, asks[i]->keys);
		int code = ops ? code_of(s) : BRIDGE_NO_MEMORY;

		if (code) {
			fail_ask(asks[i], code, bridge_conn_error(s->conn));
			continue;
		}
		of[k] = asks[i];
		(void)bridge_op_begin(&ops[k++], s->conn, asks[i]->script, asks[i]->keys, &asks[i]->wish,
				      bridge_now() + io_ns);
	}
	for (i = 0; i < k; i++)
		(void)bridge_conn_pump(ops[i].conn);
	bridge_ops_wait(ops, k);
	for (i = 0; i < k; i++)
		take_answer(net, of[i], &ops[i]);
	if (net->replicas)
		await_replicas(net, of, k, io_ns);
	for (i = 0; i < net->n; i++)
		if (net->servers[i].failed)
			rest(&net->servers[i]);
	free(ops);
}

/* There is no queue in a quorum: who is refused asks again. */
static void ask_quorum(struct bridge_net *net, struct bridge_ask *ask, int64_t io_ns)
{
	int64_t deadline = bridge_now() + io_ns;
	struct bridge_lease lease = { 0 };

	memset(&ask->answer, 0, sizeof(ask->answer));
	ask->answer.kind = BRIDGE_KIND_NONE;
	ask->code = 0;
	switch (ask->script) {
	case BRIDGE_ACQUIRE_S:
	case BRIDGE_ACQUIRE_X:
		ask->code = bridge_quorum_acquire(net->quorum, ask->script, ask->keys, &ask->wish, deadline, &lease);
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
		fail_ask(ask, ask->code, bridge_quorum_error(net->quorum));
	ask->answer.status = lease.status == BRIDGE_BUSY && !strchr(ask->wish.flags ? ask->wish.flags : "t", 't') ?
				     BRIDGE_QUEUED :
				     lease.status;
	ask->answer.left_ms = lease.left_ms;
	ask->answer.fence = lease.fence;
	ask->valid_until = lease.valid_until;
}

/* What keeps leases, or is needed for that, does not wait for those who want one. */
static bool urgent(const struct bridge_ask *ask)
{
	return ask->script == BRIDGE_RENEW || ask->script == BRIDGE_FENCE;
}

static void run_all(struct bridge_net *net, struct bridge_ask *asks, size_t n, int64_t io_ns)
{
	struct bridge_ask *order[BATCH];
	size_t i, k = 0;
	int pass;

	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < n; i++) {
			if (urgent(&asks[i]) != (pass == 0))
				continue;
			order[k++] = &asks[i];
			if (k == BATCH) {
				run_batch(net, order, k, io_ns);
				k = 0;
			}
		}
	if (k)
		run_batch(net, order, k, io_ns);
}

/* False: there is no majority, nor will there be one for the rest of this round. */
static bool ask_one(struct bridge_net *net, struct bridge_ask *ask, int64_t io_ns)
{
	ask_quorum(net, ask, io_ns);
	return !ask->code || bridge_quorum_reachable(net->quorum);
}

/*
 * A majority is asked for one lease after the other.  What would put off the next round of renewals is left for that, and
 * then it is the turn of those that had none.
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
				fail_ask(&asks[i], BRIDGE_UNREACHABLE, bridge_quorum_error(net->quorum));
		}
}

void bridge_net_run(struct bridge_net *net, struct bridge_ask *asks, size_t n, int64_t io_ns)
{
	if (net->quorum)
		run_quorum(net, asks, n, io_ns);
	else
		run_all(net, asks, n, io_ns);
}

/* ---------------------------------------------------------------- hints */

bool bridge_net_arm(struct bridge_net *net, int64_t io_ns)
{
	int64_t now = bridge_now(), next;
	bool all = !net->quorum;
	size_t i;

	net->check_at = INT64_MAX;
	for (i = 0; i < net->n; i++) {
		struct server *s = &net->servers[i];

		if (!bridge_conn_ready(s->conn))
			continue;
		if (now >= s->wake_rest_until) {
			/* Its own time: what another did not answer in is not this one's. */
			s->deaf = bridge_wake_arm(s->wake, s->conn, bridge_now() + io_ns) != 0;
			if (s->deaf)
				s->wake_rest_until = now + WAKE_REST_NS;
		}
		all = all && !s->deaf;
		next = bridge_wake_check(s->wake, now, QUIET_NS);
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
	for (; net->next_hint < net->n; net->next_hint++) {
		struct server *s = &net->servers[net->next_hint];
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

	for (i = 0; i < net->n; i++) {
		int fd = bridge_conn_fd(bridge_wake_conn(net->servers[i].wake));

		if (fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) != 0 && errno == ENOENT)
			(void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	}
}
