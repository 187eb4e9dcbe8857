/* SPDX-License-Identifier: MIT */
/*
 * quorum-round.h - the inside of a quorum: its servers, and rounds of one script on all of them
 *
 * A decided round stays until its last reply has come or can come no more, with its own copy of names and value.  Later
 * rounds queue after it on the same connections, so a release never overtakes the acquire it takes back.
 */
#ifndef LOCKSHM_REDIS_QUORUM_ROUND_H
#define LOCKSHM_REDIS_QUORUM_ROUND_H

#include "redis/backoff.h"
#include "redis/quorum.h"

struct node {
	struct redis_conn *conn;
	uint64_t known; /* generation that was identified */
	char run_id[41];
	unsigned group; /* the first server with the same run_id */
	int64_t votes_from;
	struct redis_backoff backoff; /* after a failure */
	uint64_t failed; /* generation of the latest failure */
};

struct round {
	struct round *next;
	bool kept; /* until its operation is over */
	struct redis_keys keys;
	char value[REDIS_VALUE_LEN + 1];
	enum redis_kind kind; /* counts as yes; 0 = any */
	bool sent[REDIS_SERVERS_MAX];
	bool repeated[REDIS_SERVERS_MAX]; /* release: over a new connection */
	struct redis_op ops[REDIS_SERVERS_MAX];
};

struct redis_quorum {
	struct node nodes[REDIS_SERVERS_MAX];
	size_t n;
	unsigned majority;
	struct redis_quorum_options options;
	struct round *rounds, **rounds_end; /* oldest first: in that order replies come */
	struct redis_vote *votes, **votes_end; /* under way */
	struct redis_error error;
	struct redis_error same; /* two servers that share a vote; code 0 = none */
};

struct tally {
	unsigned yes, no, open; /* agreed, refused, no reply yet */
	int code; /* of an error: one that does not pass, if there is one */
};

/* Connected and identified? */
bool quorum_ready(struct redis_quorum *q, struct node *node);
/* Begins to connect to all that are not connected and do not back off. */
void quorum_connect(struct redis_quorum *q, int64_t deadline);
/* How many votes servers have that are ready, or that vote now; how many all have. */
unsigned quorum_ready_votes(struct redis_quorum *q);
unsigned quorum_all_votes(const struct redis_quorum *q);
/* Are @enough votes ready, or no more can be by the deadline?  @n: how many are. */
bool quorum_gathered(struct redis_quorum *q, unsigned enough, int64_t deadline, unsigned *n);

/* Kept.  NULL = no memory; q->error is set. */
struct round *round_new(struct redis_quorum *q, const struct redis_keys *keys, const struct script_args *args);
void round_free(struct round *r, size_t n);
/* To server @i, with the next pump. */
void round_send(struct redis_quorum *q, struct round *r, size_t i, enum redis_script script,
		const struct script_args *args, int64_t deadline);
/* A new round to all that are ready; NULL = no memory. */
struct round *round_begin(struct redis_quorum *q, enum redis_script script, bool voters_only,
			    const struct redis_keys *keys, const struct script_args *args, int64_t deadline);
/*
 * Takes the replies of all rounds and frees finished ones that are not kept; true if there was a reply.  Rounds share
 * connections: taking one reply may uncover that of another round.
 */
bool round_reap(struct redis_quorum *q);
/* Does a majority agree, or can it not any more?  Also after the deadline. */
bool round_decided(struct redis_quorum *q, const struct round *r, enum redis_status yes, int64_t deadline,
		   struct tally *out);

#endif
