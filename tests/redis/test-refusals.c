/* SPDX-License-Identifier: MIT */
/* test-refusals.c - foreign data, servers that are not able to write, and lost replies */
#define _GNU_SOURCE
#include "redis-support/peer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct peer *a, *b;

static const char *why(const struct peer *p)
{
	return redis_conn_error(p->conn)->text;
}

/* ---------------------------------------------------------------- foreign data */

static void fill(const char *key, const char *type)
{
	if (strcmp(type, "hash") == 0)
		ck_redis("1", redis, "HSET %s f v", key);
	else if (strcmp(type, "list") == 0)
		ck_redis("1", redis, "RPUSH %s v", key);
	else if (strcmp(type, "zset") == 0)
		ck_redis("1", redis, "ZADD %s 1 v", key);
	else if (strcmp(type, "string") == 0)
		ck_redis("OK", redis, "SET %s v", key);
	else
		redis_say(redis, "XADD %s * f v", key);
}

START_TEST(user_data_under_the_name_of_the_lock)
{
	static const char *const types[] = { "hash", "list", "zset", "stream" };
	static const enum redis_script scripts[] = { REDIS_ACQUIRE_S, REDIS_ACQUIRE_X, REDIS_FORCE_RELEASE,
						      REDIS_RELEASE,   REDIS_RENEW };
	char before[256];
	size_t i, j;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		fill("lock", types[i]);
		snprintf(before, sizeof(before), "%s", redis_say(redis, "DUMP lock"));
		for (j = 0; j < sizeof(scripts) / sizeof(scripts[0]); j++) {
			ck_code(peer_do(a, scripts[j]), REDIS_NOT_A_LOCK);
			ck_contains(why(a), types[i]);
		}
		ck_status(leave(a, "xs"), REDIS_DONE);
		ck_status(peer_do(a, REDIS_INSPECT), REDIS_DONE);
		ck_assert_str_eq(redis_say(redis, "DUMP lock"), before);
		ck_redis("-1", redis, "PTTL lock");
		ck_redis("1", redis, "DBSIZE");
		ck_redis("1", redis, "DEL lock");
	}
}
END_TEST

START_TEST(user_data_under_other_names)
{
	static const struct {
		const char *key, *type;
	} cases[] = {
		{ "{lock}:q", "string" }, { "{lock}:qx", "hash" },  { "{lock}:rx", "list" },
		{ "{lock}:f", "zset" },	  { "{lock}:f", "string" }, { "{lock}:q", "stream" },
	};
	char before[256];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fill(cases[i].key, cases[i].type);
		snprintf(before, sizeof(before), "%s", redis_say(redis, "DUMP %s", cases[i].key));
		ck_code(acquire_x(a), REDIS_NOT_A_LOCK);
		ck_contains(why(a), "WRONGTYPE");
		ck_code(acquire_s(a), REDIS_NOT_A_LOCK);
		ck_code(leave(a, "xs"), REDIS_NOT_A_LOCK);
		ck_assert_str_eq(redis_say(redis, "DUMP %s", cases[i].key), before);
		ck_redis("1", redis, "DBSIZE");
		ck_redis("1", redis, "DEL %s", cases[i].key);
	}
}
END_TEST

START_TEST(user_data_under_the_name_of_the_mark)
{
	fill("lock:lock-intent", "hash");
	ck_status(acquire_s(a), REDIS_QUEUED);
	ck_kind(a, REDIS_KIND_INTENT);
	ck_status(leave(a, "s"), REDIS_DONE);
	ck_redis("1", redis, "SADD lock reader");
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_status(leave(a, "x"), REDIS_DONE);
	ck_redis("1", redis, "DEL lock");
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(release(a), REDIS_DONE);
	ck_redis("v", redis, "HGET lock:lock-intent f");
}
END_TEST

/* Many under way on one connection: each has the error of its own reply. */
START_TEST(errors_of_their_own)
{
	static const char *const types[] = { "hash", "list", "zset", "stream" };
	struct redis_keys keys[4];
	struct redis_op ops[4];
	char name[8];
	int i;

	ck_status(acquire_x(a), REDIS_GRANTED);
	for (i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		fill(name, types[i]);
		ck_code(redis_keys_make(&keys[i], REDIS_KEYS_SINGLE, "", name, strlen(name), NULL), 0);
		ck_code(redis_op_begin(&ops[i], a->conn, REDIS_ACQUIRE_X, &keys[i], &a->args, soon()), 0);
	}
	redis_ops_wait(ops, 4);
	for (i = 0; i < 4; i++) {
		ck_code(ops[i].code, REDIS_NOT_A_LOCK);
		ck_contains(ops[i].why, types[i]);
		redis_keys_free(&keys[i]);
	}
}
END_TEST

START_TEST(strings_of_others)
{
	fill("lock", "string");
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_kind(a, REDIS_KIND_FOREIGN);
	ck_assert_str_eq(a->op.reply.holder, "v");
	ck_assert_int_eq(a->op.reply.left_ms, -1);
	ck_status(acquire_s(a), REDIS_QUEUED);
	ck_status(renew(a), REDIS_LOST);
	ck_status(release(a), REDIS_LOST);
	ck_redis("v", redis, "GET lock");
	ck_redis("-1", redis, "PTTL lock");
}
END_TEST

/* Foreign readers have no deadlines: they end with the set. */
START_TEST(readers_of_others)
{
	ck_redis("2", redis, "SADD lock x y");
	ck_redis("1", redis, "PEXPIRE lock 40000");
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_redis("3", redis, "SCARD lock");
	ck_status(release(a), REDIS_DONE);
	ck_status(try_x(b), REDIS_BUSY);
	ck_kind(b, REDIS_KIND_READERS);
	ck_redis("2", redis, "SCARD lock");
	/* A set without an end lasts longest: a reader that joins does not give it one. */
	ck_redis("1", redis, "PERSIST lock");
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_redis("-1", redis, "PTTL lock");
}
END_TEST

START_TEST(long_and_binary_values_of_others)
{
	ck_redis("5001", redis, "SETRANGE lock 5000 x");
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_assert_uint_eq(a->op.reply.holder_len, sizeof(a->op.reply.holder) - 1);
	ck_assert_int_eq(a->op.reply.holder[0], 0);
}
END_TEST

/* ---------------------------------------------------------------- a server that is not able to */

START_TEST(out_of_memory)
{
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_status(release(b), REDIS_DONE);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_redis("OK", redis, "CONFIG SET maxmemory 1");
	ck_code(acquire_x(a), REDIS_RETRY);
	ck_contains(why(a), "OOM");
	ck_redis("0", redis, "EXISTS {lock}:q");
	ck_code(acquire_s(a), REDIS_RETRY);
	ck_redis("1", redis, "SCARD lock");
	/* A release needs no memory. */
	ck_status(release(b), REDIS_DONE);
	ck_code(acquire_x(a), REDIS_RETRY);
	ck_redis("0", redis, "EXISTS lock");
	ck_redis("OK", redis, "CONFIG SET maxmemory 0");
	ck_status(acquire_x(a), REDIS_GRANTED);
}
END_TEST

START_TEST(became_a_replica)
{
	struct redis *r = redis_start(NULL, false);
	struct peer *p = peer_at(r->uri);

	ck_status(acquire_x(p), REDIS_GRANTED);
	ck_redis("OK", r, "REPLICAOF 127.0.0.1 1");
	ck_code(renew(p), REDIS_RETRY);
	ck_contains(why(p), "READONLY");
	ck_assert(redis_conn_closed(p->conn));
	ck_code(acquire_x(p), REDIS_RETRY);
	ck_contains(why(p), "is a replica");
	ck_code(release(p), REDIS_RETRY);
	ck_redis("OK", r, "REPLICAOF NO ONE");
	ck_status(release(p), REDIS_DONE);
	redis_stop(r);
}
END_TEST

static bool save_failed(void *r)
{
	return strstr(redis_say(r, "INFO persistence"), "rdb_last_bgsave_status:err") != NULL;
}

START_TEST(cannot_write_its_disk)
{
	struct redis *r = redis_start("save 3600 1\ndbfilename dump.rdb", false);
	struct peer *p = peer_at(r->uri);
	char path[128];

	/* A directory in place of the file: not even root can write that. */
	snprintf(path, sizeof(path), "%.60s/dump.rdb", r->dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_status(acquire_x(p), REDIS_GRANTED);
	redis_say(r, "BGSAVE");
	ck_assert(await(save_failed, r));
	ck_code(renew(p), REDIS_RETRY);
	ck_contains(why(p), "MISCONF");
	redis_stop(r);
}
END_TEST

START_TEST(is_loading)
{
	struct redis *r = redis_start("key-load-delay 2000\nloading-process-events-interval-bytes 1024", false);
	struct peer *p = peer_at(r->uri);

	redis_say(r, "DEBUG POPULATE 30000");
	ck_redis("OK", r, "SAVE");
	redis_kill(r);
	redis_restart(r);
	ck_code(acquire_x(p), REDIS_RETRY);
	ck_contains(why(p), "LOADING");
	redis_stop(r);
}
END_TEST

START_TEST(is_busy)
{
	struct redis *r = redis_start("busy-reply-threshold 1", false);
	struct peer *p = peer_at(r->uri);
	struct redis_conn *c = conn_to(r->uri, NULL);
	const char *argv[] = { "EVAL", "while true do end", "0" };
	int code;

	ck_status(acquire_x(p), REDIS_GRANTED);
	ck_code(redis_conn_wait_ready(c, soon()), 0);
	ck_code(redis_conn_send(c, soon(), 3, argv, NULL), 0);
	ck_code(redis_conn_pump(c), 0);
	do
		code = renew(p);
	while (code == REDIS_DONE);
	ck_code(code, REDIS_RETRY);
	ck_contains(why(p), "BUSY");
	redis_conn_free(c);
	redis_stop(r);
}
END_TEST

/* ---------------------------------------------------------------- forgotten scripts */

START_TEST(scripts_are_sent_again)
{
	int i;

	for (i = 0; i < 20; i++) {
		ck_redis("OK", redis, "SCRIPT FLUSH");
		ck_status(acquire_x(a), REDIS_GRANTED);
		ck_redis("OK", redis, "SCRIPT FLUSH");
		ck_status(release(a), REDIS_DONE);
	}
	ck_assert_uint_eq(redis_conn_generation(a->conn), 1);
}
END_TEST

START_TEST(forgotten_under_load)
{
	pid_t pid = fork();
	int i;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		redis->say = NULL;
		for (;;)
			redis_say(redis, "SCRIPT FLUSH");
	}
	for (i = 0; i < 30; i++) {
		ck_status(acquire_x(a), REDIS_GRANTED);
		ck_status(renew(a), REDIS_DONE);
		ck_status(release(a), REDIS_DONE);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
END_TEST

/* Sent again, they come after those that were sent later. */
START_TEST(forgotten_in_a_pipeline)
{
	struct redis_keys keys[16];
	struct redis_op ops[16];
	char name[8];
	int i;

	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_redis("OK", redis, "SCRIPT FLUSH");
	for (i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		ck_code(redis_keys_make(&keys[i], REDIS_KEYS_SINGLE, "", name, strlen(name), NULL), 0);
		ck_code(redis_op_begin(&ops[i], a->conn, i % 2 ? REDIS_ACQUIRE_S : REDIS_RENEW, &keys[i], &a->args,
					soon()),
			0);
	}
	redis_ops_wait(ops, 16);
	for (i = 0; i < 16; i++) {
		ck_code(ops[i].code, 0);
		ck_status((int)ops[i].reply.status, i % 2 ? REDIS_GRANTED : REDIS_ABSENT);
		ck_redis(i % 2 ? "set" : "none", redis, "TYPE k%d", i);
		redis_keys_free(&keys[i]);
	}
}
END_TEST

/* ---------------------------------------------------------------- lost replies */

static bool is_held(void *p)
{
	return strcmp(redis_say(redis, "GET lock"), ((struct peer *)p)->value) == 0;
}

static bool is_free(void *arg)
{
	(void)arg;
	return strcmp(redis_say(redis, "EXISTS lock"), "0") == 0;
}

START_TEST(a_lost_reply_is_cured_by_the_token)
{
	struct proxy *proxy = proxy_start(redis, false);
	struct peer *p = peer_at(proxy->uri);

	ck_status(leave(p, "x"), REDIS_DONE);
	proxy_set(proxy, PROXY_DROP_REPLIES);
	p->args.flags = "";
	ck_code(redis_op_call(&p->op, p->conn, REDIS_ACQUIRE_X, p->keys, &p->args, redis_now() + REDIS_MS(200)),
		REDIS_UNKNOWN);
	ck_assert(await(is_held, p));
	proxy_set(proxy, PROXY_PASS);
	/* An unknown outcome is resolved by another acquire with the value, or by a release. */
	ck_status(acquire_x(p), REDIS_GRANTED);
	proxy_set(proxy, PROXY_DROP_REPLIES);
	ck_code(redis_op_call(&p->op, p->conn, REDIS_RELEASE, p->keys, &p->args, redis_now() + REDIS_MS(200)),
		REDIS_UNKNOWN);
	ck_assert(await(is_free, NULL));
	proxy_set(proxy, PROXY_PASS);
	ck_status(release(p), REDIS_ABSENT);
	ck_status(acquire_x(a), REDIS_GRANTED);
}
END_TEST

START_TEST(all_under_way_are_unknown)
{
	struct proxy *proxy = proxy_start(redis, false);
	struct peer *p = peer_at(proxy->uri);
	struct redis_op ops[3];
	int i;

	ck_status(leave(p, "x"), REDIS_DONE);
	proxy_set(proxy, PROXY_HOLD_REPLIES);
	for (i = 0; i < 3; i++)
		ck_code(redis_op_begin(&ops[i], p->conn, REDIS_RENEW, p->keys, &p->args, soon()), 0);
	redis_conn_pump(p->conn);
	proxy_set(proxy, PROXY_RESET);
	redis_ops_wait(ops, 3);
	for (i = 0; i < 3; i++)
		ck_code(ops[i].code, REDIS_UNKNOWN);
	ck_code(redis_op_begin(&ops[0], p->conn, REDIS_RENEW, p->keys, &p->args, soon()), REDIS_UNREACHABLE);
	ck_assert(ops[0].done);
}
END_TEST

START_TEST(validity_counts_from_before_the_request)
{
	int64_t t = 1000000000;

	ck_assert_int_eq(redis_valid_until(t, 10000), t + REDIS_MS(10000 - 100 - 2));
}
END_TEST

static void peers(void)
{
	a = peer_new();
	b = peer_new();
}

/* ---------------------------------------------------------------- for how long */

static struct redis_refusals refusals;

static void refuse(int64_t ms, const char *words)
{
	struct redis_error error;

	(void)redis_fail(&error, REDIS_RETRY, "%s", words);
	redis_refusals_add(&refusals, REDIS_MS(ms), &error);
}

static const char *refuses(int64_t ms)
{
	const struct redis_error *why = redis_refusals_now(&refusals, REDIS_MS(ms));

	return why ? why->text : "no";
}

START_TEST(a_refusal_is_worth_a_line)
{
	memset(&refusals, 0, sizeof(refusals));
	ck_assert_str_eq(refuses(1000), "no");
	refuse(1000, "BUSY");
	/* One refusal says nothing of the time after it. */
	ck_assert_str_eq(refuses(9000), "no");
	refuse(1499, "BUSY");
	ck_assert_str_eq(refuses(1499), "no");
	refuse(1500, "BUSY");
	ck_assert_str_eq(refuses(1500), "BUSY");
	/* Another key's command was executed, and this one's is refused again. */
	redis_refusals_contradict(&refusals, REDIS_MS(1600), true);
	refuse(1900, "TRYAGAIN");
	redis_refusals_contradict(&refusals, REDIS_MS(2000), true);
	ck_assert_str_eq(refuses(2899), "TRYAGAIN");
	ck_assert_str_eq(refuses(2900), "no");
	/* From here on anew. */
	refuse(3000, "BUSY");
	ck_assert_str_eq(refuses(3000), "no");
	refuse(3500, "BUSY");
	ck_assert_str_eq(refuses(3500), "BUSY");
	/* Silence is no end. */
	ck_assert_str_eq(refuses(1000000), "BUSY");
	/* Requests that come seldom. */
	redis_refusals_contradict(&refusals, REDIS_MS(1000001), true);
	ck_assert_str_eq(refuses(1000001), "no");
	refuse(2000000, "BUSY");
	refuse(2060000, "BUSY");
	ck_assert_str_eq(refuses(2060000), "BUSY");
}
END_TEST

/* Held leases are renewed by a full server. */
START_TEST(a_full_server_is_full)
{
	memset(&refusals, 0, sizeof(refusals));
	refuse(1000, "OOM command not allowed");
	redis_refusals_contradict(&refusals, REDIS_MS(1100), false);
	refuse(1600, "OOM command not allowed");
	redis_refusals_contradict(&refusals, REDIS_MS(1700), false);
	ck_assert_str_eq(refuses(3000), "OOM command not allowed");
	redis_refusals_contradict(&refusals, REDIS_MS(3001), true);
	ck_assert_str_eq(refuses(3001), "no");
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, peers, peers_end);
	tcase_add_test(tc, user_data_under_the_name_of_the_lock);
	tcase_add_test(tc, user_data_under_other_names);
	tcase_add_test(tc, user_data_under_the_name_of_the_mark);
	tcase_add_test(tc, errors_of_their_own);
	tcase_add_test(tc, strings_of_others);
	tcase_add_test(tc, readers_of_others);
	tcase_add_test(tc, long_and_binary_values_of_others);
	tcase_add_test(tc, out_of_memory);
	tcase_add_test(tc, became_a_replica);
	tcase_add_test(tc, cannot_write_its_disk);
	tcase_add_test(tc, is_loading);
	tcase_add_test(tc, is_busy);
	tcase_add_test(tc, scripts_are_sent_again);
	tcase_add_test(tc, forgotten_under_load);
	tcase_add_test(tc, forgotten_in_a_pipeline);
	tcase_add_test(tc, a_lost_reply_is_cured_by_the_token);
	tcase_add_test(tc, all_under_way_are_unknown);
	tcase_add_test(tc, validity_counts_from_before_the_request);
	tcase_add_test(tc, a_refusal_is_worth_a_line);
	tcase_add_test(tc, a_full_server_is_full);
}

int main(void)
{
	return redis_main("bridge-refusals", add);
}
