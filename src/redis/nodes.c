/* SPDX-License-Identifier: MIT */
/* nodes.c - the servers that share the keys of a segment; see redis/nodes.h */
#define _GNU_SOURCE
#include "redis/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/script.h"
#include "sys/hash.h"

#define REST_MIN_NS BRIDGE_MS(50)
#define REST_MAX_NS BRIDGE_MS(400)

_Static_assert(BRIDGE_CONNS_MAX >= BRIDGE_SERVERS_MAX && BRIDGE_CONNS_MAX < 256, "slots[] keeps a node in a byte");

/* ---------------------------------------------------------------- making */

int bridge_nodes_add(struct bridge_nodes *s, const struct bridge_server *server, struct bridge_error *error)
{
	static const struct bridge_conn_options options = { .name = "lockshm",
							    .scripts = bridge_scripts,
							    .n_scripts = BRIDGE_N_SCRIPTS };
	struct bridge_node *node = &s->node[s->n];
	struct bridge_wake *wake;
	int code;

	if (s->n == BRIDGE_CONNS_MAX)
		return bridge_fail(error, BRIDGE_INVALID, "more than %d servers", BRIDGE_CONNS_MAX);
	memset(node, 0, sizeof(*node));
	code = bridge_wake_new(&wake, server, &s->host, error);
	if (code)
		return code;
	code = bridge_conn_new(&node->conn, server, &options, error);
	if (code) {
		bridge_wake_free(wake);
		return code;
	}
	node->wake = wake;
	if (s->n == 0)
		s->like = *server;
	/* Another thread may fork at any time: what the child is to close is there before it counts. */
	__atomic_store_n(&s->n, s->n + 1, __ATOMIC_RELEASE);
	return 0;
}

void bridge_nodes_end(struct bridge_nodes *s)
{
	while (s->n > 0) {
		struct bridge_node *node = &s->node[--s->n];

		bridge_wake_free(node->wake);
		bridge_conn_free(node->conn);
	}
	explicit_bzero(&s->like, sizeof(s->like));
	free(s->slots);
	s->slots = NULL;
}

void bridge_nodes_abandon(struct bridge_nodes *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		bridge_conn_abandon(s->node[i].conn);
		bridge_conn_abandon(bridge_wake_conn(s->node[i].wake));
	}
}

/* ---------------------------------------------------------------- who is asked */

void bridge_node_rest(struct bridge_node *node)
{
	node->rest_ns = node->rest_ns ? node->rest_ns * 2 : REST_MIN_NS;
	if (node->rest_ns > REST_MAX_NS)
		node->rest_ns = REST_MAX_NS;
	node->failed_at = bridge_now();
	node->rest_until = node->failed_at + node->rest_ns;
	node->ask_other = true;
	node->failed = false;
}

/* While it rests its answer is what it was before. */
static bool rests(const struct bridge_node *node)
{
	return bridge_conn_closed(node->conn) && bridge_conn_error(node->conn)->code && bridge_now() < node->rest_until;
}

int bridge_node_code(const struct bridge_node *node)
{
	int code = bridge_conn_error(node->conn)->code;

	return bridge_conn_ready(node->conn) ? 0 : code ? code : BRIDGE_UNREACHABLE;
}

/* Of a cluster each knows who has what, also when the one that had it is away and another has taken its place. */
static struct bridge_node *any_other(struct bridge_nodes *s, struct bridge_node *away)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (&s->node[i] != away && bridge_conn_ready(s->node[i].conn))
			return &s->node[i];
	for (i = 0; i < s->n; i++)
		if (&s->node[i] != away && !rests(&s->node[i]))
			return &s->node[i];
	return away;
}

size_t bridge_server_of(const struct bridge_keys *keys, size_t n)
{
	return n == 1 ? 0 : (size_t)(hash_plain(keys->key[0], keys->len[0]) % n);
}

/* Who asks may rest as long as the node does, so that its rest alone would be seen by nobody. */
static bool ask_another(const struct bridge_nodes *s, const struct bridge_node *node)
{
	return s->cluster && (node->ask_other || rests(node));
}

static struct bridge_node *node_of(struct bridge_nodes *s, const struct bridge_keys *keys)
{
	unsigned known = s->cluster && s->slots ? s->slots[bridge_keys_slot(keys)] : 0;

	return &s->node[known ? known - 1 : bridge_server_of(keys, s->n_given)];
}

struct bridge_node *bridge_nodes_likely(struct bridge_nodes *s, const struct bridge_keys *keys)
{
	struct bridge_node *node = node_of(s, keys);

	return ask_another(s, node) ? any_other(s, node) : node;
}

struct bridge_node *bridge_nodes_of(struct bridge_nodes *s, const struct bridge_keys *keys)
{
	struct bridge_node *node = node_of(s, keys);

	if (!ask_another(s, node))
		return node;
	node->other_asked = true;
	return any_other(s, node);
}

static void open_wanted(struct bridge_node *const *wanted, size_t n, int64_t began, int64_t deadline)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct bridge_node *node = wanted[i];

		/* One that ended meanwhile is noticed now, not with the next command. */
		if (!node->opening && bridge_conn_ready(node->conn))
			(void)bridge_conn_pump(node->conn);
		/* Or what is asked later would pay for it once more, where its rest is shorter than the round. */
		if (node->opening || bridge_conn_ready(node->conn) || rests(node) || node->failed_at > began)
			continue;
		node->opening = true;
		(void)bridge_conn_open(node->conn, deadline);
	}
}

void bridge_nodes_connect(struct bridge_nodes *s, struct bridge_node *const *wanted, size_t n, int64_t io_ns)
{
	struct bridge_conn *waiting[BRIDGE_CONNS_MAX];
	int64_t deadline = bridge_now() + io_ns;
	size_t i, k;

	for (i = 0; i < s->n; i++) {
		struct bridge_node *node = &s->node[i];

		node->opening = node->failed = false;
		/* Once for each failure, or it would never be its turn where the others are away, too. */
		if (node->other_asked)
			node->other_asked = node->ask_other = false;
	}
	open_wanted(wanted, n, s->began, deadline);
	do {
		for (i = k = 0; i < s->n; i++)
			if (s->node[i].opening && !bridge_conn_ready(s->node[i].conn) &&
			    !bridge_conn_closed(s->node[i].conn))
				waiting[k++] = s->node[i].conn;
		if (k)
			bridge_conns_poll(waiting, k, deadline);
	} while (k);
	for (i = 0; i < s->n; i++) {
		struct bridge_node *node = &s->node[i];

		if (!node->opening)
			continue;
		if (!bridge_conn_ready(node->conn)) {
			bridge_node_rest(node);
			continue;
		}
		node->rest_ns = 0;
		node->ask_other = false;
		s->cluster = bridge_conn_info(node->conn)->cluster;
	}
}

/* ---------------------------------------------------------------- a cluster */

struct moved {
	unsigned slot;
	char host[256], port[6];
};

/* "...MOVED 3999 127.0.0.1:6381"; an address in figures may have colons of its own, and none at
 * all means the same host. */
static bool parse_moved(const char *text, const char *own_host, struct moved *out)
{
	const char *at = strstr(text, "MOVED "), *colon, *end;
	char *stop;
	size_t len;

	if (!at)
		return false;
	out->slot = (unsigned)strtoul(at + 6, &stop, 10);
	if (*stop != ' ' || out->slot >= BRIDGE_SLOTS)
		return false;
	at = stop + 1;
	end = at + strcspn(at, " \r\n");
	colon = memrchr(at, ':', (size_t)(end - at));
	if (!colon || end - colon < 2 || (size_t)(end - colon) > sizeof(out->port))
		return false;
	len = (size_t)(colon - at);
	if (len == 0)
		snprintf(out->host, sizeof(out->host), "%s", own_host);
	else
		snprintf(out->host, sizeof(out->host), "%.*s", (int)len, at);
	snprintf(out->port, sizeof(out->port), "%.*s", (int)(end - colon - 1), colon + 1);
	return out->host[0] && strcmp(out->host, "?") != 0;
}

static struct bridge_node *node_at(struct bridge_nodes *s, const char *host, const char *port)
{
	struct bridge_server server;
	size_t i;

	bridge_server_at(&server, &s->like, host, port);
	for (i = 0; i < s->n; i++)
		if (strcmp(bridge_conn_label(s->node[i].conn), server.label) == 0)
			return &s->node[i];
	i = bridge_nodes_add(s, &server, NULL) == 0 ? s->n : 0;
	explicit_bzero(&server, sizeof(server));
	return i ? &s->node[i - 1] : NULL;
}

/* Out of memory it is told each time. */
static void note_slot(struct bridge_nodes *s, unsigned slot, size_t node)
{
	if (!s->slots)
		s->slots = calloc(BRIDGE_SLOTS, 1);
	if (s->slots)
		s->slots[slot] = (unsigned char)(node + 1);
}

struct bridge_node *bridge_nodes_moved(struct bridge_nodes *s, struct bridge_node *from, const char *text)
{
	struct bridge_node *node;
	struct moved to;

	if (!parse_moved(text, bridge_conn_host(from->conn), &to))
		return NULL;
	node = node_at(s, to.host, to.port);
	if (node)
		note_slot(s, to.slot, (size_t)(node - s->node));
	return node;
}

void bridge_nodes_forget(struct bridge_nodes *s, const struct bridge_keys *keys, const struct bridge_node *who)
{
	if (s->cluster)
		note_slot(s, bridge_keys_slot(keys), (size_t)(who - s->node + 1) % s->n);
}
