/* SPDX-License-Identifier: MIT */
/*
 * quorum-round.h - the inside of a quorum: its servers, and rounds of one script on all of them
 *
 * A round that was decided lives on until its last answer came or can come no more, with its own copy of
 * names and token; later rounds queue behind it on the same connections, so that a release never overtakes
 * the acquire it takes back.
 */
#ifndef LOCKSHM_BRIDGE_ROUND_H
#define LOCKSHM_BRIDGE_ROUND_H

#include "redis/quorum.h"

struct node {
	struct bridge_conn *conn;
	uint64_t known; /* generation in which it was looked at */
	char run_id[41];
	int64_t votes_from;
	int64_t rest_until, rest_ns; /* one that does not answer is left alone, longer each time */
	uint64_t failed; /* generation of which that was noticed */
	bool owes; /* may hold a token of ours that nobody wants any more */
};

struct round {
	struct round *next;
	struct bridge_keys keys;
	char token[BRIDGE_TOKEN_LEN + 1];
	enum bridge_kind kind; /* yes is one only with that; 0 = any */
	bool asked[BRIDGE_SERVERS_MAX];
	bool repeated[BRIDGE_SERVERS_MAX]; /* release: asked again over a new connection */
	struct bridge_op ops[BRIDGE_SERVERS_MAX];
};

struct bridge_quorum {
	struct node nodes[BRIDGE_SERVERS_MAX];
	size_t n;
	unsigned majority;
	struct bridge_quorum_options options;
	struct round *rounds; /* newest first */
	struct bridge_error error;
	bool unfit; /* two addresses are one server, or one is of a cluster */
};

struct tally {
	unsigned yes, no, open; /* agreed, refused, not answered yet */
	int code; /* of an error, the worst there is to say */
};

/* Connected, known, and fit for a majority with the others? */
bool quorum_ready(struct bridge_quorum *q, struct node *node);
void quorum_poll(struct bridge_quorum *q, int64_t until);
/* Begins to connect to all that are not, but for those that are left alone. */
void quorum_connect(struct bridge_quorum *q, int64_t deadline);
/* Waits until @enough servers are ready, or no more can be. */
unsigned quorum_gather(struct bridge_quorum *q, unsigned enough, int64_t deadline);

/* NULL = no memory; q->error says so. */
struct round *round_new(struct bridge_quorum *q, const struct bridge_keys *keys, const struct bridge_wish *wish);
void round_free(struct round *r, size_t n);
/* Server @i. */
void round_ask(struct bridge_quorum *q, struct round *r, size_t i, enum bridge_script script, const struct bridge_wish *wish,
	       int64_t deadline);
/* A new round with all that are ready; NULL = no memory. */
struct round *round_ask_all(struct bridge_quorum *q, enum bridge_script script, bool voters_only,
			    const struct bridge_keys *keys, const struct bridge_wish *wish, int64_t deadline);
/*
 * Takes what has come, for all rounds, and forgets those that are over, but for @keep.  The rounds share connections,
 * and what one takes may uncover the reply of another.
 */
void round_reap(struct bridge_quorum *q, const struct round *keep);
/* Until a majority agrees, or cannot any more. */
struct tally round_decide(struct bridge_quorum *q, const struct round *r, enum bridge_status yes, int64_t deadline);

#endif
