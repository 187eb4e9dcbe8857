/* SPDX-License-Identifier: MIT */
/*
 * nodes.h - connections to the servers that share the keys of a segment, and which of them has a key
 *
 * Without a cluster a key's server follows from its name.  The nodes of a cluster know the owner of each slot: a
 * command goes to any of them, and its redirection names the right one.  Nodes that were not configured get the login
 * of the first configured one.  Among configured servers that belong to no cluster one that claims to is refused: it
 * would redirect the keys of the others.
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
	uint64_t failed; /* generation of the connection that failed last */
	bool used; /* by a command that is under way */
	bool opening;
	bool single, cluster; /* as which it was connected last */
	bool try_other; /* for its keys: it failed since it was connected last */
	bool other_tried; /* since the last step */
	bool waits; /* for the reply to WAIT, which has this number */
	uint64_t wait_generation, wait_number;
	int64_t copies; /* replicas that have its writes; -1 = unknown */
	bool arms; /* for tracking: */
	struct redis_arming arming;
	bool untracked; /* no tracking, when it was armed last */
	int64_t arm_again; /* if so */
};

struct redis_nodes {
	struct redis_node node[REDIS_CONNS_MAX];
	size_t n, n_given; /* configured ones come first */
	struct redis_server like;
	struct redis_host host;
	bool cluster; /* one of the configured ones reported so, and none the contrary */
	unsigned char *slots; /* for each slot its node, from 1; 0 = unknown.  NULL = all unknown */
};

int redis_nodes_add(struct redis_nodes *s, const struct redis_server *server, struct redis_error *error);
void redis_nodes_end(struct redis_nodes *s);

/* Which of @n independent servers has the lock. */
size_t redis_server_of(const struct redis_keys *keys, size_t n);
/* The node to send a command about the lock to. */
struct redis_node *redis_nodes_of(struct redis_nodes *s, const struct redis_keys *keys);
/*
 * What became of connections that were opened, or failed: true if anything did.  A node that failed is not tried again
 * for a while, longer each time.
 */
bool redis_nodes_advance(struct redis_nodes *s);
/* @node is connected: does it belong to a cluster?  Closes those that do not fit the others. */
void redis_nodes_learn(struct redis_nodes *s, struct redis_node *node);
/* 0 = connected; REDIS_AGAIN = connects, from now on if it did not; else why it cannot, also while it backs off. */
int redis_node_connect(struct redis_node *node, int64_t deadline);
/* A command failed with its connection: once for each connection its back-off begins. */
void redis_node_failed(struct redis_node *node);
/* After all commands of a step have their node: a failed one is tried again, unless it backs off. */
void redis_nodes_try_again(struct redis_nodes *s);

/*
 * The node that @text, an error reply MOVED, names; it gets the commands for that slot from now on.  NULL = none named,
 * or too many nodes.
 */
struct redis_node *redis_nodes_moved(struct redis_nodes *s, struct redis_node *from, const char *text);
/* @node reported CLUSTERDOWN for the slot of @keys: the next command goes to the next node in the list. */
void redis_nodes_forget(struct redis_nodes *s, const struct redis_keys *keys, const struct redis_node *node);

#endif
