/* SPDX-License-Identifier: MIT */
/* test-global-quorum.c - one key on several servers of which a majority decides; hosts with stopped processes */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <signal.h>
#include <string.h>

static struct agent *a, *b;

static unsigned servers_with(const char *value)
{
	unsigned i, n = 0;

	for (i = 0; i < SERVERS; i++)
		n += strcmp(redis_say(servers[i], "GET lk:" K), value) == 0;
	return n;
}

/* On two at least: a young server does not vote yet. */
static bool on_most(const char *value)
{
	return servers_with(value) > SERVERS / 2;
}

static bool is_everywhere(void *arg)
{
	(void)arg;
	return servers_with(lease_of(0, K).value) == SERVERS;
}

static bool was_sent(void *arg)
{
	(void)arg;
	return on_most(lease_of(0, K).value);
}

START_TEST(a_majority_decides)
{
	uint64_t token;

	hosts_on_three(2, LOCKSHM_SECONDS(3));
	a = on_host(0);
	b = on_host(1);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	token = a->answer.token;
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	/* Or two of those that have it would be the only ones, and one of them is refused. */
	ck_assert(await(is_everywhere, NULL));
	proxy_set(proxies[1], PROXY_REFUSE);
	pass(now_ns() + LOCKSHM_MS(3500));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	lease_becomes(1, K, LOCKSHM_HOST_LEASE_ACQUIRING);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_uint_gt(b->answer.token, token);
	proxy_set(proxies[2], PROXY_REFUSE);
	lost_is_reported(b);
}
END_TEST

/* a requests K, and the bridge is stopped before it has the replies.  False = it was too fast, or had to connect again
 * and got no reply. */
static bool stopped_while_sending(void)
{
	int64_t end = now_ns() + LOCKSHM_SECONDS(1);

	proxies_set(PROXY_HOLD_REPLIES);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	while (!was_sent(NULL) && now_ns() < end)
		;
	bridge_freeze(0);
	if (was_sent(NULL) && lease_of(0, K).state == LOCKSHM_HOST_LEASE_ACQUIRING)
		return true;
	bridge_thaw(0);
	proxies_set(PROXY_PASS);
	ck_code(agent_end(a), 0);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	return false;
}

/* Its successor got the lease under the same value.  The late leader must not release that. */
START_TEST(a_late_leader_keeps_the_lease)
{
	int64_t stopped, end;
	pid_t standby, late;
	char value[40];

	hosts_on_three(1, LOCKSHM_SECONDS(4));
	standby = bridge_standby(0);
	a = on_host(0);
	ck_code(global_wait(a, "first", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	while (!stopped_while_sending())
		;
	stopped = now_ns();
	strcpy(value, lease_of(0, K).value);
	proxies_set(PROXY_PASS);
	late = bridge_succeeds(0, standby);
	ck_code(agent_end(a), 0);
	ck_assert_str_eq(lease_of(0, K).value, value);
	pass(stopped + LOCKSHM_MS(2500)); /* of four seconds: less than half of its lease is left */
	kill(late, SIGCONT);
	end = now_ns() + LOCKSHM_MS(1200);
	while (now_ns() < end)
		ck_assert_msg(on_most(value), "the token is gone");
	ck_assert_uint_eq(bridge_of(0).lost, 0);
	ck_assert_int_eq(lease_of(0, K).state, LOCKSHM_HOST_LEASE_HELD);
}
END_TEST

/* All servers that forgot the tokens in use are raised. */
START_TEST(a_fence_that_fell_is_raised)
{
	struct agent_command args = global_command(K, LOCKSHM_EXCLUSIVE);
	uint64_t commands, token;

	hosts_on_three(1, LOCKSHM_SECONDS(2));
	a = on_host(0);
	ck_code(agent_do(a, args), 0);
	token = a->answer.token + (UINT64_C(1) << 30);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	commands = bridge_of(0).commands;
	fence_becomes(0, K, token);
	args.timeout_ns = LOCKSHM_SECONDS(10);
	ck_code(agent_do(a, args), 0);
	ck_assert_uint_ge(a->answer.token, token);
	ck_assert_uint_le(bridge_of(0).commands - commands, 20);
}
END_TEST

/* What one server has forgotten may still block on the others. */
START_TEST(a_release_is_for_a_majority)
{
	unsigned i, gone = 0;
	int64_t end;

	hosts_on_three(1, LOCKSHM_SECONDS(5));
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	proxy_set(proxies[1], PROXY_REFUSE);
	proxy_set(proxies[2], PROXY_REFUSE);
	ck_code(agent_release(a), 0);
	end = now_ns() + LOCKSHM_MS(500);
	while (now_ns() < end)
		ck_assert_int_ne(lease_of(0, K).state, LOCKSHM_HOST_LEASE_NONE);
	proxies_set(PROXY_PASS);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	for (i = 0; i < SERVERS; i++)
		gone += strcmp(redis_say(servers[i], "EXISTS lk:" K), "0") == 0;
	ck_assert_uint_gt(gone, SERVERS / 2);
}
END_TEST

/* Two hosts with a part of the servers each must not lock each other out. */
START_TEST(no_host_keeps_a_minority)
{
	int i;

	hosts_on_three(2, LOCKSHM_SECONDS(3));
	a = on_host(0);
	b = on_host(1);
	for (i = 0; i < 10; i++) {
		global_send(a, K, LOCKSHM_EXCLUSIVE);
		global_send(b, K, LOCKSHM_EXCLUSIVE);
		while (agent_poll(a) == AGENT_BLOCKED && agent_poll(b) == AGENT_BLOCKED)
			;
		if (!a->busy)
			ck_code(a->answer.code, 0);
		else
			ck_code(b->answer.code, 0);
		ck_code(agent_release(a->busy ? b : a), 0);
		if (a->busy) {
			ck_code(agent_end(a), 0);
			ck_code(agent_release(a), 0);
		} else {
			ck_code(agent_end(b), 0);
			ck_code(agent_release(b), 0);
		}
	}
	ck_assert_uint_eq(bridge_of(0).lost + bridge_of(1).lost, 0);
}
END_TEST

#define MANY 40

static bool all_failed(void *arg)
{
	return bridge_of(0).errors >= *(uint64_t *)arg + MANY;
}

/* Unresponsive servers cost one whole time-out, not one for each lease. */
START_TEST(unresponsive_servers_cost_one_timeout_a_round)
{
	static lockshm_hold_t holds[MANY];
	int64_t io = LOCKSHM_MS(250), began, end;
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	uint64_t before;
	char key[16];
	int i;

	hosts_on_three(1, LOCKSHM_SECONDS(4));
	q.key = key;
	q.flags = LOCKSHM_GLOBAL;
	for (i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		q.key_len = strlen(key);
		ck_code(lockshm_acquire(hosts[0].s, &q, &holds[i]), 0);
	}
	proxy_set(proxies[1], PROXY_BLACKHOLE);
	proxy_set(proxies[2], PROXY_BLACKHOLE);
	before = bridge_of(0).errors;
	began = ran_ns();
	end = began + MANY * io;
	ck_assert(await(all_failed, &before));
	ck_assert_int_lt(ran_ns(), end);
	proxies_set(PROXY_PASS);
	for (i = 0; i < MANY; i++)
		(void)lockshm_release(&holds[i], 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, unresponsive_servers_cost_one_timeout_a_round);
	tcase_add_test(tc, a_majority_decides);
	tcase_add_test(tc, a_late_leader_keeps_the_lease);
	tcase_add_test(tc, a_fence_that_fell_is_raised);
	tcase_add_test(tc, a_release_is_for_a_majority);
	tcase_add_test(tc, no_host_keeps_a_minority);
}

int main(void)
{
	return hosts_main("global-quorum", add);
}
