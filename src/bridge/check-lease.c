/* SPDX-License-Identifier: MIT */
/* check-lease.c - does a server give leases, and what may keep it from that?  See bridge/check-internal.h */
#define _GNU_SOURCE
#include "bridge/check-internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/resp.h"
#include "sys/min.h"

#define NEARLY_FULL 90 /* percent */

/* ---------------------------------------------------------------- settings */

/* Field @name of an INFO reply, as text; "" = it has none. */
static void info_field(const char *info, const char *name, char *out, size_t size)
{
	const char *at = info;
	size_t len = strlen(name);

	while (at && (strncmp(at, name, len) != 0 || at[len] != ':'))
		at = (at = strchr(at, '\n')) ? at + 1 : NULL;
	snprintf(out, size, "%.*s", at ? (int)strcspn(at + len + 1, "\r\n") : 0, at ? at + len + 1 : "");
}

static void info(struct check *c, struct redis_conn *conn, const char *section, const char *name, char *out,
		 size_t size)
{
	const char *argv[2] = { "INFO", section }, *text = NULL;
	struct redis_reply *reply = NULL;
	size_t len;

	*out = '\0';
	if (check_call(c, conn, &reply, 2, argv) == 0)
		text = redis_reply_text(reply, &len);
	if (text)
		info_field(text, name, out, size);
	redis_reply_free(reply);
}

static uint64_t info_number(struct check *c, struct redis_conn *conn, const char *section, const char *name)
{
	char text[24];

	info(c, conn, section, name, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

static void check_memory(struct check *c, struct redis_conn *conn)
{
	uint64_t used = info_number(c, conn, "memory", "used_memory");
	uint64_t limit = info_number(c, conn, "memory", "maxmemory");
	char policy[40], most[24] = "without limit yet";

	info(c, conn, "memory", "maxmemory_policy", policy, sizeof(policy));
	if (limit)
		snprintf(most, sizeof(most), "%llu", (unsigned long long)limit);
	if (*policy && strcmp(policy, "noeviction") != 0)
		check_say(c, CHECK_FAIL, redis_conn_label(conn),
			  "evicts keys, so locks, when it is full (maxmemory-policy %s, maxmemory %s): CONFIG SET "
			  "maxmemory-policy noeviction", policy, most);
	else if (limit && used / NEARLY_FULL >= limit / 100)
		check_say(c, CHECK_NOTE, redis_conn_label(conn),
			  "its memory is full, or nearly (used_memory %llu, maxmemory %s): then it refuses leases",
			  (unsigned long long)used, most);
}

/* The number in a reply to CONFIG GET; 0 = none, or this login may not ask. */
static uint64_t config_number(struct check *c, struct redis_conn *conn, const char *name)
{
	const char *argv[3] = { "CONFIG", "GET", name }, *text = NULL;
	struct redis_reply *reply = NULL;
	uint64_t number;
	size_t len;

	if (check_call(c, conn, &reply, 3, argv) == 0)
		text = redis_reply_text(redis_reply_at(reply, 1), &len);
	number = text ? strtoull(text, NULL, 10) : 0;
	redis_reply_free(reply);
	return number;
}

static void check_replicas(struct check *c, struct redis_conn *conn)
{
	uint64_t wanted = REDIS_WAIT(c->s->redis.flags), least = config_number(c, conn, "min-replicas-to-write");
	uint64_t has = info_number(c, conn, "replication", "connected_slaves");

	if (has < wanted)
		check_say(c, CHECK_FAIL, redis_conn_label(conn),
			  "has %llu replicas, and the segment wants %llu to have a lease: start them, or make it with less "
			  "--redis-wait", (unsigned long long)has, (unsigned long long)wanted);
	if (least && has == least)
		check_say(c, CHECK_NOTE, redis_conn_label(conn),
			  "has no more replicas than min-replicas-to-write, %llu: with one less it refuses leases",
			  (unsigned long long)least);
}

static void check_save(struct check *c, struct redis_conn *conn, const char *field, const char *what)
{
	char state[24];

	info(c, conn, "persistence", field, state, sizeof(state));
	if (*state && strcmp(state, "ok") != 0)
		check_say(c, CHECK_NOTE, redis_conn_label(conn),
			  "its last %s failed (%s:%s), for which it may refuse leases: mend its disk, see its log", what, field,
			  state);
}

void check_settings(struct check *c, struct redis_conn *conn)
{
	check_memory(c, conn);
	check_replicas(c, conn);
	check_save(c, conn, "rdb_last_bgsave_status", "save");
	check_save(c, conn, "aof_last_write_status", "write of the append-only file");
}

/* ---------------------------------------------------------------- a lease */

struct probe {
	struct check *c;
	struct redis_conn *conn;
	const struct redis_keys *keys;
	struct script_args args;
	char value[REDIS_VALUE_LEN + 1];
};

/* False = reported. */
static bool step(const struct probe *p, enum redis_script script, enum redis_status want, const char *what)
{
	const char *why;
	struct redis_op op;
	int code = redis_op_call(&op, p->conn, script, p->keys, &p->args, p->c->deadline);
	bool done = !code && op.reply.status == want;

	why = code ? check_words(p->conn, op.why) : "another reply than expected: do other programs change its keys?";
	if (!done)
		check_say(p->c, CHECK_FAIL, redis_conn_label(p->conn), "a lease cannot be %s: %s%s", what, why,
			  check_remedy(code, why));
	redis_op_end(&op);
	return done;
}

/* Does the lease reach the replicas in the time that a bridge gives them?  False = reported. */
static bool copied(const struct probe *p)
{
	unsigned wanted = REDIS_WAIT(p->c->s->redis.flags);
	char n[16], ms[24];
	const char *argv[3] = { "WAIT", n, ms };
	struct redis_reply *reply = NULL;
	int64_t copies = -1;

	if (!wanted)
		return true;
	snprintf(n, sizeof(n), "%u", wanted);
	snprintf(ms, sizeof(ms), "%lld", (long long)(check_io_ns(p->c) / 2 / REDIS_MS(1)));
	if (check_call(p->c, p->conn, &reply, 3, argv) == 0)
		copies = redis_reply_integer(reply, -1);
	redis_reply_free(reply);
	if (copies < (int64_t)wanted)
		check_say(p->c, CHECK_FAIL, redis_conn_label(p->conn), "only %lld of %u replicas had a lease within %s ms",
			  (long long)(copies < 0 ? 0 : copies), wanted, ms);
	return copies >= (int64_t)wanted;
}

/* What a release leaves: the tokens, for a day.  After a failure also the lease. */
static bool clean(const struct probe *p)
{
	const char *argv[3 + REDIS_KEYS] = { "EVAL", "return redis.call('DEL', unpack(KEYS))", "6" };
	size_t lens[3 + REDIS_KEYS] = { 4, strlen(argv[1]), 1 }, i;
	struct redis_reply *reply = NULL;
	int code;

	_Static_assert(REDIS_KEYS == 6, "the number of names is in the command");
	for (i = 0; i < REDIS_KEYS; i++) {
		argv[3 + i] = p->keys->key[i];
		lens[3 + i] = p->keys->len[i];
	}
	code = redis_conn_call(p->conn, p->c->deadline, &reply, 3 + REDIS_KEYS, argv, lens);
	redis_reply_free(reply);
	return code == 0;
}

void check_lease(struct check *c, struct redis_conn *conn, const struct redis_keys *keys)
{
	struct probe p = { .c = c, .conn = conn, .keys = keys };
	int64_t began = redis_now();
	struct redis_host host;
	bool done, cleaned;

	snprintf(host.id, sizeof(host.id), "%.*s", REDIS_HOST_LEN, c->s->redis.host);
	if (!redis_value(p.value, &host))
		return;
	p.args = (struct script_args){
		.host = host.id, .value = p.value, .ttl_ms = (int64_t)c->s->redis.ttl_ms, .stride = 1, .waiter_ttl_ms = 1000,
		.flags = "t",
	};
	done = step(&p, REDIS_ACQUIRE_X, REDIS_GRANTED, "acquired") && copied(&p) &&
	       step(&p, REDIS_RENEW, REDIS_DONE, "renewed") && step(&p, REDIS_RELEASE, REDIS_DONE, "released");
	cleaned = clean(&p);
	if (done && cleaned)
		check_say(c, CHECK_OK, redis_conn_label(conn), "a lease was acquired, renewed and released in %.1f ms",
			  (double)(redis_now() - began) / 1e6);
	else if (done)
		check_say(c, CHECK_NOTE, redis_conn_label(conn), "what the check left as %.*s expires in a day: %s",
			  (int)keys->len[REDIS_KEY_FENCE], keys->key[REDIS_KEY_FENCE], redis_conn_error(conn)->text);
}
