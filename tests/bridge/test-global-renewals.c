/* SPDX-License-Identifier: MIT */
/* test-global-renewals.c - many leases of one host renewed by few scripts, and single ones that changed */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#define MANY 70 /* more than one script renews */

static lockshm_hold_t holds[MANY];

static const char *key_of(unsigned i)
{
	static char key[16];

	snprintf(key, sizeof(key), "key%u", i);
	return key;
}

/* This process holds all of them. */
static void hold_all_at(const char *uri, int64_t ttl_ns)
{
	struct lockshm_create_options options = host_options();
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	unsigned i;

	strcpy(options.redis, uri);
	options.host_leases = 128;
	options.redis_ttl_ns = ttl_ns;
	options.keys = 256;
	host_make(0, &options);
	host_make(1, &options);
	q.flags = LOCKSHM_GLOBAL;
	for (i = 0; i < MANY; i++) {
		q.key = key_of(i);
		q.key_len = strlen(q.key);
		ck_code(lockshm_acquire(hosts[0].s, &q, &holds[i]), 0);
	}
}

static bool was_renewed(void *until)
{
	return bridge_of(0).renewed >= *(const uint64_t *)until;
}

/* Each that many times. */
static void are_renewed(unsigned times)
{
	uint64_t until = bridge_of(0).renewed + times * MANY;

	ck_assert(await(was_renewed, &until));
}

static bool is_lost(void *i)
{
	return lockshm_check(&holds[*(const unsigned *)i], NULL) == LOCKSHM_LOST;
}

static void becomes_lost(unsigned i)
{
	ck_assert_msg(await(is_lost, &i), "%s is held", key_of(i));
}

/* All but those, of which the last is MANY. */
static void others_are_good(const unsigned *but)
{
	unsigned i;

	for (i = 0; i < MANY; i++) {
		if (i == *but)
			but++;
		else
			ck_code(lockshm_check(&holds[i], NULL), 0);
	}
}

static const unsigned none[] = { MANY };

/* Scripts the server has run. */
static long scripts(void)
{
	const char *info = redis_say(redis, "INFO commandstats"), *at = strstr(info, "cmdstat_evalsha:calls=");

	return at ? strtol(at + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
}

START_TEST(by_few_scripts)
{
	uint64_t renewed, commands;
	long before;
	unsigned i;

	hold_all_at(redis->uri, LOCKSHM_SECONDS(3));
	are_renewed(2); /* and by now together */
	before = scripts();
	renewed = bridge_of(0).renewed;
	commands = bridge_of(0).commands;
	are_renewed(4);
	/* Now and then one has a script of its own. */
	ck_assert_int_lt(scripts() - before, (long)(bridge_of(0).renewed - renewed) / 8);
	ck_assert_uint_lt(bridge_of(0).commands - commands, (bridge_of(0).renewed - renewed) / 8);
	others_are_good(none);
	for (i = 0; i < MANY; i++) {
		ck_redis(lease_of(0, key_of(i)).value, redis, "GET lk:%s", key_of(i));
		ck_assert_int_gt(atoi(redis_say(redis, "PTTL lk:%s", key_of(i))), 0);
		ck_code(lockshm_release(&holds[i], 0), 0);
	}
	redis_has("DBSIZE", "70"); /* tokens */
}
END_TEST

/* Tracking covers what one script has renewed, as always. */
START_TEST(each_is_watched)
{
	static const unsigned gone[] = { 0, 33, 69, MANY };
	int64_t done;
	unsigned i;

	hold_all_at(redis->uri, LOCKSHM_SECONDS(6));
	are_renewed(2);
	for (i = 0; gone[i] < MANY; i++) {
		are_renewed(1);
		redis_say(redis, "DEL lk:%s", key_of(gone[i]));
		done = ran_ns();
		becomes_lost(gone[i]);
		/* Not by the next renewal, which is later. */
		ck_assert_int_lt(ran_ns() - done, LOCKSHM_MS(1500));
	}
	others_are_good(gone);
}
END_TEST

static const char *user(const char *rights)
{
	static char uri[200];

	ck_redis("OK", redis, "ACL SETUSER deaf reset on >pw ~* +@all %s", rights);
	snprintf(uri, sizeof(uri), "unix://deaf:pw@%s", redis->socket);
	return uri;
}

/* Without invalidations: one is deleted, one another host's, one foreign data, one waited for, one has lost its record,
 * and one is shared.  None of them affects the others. */
START_TEST(each_by_itself)
{
	static const unsigned lost[] = { 3, 4, 5, MANY };
	struct agent *b;

	hold_all_at(user("resetchannels -publish -subscribe -client|tracking"), LOCKSHM_SECONDS(2));
	are_renewed(2);
	ck_redis("1", redis, "DEL lk:key3");
	ck_redis("OK", redis, "SET lk:key4 thief");
	ck_redis("1", redis, "DEL lk:key5");
	ck_redis("1", redis, "HSET lk:key5 user data");
	ck_redis("1", redis, "DEL {lk:key6}:f");
	b = on_host(1);
	global_send(b, "key7", LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:key7}:q", "1");
	becomes_lost(3);
	becomes_lost(4);
	becomes_lost(5);
	are_renewed(3); /* longer than a lease lasts */
	others_are_good(lost);
	ck_redis("0", redis, "EXISTS lk:key3");
	ck_redis("thief", redis, "GET lk:key4");
	ck_redis("data", redis, "HGET lk:key5 user");
	ck_redis(lease_of(0, "key6").value, redis, "HGET {lk:key6}:f token");
	ck_code(lockshm_release(&holds[7], 0), 0);
	ck_code(agent_end(b), 0);
}
END_TEST

/* A script is refused as a whole for the key of one lease. */
START_TEST(one_right_that_ends)
{
	static const unsigned lost[] = { 3, MANY };
	unsigned i;

	hold_all_at(user(""), LOCKSHM_SECONDS(2));
	are_renewed(2);
	ck_redis("OK", redis, "ACL SETUSER deaf resetkeys ~lk:key[4-9]* ~{lk:key[4-9]* ~lk:key[0-2]* ~{lk:key[0-2]* "
			      "~lk:key3[0-9]* ~{lk:key3[0-9]*");
	becomes_lost(3);
	for (i = 0; i < 3; i++) {
		are_renewed(1);
		others_are_good(lost);
	}
}
END_TEST

/* A command with an unknown outcome is repeated. */
START_TEST(replies_that_are_lost)
{
	struct proxy *p = proxy_start(redis, false);
	int i;

	hold_all_at(p->uri, LOCKSHM_SECONDS(4));
	for (i = 0; i < 3; i++) {
		uint64_t errors = bridge_of(0).errors;
		int64_t end;

		are_renewed(1);
		proxy_set(p, PROXY_DROP_REPLIES);
		end = ran_ns() + LOCKSHM_SECONDS(10);
		while (bridge_of(0).errors == errors)
			ck_assert_int_lt(ran_ns(), end);
		proxy_set(p, PROXY_RESET);
		proxy_set(p, PROXY_PASS);
		are_renewed(1);
		others_are_good(none);
	}
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

static bool is_ours_again(void *i)
{
	const char *key = key_of(*(const unsigned *)i);

	return strcmp(redis_say(redis, "HGET {lk:%s}:f token", key), lease_of(0, key).value) == 0;
}

/* The script for many does not read fences: a change is invalidated. */
START_TEST(a_fence_changed_by_another_program)
{
	uint64_t renewed;
	int64_t done;
	unsigned i;

	hold_all_at(redis->uri, LOCKSHM_SECONDS(30));
	renewed = bridge_of(0).renewed;
	done = ran_ns();
	for (i = 0; i < 20; i++)
		ck_redis("1", redis, i % 2 ? "DEL {lk:%s}:f" : "HDEL {lk:%s}:f token", key_of(i));
	for (i = 0; i < 20; i++)
		ck_assert_msg(await(is_ours_again, &i), "%s", key_of(i));
	/* Not by the next renewal, which is later; and without an endless exchange. */
	ck_assert_int_lt(ran_ns() - done, LOCKSHM_SECONDS(5));
	ck_assert_uint_lt(bridge_of(0).renewed - renewed, 2 * 20);
	others_are_good(none);
}
END_TEST

static bool some_are_ours_again(void *n)
{
	unsigned i, k = 0;

	for (i = 0; i < MANY; i++)
		k += is_ours_again(&i);
	return k >= *(const unsigned *)n;
}

/* Without invalidations many are renewed only if each has a fence, and some fences are read at each renewal: which ones
 * depends on how many renewals there were before, so each is changed. */
START_TEST(a_fence_changed_without_invalidation)
{
	unsigned i, some = 4;

	hold_all_at(user("-client|tracking"), LOCKSHM_SECONDS(3));
	are_renewed(1);
	for (i = 0; i < MANY; i++)
		ck_redis("1", redis, "HDEL {lk:%s}:f token", key_of(i));
	ck_assert(await(some_are_ours_again, &some));
	for (i = 0; i < 20; i++)
		ck_redis("1", redis, "DEL {lk:%s}:f", key_of(i));
	for (i = 0; i < 20; i++)
		ck_assert_msg(await(is_ours_again, &i), "%s", key_of(i));
	others_are_good(none);
}
END_TEST

#define DEAF 13

/* Servers that never reply to tracking: one time-out for all of them, once in a while. */
START_TEST(servers_without_tracking)
{
	struct proxy *p[DEAF];
	char uris[600], *at = uris;
	int i;

	at += sprintf(at, "%s", redis->uri);
	for (i = 0; i < DEAF; i++) {
		p[i] = proxy_start(redis, true);
		at += sprintf(at, ",%s", p[i]->uri);
	}
	hold_all_at(uris, LOCKSHM_SECONDS(1));
	are_renewed(2);
	for (i = 0; i < DEAF; i++)
		proxy_set(p[i], PROXY_DROP_SUBSCRIBE);
	for (i = 0; i < DEAF; i++)
		proxy_set(p[i], PROXY_RESET);
	are_renewed(9); /* three times as long as a lease lasts */
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	others_are_good(none);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, by_few_scripts);
	tcase_add_test(tc, each_is_watched);
	tcase_add_test(tc, each_by_itself);
	tcase_add_test(tc, one_right_that_ends);
	tcase_add_test(tc, replies_that_are_lost);
	tcase_add_test(tc, a_fence_changed_by_another_program);
	tcase_add_test(tc, a_fence_changed_without_invalidation);
	tcase_add_test(tc, servers_without_tracking);
}

int main(void)
{
	return hosts_main("global-renewals", add);
}
