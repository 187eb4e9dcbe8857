/* SPDX-License-Identifier: MIT */
/* test-rights.c - missing rights */
#define _GNU_SOURCE
#include "redis-support/peer.h"

#include <string.h>

static struct peer *a;

static const char *why(const struct peer *p)
{
	return redis_conn_error(p->conn)->text;
}

/* Needed by every operation; listed in doc/cross-host.md. */
static const char *const rights[] = {
	"del",	"eval",	   "evalsha", "exists", "get",		 "hmget",     "hset", "info",
	"ping", "pexpire", "pttl",    "sadd",	"set",		 "sismember", "srem", "time",
	"type", "zadd",	   "zcard",   "zrange", "zrangebyscore", "zrank",     "zrem", "zscore",
};
#define N_RIGHTS (sizeof(rights) / sizeof(rights[0]))

static char poor_uri[200];

static void grant(const char *except)
{
	char line[1024] = "ACL SETUSER poor reset on >pw ~* resetchannels +auth +scard +srandmember +script|load";
	size_t i;

	for (i = 0; i < N_RIGHTS; i++)
		if (!except || strcmp(rights[i], except) != 0)
			sprintf(line + strlen(line), " +%s", rights[i]);
	ck_redis("OK", redis, "%s", line);
	snprintf(poor_uri, sizeof(poor_uri), "unix://poor:pw@%s", redis->socket);
}

/* All operations in an order in which each has something to do; the first code that is an error. */
static int everything(struct peer *p)
{
	static const enum redis_script scripts[] = {
		REDIS_ACQUIRE_X, REDIS_RENEW, REDIS_FENCE, REDIS_FORCE_RELEASE, REDIS_ACQUIRE_S,
		REDIS_RENEW,	 REDIS_RELEASE, REDIS_LEAVE, REDIS_INSPECT,
	};
	size_t i;
	int code;

	redis_say(redis, "DEL lock {lock}:q");
	ck_status(acquire_x(a), REDIS_GRANTED);
	code = acquire_x(p);
	ck_status(release(a), REDIS_DONE);
	for (i = 0; i < sizeof(scripts) / sizeof(scripts[0]) && code >= 0; i++)
		code = peer_do(p, scripts[i]);
	return code < 0 ? code : 0;
}

START_TEST(the_rights_that_are_enough)
{
	struct peer *p;

	grant(NULL);
	p = peer_at(poor_uri);
	p->args.fence = 1;
	ck_assert_msg(everything(p) == 0, "%s", why(p));
	/* Also a renewal without tokens, by the short path. */
	p->args.stride = 0;
	new_value(p);
	ck_status(acquire_x(p), REDIS_GRANTED);
	ck_assert_msg(renew(p) == REDIS_DONE, "%s", why(p));
	ck_status(release(p), REDIS_DONE);
	/* Also the operations of a waiter: no right to publish at all. */
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(p), REDIS_QUEUED);
	ck_status(release(a), REDIS_DONE);
	ck_status(acquire_x(p), REDIS_GRANTED);
}
END_TEST

/* A peer with all rights but that. */
static struct peer *without(const char *right)
{
	grant(right);
	return peer_at(poor_uri);
}

/* Granted, or refused and then not held. */
static void held_or_not(int code, const char *right)
{
	ck_assert_msg(code == REDIS_DENIED || code == REDIS_GRANTED, "%s: %s", right, status_name(code));
	if (code == REDIS_DENIED)
		ck_assert_msg(strcmp(redis_say(redis, "EXISTS lock"), "0") == 0, "held without the right to %s", right);
}

/* Each right alone is missing: an error that names it, and a lock that is not held. */
START_TEST(one_right_after_another)
{
	size_t i;

	for (i = 0; i < N_RIGHTS; i++) {
		struct peer *p = without(rights[i]);
		int code = acquire_s(p);

		if (code == REDIS_GRANTED)
			ck_redis("1", redis, "DEL lock");
		held_or_not(acquire_x(p), rights[i]);
		code = everything(p);
		ck_assert_msg(code == REDIS_DENIED || (code == 0 && strcmp(rights[i], "eval") == 0), "%s: %s",
			      rights[i], redis_code_name(code));
		ck_redis("OK", redis, "FLUSHALL");
		peers_end();
		a = peer_new();
	}
}
END_TEST

/* A holder in either mode can renew and release, also with waiters, alive or dead. */
START_TEST(a_holder_can_release)
{
	static const enum redis_script modes[] = { REDIS_ACQUIRE_X, REDIS_ACQUIRE_S };
	enum redis_script mode = modes[_i];
	unsigned held = 0;
	size_t i;

	for (i = 0; i < N_RIGHTS; i++) {
		struct peer *p = without(rights[i]);
		int code = peer_do(p, mode);

		held_or_not(code, rights[i]);
		if (code == REDIS_GRANTED) {
			held++;
			ck_assert_msg(renew(p) == REDIS_DONE, "not renewed without %s: %s", rights[i], why(p));
			p->args.stride = 0;
			ck_assert_msg(renew(p) == REDIS_DONE, "not renewed without %s: %s", rights[i], why(p));
			ck_redis("1", redis, "ZADD {lock}:q 1 X:dead");
			ck_redis("1", redis, "ZADD {lock}:qx 1 X:dead");
			ck_status(acquire_x(a), REDIS_QUEUED);
			ck_assert_msg(release(p) == REDIS_DONE, "not given back without %s: %s", rights[i], why(p));
			ck_status(acquire_x(a), REDIS_GRANTED);
		}
		ck_redis("OK", redis, "FLUSHALL");
		peers_end();
		a = peer_new();
	}
	/* Rights to send scripts as text, to join readers, to wait: enough cases hold the lock. */
	ck_assert_uint_gt(held, 0);
}
END_TEST

static bool went_the_long_way(void)
{
	return strstr(redis_say(redis, "INFO commandstats"), "cmdstat_type:");
}

/*
 * The acquire of a free lock needs fewer commands than its release with waiters: a host without a right to one of those
 * does not get it.
 */
START_TEST(the_short_path)
{
	static const char *const others[] = { "get",	 "type", "pttl", "zcard",  "zrangebyscore", "exists",
					      "del",	 "zrem", "srem", "zscore", "zrange",	    "sismember" };
	struct peer *p;
	size_t i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		grant(others[i]);
		p = peer_at(poor_uri);
		ck_assert_msg(acquire_x(p) == REDIS_DENIED, "without %s", others[i]);
		ck_assert_msg(acquire_x(p) == REDIS_DENIED, "without %s, again", others[i]);
		ck_redis("0", redis, "EXISTS lock");
		/* Nor with other readers. */
		ck_status(acquire_s(a), REDIS_GRANTED);
		ck_assert_msg(acquire_s(p) == REDIS_DENIED, "without %s, beside others", others[i]);
		ck_redis("1", redis, "SCARD lock");
		ck_status(release(a), REDIS_DONE);
		peers_end();
		a = peer_new();
	}
	grant(NULL);
	p = peer_at(poor_uri);
	ck_status(acquire_x(p), REDIS_GRANTED);
	ck_status(release(p), REDIS_DONE);
	new_value(p);
	ck_redis("OK", redis, "CONFIG RESETSTAT");
	ck_status(acquire_x(p), REDIS_GRANTED);
	ck_status(release(p), REDIS_DONE);
	ck_assert(!went_the_long_way());
	/* Rights that were removed and are back. */
	new_value(p);
	ck_redis("OK", redis, "ACL SETUSER poor -pexpire");
	ck_status(acquire_x(p), REDIS_DENIED);
	ck_redis("0", redis, "EXISTS lock");
	ck_redis("OK", redis, "ACL SETUSER poor +pexpire");
	ck_status(acquire_x(p), REDIS_GRANTED);
	ck_assert(went_the_long_way());
}
END_TEST

/* A short path sent before a refusal, whose reply comes after it, proves nothing. */
START_TEST(a_refusal_is_remembered)
{
	struct redis_op refused, granted;
	struct peer *p;

	grant(NULL);
	p = peer_at(poor_uri);
	ck_status(acquire_x(p), REDIS_GRANTED);
	ck_status(release(p), REDIS_DONE);
	new_value(p);
	ck_redis("OK", redis, "ACL SETUSER poor -zcard");
	ck_code(redis_op_begin(&refused, p->conn, REDIS_ACQUIRE_S, p->keys, &p->args, soon()), 0);
	ck_code(redis_op_begin(&granted, p->conn, REDIS_ACQUIRE_X, p->keys, &p->args, soon()), 0);
	redis_conn_pump(p->conn);
	redis_ops_wait(&refused, 1);
	redis_ops_wait(&granted, 1);
	ck_code(refused.code, REDIS_DENIED);
	ck_status(granted.reply.status, REDIS_GRANTED);
	ck_redis("1", redis, "DEL lock");
	new_value(p);
	ck_status(acquire_x(p), REDIS_DENIED);
	ck_redis("0", redis, "EXISTS lock");
}
END_TEST

START_TEST(no_right_to_the_key)
{
	struct peer *p;

	grant(NULL);
	ck_redis("OK", redis, "ACL SETUSER poor resetkeys ~other*");
	p = peer_at(poor_uri);
	ck_code(acquire_x(p), REDIS_DENIED);
	ck_redis("0", redis, "DBSIZE");
}
END_TEST

static void peers(void)
{
	a = peer_new();
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, peers, peers_end);
	tcase_add_test(tc, the_rights_that_are_enough);
	tcase_add_test(tc, one_right_after_another);
	tcase_add_loop_test(tc, a_holder_can_release, 0, 2);
	tcase_add_test(tc, the_short_path);
	tcase_add_test(tc, a_refusal_is_remembered);
	tcase_add_test(tc, no_right_to_the_key);
}

int main(void)
{
	return redis_main("bridge-rights", add);
}
