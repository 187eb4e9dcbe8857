/* SPDX-License-Identifier: MIT */
/*
 * nodes.h - connections to the servers that share the keys of a segment, and which of them has a key
 *
 * Without a cluster a key's server follows from its name.  The nodes of a cluster say themselves who has a slot: any
 * of them is asked first, the one that it names gets the next.  Nodes that nobody configured are logged in to as the
 * first one that somebody did.
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
	int64_t failed_at; /* last */
	bool opening;
	bool failed; /* in this batch, and does not rest for that yet */
	bool try_other; /* next time: it did not answer */
	bool other_tried; /* for this batch */
	bool waits; /* for its replicas */
	int64_t copies; /* they have; -1 = not known */
	bool untracked; /* it gave no hints, or not to us, when that was tried last */
};

struct redis_nodes {
	struct redis_node node[REDIS_CONNS_MAX];
	size_t n, n_given; /* the configured ones come first */
	struct redis_server like;
	struct redis_host host;
	int64_t began; /* this round: in it nobody is tried again who failed */
	bool cluster; /* as far as is known: what the last one said that was connected */
	unsigned char *slots; /* by slot: number of its node, from 1; 0 = not known.  NULL = none is */
};

int redis_nodes_add(struct redis_nodes *s, const struct redis_server *server, struct redis_error *error);
void redis_nodes_end(struct redis_nodes *s);
/* As redis_conn_abandon(), for all. */
void redis_nodes_abandon(struct redis_nodes *s);

/* Which of @n servers has the lock of that name, where each lock has its server. */
size_t redis_server_of(const struct redis_keys *keys, size_t n);
/* Who is to be asked about the lock of that name. */
struct redis_node *redis_nodes_of(struct redis_nodes *s, const struct redis_keys *keys);
/* Who will be, as far as that is known before it is connected to. */
struct redis_node *redis_nodes_likely(struct redis_nodes *s, const struct redis_keys *keys);
/* Connects to all that are wanted at once: one that is away costs the others no more than ten do. */
void redis_nodes_connect(struct redis_nodes *s, struct redis_node *const *wanted, size_t n, int64_t io_ns);
/* 0 = it can be asked now. */
int redis_node_code(const struct redis_node *node);
/* It did not answer: it is left alone for some time, longer each time. */
void redis_node_back_off(struct redis_node *node);

/* Whom @text, an error reply MOVED, names: from now on that one is asked for its slot.  NULL = nobody, or there are too
 * many. */
struct redis_node *redis_nodes_moved(struct redis_nodes *s, struct redis_node *from, const char *text);
/* @who, who was asked about it, knows no cluster any more: the next time the one after it in the list. */
void redis_nodes_forget(struct redis_nodes *s, const struct redis_keys *keys, const struct redis_node *node);

#endif
