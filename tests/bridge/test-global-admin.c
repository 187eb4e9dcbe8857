/* SPDX-License-Identifier: MIT */
/* test-global-admin.c - what an operator sees and ends of a key in Redis: remote_inspect() and remote_end() */
#define _GNU_SOURCE
#include "bridge/admin.h"
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#define PARTIES 8
#define MOMENT LOCKSHM_SECONDS(1)

static struct agent *a, *b, *c;

/* A copy of one server's struct remote_info. */
struct report {
	int code, state;
	char server[128], reason[300], name[64], type[16];
	size_t holders, waiters;
	struct remote_party party[PARTIES], intent;
	char value[PARTIES][128], intent_value[128];
	bool has_intent;
	uint64_t next_token;
};

static struct report seen[SERVERS];
static size_t n_seen;

static void copy_party(const struct remote_party *from, struct remote_party *to, char value[128])
{
	*to = *from;
	ck_assert_uint_lt(from->value_len, 128);
	memcpy(value, from->value, from->value_len);
	value[from->value_len] = '\0';
}

static int keep(const struct remote_info *info, void *arg)
{
	struct report *to = &seen[n_seen++];
	size_t i;

	(void)arg;
	memset(to, 0, sizeof(*to));
	to->code = info->code;
	snprintf(to->server, sizeof(to->server), "%s", info->server);
	snprintf(to->reason, sizeof(to->reason), "%s", info->reason);
	if (info->code)
		return 0;
	snprintf(to->name, sizeof(to->name), "%.*s", (int)info->name_len, info->name);
	snprintf(to->type, sizeof(to->type), "%s", info->type);
	to->state = info->state;
	to->holders = info->holders;
	to->waiters = info->waiters;
	to->next_token = info->next_token;
	ck_assert_uint_le(info->holders + info->waiters, PARTIES);
	for (i = 0; i < info->holders + info->waiters; i++)
		copy_party(info->parties[i], &to->party[i], to->value[i]);
	to->has_intent = info->mark != NULL;
	if (info->mark)
		copy_party(info->mark, &to->intent, to->intent_value);
	return 0;
}

static const struct report *inspect(unsigned i, const char *key)
{
	struct lockshm_error error = { 0 };

	n_seen = 0;
	ck_code(remote_inspect(hosts[i].s, key, strlen(key), MOMENT, keep, NULL, &error), 0);
	ck_assert_str_eq(error.message, "");
	return seen;
}

static int end_remote(unsigned i, const char *key, const char *value, struct lockshm_error *error)
{
	return remote_end(hosts[i].s, key, strlen(key), value, strlen(value), MOMENT, error);
}

static void is_held_by(const struct remote_party *p, unsigned host, int mode, bool here)
{
	ck_assert_str_eq(p->host, bridge_of(host).host);
	ck_assert_int_eq(p->this_host, here);
	ck_assert_int_eq(p->mode, mode);
	ck_assert_int_gt(p->expires_in_ns, 0);
	ck_assert_int_le(p->expires_in_ns, LOCKSHM_SECONDS(2)); /* a lease lasts one, a waiter counts for two */
}

/* ---------------------------------------------------------------- inspect */

START_TEST(a_free_key)
{
	const struct report *s;

	hosts_make(1);
	s = inspect(0, K);
	ck_assert_uint_eq(n_seen, 1);
	ck_assert_int_eq(s->code, 0);
	ck_assert_str_eq(s->reason, "");
	ck_assert_int_eq(s->state, REMOTE_FREE);
	ck_assert_str_eq(s->name, "lk:" K);
	ck_contains(s->server, redis->socket);
	ck_assert_uint_eq(s->holders + s->waiters, 0);
	ck_assert(!s->has_intent);
	ck_assert_uint_eq(s->next_token, 0);
	ck_redis("0", redis, "DBSIZE");
}
END_TEST

START_TEST(holders_and_waiters)
{
	const struct report *s;
	char queue[64];

	cast("012", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	global_send(c, K, LOCKSHM_SHARED);
	redis_has("ZCARD {lk:" K "}:q", "2");
	snprintf(queue, sizeof(queue), "[X:%s S:%s]", bridge_of(1).host, bridge_of(2).host);
	ck_redis(queue, redis, "ZRANGE {lk:" K "}:q 0 -1"); /* the hosts' names, and nothing else */
	s = inspect(1, K);
	ck_assert_int_eq(s->state, REMOTE_EXCLUSIVE);
	ck_assert_uint_eq(s->holders, 1);
	ck_assert_str_eq(s->value[0], lease_of(0, K).value);
	is_held_by(&s->party[0], 0, LOCKSHM_EXCLUSIVE, false);
	ck_assert_uint_eq(s->waiters, 2);
	is_held_by(&s->party[1], 1, LOCKSHM_EXCLUSIVE, true);
	is_held_by(&s->party[2], 2, LOCKSHM_SHARED, false);
	ck_assert_uint_gt(s->next_token, a->answer.token);
	ck_assert(!s->has_intent);
	/* Inspected from the host that holds it. */
	ck_assert_int_eq(inspect(0, K)->party[0].this_host, 1);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	/* The same through a read-only handle. */
	ck_code(lockshm_open(&seg, hosts[2].name, LOCKSHM_OPEN_READ_ONLY, NULL), 0);
	n_seen = 0;
	ck_code(remote_inspect(seg, K, strlen(K), MOMENT, keep, NULL, NULL), 0);
	ck_assert_int_eq(seen[0].party[2].this_host, 1);
	lockshm_close(seg);
}
END_TEST

START_TEST(readers_and_the_intent_of_a_writer)
{
	const struct report *s;
	size_t i, ours = 0;

	cast("012", &a, &b, &c);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_redis("1", redis, "SADD lk:" K " stranger");
	global_send(c, K, LOCKSHM_EXCLUSIVE);
	redis_has("EXISTS lk:" K ":lock-intent", "1");
	s = inspect(0, K);
	ck_assert_int_eq(s->state, REMOTE_SHARED);
	ck_assert_uint_eq(s->holders, 3);
	for (i = 0; i < 3; i++)
		if (strcmp(s->value[i], "stranger") == 0) {
			ck_assert_str_eq(s->party[i].host, "");
			ck_assert_int_eq(s->party[i].this_host, 0);
		} else {
			ours += s->party[i].this_host;
			is_held_by(&s->party[i], s->party[i].this_host ? 0 : 1, LOCKSHM_SHARED, s->party[i].this_host);
		}
	ck_assert_uint_eq(ours, 1);
	ck_assert(s->has_intent);
	ck_assert_str_eq(s->intent_value, bridge_of(2).host);
	is_held_by(&s->intent, 2, LOCKSHM_EXCLUSIVE, false);
}
END_TEST

START_TEST(ends_beyond_all_times)
{
	const struct report *s;
	size_t i;

	hosts_make(1);
	ck_redis("4", redis, "SADD lk:" K " late endless early none");
	ck_redis("3", redis, "ZADD {lk:" K "}:rx 1e300 late inf endless -1e300 early");
	s = inspect(0, K);
	ck_assert_uint_eq(s->holders, 4);
	for (i = 0; i < 4; i++)
		if (strcmp(s->value[i], "early") == 0)
			ck_assert_int_lt(s->party[i].expires_in_ns, 0);
		else
			ck_assert_msg(s->party[i].expires_in_ns == LOCKSHM_FOREVER, "%s: %lld", s->value[i],
				      (long long)s->party[i].expires_in_ns);
}
END_TEST

START_TEST(other_programs)
{
	const struct report *s;

	hosts_make(1);
	/* What looks like a host's value is no host's unless the fence remembers it. */
	ck_redis("OK", redis, "SET lk:" K " 00112233445566778899aabbccddeeff");
	s = inspect(0, K);
	ck_assert_int_eq(s->state, REMOTE_EXCLUSIVE);
	ck_assert_str_eq(s->party[0].host, "");
	ck_assert_int_eq(s->party[0].expires_in_ns, LOCKSHM_FOREVER);
	ck_assert_str_eq(s->value[0], "00112233445566778899aabbccddeeff");
	ck_redis("OK", redis, "SET lk:" K " thief PX 5000");
	s = inspect(0, K);
	ck_assert_int_gt(s->party[0].expires_in_ns, LOCKSHM_SECONDS(3));
	ck_assert_int_le(s->party[0].expires_in_ns, LOCKSHM_SECONDS(5));
	ck_redis("1", redis, "DEL lk:" K);
	ck_redis("1", redis, "HSET lk:" K " user data");
	s = inspect(0, K);
	ck_assert_int_eq(s->state, REMOTE_OTHER);
	ck_assert_str_eq(s->type, "hash");
	ck_assert_uint_eq(s->holders, 0);
}
END_TEST

/* ---------------------------------------------------------------- Redis is away, slow, refuses */

START_TEST(a_server_that_is_away)
{
	int64_t begun, ran;

	own_server();
	hosts_make(1);
	redis_freeze(redis);
	begun = now_ns();
	ran = ran_ns();
	ck_assert_int_eq(inspect(0, K)->code, LOCKSHM_BRIDGE);
	ck_assert_int_ge(now_ns() - begun, MOMENT);
	ck_assert_int_lt(ran_ns() - ran, MOMENT + LOCKSHM_MS(500));
	ck_contains(seen->reason, redis->socket);
	redis_thaw(redis);
	redis_kill(redis);
	ran = ran_ns();
	ck_assert_int_eq(inspect(0, K)->code, LOCKSHM_BRIDGE);
	ck_assert_int_lt(ran_ns() - ran, LOCKSHM_MS(500)); /* connection refused: no wait */
	ck_contains(seen->reason, "cannot connect");
	ck_code(end_remote(0, K, "value", NULL), LOCKSHM_BRIDGE);
}
END_TEST

START_TEST(a_server_that_refuses)
{
	struct lockshm_create_options options = host_options();
	struct lockshm_error error;
	char uri[200];

	snprintf(uri, sizeof(uri), "unix://blind:pw@%s", redis->socket);
	strcpy(options.redis, uri);
	host_make(0, &options);
	ck_redis("OK", redis, "ACL SETUSER blind reset on >pw ~* &* +@all -eval -evalsha");
	ck_assert_int_eq(inspect(0, K)->code, LOCKSHM_BRIDGE);
	ck_contains(seen->reason, "NOPERM");
	ck_code(end_remote(0, K, "value", &error), LOCKSHM_BRIDGE);
	ck_contains(error.message, "NOPERM");
	ck_redis("1", redis, "ACL DELUSER blind");
	ck_assert_int_eq(inspect(0, K)->code, LOCKSHM_BRIDGE);
	ck_contains(seen->reason, "WRONGPASS");
}
END_TEST

/* ---------------------------------------------------------------- end */

START_TEST(ended_for_a_host)
{
	struct lockshm_error error;
	char value[128];
	int64_t done;

	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	snprintf(value, sizeof(value), "%.100s", inspect(1, K)->value[0]);
	/* Not the value that was inspected: it stays. */
	ck_code(end_remote(1, K, "something else", &error), LOCKSHM_NOT_HELD);
	ck_contains(error.message, value);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	done = ran_ns();
	ck_code(end_remote(1, K, value, &error), 0);
	ck_redis("0", redis, "EXISTS lk:" K);
	lost_is_reported(a);
	ck_assert_int_lt(ran_ns() - done, LOCKSHM_MS(250)); /* the next renewal would be due after 333 ms */
	ck_code(end_remote(1, K, value, &error), LOCKSHM_NOT_HELD);
	ck_contains(error.message, "it is free");
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(b->answer.token, a->answer.token);
	/* Nor is the next holder's value. */
	ck_code(end_remote(1, K, value, &error), LOCKSHM_NOT_HELD);
	ck_code(agent_call(b, AGENT_CHECK), 0);
}
END_TEST

START_TEST(the_waiter_is_next)
{
	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(end_remote(1, K, inspect(1, K)->value[0], NULL), 0);
	ck_code(agent_end(b), 0);
	lost_is_reported(a);
	ck_assert_uint_gt(b->answer.token, a->answer.token);
}
END_TEST

/* Without client-side tracking, long before the next renewal. */
START_TEST(the_host_notices_without_tracking)
{
	struct lockshm_create_options options = host_options();
	char uri[200];
	int64_t done;

	snprintf(uri, sizeof(uri), "unix://untracked:pw@%s", redis->socket);
	ck_redis("OK", redis, "ACL SETUSER untracked reset on >pw ~* &* +@all -client|tracking");
	strcpy(options.redis, uri);
	options.redis_ttl_ns = LOCKSHM_SECONDS(60);
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	done = ran_ns();
	ck_code(end_remote(0, K, inspect(0, K)->value[0], NULL), 0);
	lost_is_reported(a);
	ck_assert_int_lt(ran_ns() - done, LOCKSHM_SECONDS(10)); /* the next renewal would be due after 20 s */
	ck_redis("1", redis, "ACL DELUSER untracked");
}
END_TEST

START_TEST(one_reader_of_several)
{
	cast("01", &a, &b);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_redis("1", redis, "SADD lk:" K " stranger");
	ck_code(end_remote(0, K, "stranger", NULL), 0);
	ck_redis("2", redis, "SCARD lk:" K);
	ck_code(end_remote(0, K, lease_of(1, K).value, NULL), 0);
	lost_is_reported(b);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_redis("1", redis, "SCARD lk:" K);
}
END_TEST

START_TEST(of_another_program)
{
	struct lockshm_error error;

	cast("0", &a);
	ck_redis("OK", redis, "SET lk:" K " thief");
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(end_remote(0, K, "thie", &error), LOCKSHM_NOT_HELD);
	ck_contains(error.message, "another program has it as thief");
	ck_code(end_remote(0, K, "thief", &error), 0);
	ck_code(agent_end(a), 0);
}
END_TEST

START_TEST(what_is_no_lock_is_left_alone)
{
	struct lockshm_error error;

	hosts_make(1);
	ck_redis("1", redis, "HSET lk:" K " user data");
	ck_code(end_remote(0, K, "data", &error), LOCKSHM_BRIDGE);
	ck_contains(error.message, "not a lock");
	ck_redis("data", redis, "HGET lk:" K " user");
}
END_TEST

/* ---------------------------------------------------------------- several servers */

/* A majority is enough to hold it; the last server may get it later. */
static bool all_have_it(void *arg)
{
	size_t i, n = 0;

	for (i = 0; i < SERVERS; i++)
		n += strcmp(redis_say(servers[i], "GET lk:" K), arg) == 0;
	return n == SERVERS;
}

START_TEST(each_server_of_a_quorum)
{
	struct lockshm_error error;
	char value[128];
	size_t i;

	hosts_on_three(2, LOCKSHM_SECONDS(1));
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	snprintf(value, sizeof(value), "%.100s", lease_of(0, K).value);
	ck_assert(await(all_have_it, value));
	proxy_set(proxies[1], PROXY_BLACKHOLE);
	(void)inspect(1, K);
	ck_assert_uint_eq(n_seen, 3);
	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(seen[i].code, i == 1 ? LOCKSHM_BRIDGE : 0);
		ck_contains(seen[i].server, proxies[i]->socket);
	}
	ck_assert_str_eq(seen[0].value[0], value);
	ck_assert_str_eq(seen[2].value[0], value);
	ck_assert_str_eq(seen[2].party[0].host, bridge_of(0).host);
	/* A value that a majority lost cannot be renewed. */
	ck_code(end_remote(1, K, "something else", &error), LOCKSHM_NOT_HELD);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(end_remote(1, K, value, &error), 0);
	lost_is_reported(a);
	proxy_set(proxies[0], PROXY_BLACKHOLE);
	ck_code(end_remote(1, K, value, &error), LOCKSHM_BRIDGE);
	proxies_set(PROXY_PASS);
}
END_TEST

START_TEST(of_several_servers_the_one_that_has_it)
{
	struct lockshm_create_options options = host_options();
	struct redis *second = redis_start(NULL, false);
	char uris[300], key[16];
	int i, n = 0;

	snprintf(uris, sizeof(uris), "%s,%s", redis->uri, second->uri);
	strcpy(options.redis, uris);
	host_make(0, &options);
	a = on_host(0);
	for (i = 0; i < 12; i++) {
		struct agent_command args;

		snprintf(key, sizeof(key), "key%d", i);
		args = global_command(key, LOCKSHM_EXCLUSIVE);
		args.hold = i;
		ck_code(agent_do(a, args), 0);
		ck_assert_int_eq(inspect(0, key)->state, REMOTE_EXCLUSIVE);
		ck_assert_uint_eq(n_seen, 1);
		n += strstr(seen->server, second->socket) != NULL;
	}
	ck_assert_int_gt(n, 0);
	ck_assert_int_lt(n, 12);
	redis_stop(second);
}
END_TEST

/* ---------------------------------------------------------------- wrong calls */

static int end_at_once(const struct remote_info *info, void *arg)
{
	(void)info;
	(void)arg;
	return 7;
}

START_TEST(wrong_calls)
{
	struct lockshm_create_options plain = LOCKSHM_CREATE_INIT;
	char key[LOCKSHM_GLOBAL_KEY_MAX + 1];
	struct lockshm_error error;

	memset(key, 'k', sizeof(key));
	hosts_make(1);
	host_make_bare(1, &plain);
	ck_code(remote_inspect(hosts[0].s, NULL, 1, MOMENT, keep, NULL, &error), LOCKSHM_INVALID);
	ck_code(remote_inspect(hosts[0].s, K, 0, MOMENT, keep, NULL, &error), LOCKSHM_INVALID);
	ck_code(remote_inspect(hosts[0].s, K, 1, 0, keep, NULL, &error), LOCKSHM_INVALID);
	ck_code(remote_inspect(hosts[0].s, K, 1, LOCKSHM_FOREVER, keep, NULL, &error), LOCKSHM_INVALID);
	ck_code(remote_inspect(hosts[1].s, K, 1, MOMENT, keep, NULL, &error), LOCKSHM_INVALID);
	ck_contains(error.message, "--redis");
	ck_code(remote_inspect(hosts[0].s, key, sizeof(key), MOMENT, keep, NULL, &error), LOCKSHM_KEY_TOO_LONG);
	ck_code(remote_end(hosts[0].s, key, sizeof(key), "v", 1, MOMENT, &error), LOCKSHM_KEY_TOO_LONG);
	ck_code(remote_inspect(hosts[0].s, K, 1, MOMENT, end_at_once, NULL, NULL), 7);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_free_key);
	tcase_add_test(tc, holders_and_waiters);
	tcase_add_test(tc, readers_and_the_intent_of_a_writer);
	tcase_add_test(tc, ends_beyond_all_times);
	tcase_add_test(tc, other_programs);
	tcase_add_test(tc, a_server_that_is_away);
	tcase_add_test(tc, a_server_that_refuses);
	tcase_add_test(tc, ended_for_a_host);
	tcase_add_test(tc, the_waiter_is_next);
	tcase_add_test(tc, the_host_notices_without_tracking);
	tcase_add_test(tc, one_reader_of_several);
	tcase_add_test(tc, of_another_program);
	tcase_add_test(tc, what_is_no_lock_is_left_alone);
	tcase_add_test(tc, each_server_of_a_quorum);
	tcase_add_test(tc, of_several_servers_the_one_that_has_it);
	tcase_add_test(tc, wrong_calls);
}

int main(void)
{
	return hosts_main("global-operator", add);
}
