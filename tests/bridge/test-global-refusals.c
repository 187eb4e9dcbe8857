/* SPDX-License-Identifier: MIT */
/* test-global-refusals.c - a server that refuses: rights, foreign data, memory, disk, scripts */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct agent *a, *b, *c;

START_TEST(data_of_others)
{
	cast("0", &a);
	ck_redis("1", redis, "HSET lk:" K " user data");
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "not a lock");
	ck_contains(a->answer.report.error.message, "lk:" K);
	ck_contains(a->answer.report.error.message, redis->uri);
	ck_redis("1", redis, "DBSIZE");
	ck_redis("data", redis, "HGET lk:" K " user");
	ck_code(global_wait(a, "other", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(no_rights)
{
	struct lockshm_create_options options = host_options();
	char uri[200];

	snprintf(uri, sizeof(uri), "unix://nobody@%s", redis->socket);
	strcpy(options.redis, uri);
	options.redis_policy = segment_policy(LOCKSHM_REDIS_LOCAL_ONLY); /* does not apply to a refusal */
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "has a user but no password");
	ck_contains(a->answer.report.error.message, redis->uri);
	ck_redis("0", redis, "DBSIZE");
}
END_TEST

START_TEST(no_such_database)
{
	struct lockshm_create_options options = host_options();
	char uri[200];

	snprintf(uri, sizeof(uri), "%s?db=99", redis->uri);
	strcpy(options.redis, uri);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "DB index");
	ck_contains(a->answer.report.error.message, redis->uri);
	ck_redis("0", redis, "DBSIZE");
}
END_TEST

/* Each name of the lock may hold foreign data. */
START_TEST(data_of_others_in_its_other_keys)
{
	static const char *const names[] = { "{lk:" K "}:q", "{lk:" K "}:qx", "{lk:" K "}:rx", "{lk:" K "}:f" };
	size_t i;

	cast("0", &a);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ck_redis("OK", redis, "SET %s mine", names[i]);
		ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
		ck_contains(a->answer.report.error.message, "WRONGTYPE");
		ck_contains(a->answer.report.error.message, redis->uri);
		ck_redis("mine", redis, "GET %s", names[i]);
		ck_redis("1", redis, "DBSIZE");
		ck_redis("1", redis, "DEL %s", names[i]);
	}
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* ---------------------------------------------------------------- rights */

/* All rights that acquiring, keeping and releasing need; doc/cross-host.md lists them. */
static const char *const rights[] = {
	"auth",	   "del",   "evalsha", "exists",	"get",	 "hmget",     "hset",	"info", "ping",
	"pexpire", "pttl",  "sadd",    "scard",		"set",	 "sismember", "srem",	"time", "type",
	"zadd",	   "zcard", "zrange",  "zrangebyscore", "zrank", "zrem",      "zscore",
};
#define N_RIGHTS (sizeof(rights) / sizeof(rights[0]))

/* A host whose user lacks one of them. */
static void host_without(const char *right, const char *more)
{
	struct lockshm_create_options options = host_options();
	char line[1024], uri[200];
	size_t i, n = 0;

	n += (size_t)snprintf(line, sizeof(line), "ACL SETUSER poor reset on >pw ~* resetchannels %s", more);
	for (i = 0; i < N_RIGHTS; i++)
		if (!right || strcmp(rights[i], right) != 0)
			n += (size_t)snprintf(line + n, sizeof(line) - n, " +%s", rights[i]);
	ck_redis("OK", redis, "%s +eval", line);
	snprintf(uri, sizeof(uri), "unix://poor:pw@%s", redis->socket);
	strcpy(options.redis, uri);
	host_make(0, &options);
}

static void next_host(void)
{
	agents_end();
	bridge_kill(0);
	lockshm_close(hosts[0].s);
	lockshm_destroy(hosts[0].name, NULL);
	hosts[0].s = NULL;
	ck_redis("OK", redis, "FLUSHALL");
}

START_TEST(the_rights_that_are_enough)
{
	host_without(NULL, "");
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	/* Each for longer than its first ttl. */
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	pass(now_ns() + LOCKSHM_MS(1500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	redis_has("EXISTS lk:" K, "0");
}
END_TEST

/* Each taken away alone: the requester gets an error that names right and server, and does not hold; or the right was
 * not needed. */
START_TEST(one_right_after_another)
{
	size_t i;
	int mode;

	for (i = 0; i < N_RIGHTS; i++) {
		host_without(rights[i], "");
		a = on_host(0);
		for (mode = LOCKSHM_SHARED; mode <= LOCKSHM_EXCLUSIVE; mode++) {
			if (global_wait(a, K, mode) == 0) {
				ck_code(agent_call(a, AGENT_CHECK), 0);
				ck_code(agent_release(a), 0);
				break;
			}
			ck_code(a->answer.code, LOCKSHM_BRIDGE);
			ck_contains(a->answer.report.error.message, redis->uri);
			ck_assert_msg(strstr(a->answer.report.error.message, "NOPERM") ||
					      strstr(a->answer.report.error.message, "can't run this command") ||
					      strstr(a->answer.report.error.message, "NOAUTH"),
				      "without %s: %s", rights[i], a->answer.report.error.message);
			ck_redis("0", redis, "EXISTS lk:" K);
		}
		next_host();
	}
}
END_TEST

START_TEST(no_right_to_the_key)
{
	host_without(NULL, "");
	ck_redis("OK", redis, "ACL SETUSER poor resetkeys ~lk:other* ~{lk:other*");
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "NOPERM");
	ck_redis("0", redis, "DBSIZE");
	ck_code(global_wait(a, "other", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* Taken away during a hold: good until the lease expires, and no longer. */
START_TEST(rights_that_end)
{
	int64_t done;

	host_without(NULL, "");
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("OK", redis, "ACL SETUSER poor -pexpire");
	done = ran_ns();
	lost_is_reported(a);
	ck_assert_int_lt(ran_ns() - done, LOCKSHM_MS(1100));
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_redis("OK", redis, "ACL SETUSER poor +pexpire");
	while (global_wait(a, K, LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_assert_int_lt(ran_ns() - done, LOCKSHM_SECONDS(15));
	ck_assert_int_ge(a->answer.code, 0);
}
END_TEST

START_TEST(a_wrong_password)
{
	int state, i;

	host_without(NULL, "");
	ck_redis("OK", redis, "ACL SETUSER poor resetpass >another");
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "WRONGPASS");
	ck_contains(a->answer.report.error.message, redis->uri);
	/* Nothing was sent: nothing is to be removed, and the record is free. */
	while ((state = lease_of(0, K).state) != LOCKSHM_HOST_LEASE_NONE)
		ck_assert_int_eq(state, LOCKSHM_HOST_LEASE_ACQUIRING);
	/* Each pause is longer than the last. */
	for (i = 0; i < 4; i++)
		ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_redis("OK", redis, "ACL SETUSER poor resetpass >pw");
	/* An earlier error is no result for this request. */
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* A majority that refuses is not out of reach: blocking requests get the error. */
START_TEST(refused_by_a_majority)
{
	struct lockshm_create_options options = host_options();
	struct redis *others[2];
	char uris[600];
	int i;

	for (i = 0; i < 2; i++)
		others[i] = redis_start("requirepass secret", false);
	snprintf(uris, sizeof(uris), "%s,unix://:wrong@%s,unix://:wrong@%s", redis->uri, others[0]->socket,
		 others[1]->socket);
	strcpy(options.redis, uris);
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "WRONGPASS");
	ck_redis("0", redis, "DBSIZE");
	for (i = 0; i < 4; i++)
		ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	for (i = 0; i < 2; i++) {
		ck_redis("OK", others[i], "AUTH secret");
		ck_redis("OK", others[i], "CONFIG SET requirepass wrong");
	}
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < 2; i++)
		redis_stop(others[i]);
}
END_TEST

/* ---------------------------------------------------------------- not able now */

/* No memory for anything new; held leases are kept and released. */
START_TEST(out_of_memory)
{
	int64_t end;

	own_server();
	cast("00", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("OK", redis, "CONFIG SET maxmemory 1");
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(b->answer.report.error.message, "OOM");
	ck_redis("0", redis, "EXISTS lk:other");
	for (end = now_ns() + LOCKSHM_MS(1500); now_ns() < end; pass(now_ns() + LOCKSHM_MS(10)))
		ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	redis_has("EXISTS lk:" K, "0");
	ck_redis("OK", redis, "CONFIG SET maxmemory 0");
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

static bool save_failed(void *arg)
{
	(void)arg;
	return strstr(redis_say(redis, "INFO persistence"), "rdb_last_bgsave_status:err") != NULL;
}

static bool save_worked(void *arg)
{
	(void)arg;
	return strstr(redis_say(redis, "INFO persistence"), "rdb_last_bgsave_status:ok") != NULL;
}

/* It cannot write its disk, and accepts no writes until it can. */
START_TEST(no_disk)
{
	char path[128];

	own_server_with("save 3600 1\ndbfilename dump.rdb");
	cast("01", &a, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	/* A directory in place of the file: not even root can write that. */
	snprintf(path, sizeof(path), "%.60s/dump.rdb", redis->dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	redis_say(redis, "BGSAVE");
	ck_assert(await(save_failed, NULL));
	ck_code(global_wait(c, "other", LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(c->answer.report.error.message, "MISCONF");
	lost_is_reported(a);
	ck_code(agent_release(a), LOCKSHM_LOST);
	ck_assert_int_eq(rmdir(path), 0);
	redis_say(redis, "BGSAVE");
	ck_assert(await(save_worked, NULL));
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(is_loading)
{
	struct lockshm_create_options options;

	own_server_with("key-load-delay 100\nloading-process-events-interval-bytes 1024");
	redis_say(redis, "DEBUG POPULATE 30000");
	ck_redis("OK", redis, "SAVE");
	redis_kill(redis);
	redis_restart(redis);
	options = host_options();
	host_make(0, &options);
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make(1, &options);
	a = on_host(0);
	b = on_host(1);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "LOADING");
	ck_code(agent_end(b), 0);
}
END_TEST

/* An endless script of another client, which is killed before the lease ends. */
START_TEST(is_busy)
{
	struct lockshm_create_options options;
	struct redis_conn *busy;
	const char *argv[] = { "EVAL", "while true do end", "0" };

	own_server_with("busy-reply-threshold 1");
	options = host_options();
	options.redis_ttl_ns = LOCKSHM_SECONDS(5);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	busy = conn_to(redis->uri, NULL);
	ck_assert_int_eq(redis_conn_wait_ready(busy, soon()), 0);
	ck_assert_int_eq(redis_conn_send(busy, soon(), 3, argv, NULL), 0);
	ck_assert_int_eq(redis_conn_pump(busy), 0);
	while (!strstr(redis_say(redis, "PING"), "BUSY"))
		;
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(b->answer.report.error.message, "BUSY");
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_redis("OK", redis, "SCRIPT KILL");
	while (global_wait(b, "other", LOCKSHM_EXCLUSIVE) == LOCKSHM_BRIDGE)
		ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(b->answer.code, 0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	redis_conn_free(busy);
}
END_TEST

/* Scripts are flushed all the time. */
START_TEST(forgets_its_scripts)
{
	pid_t pid;
	int i;

	cast("01", &a, &c);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		redis->say = NULL;
		for (;;)
			redis_say(redis, "SCRIPT FLUSH");
	}
	for (i = 0; i < 40; i++) {
		struct agent *agent = i % 2 ? a : c;

		ck_code(global_wait(agent, K, LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_release(agent), 0);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_uint_eq(bridge_of(0).lost + bridge_of(1).lost, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, data_of_others);
	tcase_add_test(tc, no_rights);
	tcase_add_test(tc, no_such_database);
	tcase_add_test(tc, data_of_others_in_its_other_keys);
	tcase_add_test(tc, the_rights_that_are_enough);
	tcase_add_test(tc, one_right_after_another);
	tcase_add_test(tc, no_right_to_the_key);
	tcase_add_test(tc, rights_that_end);
	tcase_add_test(tc, a_wrong_password);
	tcase_add_test(tc, refused_by_a_majority);
	tcase_add_test(tc, out_of_memory);
	tcase_add_test(tc, no_disk);
	tcase_add_test(tc, is_loading);
	tcase_add_test(tc, is_busy);
	tcase_add_test(tc, forgets_its_scripts);
}

int main(void)
{
	return hosts_main("global-refusals", add);
}
