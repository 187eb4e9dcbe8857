/* SPDX-License-Identifier: MIT */
/*
 * script.c - sending scripts and reading their answers; see redis/script.h
 *
 * A script is sent by its hash.  A server that forgot it (SCRIPT FLUSH, a restart behind a proxy) says so before it
 * does anything, and then gets the text.
 */
#define _GNU_SOURCE
#include "redis/script.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "redis/scripts.h"

const char *const bridge_scripts[BRIDGE_N_SCRIPTS] = {
	[BRIDGE_ACQUIRE_S] = bridge_lua_acquire_s,
	[BRIDGE_ACQUIRE_X] = bridge_lua_acquire_x,
	[BRIDGE_DOWNGRADE] = bridge_lua_downgrade,
	[BRIDGE_FENCE] = bridge_lua_fence,
	[BRIDGE_FORCE_RELEASE] = bridge_lua_force_release,
	[BRIDGE_INSPECT] = bridge_lua_inspect,
	[BRIDGE_LEAVE] = bridge_lua_leave,
	[BRIDGE_RELEASE] = bridge_lua_release,
	[BRIDGE_RENEW] = bridge_lua_renew,
	[BRIDGE_RENEW_MANY] = bridge_lua_renew_many,
	[BRIDGE_UPGRADE] = bridge_lua_upgrade,
};

/* ---------------------------------------------------------------- host and token */

static bool random_digits(char out[17])
{
	unsigned char bytes[8];
	size_t i;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return false;
	for (i = 0; i < sizeof(bytes); i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

bool bridge_host_make(struct bridge_host *out)
{
	return random_digits(out->id);
}

bool bridge_token(char out[BRIDGE_TOKEN_LEN + 1], const struct bridge_host *host)
{
	memcpy(out, host->id, BRIDGE_HOST_LEN);
	return random_digits(out + BRIDGE_HOST_LEN);
}

/* ---------------------------------------------------------------- sending */

static void add_number(struct bridge_op *op, int64_t value)
{
	snprintf(op->args[op->n_args++], sizeof(op->args[0]), "%lld", (long long)value);
}

static void add_text(struct bridge_op *op, const char *text)
{
	snprintf(op->args[op->n_args++], sizeof(op->args[0]), "%s", text ? text : "");
}

/* By the short way only who is known not to lack any right: it has to renew, and may have to
 * give back by the long one. */
static void add_flags(struct bridge_op *op, const char *flags)
{
	op->proves = !bridge_conn_is_proven(op->conn);
	snprintf(op->args[op->n_args++], sizeof(op->args[0]), "%s%s", flags ? flags : "", op->proves ? "l" : "");
}

/* The arguments behind host and token, as the heads of the scripts list them. */
static void collect(struct bridge_op *op, const struct bridge_wish *w)
{
	switch (op->script) {
	case BRIDGE_ACQUIRE_S:
	case BRIDGE_ACQUIRE_X:
		add_number(op, w->ttl_ms);
		add_number(op, w->stride);
		add_number(op, w->waiter_ttl_ms);
		add_flags(op, w->flags);
		add_number(op, w->turn);
		break;
	case BRIDGE_DOWNGRADE:
		add_number(op, w->ttl_ms);
		add_number(op, w->turn);
		break;
	case BRIDGE_RENEW:
	case BRIDGE_UPGRADE:
		add_number(op, w->ttl_ms);
		add_number(op, w->stride);
		if (op->script == BRIDGE_UPGRADE)
			add_number(op, w->turn);
		break;
	case BRIDGE_RELEASE:
		add_number(op, w->after_ms);
		break;
	case BRIDGE_LEAVE:
		add_text(op, w->flags);
		break;
	case BRIDGE_FENCE:
		add_number(op, w->fence);
		break;
	default:
		break;
	}
}

/* The names of a lock that renew-many.lua is told of: lock, mark, queue, and perhaps the fence. */
static const int renewed_by[] = { 0, 1, 2, BRIDGE_KEY_FENCE };
#define MANY_KEYS (sizeof(renewed_by) / sizeof(renewed_by[0]))

static size_t many_keys(const struct bridge_many *m)
{
	return m->fences ? MANY_KEYS : MANY_KEYS - 1;
}

#define ARGS_MAX (3 + MANY_KEYS * BRIDGE_MANY + 1 + BRIDGE_MANY)
_Static_assert(ARGS_MAX > 3 + BRIDGE_KEYS + 2 + 6, "a script about one lock has no more arguments than one about many");

struct args {
	const char *at[ARGS_MAX];
	size_t len[ARGS_MAX];
	int n;
};

static void put(struct args *a, const char *at, size_t len)
{
	a->at[a->n] = at;
	a->len[a->n++] = len;
}

static void put_one(struct args *a, const struct bridge_op *op)
{
	int i;

	for (i = 0; i < BRIDGE_KEYS; i++)
		put(a, op->keys->key[i], op->keys->len[i]);
	put(a, op->args[0], strlen(op->args[0]));
	put(a, op->token, op->token_len);
	for (i = 1; i < op->n_args; i++)
		put(a, op->args[i], strlen(op->args[i]));
}

static void put_many(struct args *a, const struct bridge_op *op)
{
	const struct bridge_many *m = op->many;
	size_t i, k;

	for (i = 0; i < many_keys(m); i++)
		for (k = 0; k < m->n; k++)
			put(a, m->keys[k]->key[renewed_by[i]], m->keys[k]->len[renewed_by[i]]);
	put(a, op->args[0], strlen(op->args[0]));
	for (k = 0; k < m->n; k++)
		put(a, m->token[k], strlen(m->token[k]));
}

static int transmit(struct bridge_op *op, bool as_text)
{
	const char *sha = as_text ? NULL : bridge_conn_script(op->conn, op->script);
	char n_keys[24];
	struct args a;

	a.n = 0;
	snprintf(n_keys, sizeof(n_keys), "%zu", op->many ? op->many->n * many_keys(op->many) : (size_t)BRIDGE_KEYS);
	put(&a, sha ? "EVALSHA" : "EVAL", sha ? 7 : 4);
	sha = sha ? sha : bridge_scripts[op->script];
	put(&a, sha, strlen(sha));
	put(&a, n_keys, strlen(n_keys));
	if (op->many)
		put_many(&a, op);
	else
		put_one(&a, op);
	op->number = bridge_conn_sent(op->conn);
	return bridge_conn_send(op->conn, op->deadline, a.n, a.at, a.len);
}

static int finish(struct bridge_op *op, int code)
{
	op->done = true;
	op->code = code;
	if (code)
		snprintf(op->why, sizeof(op->why), "%.*s", (int)sizeof(op->why) - 1, bridge_conn_error(op->conn)->text);
	/* Not by what was sent by the short way before a refusal came. */
	if (code == BRIDGE_DENIED || (!code && op->proves && op->answer.status == BRIDGE_GRANTED))
		bridge_conn_prove(op->conn, !code);
	op->ended = bridge_now();
	return code;
}

static int begin(struct bridge_op *op)
{
	int code;

	op->began = bridge_now();
	code = transmit(op, false);
	op->generation = bridge_conn_generation(op->conn);
	return code ? finish(op, code) : 0;
}

int bridge_op_begin(struct bridge_op *op, struct bridge_conn *conn, enum bridge_script script,
		    const struct bridge_keys *keys, const struct bridge_wish *wish, int64_t deadline)
{
	memset(op, 0, sizeof(*op));
	op->conn = conn;
	op->keys = keys;
	op->script = script;
	op->deadline = deadline;
	op->token = wish->token ? wish->token : "";
	op->token_len = wish->token_len ? wish->token_len : strlen(op->token);
	/* args[0] is the host: the op outlives the wish. */
	add_text(op, wish->host);
	collect(op, wish);
	return begin(op);
}

int bridge_op_begin_many(struct bridge_op *op, struct bridge_conn *conn, const struct bridge_many *many, int64_t ttl_ms,
			 int64_t deadline)
{
	memset(op, 0, sizeof(*op));
	op->conn = conn;
	op->many = many;
	op->script = BRIDGE_RENEW_MANY;
	op->deadline = deadline;
	add_number(op, ttl_ms);
	return begin(op);
}

/* ---------------------------------------------------------------- answers */

struct word {
	const char *word;
	int value;
};

static const struct word statuses[] = {
	{ "granted", BRIDGE_GRANTED }, { "queued", BRIDGE_QUEUED },   { "busy", BRIDGE_BUSY },
	{ "ok", BRIDGE_DONE },	       { "late", BRIDGE_LATE },	      { "lost", BRIDGE_LOST },
	{ "absent", BRIDGE_ABSENT },   { "changed", BRIDGE_CHANGED }, { NULL, 0 },
};

static const struct word kinds[] = {
	{ "none", BRIDGE_KIND_NONE },	    { "host", BRIDGE_KIND_HOST },
	{ "foreign", BRIDGE_KIND_FOREIGN }, { "delay", BRIDGE_KIND_DELAY },
	{ "readers", BRIDGE_KIND_READERS }, { "intent", BRIDGE_KIND_INTENT },
	{ "turn", BRIDGE_KIND_TURN },	    { NULL, 0 },
};

static int lookup(const struct word *w, const struct bridge_reply *reply)
{
	while (w->word && !bridge_reply_says(reply, w->word))
		w++;
	return w->value;
}

/* { status, ms, queue length, position, ms left, kind, holder, fence, intent } */
static int read_answer(struct bridge_op *op, const struct bridge_reply *r)
{
	struct bridge_answer *a = &op->answer;
	const char *holder;

	holder = bridge_reply_text(bridge_reply_at(r, 6), &a->holder_len);
	if (bridge_reply_says(bridge_reply_at(r, 0), "not-a-lock"))
		return bridge_conn_note(op->conn, BRIDGE_NOT_A_LOCK, "'%.*s' holds data of type %s, not a lock",
					(int)(op->keys->len[0] < 100 ? op->keys->len[0] : 100), op->keys->key[0],
					holder ? holder : "?");
	a->status = (enum bridge_status)lookup(statuses, bridge_reply_at(r, 0));
	a->kind = (enum bridge_kind)lookup(kinds, bridge_reply_at(r, 5));
	if (bridge_reply_count(r) != 9 || !a->status || !a->kind || !holder)
		return bridge_conn_note(op->conn, BRIDGE_PROTOCOL, "the answer of a script is not understood");
	a->server_ms = bridge_reply_integer(bridge_reply_at(r, 1), 0);
	a->queued = bridge_reply_integer(bridge_reply_at(r, 2), 0);
	a->position = bridge_reply_integer(bridge_reply_at(r, 3), 0);
	a->left_ms = bridge_reply_integer(bridge_reply_at(r, 4), -2);
	a->fence = bridge_reply_integer(bridge_reply_at(r, 7), 0);
	a->intent = bridge_reply_integer(bridge_reply_at(r, 8), 0) != 0;
	if (a->holder_len >= sizeof(a->holder))
		a->holder_len = sizeof(a->holder) - 1;
	memcpy(a->holder, holder, a->holder_len);
	a->holder[a->holder_len] = '\0';
	return 0;
}

static void digest(struct bridge_op *op, struct bridge_reply *reply)
{
	int code = bridge_conn_judge(op->conn, reply);

	if (code == BRIDGE_NO_SCRIPT) {
		code = transmit(op, true);
		if (code)
			finish(op, code);
	} else if (code) {
		finish(op, code);
	} else if (op->script == BRIDGE_INSPECT || op->many) {
		op->inspected = reply;
		finish(op, 0);
		return;
	} else {
		finish(op, read_answer(op, reply));
	}
	bridge_reply_free(reply);
}

bool bridge_op_renewed(const struct bridge_op *op, size_t i)
{
	return bridge_reply_integer(bridge_reply_at(op->inspected, i), 0) == 1;
}

/* True if anything happened. */
static bool step(struct bridge_op *op)
{
	struct bridge_reply *reply;

	if (op->done)
		return false;
	if (bridge_conn_generation(op->conn) != op->generation) {
		finish(op, BRIDGE_UNKNOWN);
		return true;
	}
	/* Replies come in the order of the commands; this one may not be next. */
	reply = bridge_conn_taken(op->conn) == op->number ? bridge_conn_take(op->conn) : NULL;
	if (reply)
		digest(op, reply);
	else if (bridge_conn_closed(op->conn))
		finish(op, bridge_conn_error(op->conn)->code == BRIDGE_FORKED ? BRIDGE_FORKED : BRIDGE_UNKNOWN);
	return reply || op->done;
}

bool bridge_ops_step(struct bridge_op *ops, size_t n)
{
	bool moved = true, all = false;
	size_t i;

	while (moved) {
		moved = false;
		all = true;
		for (i = 0; i < n; i++) {
			moved = step(&ops[i]) || moved;
			all = all && ops[i].done;
		}
	}
	return all;
}

void bridge_ops_wait(struct bridge_op *ops, size_t n)
{
	struct bridge_conn *conns[BRIDGE_CONNS_MAX];
	size_t i, j, k;

	while (!bridge_ops_step(ops, n)) {
		for (i = k = 0; i < n && k < BRIDGE_CONNS_MAX; i++) {
			for (j = 0; j < k && conns[j] != ops[i].conn; j++)
				;
			if (j == k && !ops[i].done)
				conns[k++] = ops[i].conn;
		}
		bridge_conns_poll(conns, k, INT64_MAX);
	}
}

int bridge_op_call(struct bridge_op *op, struct bridge_conn *conn, enum bridge_script script,
		   const struct bridge_keys *keys, const struct bridge_wish *wish, int64_t deadline)
{
	int code = bridge_conn_wait_ready(conn, deadline);

	memset(op, 0, sizeof(*op));
	op->conn = conn;
	if (code)
		return finish(op, code);
	if (!bridge_op_begin(op, conn, script, keys, wish, deadline)) {
		bridge_conn_pump(conn);
		bridge_ops_wait(op, 1);
	}
	return op->code;
}

void bridge_op_end(struct bridge_op *op)
{
	bridge_reply_free(op->inspected);
	op->inspected = NULL;
}
