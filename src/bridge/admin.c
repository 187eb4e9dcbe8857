/* SPDX-License-Identifier: MIT */
/*
 * admin.c - what an operator asks Redis about one key, and does there: over connections of his own
 *
 * Not through the bridge: it may be what is stuck, or somebody else's.  One question to all servers that have the key,
 * at once, with one deadline for connecting and asking together.  Killed anywhere: a script was executed, or not.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "bridge/fork.h"
#include "redis/nodes.h"
#include "redis/script.h"
#include "redis/tls.h"
#include "redis/resp.h"
#include "sys/error.h"
#include "segment/segment.h"

#define DELAY "lockshm:delay:"

struct question {
	struct lockshm *s;
	const void *key;
	size_t key_len;
	int64_t deadline;
	struct lockshm_error *error;
	size_t n; /* servers that have the key */
	struct node {
		struct redis_conn *conn;
		struct redis_keys keys;
		struct redis_op op;
		bool asked;
		int code;
		const char *why;
	} nodes[REDIS_SERVERS_MAX];
	struct lockshm_remote_party *parties;
	size_t room;
};

/* ---------------------------------------------------------------- asking */

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
	return bridge_load(s, error);
}

static int translate(struct lockshm_error *error, const struct redis_error *why)
{
	return error_set(error, why->code == REDIS_NO_MEMORY ? LOCKSHM_NO_MEMORY : LOCKSHM_BRIDGE, "%.230s", why->text);
}

static int name(struct question *q, struct node *node, int mode, struct redis_error *why)
{
	return redis_keys_make(&node->keys, mode, q->s->redis.prefix, q->key, q->key_len, why);
}

static int add_node(struct question *q, const struct redis_server *server)
{
	static const struct redis_conn_options options = { .name = "lockshm-operator" };
	struct redis_error why = { 0 };
	struct node *node = &q->nodes[q->n];

	if (redis_conn_new(&node->conn, server, &options, &why) != 0)
		return translate(q->error, &why);
	q->n++;
	return 0;
}

/* A quorum's servers all have the key, else one has. */
static int choose(struct question *q, const struct redis_server *servers, size_t n)
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
	err = name(q, &scratch, REDIS_KEYS_SINGLE, &why) ? translate(q->error, &why) :
							    add_node(q, &servers[redis_server_of(&scratch.keys, n)]);
	redis_keys_free(&scratch.keys);
	return err;
}

static int begin(struct question *q)
{
	struct redis_server *servers = calloc(REDIS_SERVERS_MAX, sizeof(*servers));
	struct redis_error why = { 0 };
	size_t n;
	int err;

	if (!servers)
		return error_set(q->error, LOCKSHM_NO_MEMORY, "out of memory");
	err = redis_uri_parse(q->s->redis.servers, REDIS_PUBLIC, servers, REDIS_SERVERS_MAX, &n, &why) ?
		      translate(q->error, &why) :
		      choose(q, servers, n);
	explicit_bzero(servers, REDIS_SERVERS_MAX * sizeof(*servers));
	free(servers);
	return err;
}

static void end(struct question *q)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		redis_op_end(&q->nodes[i].op);
		redis_keys_free(&q->nodes[i].keys);
		redis_conn_free(q->nodes[i].conn);
	}
	free(q->parties);
	free(q);
	/* The thread is the program's, which may end it at any time. */
	redis_tls_thread_ends();
}

/* Only a connected server says whether it is a cluster's, which has other names for what belongs to a lock. */
static void ask_node(struct question *q, struct node *node, enum redis_script script, const struct script_args *args)
{
	bool cluster = redis_conn_info(node->conn)->cluster;
	struct redis_error why = { 0 };

	node->asked = true;
	node->op.done = true;
	node->op.code = name(q, node, cluster ? REDIS_KEYS_CLUSTER : REDIS_KEYS_SINGLE, &why);
	if (node->op.code)
		(void)redis_conn_note(node->conn, why.code, "%s", why.text);
	else if (!redis_op_begin(&node->op, node->conn, script, &node->keys, args, q->deadline))
		(void)redis_conn_pump(node->conn);
}

/* As far as it gets without waiting; true = it is through. */
static bool step(struct question *q, struct node *node, enum redis_script script, const struct script_args *args)
{
	if (!node->asked && redis_conn_ready(node->conn))
		ask_node(q, node, script, args);
	if (node->asked)
		return redis_ops_step(&node->op, 1);
	node->op.code = redis_conn_error(node->conn)->code;
	return redis_conn_closed(node->conn);
}

/* Each is asked as soon as it is connected: one that does not answer takes no time from the others. */
static void cmd(struct question *q, enum redis_script script, const struct script_args *args)
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

/* ---------------------------------------------------------------- what a server tells */

/* Places in the reply of inspect.lua. */
enum {
	AT_MS,
	AT_TYPE,
	AT_HELD,
	AT_LEFT,
	AT_MARK,
	AT_MARK_LEFT,
	AT_QUEUE,
	AT_QUEUE_ENDS,
	AT_READER_ENDS,
	AT_FENCE,
	AT_N
};

struct report {
	const struct question *q;
	const struct redis_reply *reply;
	int64_t ms;
	struct lockshm_remote_info *info;
	struct lockshm_remote_party *to; /* the next one to fill */
	struct lockshm_remote_party mark;
};

static const struct redis_reply *at(const struct report *r, size_t i)
{
	return redis_reply_at(r->reply, i);
}

static bool same(const struct redis_reply *reply, const char *text, size_t len)
{
	size_t n;
	const char *other = redis_reply_text(reply, &n);

	return other && n == len && memcmp(other, text, len) == 0;
}

static bool is_host(const char *text, size_t len)
{
	return len >= REDIS_HOST_BYTES && strspn(text, "0123456789abcdef") >= REDIS_HOST_BYTES;
}

static void name_host(const struct report *r, struct lockshm_remote_party *to, const char *host)
{
	memcpy(to->host, host, REDIS_HOST_BYTES);
	to->host[REDIS_HOST_BYTES] = '\0';
	to->this_host = memcmp(host, r->q->s->redis.host, REDIS_HOST_BYTES) == 0;
}

static int64_t left_ns(int64_t ms)
{
	return ms < 0 ? LOCKSHM_FOREVER : LOCKSHM_MS(ms);
}

/* What is left of the time that @list, member, score, member, score, has for @member; false = it has none. */
static bool score_of(const struct report *r, size_t list, const struct redis_reply *member, int64_t *left)
{
	const struct redis_reply *all = at(r, list);
	const char *text, *score;
	size_t i, len;

	text = redis_reply_text(member, &len);
	for (i = 0; text && i + 1 < redis_reply_count(all); i += 2)
		if (same(redis_reply_at(all, i), text, len)) {
			score = redis_reply_text(redis_reply_at(all, i + 1), &len);
			*left = score ? LOCKSHM_MS((int64_t)strtod(score, NULL) - r->ms) : 0;
			return true;
		}
	return false;
}

static struct lockshm_remote_party *add_party(struct report *r, const struct redis_reply *value, int mode)
{
	struct lockshm_remote_party *to = r->to++;
	const char *text;

	memset(to, 0, sizeof(*to));
	text = redis_reply_text(value, &to->value_len);
	to->value = text ? text : "";
	to->mode = mode;
	return to;
}

/* A host's token is known by what the fence remembers of it, as the scripts know it: others' may look the same. */
static void tell_writer(struct report *r)
{
	struct lockshm_remote_party *to = add_party(r, at(r, AT_HELD), LOCKSHM_EXCLUSIVE);
	const char *token = to->value;
	bool known = same(redis_reply_at(at(r, AT_FENCE), 1), to->value, to->value_len);

	r->info->state = LOCKSHM_REMOTE_EXCLUSIVE;
	if (to->value_len > sizeof(DELAY) - 1 && memcmp(token, DELAY, sizeof(DELAY) - 1) == 0) {
		r->info->state = LOCKSHM_REMOTE_DELAY;
		token += sizeof(DELAY) - 1;
	}
	to->expires_in_ns = left_ns(redis_reply_integer(at(r, AT_LEFT), -1));
	if (known && is_host(token, strlen(token)))
		name_host(r, to, token);
	r->info->holders = 1;
}

static void tell_readers(struct report *r)
{
	const struct redis_reply *readers = at(r, AT_HELD);
	size_t i;

	r->info->state = LOCKSHM_REMOTE_SHARED;
	for (i = 0; i < redis_reply_count(readers); i++) {
		const struct redis_reply *reader = redis_reply_at(readers, i);
		struct lockshm_remote_party *to = add_party(r, reader, LOCKSHM_SHARED);

		if (!score_of(r, AT_READER_ENDS, reader, &to->expires_in_ns))
			to->expires_in_ns = left_ns(redis_reply_integer(at(r, AT_LEFT), -1));
		else if (is_host(to->value, to->value_len))
			name_host(r, to, to->value);
		r->info->holders++;
	}
}

static void tell_held(struct report *r)
{
	size_t len;
	const char *type = redis_reply_text(at(r, AT_TYPE), &len);

	r->info->type = type ? type : "?";
	if (redis_reply_says(at(r, AT_TYPE), "none"))
		r->info->state = LOCKSHM_REMOTE_FREE;
	else if (redis_reply_says(at(r, AT_TYPE), "string"))
		tell_writer(r);
	else if (redis_reply_says(at(r, AT_TYPE), "set"))
		tell_readers(r);
	else
		r->info->state = LOCKSHM_REMOTE_OTHER;
}

static void tell_waiters(struct report *r)
{
	const struct redis_reply *queue = at(r, AT_QUEUE);
	size_t i;

	for (i = 0; i + 1 < redis_reply_count(queue); i += 2) {
		struct lockshm_remote_party *to = add_party(r, redis_reply_at(queue, i), LOCKSHM_EXCLUSIVE);

		if (to->value_len > 0 && to->value[0] == 'S')
			to->mode = LOCKSHM_SHARED;
		if (to->value_len > 2 && is_host(to->value + 2, to->value_len - 2))
			name_host(r, to, to->value + 2);
		(void)score_of(r, AT_QUEUE_ENDS, redis_reply_at(queue, i), &to->expires_in_ns);
		to->value = "";
		to->value_len = 0;
		r->info->waiters++;
	}
}

static void tell_mark(struct report *r)
{
	struct lockshm_remote_party *after = r->to;

	r->to = &r->mark;
	(void)add_party(r, at(r, AT_MARK), LOCKSHM_EXCLUSIVE);
	r->to = after;
	r->mark.expires_in_ns = left_ns(redis_reply_integer(at(r, AT_MARK_LEFT), -1));
	if (r->mark.value_len == REDIS_HOST_BYTES && is_host(r->mark.value, r->mark.value_len))
		name_host(r, &r->mark, r->mark.value);
	if (r->mark.value_len)
		r->info->mark = &r->mark;
}

/* Room for whoever is in it. */
static bool make_room(struct question *q, const struct redis_reply *reply)
{
	size_t n = 1 + redis_reply_count(redis_reply_at(reply, AT_HELD)) +
		   redis_reply_count(redis_reply_at(reply, AT_QUEUE)) / 2;
	struct lockshm_remote_party *more = q->room < n ? realloc(q->parties, n * sizeof(*more)) : q->parties;

	if (!more)
		return false;
	q->parties = more;
	q->room = q->room < n ? n : q->room;
	return true;
}

static void fail_info(struct lockshm_remote_info *info, const char *why)
{
	info->code = LOCKSHM_BRIDGE;
	info->reason = why;
}

static int tell(struct question *q, const struct node *node, lockshm_remote_fn fn, void *arg)
{
	struct lockshm_remote_info info = { .server = redis_conn_label(node->conn), .reason = "" };
	struct report r = { .q = q, .reply = node->op.inspected, .info = &info };
	const char *end;
	size_t len;

	if (node->code) {
		fail_info(&info, node->why);
	} else if (redis_reply_count(r.reply) != AT_N) {
		fail_info(&info, "its answer is not understood");
	} else if (!make_room(q, r.reply)) {
		return LOCKSHM_NO_MEMORY;
	} else {
		info.name = node->keys.key[0];
		info.name_len = node->keys.len[0];
		info.parties = r.to = q->parties;
		r.ms = redis_reply_integer(at(&r, AT_MS), 0);
		tell_held(&r);
		tell_waiters(&r);
		tell_mark(&r);
		end = redis_reply_text(redis_reply_at(at(&r, AT_FENCE), 0), &len);
		info.next_token = end ? (uint64_t)strtoull(end, NULL, 10) : 0;
	}
	return fn(&info, arg);
}

/* ---------------------------------------------------------------- the calls */

static int question_new(struct question **out, struct lockshm *s, const void *key, size_t key_len, int64_t timeout_ns,
			struct lockshm_error *error)
{
	int err = check(s, key, key_len, timeout_ns, error);
	struct question *q;

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

LOCKSHM_EXPORT int lockshm_remote_inspect(lockshm_t *segment, const void *key, size_t key_len, int64_t timeout_ns,
					  lockshm_remote_fn fn, void *arg, struct lockshm_error *error)
{
	struct script_args args = { .host = "operator" };
	struct question *q;
	size_t i;
	int err;

	if (!segment_valid(segment) || !fn)
		return error_set(error, LOCKSHM_INVALID, "no segment or no function");
	error_set(error, 0, "%s", "");
	err = question_new(&q, segment, key, key_len, timeout_ns, error);
	if (err)
		return err;
	cmd(q, REDIS_INSPECT, &args);
	for (i = 0; !err && i < q->n; i++)
		err = tell(q, &q->nodes[i], fn, arg);
	end(q);
	return err;
}

static const char *const found[] = {
	[REDIS_KIND_NONE] = "nobody has it",
	[REDIS_KIND_HOST] = "a host has it as",
	[REDIS_KIND_FOREIGN] = "another program has it as",
	[REDIS_KIND_READERS] = "others read it",
};

/* Data of others must not get into a terminal. */
static const char *printable(struct script_reply *a)
{
	size_t i;

	for (i = 0; i < a->holder_len; i++)
		if (a->holder[i] < ' ' || a->holder[i] > '~')
			a->holder[i] = '?';
	return a->holder;
}

static int changed(const struct question *q, struct node *node)
{
	struct script_reply *a = &node->op.reply;
	const char *what = a->kind < sizeof(found) / sizeof(found[0]) && found[a->kind] ? found[a->kind] : "it is closed";

	return error_set(q->error, LOCKSHM_NOT_HELD, "%.60s: not that value any more: %s%s%.96s",
			 redis_conn_label(node->conn), what, *a->holder ? " " : "", printable(a));
}

/* By the majority of those that have the key, of one server by that one. */
static int outcome(struct question *q)
{
	size_t i, answered = 0, done = 0;
	struct node *other = NULL, *silent = NULL;

	for (i = 0; i < q->n; i++) {
		struct node *node = &q->nodes[i];

		answered += node->code == 0;
		done += node->code == 0 && node->op.reply.status == REDIS_DONE;
		if (node->code)
			silent = node;
		else if (node->op.reply.status != REDIS_DONE)
			other = node;
	}
	if (answered <= q->n / 2)
		return error_set(q->error, LOCKSHM_BRIDGE, "%.230s", silent->why);
	return done || !other ? 0 : changed(q, other);
}

LOCKSHM_EXPORT int lockshm_remote_end(lockshm_t *segment, const void *key, size_t key_len, const void *value,
				      size_t value_len, int64_t timeout_ns, struct lockshm_error *error)
{
	struct script_args args = { .host = "operator", .token = value, .token_len = value_len };
	struct question *q;
	int err;

	if (!segment_valid(segment) || !value || value_len == 0)
		return error_set(error, LOCKSHM_INVALID, "no segment or no value");
	error_set(error, 0, "%s", "");
	if (segment->read_only)
		return error_set(error, LOCKSHM_PERMISSION, "the segment is open read-only");
	err = question_new(&q, segment, key, key_len, timeout_ns, error);
	if (err)
		return err;
	cmd(q, REDIS_FORCE_RELEASE, &args);
	err = outcome(q);
	end(q);
	return err;
}
