/* SPDX-License-Identifier: MIT */
/* nodes.c - the servers that share the keys of a segment; see redis/nodes.h */
#define _GNU_SOURCE
#include "redis/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/script.h"
#include "sys/hash.h"

_Static_assert(REDIS_CONNS_MAX >= REDIS_SERVERS_MAX && REDIS_CONNS_MAX < 256, "slots[] keeps a node in a byte");

/* ---------------------------------------------------------------- life cycle */

int redis_nodes_add(struct redis_nodes *s, const struct redis_server *server, struct redis_error *error)
{
	static const struct redis_conn_options options = { .name = "lockshm",
							    .scripts = redis_scripts,
							    .n_scripts = REDIS_N_SCRIPTS };
	struct redis_node *node = &s->node[s->n];
	struct tracking *tracking;
	int code;

	if (s->n == REDIS_CONNS_MAX)
		return redis_fail(error, REDIS_INVALID, "more than %d servers", REDIS_CONNS_MAX);
	memset(node, 0, sizeof(*node));
	code = tracking_new(&tracking, server, &s->host, error);
	if (code)
		return code;
	code = redis_conn_new(&node->conn, server, &options, error);
	if (code) {
		tracking_free(tracking);
		return code;
	}
	node->tracking = tracking;
	if (s->n == 0)
		s->like = *server;
	s->n++;
	return 0;
}

void redis_nodes_end(struct redis_nodes *s)
{
	while (s->n > 0) {
		struct redis_node *node = &s->node[--s->n];

		tracking_free(node->tracking);
		redis_conn_free(node->conn);
	}
	explicit_bzero(&s->like, sizeof(s->like));
	free(s->slots);
	s->slots = NULL;
}

/* ---------------------------------------------------------------- which node */

static void back_off(struct redis_node *node)
{
	redis_backoff_begin(&node->backoff, redis_now());
	node->failed = redis_conn_generation(node->conn);
	node->try_other = true;
}

void redis_node_failed(struct redis_node *node)
{
	if (redis_conn_closed(node->conn) && node->failed != redis_conn_generation(node->conn))
		back_off(node);
}

/* During the back-off its error stays the earlier one. */
static bool backs_off(const struct redis_node *node)
{
	return redis_conn_closed(node->conn) && redis_conn_error(node->conn)->code && redis_now() < node->backoff.until;
}

/* Every node of a cluster knows all owners, also after a failover. */
static struct redis_node *any_other(struct redis_nodes *s, struct redis_node *away)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (&s->node[i] != away && redis_conn_ready(s->node[i].conn))
			return &s->node[i];
	for (i = 0; i < s->n; i++)
		if (&s->node[i] != away && !backs_off(&s->node[i]))
			return &s->node[i];
	return away;
}

size_t redis_server_of(const struct redis_keys *keys, size_t n)
{
	return n == 1 ? 0 : (size_t)(hash_plain(keys->key[0], keys->len[0]) % n);
}

/* The caller may back off for as long as the node: then backs_off() alone would never be true here. */
static bool uses_other(const struct redis_nodes *s, const struct redis_node *node)
{
	return s->cluster && (node->try_other || backs_off(node));
}

static struct redis_node *node_of(struct redis_nodes *s, const struct redis_keys *keys)
{
	unsigned known = s->cluster && s->slots ? s->slots[redis_keys_slot(keys)] : 0;

	return &s->node[known ? known - 1 : redis_server_of(keys, s->n_given)];
}

struct redis_node *redis_nodes_of(struct redis_nodes *s, const struct redis_keys *keys)
{
	struct redis_node *node = node_of(s, keys);

	if (!uses_other(s, node))
		return node;
	node->other_tried = true;
	return any_other(s, node);
}

void redis_nodes_learn(struct redis_nodes *s, struct redis_node *node)
{
	bool cluster = false, single = false;
	size_t i;

	node->cluster = redis_conn_info(node->conn)->cluster;
	node->single = !node->cluster;
	for (i = 0; i < s->n_given; i++) {
		cluster = cluster || s->node[i].cluster;
		single = single || s->node[i].single;
	}
	s->cluster = cluster && !single;
	for (i = 0; cluster && single && i < s->n_given; i++) {
		node = &s->node[i];
		if (!node->cluster || !redis_conn_ready(node->conn))
			continue;
		redis_conn_close(node->conn);
		(void)redis_conn_set_error(node->conn, REDIS_INVALID, "is a node of a cluster, and another server is none");
		back_off(node);
	}
}

bool redis_nodes_advance(struct redis_nodes *s)
{
	bool any = false;
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct redis_node *node = &s->node[i];

		if (!node->opening || !(redis_conn_ready(node->conn) || redis_conn_closed(node->conn)))
			continue;
		any = true;
		node->opening = false;
		if (redis_conn_closed(node->conn)) {
			back_off(node);
			continue;
		}
		node->backoff.ns = 0;
		node->try_other = false;
		redis_nodes_learn(s, node);
	}
	return any;
}

int redis_node_connect(struct redis_node *node, int64_t deadline)
{
	int code = redis_conn_error(node->conn)->code;

	if (redis_conn_ready(node->conn))
		return 0;
	if (backs_off(node))
		return code ? code : REDIS_UNREACHABLE;
	/* The connection for hints is opened by others, too; a failure is found by redis_nodes_advance(). */
	node->opening = true;
	(void)redis_conn_open(node->conn, deadline);
	return REDIS_AGAIN;
}

void redis_nodes_try_again(struct redis_nodes *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->node[i].other_tried)
			s->node[i].other_tried = s->node[i].try_other = false;
}

/* ---------------------------------------------------------------- a cluster */

struct moved {
	unsigned slot;
	char host[256], port[6];
};

/* "...MOVED 3999 127.0.0.1:6381".  A numeric address may contain colons; without an address it is the same host. */
static bool parse_moved(const char *text, const char *own_host, struct moved *out)
{
	const char *at = strstr(text, "MOVED "), *colon, *end;
	char *stop;
	size_t len;

	if (!at)
		return false;
	out->slot = (unsigned)strtoul(at + 6, &stop, 10);
	if (*stop != ' ' || out->slot >= REDIS_SLOTS)
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

static struct redis_node *node_at(struct redis_nodes *s, const char *host, const char *port)
{
	struct redis_server server;
	size_t i;

	redis_server_at(&server, &s->like, host, port);
	for (i = 0; i < s->n; i++)
		if (strcmp(redis_conn_label(s->node[i].conn), server.label) == 0)
			return &s->node[i];
	i = redis_nodes_add(s, &server, NULL) == 0 ? s->n : 0;
	explicit_bzero(&server, sizeof(server));
	return i ? &s->node[i - 1] : NULL;
}

/* Without memory each command is redirected again. */
static void set_slot(struct redis_nodes *s, unsigned slot, size_t node)
{
	if (!s->slots)
		s->slots = calloc(REDIS_SLOTS, 1);
	if (s->slots)
		s->slots[slot] = (unsigned char)(node + 1);
}

struct redis_node *redis_nodes_moved(struct redis_nodes *s, struct redis_node *from, const char *text)
{
	struct redis_node *node;
	struct moved to;

	/* Others have no nodes to name: commands, and a password, would go wherever the server likes. */
	if (!s->cluster || !parse_moved(text, redis_conn_host(from->conn), &to))
		return NULL;
	node = node_at(s, to.host, to.port);
	if (node)
		set_slot(s, to.slot, (size_t)(node - s->node));
	return node;
}

void redis_nodes_forget(struct redis_nodes *s, const struct redis_keys *keys, const struct redis_node *node)
{
	if (s->cluster)
		set_slot(s, redis_keys_slot(keys), (size_t)(node - s->node + 1) % s->n);
}
