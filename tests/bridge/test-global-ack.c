/* SPDX-License-Identifier: MIT */
/*
 * test-global-ack.c - lockshm-bridge ack, while a lease goes on, ends, or servers fall silent
 *
 * The test plays the hosts at each of three servers.  The program is behind proxies, which let it make as many connections
 * as it needs for its first look, or for that and the acknowledgement; then it waits for the test.
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "redis-support/peer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/daemon.h"

static struct peer *host[SERVERS]; /* one host, at each server */
static struct redis_keys names;
static int64_t clock_us, first, second; /* the last tokens of two leases */
static pid_t program;

static const char *said(void)
{
	static char text[1000];
	char path[100];
	FILE *file;

	snprintf(path, sizeof(path), "%s/ack", redis->dir);
	file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

static void ack_starts(void)
{
	const char *path = getenv("BRIDGE_PROGRAM");
	char out[100];

	snprintf(out, sizeof(out), "%s/ack", redis->dir);
	program = fork();
	ck_assert_int_ge(program, 0);
	if (program > 0)
		return;
	dup2(open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
	dup2(1, 2);
	execl(path ? path : "./lockshm-bridge", "lockshm-bridge", "ack", "--credentials", hosts[0].credentials,
	      hosts[0].name, K, (char *)NULL);
	_exit(127);
}

static int ack_ends(void)
{
	int status;

	ck_assert_int_eq(waitpid(program, &status, 0), program);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Its last token: the same at all servers, as a majority's. */
static int64_t acquires(void)
{
	int64_t last = 0;
	int i;

	clock_us += 1000000;
	new_value(host[0]);
	for (i = 0; i < SERVERS; i++) {
		memcpy(host[i]->value, host[0]->value, sizeof(host[0]->value));
		host[i]->args.clock_us = clock_us;
		ck_status(acquire_x(host[i]), REDIS_GRANTED);
		ck_assert(host[i]->op.reply.noted);
		last = host[i]->op.reply.fence + host[i]->args.stride - 1;
	}
	return last;
}

static void closes(const char *how, int64_t last)
{
	int i;

	for (i = 0; i < SERVERS; i++) {
		host[i]->args.close = how;
		host[i]->args.last = last;
		snprintf(host[i]->args.how, sizeof(host[i]->args.how), *how == 'd' ? "d4711" : "%lld", (long long)first);
		(void)release(host[i]);
	}
}

static void is_acknowledged(int64_t last)
{
	char text[32];
	int i;

	snprintf(text, sizeof(text), "%lld", (long long)last);
	for (i = 0; i < SERVERS; i++)
		ck_redis(text, servers[i], "HGET {lk:" K "}:f good");
}

/* A holder died, and the next has the key. */
static void a_lease_goes_on(void)
{
	first = acquires();
	closes("d", first);
	second = acquires();
	ck_assert_int_eq(host[0]->op.reply.bad, first);
}

static void admit(int n)
{
	int i;

	for (i = 0; i < SERVERS; i++)
		proxy_admit(proxies[i], n);
}

static bool all_wait(void *unused)
{
	int i;

	(void)unused;
	for (i = 0; i < SERVERS && proxy_set(proxies[i], PROXY_WAITING); i++)
		;
	return i == SERVERS;
}

/* Where the program waits.  False: it has not waited that long, or the machine was stopped for as long as it does. */
static int64_t since;

static void waits_after(int connections)
{
	admit(connections);
	since = now_ns();
	ack_starts();
	ck_assert_msg(await(all_wait, NULL), "%s", said());
}

static bool machine_was_stopped(void)
{
	return now_ns() - since >= REMOTE_TIMEOUT;
}

/* One of them has lost the lock of the lease that goes on, and has its note: it takes that for an end. */
START_TEST(a_server_has_lost_the_lock)
{
	a_lease_goes_on();
	ck_redis("1", servers[_i], "DEL lk:" K);
	ack_starts();
	ck_assert_msg(ack_ends() == 0, "%s", said());
	ck_contains(said(), "cleared in Redis: a holder died: host ");
	is_acknowledged(first);
	closes("d", second);
	(void)acquires();
	ck_assert_int_eq(host[0]->op.reply.bad, second);
	ck_assert_int_eq(host[0]->op.reply.good, first);
}
END_TEST

/* It was told and has not acknowledged: its release keeps that under its own number, above that of the look. */
START_TEST(the_lease_ends_after_the_look)
{
	int status;

	do {
		a_lease_goes_on();
		waits_after(1);
		closes("k", second);
		admit(-1);
		status = ack_ends();
	} while (machine_was_stopped());
	ck_assert_int_eq(status, 1);
	ck_contains(said(), "it is damaged still, or again");
	is_acknowledged(first);
	ack_starts();
	ck_assert_int_eq(ack_ends(), 0);
	is_acknowledged(second);
	ack_starts();
	ck_assert_int_eq(ack_ends(), 0);
	ck_contains(said(), "no damage in Redis");
}
END_TEST

/* The acknowledgement has reached all.  That it is seen needs a majority. */
START_TEST(servers_fall_silent_after_it)
{
	int i, status;

	do {
		a_lease_goes_on();
		closes("k", second);
		waits_after(2);
		for (i = 0; i < SERVERS; i++)
			proxy_set(proxies[i], i < _i ? PROXY_REFUSE : PROXY_PASS);
		status = ack_ends();
	} while (machine_was_stopped());
	ck_contains(said(), "cleared in Redis: a holder died");
	is_acknowledged(second);
	ck_assert_msg(status == (_i < 2 ? 0 : 1), "%d, %s", status, said());
	if (_i == 2)
		ck_contains(said(), proxies[1]->uri);
}
END_TEST

static void meet(void)
{
	struct lockshm_create_options options = host_options();
	int i;

	servers_start(SERVERS);
	proxies_start(SERVERS);
	strcpy(options.redis, proxies_uris());
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	host_make_bare(0, &options);
	ck_code(redis_keys_make(&names, REDIS_KEYS_SINGLE, "lk:", K, strlen(K), NULL), 0);
	/* Ahead of the servers' clocks, so that all give the same tokens. */
	clock_us = strtoll(redis_say(redis, "TIME") + 1, NULL, 10) * 1000000 + INT64_C(3600000000);
	for (i = 0; i < SERVERS; i++) {
		host[i] = peer_at(servers[i]->uri);
		host[i]->host = host[0]->host;
		host[i]->keys = &names;
		host[i]->args.note = 1;
	}
}

static void part(void)
{
	peers_end();
	redis_keys_free(&names);
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, meet, part);
	tcase_add_loop_test(tc, a_server_has_lost_the_lock, 0, SERVERS);
	tcase_add_test(tc, the_lease_ends_after_the_look);
	tcase_add_loop_test(tc, servers_fall_silent_after_it, 1, 3);
}

int main(void)
{
	return hosts_main("global-ack", add);
}
