/* SPDX-License-Identifier: MIT */
/*
 * test-global-pipeline.c - commands of several keys are under way at once: replies that are lost or late, servers that
 * stop, leaders that end meanwhile, and many that wait for a silent server
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "support/loops.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "redis/names.h"
#include "redis/nodes.h"

#define X LOCKSHM_EXCLUSIVE
#define KEYS 3
#define TRIES 40 /* until the machine is quick enough for what a case has to see */
#define MANY 1000

static const char *const keys[KEYS] = { "one", "two", "three" };
static struct agent *own[KEYS], *rival;
static struct proxy *proxy;
static struct task t[MANY];

/* Loops run each case with one server, and with a majority of three. */
static void spoil(enum proxy_fault fault)
{
	if (proxy)
		proxy_set(proxy, fault);
	else
		proxies_set(fault);
}

static void one_server(int64_t ttl_ns)
{
	struct lockshm_create_options options = host_options();

	proxy = proxy_start(redis, false);
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	options.redis_ttl_ns = ttl_ns;
	host_make(1, &options);
	strcpy(options.redis, proxy->uri);
	host_make(0, &options);
}

/* Host 0 connects through proxies; an agent for each key. */
static void hosts_make_here(bool majority, int64_t ttl_ns)
{
	unsigned i;

	if (majority)
		hosts_on_three(2, ttl_ns);
	else
		one_server(ttl_ns);
	for (i = 0; i < KEYS; i++)
		own[i] = on_host(0);
	rival = on_host(1);
}

static void request(unsigned i)
{
	global_send(own[i], keys[i], X);
	lease_becomes(0, keys[i], LOCKSHM_HOST_LEASE_ACQUIRING);
}

static bool in_redis(unsigned i)
{
	return strcmp(redis_say(redis, "EXISTS lk:%s", keys[i]), "1") == 0;
}

/* Waits for the command about a key; false = its connection was lost before. */
static bool comes(unsigned i)
{
	int64_t end = now_ns() + LOCKSHM_MS(300);

	while (!in_redis(i) && now_ns() < end)
		pass(now_ns() + LOCKSHM_MS(1));
	return in_redis(i);
}

static void has(unsigned i)
{
	char command[64];

	ck_code(agent_end(own[i]), 0);
	snprintf(command, sizeof(command), "GET lk:%s", keys[i]);
	redis_has(command, lease_of(0, keys[i]).value);
	ck_code(global_try(rival, keys[i], X), LOCKSHM_BUSY);
}

static void gives_back(unsigned i)
{
	char command[64];

	ck_code(agent_call(own[i], AGENT_CHECK), 0);
	ck_code(agent_release(own[i]), 0);
	lease_becomes(0, keys[i], LOCKSHM_HOST_LEASE_NONE);
	snprintf(command, sizeof(command), "EXISTS lk:%s", keys[i]);
	redis_has(command, "0");
}

static void all_have_and_give_back(void)
{
	unsigned i;

	for (i = 0; i < KEYS; i++)
		has(i);
	for (i = 0; i < KEYS; i++)
		gives_back(i);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}

/* Connected, and tracking is on. */
static void warm_up(void)
{
	ck_code(global_wait(own[0], keys[0], X), 0);
	gives_back(0);
}

/* A command is sent while another key's has no reply. */
START_TEST(not_one_after_the_other)
{
	bool both = false;
	int tries;

	hosts_make_here(_i == 1, LOCKSHM_SECONDS(5));
	for (tries = 0; !both && tries < TRIES; tries++) {
		unsigned i;

		warm_up();
		spoil(PROXY_HOLD_REPLIES);
		request(0);
		if (comes(0)) {
			global_send(own[1], keys[1], X);
			both = comes(1) && agent_poll(own[0]) == AGENT_BLOCKED;
		} else {
			global_send(own[1], keys[1], X);
		}
		spoil(PROXY_PASS);
		for (i = 0; i < 2; i++) {
			has(i);
			gives_back(i);
		}
	}
	ck_assert_msg(both, "the second command waits for the reply to the first");
}
END_TEST

/* The connection ends between the commands and their replies. */
START_TEST(lost_replies)
{
	unsigned i, k;

	hosts_make_here(_i == 1, LOCKSHM_SECONDS(2));
	for (k = 0; k < 4; k++) {
		warm_up();
		spoil(PROXY_DROP_REPLIES);
		for (i = 0; i < KEYS; i++)
			request(i);
		(void)comes(KEYS - 1);
		spoil(k % 2 ? PROXY_RESET : PROXY_HALF_OPEN);
		spoil(PROXY_PASS);
		all_have_and_give_back();
	}
}
END_TEST

/* Replies that come after the time of their commands belong to no others. */
START_TEST(late_replies)
{
	unsigned i, k;

	hosts_make_here(_i == 1, LOCKSHM_SECONDS(2));
	for (k = 0; k < 3; k++) {
		int64_t end;

		warm_up();
		spoil(PROXY_HOLD_REPLIES);
		for (i = 0; i < KEYS; i++)
			request(i);
		(void)comes(KEYS - 1);
		end = now_ns() + LOCKSHM_MS(400);
		while (now_ns() < end)
			for (i = 0; i < KEYS; i++)
				ck_assert_int_eq(agent_poll(own[i]), AGENT_BLOCKED);
		spoil(PROXY_PASS);
		all_have_and_give_back();
	}
}
END_TEST

/* The server stops while one command after the other is sent, for longer than their time. */
START_TEST(a_stopped_server)
{
	unsigned i;

	own_server();
	hosts_make_here(false, LOCKSHM_SECONDS(2));
	warm_up();
	redis_freeze(redis);
	for (i = 0; i < KEYS; i++)
		request(i);
	pass(now_ns() + LOCKSHM_MS(600));
	redis_thaw(redis);
	all_have_and_give_back();
}
END_TEST

/* Stopped with replies on the way; another one leads meanwhile, and the first continues: while its host has the keys, or
 * when another one has. */
START_TEST(a_leader_that_is_succeeded)
{
	bool too_late = _i == 1;
	pid_t standby, before;
	unsigned i;

	hosts_make_here(false, LOCKSHM_SECONDS(2));
	warm_up();
	standby = bridge_standby(0);
	spoil(PROXY_HOLD_REPLIES);
	for (i = 0; i < KEYS; i++)
		request(i);
	(void)comes(KEYS - 1);
	bridge_freeze(0);
	before = bridge_succeeds(0, standby);
	spoil(PROXY_PASS);
	for (i = 0; i < KEYS; i++)
		has(i);
	if (too_late) {
		gives_back(0);
		ck_code(global_wait(rival, keys[0], X), 0);
	}
	kill(before, SIGCONT);
	stands_by(0, before);
	if (too_late) {
		ck_code(agent_call(rival, AGENT_CHECK), 0);
		ck_redis(lease_of(1, keys[0]).value, redis, "GET lk:%s", keys[0]);
		ck_code(agent_release(rival), 0);
	}
	for (i = too_late; i < KEYS; i++)
		gives_back(i);
	ck_assert_uint_eq(bridge_of(0).lost + bridge_of(1).lost, 0);
	kill(before, SIGKILL);
	ck_assert_int_eq(waitpid(before, NULL, 0), before);
}
END_TEST

/* Ended by a signal with commands under way: the next one continues with what they have done. */
START_TEST(a_leader_that_ends)
{
	unsigned i;

	hosts_make_here(false, LOCKSHM_SECONDS(5));
	warm_up();
	spoil(PROXY_HOLD_REPLIES);
	for (i = 0; i < KEYS; i++)
		request(i);
	(void)comes(KEYS - 1);
	kill(hosts[0].bridge, SIGTERM);
	if (_i == 0)
		spoil(PROXY_PASS);
	ck_assert_int_eq(waitpid(hosts[0].bridge, NULL, 0), hosts[0].bridge);
	hosts[0].bridge = 0;
	spoil(PROXY_PASS);
	bridge_start(0);
	all_have_and_give_back();
}
END_TEST

/* Ended with commands under way for waiters that have died: what they obtain then is given back, by the one that ends. */
static bool ends_for_nobody(void)
{
	unsigned i, left = 0;

	warm_up();
	spoil(PROXY_HOLD_REPLIES);
	for (i = 0; i < KEYS; i++)
		request(i);
	(void)comes(KEYS - 1);
	for (i = 0; i < KEYS; i++) {
		agent_kill(own[i]);
		own[i] = on_host(0);
	}
	kill(hosts[0].bridge, SIGTERM);
	/* Most likely it is ending by then. */
	pass(now_ns() + LOCKSHM_MS(50));
	spoil(PROXY_PASS);
	ck_assert_int_eq(waitpid(hosts[0].bridge, NULL, 0), hosts[0].bridge);
	hosts[0].bridge = 0;
	for (i = 0; i < KEYS; i++)
		left += in_redis(i);
	bridge_start(0);
	return left == 0;
}

/* It has a quarter of a second, which a machine that stalls may take. */
START_TEST(a_leader_that_ends_for_nobody)
{
	int tries;

	hosts_make_here(_i == 1, LOCKSHM_SECONDS(5));
	for (tries = 0; tries < 4 && !ends_for_nobody(); tries++)
		;
	ck_assert_int_lt(tries, 4);
}
END_TEST

/* The next key of server @at of two; @n counts through all. */
static void next_key(char key[32], unsigned *n, size_t at)
{
	struct redis_keys names;
	bool its = false;

	while (!its) {
		snprintf(key, 32, "key %u", (*n)++);
		ck_code(redis_keys_make(&names, REDIS_KEYS_SINGLE, "lk:", key, strlen(key), NULL), 0);
		its = redis_server_of(&names, 2) == at;
		redis_keys_free(&names);
	}
}

#define LATE_NS LOCKSHM_MS(60)

/* Of keys of the other server, in a time in which a silent one is tried several times: the slowest acquire. */
static int64_t slowest(unsigned n)
{
	int64_t end = now_ns() + LOCKSHM_MS(1500), began, most = 0;
	char key[32];

	while (now_ns() < end) {
		next_key(key, &n, 1);
		began = ran_ns();
		ck_code(global_wait(own[0], key, X), 0);
		if (ran_ns() - began > most)
			most = ran_ns() - began;
		ck_code(agent_release(own[0]), 0);
		pass(now_ns() + LOCKSHM_MS(5));
	}
	return most;
}

/* Many keys of a silent server are wanted: keys of the other server wait for none of them. */
START_TEST(many_keys_of_a_silent_server)
{
	struct lockshm_create_options options = host_options();
	struct redis *silent = redis_start(NULL, false);
	lockshm_loop_t *loop;
	char uris[300];
	unsigned i, n = 0;
	int64_t end, late, took;

	snprintf(uris, sizeof(uris), "%s,%s", silent->uri, redis->uri);
	strcpy(options.redis, uris);
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	options.host_leases = options.requests = options.keys = 2 * MANY;
	options.redis_ttl_ns = LOCKSHM_SECONDS(20);
	host_make(0, &options);
	own[0] = on_host(0);
	seg = hosts[0].s;
	loop = loop_new();
	/* A slow machine, or a slow build, is so in both cases. */
	late = LATE_NS + 2 * slowest(n);
	redis_freeze(silent);
	for (i = 0; i < MANY; i++) {
		task_init(&t[i], "", X);
		next_key(t[i].key, &n, 0);
		t[i].request.key = t[i].key;
		t[i].request.key_len = strlen(t[i].key);
		t[i].request.flags = LOCKSHM_GLOBAL;
		ck_code(task_acquire(loop, &t[i]), LOCKSHM_PENDING);
	}
	end = ran_ns() + PATIENCE;
	do
		took = slowest(n);
	while (took > late && ran_ns() < end);
	ck_assert_msg(took <= late, "each time some acquires are late, at last by %lld ms",
		      (long long)(took - late) / 1000000);
	redis_thaw(silent);
	for (i = 0; i < MANY; i++)
		ck_assert_ptr_nonnull(loop_collect(loop));
	for (i = 0; i < MANY; i++)
		ck_code(task_release(&t[i]), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, not_one_after_the_other, 0, 2);
	tcase_add_loop_test(tc, lost_replies, 0, 2);
	tcase_add_loop_test(tc, late_replies, 0, 2);
	tcase_add_test(tc, a_stopped_server);
	tcase_add_loop_test(tc, a_leader_that_is_succeeded, 0, 2);
	tcase_add_loop_test(tc, a_leader_that_ends, 0, 2);
	tcase_add_loop_test(tc, a_leader_that_ends_for_nobody, 0, 2);
	tcase_add_test(tc, many_keys_of_a_silent_server);
}

int main(void)
{
	return hosts_main("global-pipeline", add);
}
