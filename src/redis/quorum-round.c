/* SPDX-License-Identifier: MIT */
/* quorum-round.c - servers and rounds of a quorum; see redis/quorum-round.h */
#define _GNU_SOURCE
#include "redis/quorum-round.h"

#include <stdlib.h>
#include <string.h>

#define REST_MIN_NS BRIDGE_MS(50)
#define REST_MAX_NS BRIDGE_MS(400)

/* ---------------------------------------------------------------- servers */

static int note_twice(struct bridge_quorum *q, const struct node *a, const struct node *b)
{
	q->unfit = true;
	return bridge_fail(&q->error, BRIDGE_INVALID, "%.100s and %.100s are the same server",
			   bridge_conn_label(a->conn), bridge_conn_label(b->conn));
}

/* Each would have its part of the keys, and send us elsewhere with the others. */
static int note_cluster(struct bridge_quorum *q, const struct node *node)
{
	q->unfit = true;
	return bridge_fail(&q->error, BRIDGE_INVALID,
			   "%.100s is a node of a cluster: a majority takes servers that know nothing of each other",
			   bridge_conn_label(node->conn));
}

/*
 * A connection that has just become ready: who is it?  A server we have not met may have been restarted as well as one
 * that is new to us.
 */
static int look_at(struct bridge_quorum *q, struct node *node)
{
	const struct bridge_server_info *info = bridge_conn_info(node->conn);
	int64_t age_ms = info->uptime_s * 1000;
	size_t i;

	node->known = bridge_conn_generation(node->conn);
	node->rest_ns = 0;
	if (info->cluster)
		return note_cluster(q, node);
	for (i = 0; i < q->n; i++)
		if (&q->nodes[i] != node && strcmp(q->nodes[i].run_id, info->run_id) == 0)
			return note_twice(q, &q->nodes[i], node);
	if (strcmp(node->run_id, info->run_id) != 0 && age_ms < q->options.quarantine_ms)
		node->votes_from = bridge_now() + BRIDGE_MS(q->options.quarantine_ms - age_ms);
	memcpy(node->run_id, info->run_id, sizeof(node->run_id));
	return 0;
}

bool quorum_ready(struct bridge_quorum *q, struct node *node)
{
	if (!bridge_conn_ready(node->conn))
		return false;
	if (node->known != bridge_conn_generation(node->conn))
		(void)look_at(q, node);
	return !q->unfit;
}

static bool quorum_votes(struct bridge_quorum *q, struct node *node)
{
	return quorum_ready(q, node) && bridge_now() >= node->votes_from;
}

void quorum_poll(struct bridge_quorum *q, int64_t until)
{
	struct bridge_conn *conns[BRIDGE_SERVERS_MAX];
	size_t i;

	for (i = 0; i < q->n; i++)
		conns[i] = q->nodes[i].conn;
	bridge_conns_poll(conns, q->n, until);
}

/* Once for each connection that failed while somebody waited for it. */
static void begin_rests(struct bridge_quorum *q)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		struct node *node = &q->nodes[i];

		if (!bridge_conn_closed(node->conn) || !bridge_conn_error(node->conn)->code ||
		    node->failed == bridge_conn_generation(node->conn))
			continue;
		node->failed = bridge_conn_generation(node->conn);
		node->rest_ns = node->rest_ns ? node->rest_ns * 2 : REST_MIN_NS;
		if (node->rest_ns > REST_MAX_NS)
			node->rest_ns = REST_MAX_NS;
		node->rest_until = bridge_now() + node->rest_ns;
	}
}

/* What it met is still the answer. */
static bool rests(const struct node *node)
{
	return bridge_conn_closed(node->conn) && bridge_conn_error(node->conn)->code &&
	       bridge_now() < node->rest_until;
}

void quorum_connect(struct bridge_quorum *q, int64_t deadline)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		/* One that ended meanwhile is noticed now, not with the next command. */
		(void)bridge_conn_pump(q->nodes[i].conn);
		if (rests(&q->nodes[i])) {
			q->error = *bridge_conn_error(q->nodes[i].conn);
			continue;
		}
		if (bridge_conn_open(q->nodes[i].conn, deadline) != 0)
			q->error = *bridge_conn_error(q->nodes[i].conn);
	}
}

unsigned quorum_gather(struct bridge_quorum *q, unsigned enough, int64_t deadline)
{
	for (;;) {
		unsigned n = 0, under_way = 0;
		size_t i;

		begin_rests(q);
		for (i = 0; i < q->n; i++) {
			struct bridge_conn *c = q->nodes[i].conn;

			if (quorum_ready(q, &q->nodes[i]))
				n++;
			else if (!bridge_conn_closed(c))
				under_way++;
			else if (bridge_conn_error(c)->code)
				q->error = *bridge_conn_error(c);
		}
		if (n >= enough || !under_way || q->unfit || bridge_now() >= deadline)
			return n;
		quorum_poll(q, deadline);
	}
}

/* ---------------------------------------------------------------- rounds */

void round_free(struct round *r, size_t n)
{
	while (n--)
		bridge_op_end(&r->ops[n]);
	bridge_keys_free(&r->keys);
	free(r);
}

/* The same names in memory of the round's own. */
static bool copy_keys(struct bridge_keys *out, const struct bridge_keys *keys)
{
	size_t all = 0, i;
	char *at;

	for (i = 0; i < BRIDGE_KEYS; i++)
		all += keys->len[i];
	at = out->bytes = malloc(all);
	if (!at)
		return false;
	for (i = 0; i < BRIDGE_KEYS; i++) {
		out->key[i] = at;
		out->len[i] = keys->len[i];
		at = mempcpy(at, keys->key[i], keys->len[i]);
	}
	return true;
}

struct round *round_new(struct bridge_quorum *q, const struct bridge_keys *keys, const struct bridge_wish *wish)
{
	struct round *r = calloc(1, sizeof(*r));
	size_t i;

	if (!r || !copy_keys(&r->keys, keys)) {
		free(r);
		bridge_fail(&q->error, BRIDGE_NO_MEMORY, "out of memory");
		return NULL;
	}
	strncpy(r->token, wish->token, BRIDGE_TOKEN_LEN);
	for (i = 0; i < q->n; i++)
		r->ops[i].done = true;
	r->next = q->rounds;
	q->rounds = r;
	return r;
}

void round_ask(struct bridge_quorum *q, struct round *r, size_t i, enum bridge_script script,
		const struct bridge_wish *wish, int64_t deadline)
{
	struct bridge_wish own = *wish;

	own.token = r->token;
	own.token_len = 0;
	r->asked[i] = true;
	q->nodes[i].owes = true;
	(void)bridge_op_begin(&r->ops[i], q->nodes[i].conn, script, &r->keys, &own, deadline);
	(void)bridge_conn_pump(q->nodes[i].conn);
}

static size_t n_done(const struct bridge_quorum *q)
{
	const struct round *r;
	size_t n = 0, i;

	for (r = q->rounds; r; r = r->next)
		for (i = 0; i < q->n; i++)
			n += r->ops[i].done;
	return n;
}

void round_reap(struct bridge_quorum *q, const struct round *keep)
{
	struct round **at = &q->rounds, *r;
	size_t before;

	do {
		before = n_done(q);
		for (r = q->rounds; r; r = r->next)
			(void)bridge_ops_step(r->ops, q->n);
	} while (n_done(q) != before);
	begin_rests(q);
	while ((r = *at)) {
		if (r == keep || !bridge_ops_step(r->ops, q->n)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		round_free(r, q->n);
	}
}

static struct tally count(struct bridge_quorum *q, const struct round *r, enum bridge_status yes)
{
	struct tally t = { 0 };
	size_t i;

	for (i = 0; i < q->n; i++) {
		const struct bridge_op *op = &r->ops[i];

		if (!r->asked[i])
			continue;
		if (!op->done)
			t.open++;
		else if (op->code == 0 && op->answer.status == yes && (!r->kind || op->answer.kind == r->kind))
			t.yes++;
		else if (op->code == 0)
			t.no++;
		else if (!t.code || !bridge_error_passes(op->code))
			t.code = op->code;
		if (op->done && op->code)
			(void)bridge_fail(&q->error, op->code, "%s", op->why);
	}
	return t;
}

struct tally round_decide(struct bridge_quorum *q, const struct round *r, enum bridge_status yes, int64_t deadline)
{
	struct tally t;

	for (;;) {
		round_reap(q, r);
		t = count(q, r, yes);
		if (t.yes >= q->majority || t.yes + t.open < q->majority || bridge_now() >= deadline)
			return t;
		quorum_poll(q, deadline);
	}
}

struct round *round_ask_all(struct bridge_quorum *q, enum bridge_script script, bool voters_only,
			     const struct bridge_keys *keys, const struct bridge_wish *wish, int64_t deadline)
{
	struct round *r = round_new(q, keys, wish);
	size_t i;

	for (i = 0; r && i < q->n; i++)
		if (voters_only ? quorum_votes(q, &q->nodes[i]) : quorum_ready(q, &q->nodes[i]))
			round_ask(q, r, i, script, wish, deadline);
	return r;
}
