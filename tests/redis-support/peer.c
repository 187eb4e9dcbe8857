/* SPDX-License-Identifier: MIT */
/* peer.c - see redis-support/peer.h */
#define _GNU_SOURCE
#include "peer.h"

#include <stdlib.h>
#include <string.h>

static struct peer peers[8];
static size_t n_peers;
static struct redis_keys keys;

void random_host(struct redis_host *out)
{
	static const struct redis_host zero = { "0000000000000000" };
	char value[REDIS_VALUE_LEN + 1];

	ck_assert(redis_value(value, &zero));
	strcpy(out->id, value + REDIS_HOST_LEN);
}

struct peer *peer_at(const char *uri)
{
	struct redis_conn_options options = { .scripts = redis_scripts, .n_scripts = REDIS_N_SCRIPTS };
	struct peer *p = &peers[n_peers++];

	ck_assert_uint_le(n_peers, 8);
	if (!keys.bytes)
		ck_code(redis_keys_make(&keys, REDIS_KEYS_SINGLE, "", "lock", 4, NULL), 0);
	memset(p, 0, sizeof(*p));
	random_host(&p->host);
	ck_assert(redis_value(p->value, &p->host));
	p->conn = conn_to(uri, &options);
	p->keys = &keys;
	p->args.host = p->host.id;
	p->args.value = p->value;
	p->args.ttl_ms = LONG_MS;
	p->args.stride = 1024;
	p->args.waiter_ttl_ms = LONG_MS;
	p->args.flags = "";
	return p;
}

struct peer *peer_new(void)
{
	return peer_at(redis->uri);
}

void peers_end(void)
{
	while (n_peers) {
		n_peers--;
		redis_op_end(&peers[n_peers].op);
		redis_conn_free(peers[n_peers].conn);
	}
	redis_keys_free(&keys);
}

int peer_do(struct peer *p, enum redis_script script)
{
	int code;

	redis_op_end(&p->op);
	code = redis_op_call(&p->op, p->conn, script, p->keys, &p->args, soon());
	return code ? code : script == REDIS_INSPECT ? REDIS_DONE : (int)p->op.reply.status;
}

static int with_flags(struct peer *p, enum redis_script script, const char *flags)
{
	p->args.flags = flags;
	return peer_do(p, script);
}

int acquire_x(struct peer *p)
{
	return with_flags(p, REDIS_ACQUIRE_X, "");
}

int acquire_s(struct peer *p)
{
	return with_flags(p, REDIS_ACQUIRE_S, "");
}

int try_x(struct peer *p)
{
	return with_flags(p, REDIS_ACQUIRE_X, "t");
}

int try_s(struct peer *p)
{
	return with_flags(p, REDIS_ACQUIRE_S, "t");
}

int renew(struct peer *p)
{
	return peer_do(p, REDIS_RENEW);
}

int release(struct peer *p)
{
	return peer_do(p, REDIS_RELEASE);
}

int leave(struct peer *p, const char *modes)
{
	return with_flags(p, REDIS_LEAVE, modes);
}

int64_t reply_ms(const struct peer *p)
{
	ck_assert_msg(p->op.reply.server_ms > 0, "this reply has no time");
	return p->op.reply.server_ms;
}

static int64_t server_ms(void)
{
	long long s, us;

	ck_assert_int_eq(sscanf(redis_say(redis, "TIME"), "[%lld %lld]", &s, &us), 2);
	return s * 1000 + us / 1000;
}

static bool is_past(void *arg)
{
	return server_ms() > *(int64_t *)arg;
}

void let_pass(int64_t ms)
{
	int64_t when = server_ms() + ms;

	ck_assert(await(is_past, &when));
}

void new_value(struct peer *p)
{
	ck_assert(redis_value(p->value, &p->host));
}

const char *status_name(int status)
{
	static const char *const names[] = {
		[REDIS_GRANTED] = "granted", [REDIS_QUEUED] = "queued",   [REDIS_BUSY] = "busy",
		[REDIS_DONE] = "done",	      [REDIS_LATE] = "late",	    [REDIS_LOST] = "lost",
		[REDIS_ABSENT] = "absent",   [REDIS_CHANGED] = "changed",
	};

	return status >= REDIS_GRANTED && status <= REDIS_CHANGED ? names[status] : redis_code_name(status);
}
