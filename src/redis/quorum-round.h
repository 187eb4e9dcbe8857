/* SPDX-License-Identifier: MIT */
/*
 * quorum-round.h - the inside of a quorum: its servers, and rounds of one script on all of them
 *
 * A round that was decided lives on until its last answer came or can come no more, with its own copy of
 * names and token; later rounds queue behind it on the same connections, so that a release never overtakes
 * the acquire it takes back.
 */
#ifndef LOCKSHM_REDIS_QUORUM_ROUND_H
#define LOCKSHM_REDIS_QUORUM_ROUND_H

#include "redis/backoff.h"
#include "redis/quorum.h"

struct node {
	struct redis_conn *conn;
	uint64_t known; /* generation in which it was looked at */
	char run_id[41];
	int64_t votes_from;
	struct redis_backoff backoff; /* one that does not answer is left alone, longer each time */
	uint64_t failed; /* generation of which that was noticed */
	bool may_hold; /* may hold a token of ours that nobody wants any more */
};

struct round {
	struct round *next;
	struct redis_keys keys;
	char value[REDIS_VALUE_LEN + 1];
	enum redis_kind kind; /* yes is one only with that; 0 = any */
	bool sent[REDIS_SERVERS_MAX];
	bool repeated[REDIS_SERVERS_MAX]; /* release: asked again over a new connection */
	struct redis_op ops[REDIS_SERVERS_MAX];
};

struct redis_quorum {
	struct node nodes[REDIS_SERVERS_MAX];
	size_t n;
	unsigned majority;
	struct redis_quorum_options options;
	struct round *rounds; /* newest first */
	struct redis_error error;
	bool unfit; /* two addresses are one server, or one is of a cluster */
};

struct tally {
	unsigned yes, no, open; /* agreed, refused, not answered yet */
	int code; /* of an error, the worst there is to say */
};

/* Connected, known, and fit for a majority with the others? */
bool quorum_ready(struct redis_quorum *q, struct node *node);
void quorum_poll(struct redis_quorum *q, int64_t until);
/* Begins to connect to all that are not, but for those that are left alone. */
void quorum_connect(struct redis_quorum *q, int64_t deadline);
/* Waits until @enough servers are ready, or no more can be. */
unsigned quorum_gather(struct redis_quorum *q, unsigned enough, int64_t deadline);

/* NULL = no memory; q->error says so. */
struct round *round_new(struct redis_quorum *q, const struct redis_keys *keys, const struct script_args *args);
void round_free(struct round *r, size_t n);
/* Server @i. */
void round_send(struct redis_quorum *q, struct round *r, size_t i, enum redis_script script, const struct script_args *args,
	       int64_t deadline);
/* A new round with all that are ready; NULL = no memory. */
struct round *round_begin(struct redis_quorum *q, enum redis_script script, bool voters_only,
			    const struct redis_keys *keys, const struct script_args *args, int64_t deadline);
/*
 * Takes what has come, for all rounds, and forgets those that are over, but for @keep.  The rounds share connections,
 * and what one takes may uncover the reply of another.
 */
void round_reap(struct redis_quorum *q, const struct round *keep);
/* Until a majority agrees, or cannot any more. */
struct tally round_decide(struct redis_quorum *q, const struct round *r, enum redis_status yes, int64_t deadline);

#endif
