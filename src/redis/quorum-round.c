/* SPDX-License-Identifier: MIT */
/* quorum-round.c - servers and rounds of a quorum; see redis/quorum-round.h */
#define _GNU_SOURCE
#include "redis/quorum-round.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- servers */

/* A node of a cluster has a part of the keys and redirects commands about the others. */
static void refuse_cluster(struct node *node)
{
	redis_conn_close(node->conn);
	(void)redis_conn_set_error(node->conn, REDIS_INVALID,
				   "is a node of a cluster: a majority takes servers that know nothing of each other");
}

/*
 * Servers with one run_id are one server under two addresses, or one of them lies.  They have one vote together, so that
 * neither case makes a majority of less, and a lie takes no vote from the server that it names.
 */
static void group_all(struct redis_quorum *q)
{
	unsigned i, k;

	q->same.code = 0;
	for (i = 0; i < q->n; i++) {
		for (k = 0; k < i && strcmp(q->nodes[k].run_id, q->nodes[i].run_id) != 0; k++)
			;
		q->nodes[i].group = q->nodes[i].run_id[0] ? k : i;
		if (q->nodes[i].group != i)
			(void)redis_fail(&q->same, REDIS_INVALID,
					 "%.100s and %.100s are the same server, or one claims to be: one vote together",
					 redis_conn_label(q->nodes[k].conn), redis_conn_label(q->nodes[i].conn));
	}
}

/*
 * Identifies the server of a new connection.  One with an unknown run_id may be new here or may have been restarted:
 * either way it may have forgotten leases.
 */
static void identify(struct redis_quorum *q, struct node *node)
{
	const struct redis_server_info *info = redis_conn_info(node->conn);
	int64_t age_ms = info->uptime_s * 1000;

	node->known = redis_conn_generation(node->conn);
	if (info->cluster) {
		refuse_cluster(node);
		return;
	}
	node->backoff.ns = 0;
	if (strcmp(node->run_id, info->run_id) != 0 && age_ms < q->options.quarantine_ms)
		node->votes_from = redis_now() + REDIS_MS(q->options.quarantine_ms - age_ms);
	memcpy(node->run_id, info->run_id, sizeof(node->run_id));
	group_all(q);
}

bool quorum_ready(struct redis_quorum *q, struct node *node)
{
	if (redis_conn_ready(node->conn) && node->known != redis_conn_generation(node->conn))
		identify(q, node);
	return redis_conn_ready(node->conn);
}

unsigned quorum_ready_votes(struct redis_quorum *q)
{
	unsigned groups = 0;
	size_t i;

	for (i = 0; i < q->n; i++)
		if (quorum_ready(q, &q->nodes[i]))
			groups |= 1U << q->nodes[i].group;
	return (unsigned)__builtin_popcount(groups);
}

unsigned quorum_all_votes(const struct redis_quorum *q)
{
	unsigned groups = 0;
	size_t i;

	for (i = 0; i < q->n; i++)
		groups |= 1U << q->nodes[i].group;
	return (unsigned)__builtin_popcount(groups);
}

static bool quorum_votes(struct redis_quorum *q, struct node *node)
{
	return quorum_ready(q, node) && redis_now() >= node->votes_from;
}

void redis_quorum_wait(struct redis_quorum *q, int64_t until)
{
	struct redis_conn *conns[REDIS_SERVERS_MAX];
	size_t i;

	for (i = 0; i < q->n; i++)
		conns[i] = q->nodes[i].conn;
	redis_conns_poll(conns, q->n, until);
}

/* Once for each connection that failed. */
static void begin_backoffs(struct redis_quorum *q)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		struct node *node = &q->nodes[i];

		if (!redis_conn_closed(node->conn) || !redis_conn_error(node->conn)->code ||
		    node->failed == redis_conn_generation(node->conn))
			continue;
		node->failed = redis_conn_generation(node->conn);
		redis_backoff_begin(&node->backoff, redis_now());
	}
}

/* During the back-off its error stays the earlier one. */
static bool backs_off(const struct node *node)
{
	return redis_conn_closed(node->conn) && redis_conn_error(node->conn)->code &&
	       redis_now() < node->backoff.until;
}

void quorum_connect(struct redis_quorum *q, int64_t deadline)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		/* A connection that ended is noticed now, not with the next command; one that was idle does not back
		 * off. */
		(void)redis_conn_pump(q->nodes[i].conn);
		if (backs_off(&q->nodes[i])) {
			q->error = *redis_conn_error(q->nodes[i].conn);
			continue;
		}
		if (redis_conn_open(q->nodes[i].conn, deadline) != 0)
			q->error = *redis_conn_error(q->nodes[i].conn);
	}
}

bool quorum_gathered(struct redis_quorum *q, unsigned enough, int64_t deadline, unsigned *n)
{
	unsigned under_way = 0;
	size_t i;

	*n = quorum_ready_votes(q);
	begin_backoffs(q);
	for (i = 0; i < q->n; i++) {
		struct redis_conn *c = q->nodes[i].conn;

		under_way += !redis_conn_ready(c) && !redis_conn_closed(c);
		if (redis_conn_closed(c) && redis_conn_error(c)->code)
			q->error = *redis_conn_error(c);
	}
	return *n >= enough || !under_way || redis_now() >= deadline;
}

/* ---------------------------------------------------------------- rounds */

void round_free(struct round *r, size_t n)
{
	while (n--)
		redis_op_end(&r->ops[n]);
	redis_keys_free(&r->keys);
	free(r);
}

/* The same names, in memory of the round. */
static bool copy_keys(struct redis_keys *out, const struct redis_keys *keys)
{
	size_t all = 0, i;
	char *at;

	for (i = 0; i < REDIS_KEYS; i++)
		all += keys->len[i];
	at = out->bytes = malloc(all);
	if (!at)
		return false;
	for (i = 0; i < REDIS_KEYS; i++) {
		out->key[i] = at;
		out->len[i] = keys->len[i];
		at = mempcpy(at, keys->key[i], keys->len[i]);
	}
	return true;
}

struct round *round_new(struct redis_quorum *q, const struct redis_keys *keys, const struct script_args *args)
{
	struct round *r = calloc(1, sizeof(*r));
	size_t i;

	if (!r || !copy_keys(&r->keys, keys)) {
		free(r);
		redis_fail(&q->error, REDIS_NO_MEMORY, "out of memory");
		return NULL;
	}
	strncpy(r->value, args->value, REDIS_VALUE_LEN);
	for (i = 0; i < q->n; i++)
		r->ops[i].done = true;
	r->kept = true;
	*q->rounds_end = r;
	q->rounds_end = &r->next;
	return r;
}

void round_send(struct redis_quorum *q, struct round *r, size_t i, enum redis_script script,
		const struct script_args *args, int64_t deadline)
{
	struct script_args own = *args;

	own.value = r->value;
	own.value_len = 0;
	r->sent[i] = true;
	if (args->may_have)
		*args->may_have |= 1U << i;
	(void)redis_op_begin(&r->ops[i], q->nodes[i].conn, script, &r->keys, &own, deadline);
}

static size_t n_done(const struct redis_quorum *q)
{
	const struct round *r;
	size_t n = 0, i;

	for (r = q->rounds; r; r = r->next)
		for (i = 0; i < q->n; i++)
			n += r->ops[i].done;
	return n;
}

bool round_reap(struct redis_quorum *q)
{
	struct round **at = &q->rounds, *r;
	size_t before, first = n_done(q);
	bool any;

	do {
		before = n_done(q);
		for (r = q->rounds; r; r = r->next)
			(void)redis_ops_step(r->ops, q->n);
	} while (n_done(q) != before);
	any = before != first;
	begin_backoffs(q);
	while ((r = *at)) {
		if (r->kept || !redis_ops_step(r->ops, q->n)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		round_free(r, q->n);
	}
	q->rounds_end = at;
	return any;
}

static struct tally count(struct redis_quorum *q, const struct round *r, enum redis_status yes)
{
	unsigned agree = 0, open = 0, refuse = 0; /* groups */
	struct tally t = { 0 };
	size_t i;

	for (i = 0; i < q->n; i++) {
		const struct redis_op *op = &r->ops[i];
		unsigned group = 1U << q->nodes[i].group;

		if (!r->sent[i])
			continue;
		if (!op->done)
			open |= group;
		else if (op->code == 0 && op->reply.status == yes && (!r->kind || op->reply.kind == r->kind))
			agree |= group;
		else if (op->code == 0)
			refuse |= group;
		else if (!t.code || !redis_error_passes(op->code))
			t.code = op->code;
		if (op->done && op->code)
			(void)redis_fail(&q->error, op->code, "%s", op->why);
	}
	t.yes = (unsigned)__builtin_popcount(agree);
	t.open = (unsigned)__builtin_popcount(open & ~agree);
	t.no = (unsigned)__builtin_popcount(refuse & ~open & ~agree);
	return t;
}

bool round_decided(struct redis_quorum *q, const struct round *r, enum redis_status yes, int64_t deadline,
		   struct tally *out)
{
	*out = count(q, r, yes);
	return out->yes >= q->majority || out->yes + out->open < q->majority || redis_now() >= deadline;
}

struct round *round_begin(struct redis_quorum *q, enum redis_script script, bool voters_only,
			     const struct redis_keys *keys, const struct script_args *args, int64_t deadline)
{
	struct round *r = round_new(q, keys, args);
	size_t i;

	for (i = 0; r && i < q->n; i++)
		if (voters_only ? quorum_votes(q, &q->nodes[i]) : quorum_ready(q, &q->nodes[i]))
			round_send(q, r, i, script, args, deadline);
	return r;
}
