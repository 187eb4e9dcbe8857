/* SPDX-License-Identifier: MIT */
/*
 * script.c - sending scripts and reading their replies; see redis/script.h
 *
 * A script is sent by its hash.  A server that forgot it (SCRIPT FLUSH, a restart behind a proxy) replies NOSCRIPT
 * before it does anything, and then gets the text.
 */
#define _GNU_SOURCE
#include "redis/script.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "redis/scripts.h"
#include "sys/min.h"

const char *const redis_scripts[REDIS_N_SCRIPTS] = {
	[REDIS_ACQUIRE_S] = redis_lua_acquire_s,
	[REDIS_ACQUIRE_X] = redis_lua_acquire_x,
	[REDIS_FENCE] = redis_lua_fence,
	[REDIS_FORCE_RELEASE] = redis_lua_force_release,
	[REDIS_INSPECT] = redis_lua_inspect,
	[REDIS_LEAVE] = redis_lua_leave,
	[REDIS_RELEASE] = redis_lua_release,
	[REDIS_RENEW] = redis_lua_renew,
	[REDIS_RENEW_MANY] = redis_lua_renew_many,
};

/* ---------------------------------------------------------------- host and value */

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

bool redis_value(char out[REDIS_VALUE_LEN + 1], const struct redis_host *host)
{
	memcpy(out, host->id, REDIS_HOST_LEN);
	return random_digits(out + REDIS_HOST_LEN);
}

/* ---------------------------------------------------------------- sending */

static void add_number(struct redis_op *op, int64_t value)
{
	snprintf(op->args[op->n_args++], sizeof(op->args[0]), "%lld", (long long)value);
}

static void add_text(struct redis_op *op, const char *text)
{
	snprintf(op->args[op->n_args++], sizeof(op->args[0]), "%s", text ? text : "");
}

/*
 * The short path only on a connection that is known to have every right: the holder must renew, and may have to release
 * by the long path.
 */
static void add_flags(struct redis_op *op, const char *flags)
{
	op->proves = !redis_conn_is_proven(op->conn);
	snprintf(op->args[op->n_args++], sizeof(op->args[0]), "%s%s", flags ? flags : "", op->proves ? "l" : "");
}

/* Of plain keys no byte. */
static void add_note(struct redis_op *op, int64_t note)
{
	if (note)
		add_number(op, note);
}

static void add_closing(struct redis_op *op, const struct script_args *w)
{
	add_text(op, w->close);
	add_number(op, w->last);
	add_text(op, w->how);
}

/* The arguments after host and value, in the order that the heads of the scripts list. */
static void collect(struct redis_op *op, const struct script_args *w)
{
	switch (op->script) {
	case REDIS_ACQUIRE_S:
	case REDIS_ACQUIRE_X:
		add_number(op, w->ttl_ms);
		add_number(op, w->stride);
		add_number(op, w->waiter_ttl_ms);
		add_flags(op, w->flags);
		add_number(op, w->clock_us);
		add_note(op, w->note);
		break;
	case REDIS_RENEW:
		add_number(op, w->ttl_ms);
		add_number(op, w->stride);
		add_note(op, w->note);
		break;
	case REDIS_RELEASE:
		add_number(op, w->gap_ms);
		if (w->close)
			add_closing(op, w);
		break;
	case REDIS_LEAVE:
		add_text(op, w->flags);
		break;
	case REDIS_FENCE:
		add_number(op, w->fence);
		add_note(op, w->note);
		break;
	default:
		break;
	}
}

/* The names that renew-many.lua gets: lock, intent key, queue, and perhaps the fence. */
static const int renewed_by[] = { 0, 1, 2, REDIS_KEY_FENCE };
#define MANY_KEYS (sizeof(renewed_by) / sizeof(renewed_by[0]))

static size_t many_keys(const struct redis_many *m)
{
	return m->fences ? MANY_KEYS : MANY_KEYS - 1;
}

#define ARGS_MAX (3 + MANY_KEYS * REDIS_MANY + 1 + REDIS_MANY)
_Static_assert(ARGS_MAX > 3 + REDIS_KEYS + 2 + 7, "a script about one lock has no more arguments than one about many");

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

static void put_one(struct args *a, const struct redis_op *op)
{
	int i;

	for (i = 0; i < REDIS_KEYS; i++)
		put(a, op->keys->key[i], op->keys->len[i]);
	put(a, op->args[0], strlen(op->args[0]));
	put(a, op->value, op->value_len);
	for (i = 1; i < op->n_args; i++)
		put(a, op->args[i], strlen(op->args[i]));
}

static void put_many(struct args *a, const struct redis_op *op)
{
	const struct redis_many *m = op->many;
	size_t i, k;

	for (i = 0; i < many_keys(m); i++)
		for (k = 0; k < m->n; k++)
			put(a, m->keys[k]->key[renewed_by[i]], m->keys[k]->len[renewed_by[i]]);
	put(a, op->args[0], strlen(op->args[0]));
	for (k = 0; k < m->n; k++)
		put(a, m->value[k], strlen(m->value[k]));
}

static int send_script(struct redis_op *op, bool as_text)
{
	const char *sha = as_text ? NULL : redis_conn_script(op->conn, op->script);
	char n_keys[24];
	struct args a;

	a.n = 0;
	snprintf(n_keys, sizeof(n_keys), "%zu", op->many ? op->many->n * many_keys(op->many) : (size_t)REDIS_KEYS);
	put(&a, sha ? "EVALSHA" : "EVAL", sha ? 7 : 4);
	sha = sha ? sha : redis_scripts[op->script];
	put(&a, sha, strlen(sha));
	put(&a, n_keys, strlen(n_keys));
	if (op->many)
		put_many(&a, op);
	else
		put_one(&a, op);
	op->number = redis_conn_sent(op->conn);
	return redis_conn_send(op->conn, op->deadline, a.n, a.at, a.len);
}

/* Of what the server replied; redirections and forgotten scripts are no refusals, and other data is that of one key. */
static void note_refusal(struct redis_op *op, int code)
{
	if (code == REDIS_RETRY || code == REDIS_DENIED || code == REDIS_REFUSED || code == REDIS_INVALID)
		redis_refusals_add(redis_conn_refusals(op->conn), redis_now(), redis_conn_error(op->conn));
}

static bool has_written(const struct redis_op *op)
{
	size_t i;

	/* A try that found the lock held did no more than look. */
	if (!op->many)
		return op->reply.status == REDIS_GRANTED || op->reply.status == REDIS_QUEUED ||
		       op->reply.status == REDIS_DONE;
	for (i = 0; i < op->many->n && !redis_op_renewed(op, i); i++)
		;
	return i < op->many->n;
}

static void note_execution(struct redis_op *op)
{
	if (has_written(op))
		redis_refusals_contradict(redis_conn_refusals(op->conn), redis_now(), redis_is_acquire(op->script));
}

static int finish(struct redis_op *op, int code)
{
	op->done = true;
	op->code = code;
	if (code)
		snprintf(op->why, sizeof(op->why), "%.*s", (int)sizeof(op->why) - 1, redis_conn_error(op->conn)->text);
	/* A short path sent before a refusal arrived proves nothing. */
	if (code == REDIS_DENIED || (!code && op->proves && op->reply.status == REDIS_GRANTED))
		redis_conn_prove(op->conn, !code);
	op->ended = redis_now();
	return code;
}

static int begin(struct redis_op *op)
{
	int code;

	op->began = redis_now();
	code = send_script(op, false);
	op->generation = redis_conn_generation(op->conn);
	return code ? finish(op, code) : 0;
}

int redis_op_begin(struct redis_op *op, struct redis_conn *conn, enum redis_script script,
		    const struct redis_keys *keys, const struct script_args *args, int64_t deadline)
{
	memset(op, 0, sizeof(*op));
	op->conn = conn;
	op->keys = keys;
	op->script = script;
	op->deadline = deadline;
	op->ttl_ms = args->ttl_ms;
	op->value = args->value ? args->value : "";
	op->value_len = args->value_len ? args->value_len : strlen(op->value);
	/* args[0] is the host: a copy, since the op outlives @args. */
	add_text(op, args->host);
	collect(op, args);
	return begin(op);
}

int redis_op_begin_many(struct redis_op *op, struct redis_conn *conn, const struct redis_many *many, int64_t ttl_ms,
			 int64_t deadline)
{
	memset(op, 0, sizeof(*op));
	op->conn = conn;
	op->many = many;
	op->script = REDIS_RENEW_MANY;
	op->deadline = deadline;
	add_number(op, ttl_ms);
	return begin(op);
}

/* ---------------------------------------------------------------- replies */

struct word {
	const char *word;
	int value;
};

static const struct word statuses[] = {
	{ "granted", REDIS_GRANTED }, { "queued", REDIS_QUEUED },   { "busy", REDIS_BUSY },
	{ "ok", REDIS_DONE },	       { "late", REDIS_LATE },	      { "lost", REDIS_LOST },
	{ "absent", REDIS_ABSENT },   { "changed", REDIS_CHANGED }, { NULL, 0 },
};

static const struct word kinds[] = {
	{ "none", REDIS_KIND_NONE },	    { "host", REDIS_KIND_HOST },
	{ "foreign", REDIS_KIND_FOREIGN }, { "gap", REDIS_KIND_GAP },
	{ "readers", REDIS_KIND_READERS }, { "intent", REDIS_KIND_INTENT },
	{ "turn", REDIS_KIND_QUEUE },	    { NULL, 0 },
};

static int lookup(const struct word *w, const struct redis_reply *reply)
{
	while (w->word && !redis_reply_equals(reply, w->word))
		w++;
	return w->value;
}

#define LEFT_MAX_MS 1000000000000 /* thirty years: a time in ns can be added to it */
#define TOKEN_MAX (INT64_C(1) << 53) /* of the scripts, which count in doubles */

/* No later reply on the connection can be relied on, either. */
static int not_understood(struct redis_op *op)
{
	redis_conn_close(op->conn);
	return redis_conn_set_error(op->conn, REDIS_PROTOCOL, "the reply of a script is not understood");
}

static bool is_integer(const struct redis_reply *r, size_t i)
{
	const struct redis_reply *at = redis_reply_at(r, i);

	return redis_reply_integer(at, 0) == redis_reply_integer(at, 1);
}

static bool are_numbers(const struct redis_reply *r)
{
	return is_integer(r, 1) && is_integer(r, 2) && is_integer(r, 3) && is_integer(r, 4) && is_integer(r, 7) &&
	       is_integer(r, 8);
}

static bool in_bounds(const struct script_reply *a)
{
	return a->queued >= 0 && a->position >= 0 && a->left_ms >= -2 && a->fence >= 0 && a->fence < TOKEN_MAX;
}

/* Three more where the key has a note: the tokens of the last bad and good leases, and how the former ended. */
static bool parse_note(struct script_reply *a, const struct redis_reply *r)
{
	size_t len;
	const char *why = redis_reply_text(redis_reply_at(r, 11), &len);

	if (redis_reply_count(r) != 12 || !is_integer(r, 9) || !is_integer(r, 10) || !why)
		return false;
	a->noted = true;
	a->bad = redis_reply_integer(redis_reply_at(r, 9), 0);
	a->good = redis_reply_integer(redis_reply_at(r, 10), 0);
	snprintf(a->why, sizeof(a->why), "%.*s", (int)(len < sizeof(a->why) ? len : sizeof(a->why) - 1), why);
	return a->bad >= 0 && a->bad < TOKEN_MAX && a->good >= 0 && a->good < TOKEN_MAX;
}

/* Of the short paths: the release of a writer's lock gives 1, acquire-x { ms, fence }. */
static bool is_short(const struct redis_op *op, const struct redis_reply *r)
{
	if (op->script == REDIS_RELEASE)
		return redis_reply_integer(r, 0) == 1;
	return op->script == REDIS_ACQUIRE_X && redis_reply_count(r) == 2;
}

static int parse_short(struct redis_op *op, const struct redis_reply *r)
{
	struct script_reply *a = &op->reply;

	a->status = REDIS_DONE;
	a->kind = REDIS_KIND_NONE;
	a->server_ms = -1;
	a->left_ms = -2;
	if (op->script == REDIS_RELEASE)
		return 0;
	a->status = REDIS_GRANTED;
	a->kind = REDIS_KIND_HOST;
	a->left_ms = op->ttl_ms;
	a->server_ms = redis_reply_integer(redis_reply_at(r, 0), 0);
	a->fence = redis_reply_integer(redis_reply_at(r, 1), -1);
	a->holder_len = (size_t)snprintf(a->holder, sizeof(a->holder), "%.*s", REDIS_VALUE_LEN, op->value);
	if (!is_integer(r, 0) || !in_bounds(a))
		return not_understood(op);
	redis_conn_saw_clock(op->conn, op->began, a->server_ms);
	return 0;
}

/* { status, ms, queue length, position, ms left, kind, holder, fence, intent } */
static int parse_reply(struct redis_op *op, const struct redis_reply *r)
{
	struct script_reply *a = &op->reply;
	const char *holder;

	if (is_short(op, r))
		return parse_short(op, r);
	holder = redis_reply_text(redis_reply_at(r, 6), &a->holder_len);
	if (redis_reply_equals(redis_reply_at(r, 0), "not-a-lock"))
		return redis_conn_set_error(op->conn, REDIS_NOT_A_LOCK, "'%.*s' holds data of type %s, not a lock",
					(int)(op->keys->len[0] < 100 ? op->keys->len[0] : 100), op->keys->key[0],
					holder ? holder : "?");
	a->status = (enum redis_status)lookup(statuses, redis_reply_at(r, 0));
	a->kind = (enum redis_kind)lookup(kinds, redis_reply_at(r, 5));
	if ((redis_reply_count(r) != 9 && !parse_note(a, r)) || !a->status || !a->kind || !holder || !are_numbers(r))
		return not_understood(op);
	a->server_ms = redis_reply_integer(redis_reply_at(r, 1), 0);
	a->queued = redis_reply_integer(redis_reply_at(r, 2), 0);
	a->position = redis_reply_integer(redis_reply_at(r, 3), 0);
	a->left_ms = redis_reply_integer(redis_reply_at(r, 4), -2);
	a->fence = redis_reply_integer(redis_reply_at(r, 7), 0);
	a->intent = redis_reply_integer(redis_reply_at(r, 8), 0) != 0;
	if (!in_bounds(a))
		return not_understood(op);
	a->left_ms = min64(a->left_ms, LEFT_MAX_MS);
	if (a->holder_len >= sizeof(a->holder))
		a->holder_len = sizeof(a->holder) - 1;
	redis_conn_saw_clock(op->conn, op->began, a->server_ms);
	memcpy(a->holder, holder, a->holder_len);
	a->holder[a->holder_len] = '\0';
	return 0;
}

static void take_reply(struct redis_op *op, struct redis_reply *reply)
{
	int code = redis_conn_reply_error(op->conn, reply);

	if (code == REDIS_NO_SCRIPT) {
		code = send_script(op, true);
		if (code)
			finish(op, code);
	} else if (code) {
		note_refusal(op, code);
		finish(op, code);
	} else if (op->script == REDIS_INSPECT || op->many) {
		op->inspected = reply;
		finish(op, 0);
		note_execution(op);
		return;
	} else if (finish(op, parse_reply(op, reply)) == 0) {
		note_execution(op);
	}
	redis_reply_free(reply);
}

bool redis_op_renewed(const struct redis_op *op, size_t i)
{
	return redis_reply_integer(redis_reply_at(op->inspected, i), 0) == 1;
}

bool redis_op_step(struct redis_op *op)
{
	struct redis_reply *reply;

	if (op->done)
		return false;
	if (redis_conn_generation(op->conn) != op->generation) {
		finish(op, REDIS_UNKNOWN);
		return true;
	}
	/* Replies come in the order of the commands; another op's may be next. */
	reply = redis_conn_taken(op->conn) == op->number ? redis_conn_take(op->conn) : NULL;
	if (reply)
		take_reply(op, reply);
	else if (redis_conn_closed(op->conn))
		finish(op, REDIS_UNKNOWN);
	return reply || op->done;
}

bool redis_ops_step(struct redis_op *ops, size_t n)
{
	bool moved = true, all = false;
	size_t i;

	while (moved) {
		moved = false;
		all = true;
		for (i = 0; i < n; i++) {
			moved = redis_op_step(&ops[i]) || moved;
			all = all && ops[i].done;
		}
	}
	return all;
}

void redis_ops_wait(struct redis_op *ops, size_t n)
{
	struct redis_conn *conns[REDIS_CONNS_MAX];
	size_t i, j, k;

	while (!redis_ops_step(ops, n)) {
		for (i = k = 0; i < n && k < REDIS_CONNS_MAX; i++) {
			for (j = 0; j < k && conns[j] != ops[i].conn; j++)
				;
			if (j == k && !ops[i].done)
				conns[k++] = ops[i].conn;
		}
		redis_conns_poll(conns, k, INT64_MAX);
	}
}

int redis_op_call(struct redis_op *op, struct redis_conn *conn, enum redis_script script,
		   const struct redis_keys *keys, const struct script_args *args, int64_t deadline)
{
	int code = redis_conn_wait_ready(conn, deadline);

	memset(op, 0, sizeof(*op));
	op->conn = conn;
	if (code)
		return finish(op, code);
	if (!redis_op_begin(op, conn, script, keys, args, deadline)) {
		redis_conn_pump(conn);
		redis_ops_wait(op, 1);
	}
	return op->code;
}

void redis_op_end(struct redis_op *op)
{
	redis_reply_free(op->inspected);
	op->inspected = NULL;
}
