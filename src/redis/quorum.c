/* SPDX-License-Identifier: MIT */
/* quorum.c - one lock on several servers: life cycle and getters; see redis/quorum.h */
#include "redis/quorum.h"

#include <stdlib.h>
#include <string.h>

#include "redis/quorum-round.h"

/* ---------------------------------------------------------------- life cycle, getters */

int redis_quorum_new(struct redis_quorum **out, const struct redis_server *servers, size_t n,
		      const struct redis_quorum_options *options, struct redis_error *error)
{
	struct redis_conn_options conn_options = { .name = "lockshm",
						    .scripts = redis_scripts,
						    .n_scripts = REDIS_N_SCRIPTS };
	struct redis_quorum *q;
	size_t i;
	int code = 0;

	*out = NULL;
	if (n < 1 || n > REDIS_SERVERS_MAX)
		return redis_fail(error, REDIS_INVALID, "a quorum has 1 to %d servers", REDIS_SERVERS_MAX);
	q = calloc(1, sizeof(*q));
	if (!q)
		return redis_fail(error, REDIS_NO_MEMORY, "out of memory");
	q->n = n;
	q->majority = (unsigned)(n / 2 + 1);
	q->options = *options;
	q->rounds_end = &q->rounds;
	q->votes_end = &q->votes;
	for (i = 0; i < n; i++)
		q->nodes[i].group = (unsigned)i;
	for (i = 0; i < n && !code; i++)
		code = redis_conn_new(&q->nodes[i].conn, &servers[i], &conn_options, error);
	if (code)
		redis_quorum_free(q);
	else
		*out = q;
	return code;
}

void redis_quorum_free(struct redis_quorum *q)
{
	struct round *r;
	size_t i;

	if (!q)
		return;
	while ((r = q->rounds)) {
		q->rounds = r->next;
		round_free(r, q->n);
	}
	for (i = 0; i < q->n; i++)
		redis_conn_free(q->nodes[i].conn);
	free(q);
}

int redis_quorum_open(struct redis_quorum *q, int64_t deadline)
{
	unsigned n;

	quorum_connect(q, deadline);
	while (!quorum_gathered(q, (unsigned)q->n, deadline, &n))
		redis_quorum_wait(q, deadline);
	if (quorum_all_votes(q) < q->majority)
		return redis_fail(&q->error, q->same.code, "%s", q->same.text);
	return n >= q->majority ? 0 : q->error.code ? q->error.code : REDIS_UNREACHABLE;
}

unsigned redis_quorum_voters(const struct redis_quorum *q)
{
	int64_t now = redis_now();
	unsigned groups = 0;
	size_t i;

	for (i = 0; i < q->n; i++) {
		const struct node *node = &q->nodes[i];

		if (redis_conn_ready(node->conn) && node->known == redis_conn_generation(node->conn) &&
		    now >= node->votes_from)
			groups |= 1U << node->group;
	}
	return (unsigned)__builtin_popcount(groups);
}

bool redis_quorum_reachable(const struct redis_quorum *q)
{
	unsigned n = 0;
	size_t i;

	for (i = 0; i < q->n; i++)
		n += redis_conn_ready(q->nodes[i].conn);
	return n >= q->majority;
}

int64_t redis_quorum_tried(const struct redis_quorum *q, int64_t now)
{
	size_t i;

	for (i = 0; i < q->n; i++)
		if (!redis_conn_ready(q->nodes[i].conn) && redis_conn_tried(q->nodes[i].conn) < now)
			now = redis_conn_tried(q->nodes[i].conn);
	return now;
}

const struct redis_error *redis_quorum_error(const struct redis_quorum *q)
{
	return &q->error;
}

const struct redis_error *redis_quorum_same(const struct redis_quorum *q)
{
	return &q->same;
}

struct redis_conn *redis_quorum_conn(const struct redis_quorum *q, size_t i)
{
	return q->nodes[i].conn;
}

bool redis_quorum_awaits(const struct redis_quorum *q, size_t i)
{
	const struct redis_conn *c = q->nodes[i].conn;

	return !redis_conn_closed(c) && (!redis_conn_ready(c) || redis_conn_sent(c) != redis_conn_taken(c));
}

int64_t redis_quorum_due(const struct redis_quorum *q)
{
	const struct redis_vote *v;
	int64_t due = INT64_MAX;
	size_t i;

	for (v = q->votes; v; v = v->next)
		due = min64(due, v->deadline);
	for (i = 0; i < q->n; i++)
		if (redis_quorum_awaits(q, i))
			due = min64(due, redis_conn_due(q->nodes[i].conn));
	return due;
}
