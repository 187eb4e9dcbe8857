/* SPDX-License-Identifier: MIT */
/*
 * nodes.h - connections to the servers that share the keys of a segment, and which of them has a key
 *
 * Without a cluster a key's server follows from its name.  The nodes of a cluster know the owner of each slot: a
 * command goes to any of them, and its redirection names the right one.  Nodes that were not configured get the login
 * of the first configured one.
 */
#ifndef LOCKSHM_REDIS_NODES_H
#define LOCKSHM_REDIS_NODES_H

#include "redis/backoff.h"
#include "redis/names.h"
#include "redis/tracking.h"

struct redis_node {
	struct redis_conn *conn;
	struct tracking *tracking;
	struct redis_backoff backoff;
	int64_t failed_at; /* latest */
	bool opening;
	bool failed; /* in this batch; its back-off has not begun */
	bool try_other; /* for its keys: it failed since it was connected last */
	bool other_tried; /* in this batch */
	bool waits; /* for the reply to WAIT */
	int64_t copies; /* replicas that have its writes; -1 = unknown */
	bool untracked; /* no tracking, when it was armed last */
};

struct redis_nodes {
	struct redis_node node[REDIS_CONNS_MAX];
	size_t n, n_given; /* configured ones come first */
	struct redis_server like;
	struct redis_host host;
	int64_t began; /* of this round, which tries a node that failed only once */
	bool cluster; /* as the node connected last reported */
	unsigned char *slots; /* for each slot its node, from 1; 0 = unknown.  NULL = all unknown */
};

int redis_nodes_add(struct redis_nodes *s, const struct redis_server *server, struct redis_error *error);
void redis_nodes_end(struct redis_nodes *s);

/* Which of @n independent servers has the lock. */
size_t redis_server_of(const struct redis_keys *keys, size_t n);
/* The node to send a command about the lock to. */
struct redis_node *redis_nodes_of(struct redis_nodes *s, const struct redis_keys *keys);
/* The node redis_nodes_of() would return, before any connection is made. */
struct redis_node *redis_nodes_likely(struct redis_nodes *s, const struct redis_keys *keys);
/* Connects to all wanted nodes at once: ten that are unreachable delay the others as long as one. */
void redis_nodes_connect(struct redis_nodes *s, struct redis_node *const *wanted, size_t n, int64_t io_ns);
/* 0 = connected. */
int redis_node_code(const struct redis_node *node);
/* It failed: not tried again for a while, longer each time. */
void redis_node_back_off(struct redis_node *node);

/*
 * The node that @text, an error reply MOVED, names; it gets the commands for that slot from now on.  NULL = none named,
 * or too many nodes.
 */
struct redis_node *redis_nodes_moved(struct redis_nodes *s, struct redis_node *from, const char *text);
/* @node reported CLUSTERDOWN for the slot of @keys: the next command goes to the next node in the list. */
void redis_nodes_forget(struct redis_nodes *s, const struct redis_keys *keys, const struct redis_node *node);

#endif
