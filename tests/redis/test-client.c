/* SPDX-License-Identifier: MIT */
/* test-client.c - several servers in one round: how often servers that do not reply are tried, and waited for */
#define _GNU_SOURCE
#include "redis-support/redis.h"
#include "support/stalls.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "redis/client.h"
#include "redis/nodes.h"
#include "segment/layout.h"

#define N_SERVERS 2
#define COMMANDS 90
#define BATCH 64 /* as in redis/client.c */
#define TTL_MS 60000

static struct redis *at[N_SERVERS];
static struct proxy *proxies[N_SERVERS];
static struct redis_client *net;
static struct redis_keys keys[COMMANDS];
static struct redis_command cmds[COMMANDS];
static size_t n;

/* Two servers, each through a proxy. */
static void servers(void)
{
	char uris[REDIS_SERVERS_BYTES] = "";
	struct redis_settings settings = { .servers = uris, .host = "0123456789abcdef", .ttl_ms = TTL_MS };
	unsigned i;

	for (i = 0; i < N_SERVERS; i++) {
		at[i] = i ? redis_start(NULL, false) : redis;
		proxies[i] = proxy_start(at[i], false);
		if (i)
			strcat(uris, ",");
		strcat(uris, proxies[i]->uri);
	}
	ck_code(redis_client_new(&net, &settings, NULL), 0);
	n = 0;
}

static void end(void)
{
	redis_client_free(net);
	redis_stop(at[1]);
	while (n)
		redis_keys_free(&keys[--n]);
}

/* About a key of that server. */
static struct redis_command *add_command(enum redis_script script, size_t server)
{
	static const char *const values[N_SERVERS] = { "0123456789abcdef0000000000000000",
							  "0123456789abcdef0000000000000001" };
	static unsigned number;
	struct redis_command *cmd = &cmds[n];
	char name[16];

	ck_assert_uint_lt(n, COMMANDS);
	do {
		snprintf(name, sizeof(name), "key%u", number++);
		redis_keys_free(&keys[n]);
		ck_code(redis_keys_make(&keys[n], REDIS_KEYS_SINGLE, "lk:", name, strlen(name), NULL), 0);
	} while (redis_server_of(&keys[n], N_SERVERS) != server);
	memset(cmd, 0, sizeof(*cmd));
	cmd->script = script;
	cmd->exclusive = true;
	cmd->keys = &keys[n++];
	cmd->sent_at = redis_now();
	cmd->args.host = "0123456789abcdef";
	cmd->args.value = values[server];
	cmd->args.ttl_ms = TTL_MS;
	cmd->args.stride = script == REDIS_ACQUIRE_X ? 8 : 0;
	cmd->args.waiter_ttl_ms = 1000;
	cmd->args.flags = "t";
	return cmd;
}

/* Of a key that was acquired; @plain: by the script for many leases, if there are more. */
static void renew(size_t i, bool plain)
{
	cmds[i].script = REDIS_RENEW;
	cmds[i].args.stride = 0;
	cmds[i].plain = plain;
	cmds[i].batched = cmds[i].unsent = false;
}

/* Connections that the server has accepted. */
static int connections(size_t server)
{
	const char *info = redis_say(at[server], "INFO stats"), *found = strstr(info, "total_connections_received:");

	ck_assert_ptr_nonnull(found);
	return atoi(strchr(found, ':') + 1);
}

static void pass_ns(int64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&ts, NULL);
}

/* Longer than the first back-off. */
#define REST REDIS_MS(60)

/* While it backs off its commands fail at once, with the error and the time of the attempt before. */
START_TEST(not_tried_while_it_backs_off)
{
	char why[sizeof(cmds[0].why)];
	int64_t tried, failed;
	int before;

	servers();
	add_command(REDIS_ACQUIRE_X, 1);
	proxy_set(proxies[1], PROXY_BLACKHOLE);
	before = connections(1);
	client_run(net, cmds, n, REDIS_MS(100));
	ck_code(cmds[0].code, REDIS_UNREACHABLE);
	ck_assert_int_eq(connections(1), before + 1);
	memcpy(why, cmds[0].why, sizeof(why));
	tried = cmds[0].sent_at;
	failed = redis_now();
	client_run(net, cmds, n, REDIS_MS(100));
	if (redis_now() - failed < REST / 2)
		ck_assert_int_eq(connections(1), before + 1);
	ck_assert_str_eq(cmds[0].why, why);
	ck_assert(cmds[0].unsent);
	ck_assert_int_ge(cmds[0].sent_at, tried);
	proxy_set(proxies[1], PROXY_PASS);
	pass_ns(REST);
	client_run(net, cmds, n, REDIS_MS(2000));
	ck_code(cmds[0].code, 0);
	end();
}
END_TEST

/*
 * One server is silent from the script for many on, the other from the next batch: at the end of that the first one's
 * back-off is over.
 */
START_TEST(a_silent_server_is_not_tried_again)
{
	const size_t held = 2 + BATCH;
	struct redis_command *last;
	int before;
	size_t i;

	servers();
	for (i = 0; i < held; i++)
		add_command(REDIS_ACQUIRE_X, i >= 2);
	client_run(net, cmds, n, REDIS_MS(2000));
	for (i = 0; i < held; i++) {
		ck_code(cmds[i].code, 0);
		ck_assert_int_eq(cmds[i].reply.status, REDIS_GRANTED);
		renew(i, i < 2);
	}
	last = add_command(REDIS_ACQUIRE_X, 0);
	proxy_set(proxies[0], PROXY_BLACKHOLE);
	proxy_set(proxies[1], PROXY_BLACKHOLE);
	before = connections(0);
	client_run(net, cmds, n, REDIS_MS(200));
	for (i = 0; i < held; i++)
		ck_code(cmds[i].code, REDIS_UNKNOWN);
	ck_code(last->code, REDIS_UNKNOWN);
	ck_assert_int_eq(connections(0), before);
	proxy_set(proxies[0], PROXY_PASS);
	proxy_set(proxies[1], PROXY_PASS);
	pass_ns(REST);
	for (i = 0; i < held; i++)
		renew(i, i < 2);
	client_run(net, cmds, n, REDIS_MS(2000));
	for (i = 0; i < n; i++)
		ck_code(cmds[i].code, 0);
	end();
}
END_TEST

/* Though the commands do not fit into one batch, and none is a renewal. */
START_TEST(all_are_connected_to_at_once)
{
	const int64_t io = REDIS_MS(1000);
	int64_t begun;
	size_t i;

	servers();
	for (i = 0; i < COMMANDS; i++)
		add_command(REDIS_ACQUIRE_X, i >= COMMANDS - 10);
	proxy_set(proxies[0], PROXY_BLACKHOLE);
	proxy_set(proxies[1], PROXY_BLACKHOLE);
	begun = ran_ns();
	client_run(net, cmds, n, io);
	ck_assert_int_lt(ran_ns() - begun, 2 * io);
	for (i = 0; i < COMMANDS; i++)
		ck_code(cmds[i].code, REDIS_UNREACHABLE);
	end();
}
END_TEST

/* A connection closed by a restart is noticed before a command is sent. */
START_TEST(a_restarted_server_is_used)
{
	size_t i;

	servers();
	add_command(REDIS_ACQUIRE_X, 1);
	add_command(REDIS_ACQUIRE_X, 1);
	add_command(REDIS_ACQUIRE_X, 0);
	client_run(net, cmds, n, REDIS_MS(2000));
	redis_kill(at[1]);
	redis_restart(at[1]);
	for (i = 0; i < n; i++)
		renew(i, true);
	client_run(net, cmds, n, REDIS_MS(2000));
	for (i = 0; i < n; i++)
		ck_code(cmds[i].code, 0);
	ck_assert_int_eq(cmds[0].reply.status, REDIS_ABSENT);
	ck_assert_int_eq(cmds[2].reply.status, REDIS_DONE);
	end();
}
END_TEST

#define CHANNEL "lockshm:0123456789abcdef"
#define HINTS 100

static bool is_subscribed(size_t server)
{
	return strcmp(redis_say(at[server], "PUBSUB NUMSUB " CHANNEL), "[" CHANNEL " 1]") == 0;
}

/* Both servers send hints from now on. */
static void listens(void)
{
	while (!is_subscribed(0) || !is_subscribed(1) || !redis_client_tracks(net)) {
		redis_client_step(net, REDIS_MS(2000));
		redis_client_wait(net, redis_now() + REDIS_MS(10));
	}
}

/* That many arrive, each with the name. */
static void hints_come(size_t server, unsigned count, const char *name)
{
	char hint[100];
	long before = proxy_set(proxies[server], PROXY_COUNT);
	unsigned i;

	snprintf(hint, sizeof(hint), "*3\r\n$7\r\nmessage\r\n$24\r\n" CHANNEL "\r\n$%zu\r\n%s\r\n", strlen(name), name);
	for (i = 0; i < count; i++)
		ck_redis("1", at[server], "PUBLISH " CHANNEL " %s", name);
	while (proxy_set(proxies[server], PROXY_COUNT) < before + (long)(count * strlen(hint)))
		;
}

/* One server may not hide the hints of the others behind its own. */
START_TEST(hints_are_taken_from_the_servers_in_turn)
{
	const char *key = "";
	size_t len = 0;
	unsigned i;

	servers();
	add_command(REDIS_ACQUIRE_X, 0);
	add_command(REDIS_ACQUIRE_X, 1);
	client_run(net, cmds, n, REDIS_MS(2000));
	listens();
	while (redis_client_hint(net, &key, &len) != REDIS_HINT_NONE)
		;
	hints_come(0, HINTS, "one");
	hints_come(1, 1, "other");
	for (i = 0; i < HINTS && (len != 5 || memcmp(key, "other", 5) != 0); i++)
		ck_assert_int_eq(redis_client_hint(net, &key, &len), REDIS_HINT_NOTIFIED);
	ck_assert_uint_lt(i, HINTS);
	end();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, not_tried_while_it_backs_off);
	tcase_add_test(tc, a_silent_server_is_not_tried_again);
	tcase_add_test(tc, all_are_connected_to_at_once);
	tcase_add_test(tc, a_restarted_server_is_used);
	tcase_add_test(tc, hints_are_taken_from_the_servers_in_turn);
}

int main(void)
{
	return redis_main("bridge-net", add);
}
