/* SPDX-License-Identifier: MIT */
/*
 * adapter-redis.c - the usual lock in Redis: SET key value NX PX ttl, and a script that compares and deletes
 *
 * Over a unix socket.  A process that finds the key taken sleeps 1 ms and tries again.
 */
#include "bench-bridge.h"
#include "bench-loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#define RETRY_US 1000
#define TTL_MS 30000

static const char script[] =
	"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

static char sha[48], token[32], ttl[32];
static redisContext *parent, *server;

static redisReply *ask(redisContext *c, int argc, const char **argv, const size_t *len)
{
	redisReply *reply = redisCommandArgv(c, argc, argv, len);

	if (reply && reply->type != REDIS_REPLY_ERROR)
		return reply;
	fprintf(stderr, "lockshm-bench: redis: %s\n", reply ? reply->str : c->errstr);
	errno = 0;
	bench_fail("redis");
}

static int start_server(void)
{
	if (!redis_socket())
		return -1;
	parent = redisConnectUnix(redis_socket());
	return parent && !parent->err ? 0 : -1;
}

static int redis_create(const struct bench_need *need)
{
	const char *load[] = { "SCRIPT", "LOAD", script }, *flush[] = { "FLUSHALL" };
	redisReply *reply;

	if (!parent && start_server())
		return -1;
	freeReplyObject(ask(parent, 1, flush, NULL));
	reply = ask(parent, 3, load, NULL);
	snprintf(sha, sizeof(sha), "%s", reply->str);
	freeReplyObject(reply);
	snprintf(ttl, sizeof(ttl), "%lld", need->lease_ns ? (long long)(need->lease_ns / 1000000) : (long long)TTL_MS);
	return 0;
}

static void redis_attach(void)
{
	server = redisConnectUnix(redis_socket());
	if (!server || server->err)
		bench_fail("redisConnectUnix");
	snprintf(token, sizeof(token), "%d", (int)getpid());
}

static void redis_lock(uint32_t key, enum bench_mode mode)
{
	char name[BENCH_KEY_LEN];
	const char *argv[] = { "SET", name, token, "NX", "PX", ttl };
	const size_t len[] = { 3, BENCH_KEY_LEN, strlen(token), 2, 2, strlen(ttl) };

	(void)mode;
	bench_key(key, name);
	for (;;) {
		redisReply *reply = ask(server, 6, argv, len);
		bool got = reply->type != REDIS_REPLY_NIL;

		freeReplyObject(reply);
		if (got)
			return;
		usleep(RETRY_US);
	}
}

static void redis_unlock(uint32_t key, enum bench_mode mode)
{
	char name[BENCH_KEY_LEN];
	const char *argv[] = { "EVALSHA", sha, "1", name, token };
	const size_t len[] = { 7, strlen(sha), 1, BENCH_KEY_LEN, strlen(token) };

	(void)mode;
	bench_key(key, name);
	freeReplyObject(ask(server, 5, argv, len));
}

static double redis_bytes(void)
{
	const char *argv[] = { "INFO", "memory" };
	redisReply *reply = ask(parent, 2, argv, NULL);
	const char *at = strstr(reply->str, "used_memory:");
	double bytes = at ? atof(at + strlen("used_memory:")) : -1;

	freeReplyObject(reply);
	return bytes;
}

static void redis_detach(void)
{
	redisFree(server);
}

static void redis_destroy(void)
{
}

BENCH_PAIRS(redis_pairs, bench_nothing_to_make, redis_lock, redis_unlock)

const struct lock_adapter adapter_redis = {
	.name = "redis",
	.can = LOCK_MANY | LOCK_SERVER | LOCK_TRIES | LOCK_LEASE,
	.create = redis_create,
	.attach = redis_attach,
	.lock = redis_lock,
	.unlock = redis_unlock,
	.detach = redis_detach,
	.destroy = redis_destroy,
	.bytes = redis_bytes,
	.pairs = redis_pairs,
};
