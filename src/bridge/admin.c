/* SPDX-License-Identifier: MIT */
/*
 * admin.c - inspect, release or acknowledge one key in Redis, for an operator: over connections of its own
 *
 * Not through the bridge, which may be stuck, or run in another program.  One script to all servers that have the key,
 * at once, with one deadline for connecting and the replies together.  Crash points: a script was executed, or not.
 */
#define _GNU_SOURCE
#include "bridge/admin-internal.h"

#include <stdlib.h>
#include <string.h>

#include "bridge/credentials.h"
#include "hostlease/host-note.h"
#include "sys/error.h"
#include "sys/hash.h"

/* ---------------------------------------------------------------- sending */

static int check(struct lockshm *s, const void *key, size_t key_len, int64_t timeout_ns,
		 struct lockshm_error *error)
{
	if (!key || key_len == 0 || timeout_ns <= 0 || timeout_ns > LOCKSHM_TIME_MAX)
		return error_set(error, LOCKSHM_INVALID, "no key, or a time-out that is none");
	if (!s->n_host_leases)
		return error_set(error, LOCKSHM_INVALID,
				 "a segment without Redis: create it with options.redis or --redis");
	if (key_len > LOCKSHM_GLOBAL_KEY_MAX)
		return error_set(error, LOCKSHM_KEY_TOO_LONG, "a global key has at most %d bytes, this one %zu",
				 LOCKSHM_GLOBAL_KEY_MAX, key_len);
	return 0;
}

static int translate(struct lockshm_error *error, const struct redis_error *why)
{
	return error_set(error, why->code == REDIS_NO_MEMORY ? LOCKSHM_NO_MEMORY : LOCKSHM_BRIDGE, "%.230s", why->text);
}

static int name(struct admin_op *q, struct node *node, int mode, struct redis_error *why)
{
	return redis_keys_make(&node->keys, mode, q->s->redis.prefix, q->key, q->key_len, why);
}

static int add_node(struct admin_op *q, const struct redis_server *server)
{
	static const struct redis_conn_options options = { .name = "lockshm-operator" };
	struct redis_error why = { 0 };
	struct node *node = &q->nodes[q->n];

	if (redis_conn_new(&node->conn, server, &options, &why) != 0)
		return translate(q->error, &why);
	q->n++;
	return 0;
}

/* All servers of a quorum have the key, else one of them. */
static int choose(struct admin_op *q, const struct redis_server *servers, size_t n)
{
	struct redis_error why = { 0 };
	struct node scratch = { 0 };
	int err = 0;
	size_t i;

	if (q->s->redis.flags & REDIS_QUORUM) {
		for (i = 0; !err && i < n; i++)
			err = add_node(q, &servers[i]);
		return err;
	}
	err = name(q, &scratch, REDIS_KEYS_SINGLE, &why) ? translate(q->error, &why)
							 : add_node(q, &servers[redis_server_of(&scratch.keys, n)]);
	redis_keys_free(&scratch.keys);
	return err;
}

static int begin(struct admin_op *q)
{
	struct redis_server *servers = calloc(REDIS_SERVERS_MAX, sizeof(*servers));
	size_t n;
	int err;

	if (!servers)
		return error_set(q->error, LOCKSHM_NO_MEMORY, "out of memory");
	err = redis_uri_parse(q->s->redis.servers, bridge_credentials, servers, REDIS_SERVERS_MAX, &n, q->error);
	if (!err)
		err = choose(q, servers, n);
	explicit_bzero(servers, REDIS_SERVERS_MAX * sizeof(*servers));
	free(servers);
	return err;
}

static void end(struct admin_op *q)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		redis_op_end(&q->nodes[i].op);
		redis_keys_free(&q->nodes[i].keys);
		redis_conn_free(q->nodes[i].conn);
	}
	free(q->parties);
	free(q->list);
	free(q);
}

/* Only after connecting is it known whether the server is a cluster's, where the keys of a lock have other names. */
static void send_script(struct admin_op *q, struct node *node, enum redis_script script, const struct script_args *args)
{
	bool cluster = redis_conn_info(node->conn)->cluster;
	struct redis_error why = { 0 };

	node->sent = true;
	node->op.done = true;
	node->op.code = name(q, node, cluster ? REDIS_KEYS_CLUSTER : REDIS_KEYS_SINGLE, &why);
	if (node->op.code)
		(void)redis_conn_set_error(node->conn, why.code, "%s", why.text);
	else if (!redis_op_begin(&node->op, node->conn, script, &node->keys, args, q->deadline))
		(void)redis_conn_pump(node->conn);
}

/* Continue without blocking; true = finished. */
static bool step(struct admin_op *q, struct node *node, enum redis_script script, const struct script_args *args)
{
	if (!node->sent && redis_conn_ready(node->conn))
		send_script(q, node, script, args);
	if (node->sent)
		return redis_ops_step(&node->op, 1);
	node->op.code = redis_conn_error(node->conn)->code;
	return redis_conn_closed(node->conn);
}

/* Each gets the script as soon as it is connected: an unresponsive server takes no time from the others. */
static void run_script(struct admin_op *q, enum redis_script script, const struct script_args *args)
{
	struct redis_conn *waiting[REDIS_SERVERS_MAX];
	size_t i, k;

	for (i = 0; i < q->n; i++)
		(void)redis_conn_open(q->nodes[i].conn, q->deadline);
	do {
		for (i = k = 0; i < q->n; i++)
			if (!step(q, &q->nodes[i], script, args))
				waiting[k++] = q->nodes[i].conn;
		if (k)
			redis_conns_poll(waiting, k, q->deadline);
	} while (k);
	for (i = 0; i < q->n; i++) {
		struct node *node = &q->nodes[i];
		const char *text = redis_conn_error(node->conn)->text;

		node->code = node->op.code;
		node->why = node->code ? (*text ? text : redis_code_name(node->code)) : "";
	}
}

/* ---------------------------------------------------------------- the calls */

static int admin_op_new(struct admin_op **out, struct lockshm *s, const void *key, size_t key_len, int64_t timeout_ns,
			struct lockshm_error *error)
{
	int err = check(s, key, key_len, timeout_ns, error);
	struct admin_op *q;

	if (err)
		return err;
	q = calloc(1, sizeof(*q));
	if (!q)
		return error_set(error, LOCKSHM_NO_MEMORY, "out of memory");
	q->s = s;
	q->key = key;
	q->key_len = key_len;
	q->deadline = redis_now() + timeout_ns;
	q->error = error;
	err = begin(q);
	if (err)
		end(q);
	*out = q;
	return err;
}

int remote_inspect(struct lockshm *s, const void *key, size_t key_len, int64_t timeout_ns, remote_fn fn, void *arg,
		   struct lockshm_error *error)
{
	struct script_args args = { .host = "operator" };
	struct admin_op *q;
	size_t i;
	int err;

	err = admin_op_new(&q, s, key, key_len, timeout_ns, error);
	if (err)
		return err;
	run_script(q, REDIS_INSPECT, &args);
	for (i = 0; !err && i < q->n; i++)
		err = admin_report(q, &q->nodes[i], fn, arg);
	end(q);
	return err;
}

static const char *const found[] = {
	[REDIS_KIND_NONE] = "it is free",
	[REDIS_KIND_HOST] = "a host has it as",
	[REDIS_KIND_FOREIGN] = "another program has it as",
	[REDIS_KIND_READERS] = "readers hold it",
};

/* Keep control characters of other programs' data out of a terminal. */
static const char *printable(struct script_reply *a)
{
	size_t i;

	for (i = 0; i < a->holder_len; i++)
		if (a->holder[i] < ' ' || a->holder[i] > '~')
			a->holder[i] = '?';
	return a->holder;
}

static int changed(const struct admin_op *q, struct node *node)
{
	struct script_reply *a = &node->op.reply;
	const char *what =
		a->kind < sizeof(found) / sizeof(found[0]) && found[a->kind] ? found[a->kind] : "it is closed";

	return error_set(q->error, LOCKSHM_NOT_HELD, "%.60s: not that value any more: %s%s%.96s",
			 redis_conn_label(node->conn), what, *a->holder ? " " : "", printable(a));
}

/* By the majority of the servers that have the key, or by the only one. */
static int outcome(struct admin_op *q)
{
	size_t i, replied = 0, done = 0;
	struct node *other = NULL, *silent = NULL;

	for (i = 0; i < q->n; i++) {
		struct node *node = &q->nodes[i];

		replied += node->code == 0;
		done += node->code == 0 && node->op.reply.status == REDIS_DONE;
		if (node->code)
			silent = node;
		else if (node->op.reply.status != REDIS_DONE)
			other = node;
	}
	if (replied <= q->n / 2)
		return error_set(q->error, LOCKSHM_BRIDGE, "%.230s", silent->why);
	return done || !other ? 0 : changed(q, other);
}

int remote_end(struct lockshm *s, const void *key, size_t key_len, const void *value, size_t value_len,
	       int64_t timeout_ns, struct lockshm_error *error)
{
	struct script_args args = { .host = "operator", .value = value, .value_len = value_len };
	struct admin_op *q;
	int err;

	err = admin_op_new(&q, s, key, key_len, timeout_ns, error);
	if (err)
		return err;
	run_script(q, REDIS_FORCE_RELEASE, &args);
	err = outcome(q);
	end(q);
	return err;
}

/* A reply is enough: no host has the value, so the script deletes nothing. */
static int replied(struct admin_op *q)
{
	struct node *silent = NULL;
	size_t i, n = 0;

	for (i = 0; i < q->n; i++) {
		n += q->nodes[i].code == 0;
		silent = q->nodes[i].code ? &q->nodes[i] : silent;
	}
	return n > q->n / 2 ? 0 : error_set(q->error, LOCKSHM_BRIDGE, "%.230s", silent->why);
}

/* Requests of this host are told by the note in the segment. */
static void acknowledge_here(struct lockshm *s, const void *key, size_t key_len, uint64_t last)
{
	struct shm_host_lease *r;
	uint64_t word, told;
	struct identity id;
	uint32_t i;

	hash_key(&id, s->hash_secret, key, key_len);
	i = host_lease_look(s, &id);
	r = host_lease_at(s, i);
	word = r ? load_acquire(&r->word) : 0;
	told = r ? host_note_last(r, word) : 0;
	/* Before that it is told to none, and may still be granted again, with a later end. */
	if (told && told <= last && host_lease_state(word) != HOST_LEASE_ACQUIRING)
		host_note_acknowledge(s, i, word);
}

int remote_acknowledge(struct lockshm *s, const void *key, size_t key_len, uint64_t last, int64_t timeout_ns,
		       struct lockshm_error *error)
{
	struct script_args args = { .host = "operator", .value = "acknowledged", .close = "a", .last = (int64_t)last };
	struct admin_op *q;
	int err;

	err = admin_op_new(&q, s, key, key_len, timeout_ns, error);
	if (err)
		return err;
	run_script(q, REDIS_RELEASE, &args);
	err = replied(q);
	end(q);
	if (!err)
		acknowledge_here(s, key, key_len, last);
	return err;
}
