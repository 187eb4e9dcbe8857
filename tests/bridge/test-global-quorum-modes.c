/* SPDX-License-Identifier: MIT */
/* test-global-quorum-modes.c - a reader becomes a writer, and a writer a reader, where a majority decides */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "hold/hold.h"
#include "hostlease/host-lease.h"

#define TTL_S 3

static struct agent *a, *b;
static char set[] = "set", string[] = "string";

static int upgrade(struct agent *who)
{
	return agent_call(who, AGENT_UPGRADE);
}

static bool is_upgraded(void *who)
{
	return upgrade(who) == 0;
}

static int downgrade(struct agent *who)
{
	return agent_call(who, AGENT_DOWNGRADE);
}

static unsigned has(unsigned i, const char *type)
{
	return strcmp(redis_say(servers[i], "TYPE lk:" K), type) == 0;
}

static unsigned count(const char *type)
{
	return has(0, type) + has(1, type) + has(2, type);
}

static bool all_have(void *type)
{
	return count(type) == SERVERS;
}

/* Those that can be asked, when the one between them is away. */
static bool two_have(void *type)
{
	return has(0, type) && has(2, type);
}

static bool is_reader(void *arg)
{
	(void)arg;
	return lease_of(0, K).mode == LOCKSHM_SHARED;
}

/* A majority does before that.  Uptimes are whole seconds, rounded down, here as there. */
static bool all_vote(void *arg)
{
	unsigned i, n = 0;

	(void)arg;
	for (i = 0; i < SERVERS; i++) {
		const char *at = strstr(redis_say(servers[i], "INFO server"), "uptime_in_seconds:");

		ck_assert_ptr_nonnull(at);
		n += atoi(at + strlen("uptime_in_seconds:")) > TTL_S + 1;
	}
	return n == SERVERS;
}

/* A majority is enough to begin with: the others hear of it with a renewal, or a moment later. */
static bool all_know(void *arg)
{
	unsigned i, n = 0;

	(void)arg;
	for (i = 0; i < SERVERS; i++)
		n += strcmp(redis_say(servers[i], "SISMEMBER lk:" K " %s", lease_of(0, K).value), "1") == 0;
	return n == SERVERS;
}

static bool two_have_one_reader(void *arg)
{
	(void)arg;
	return strcmp(redis_say(servers[0], "SCARD lk:" K), "1") == 0 &&
	       strcmp(redis_say(servers[1], "SCARD lk:" K), "1") == 0;
}

static void two_hosts(void)
{
	hosts_on_three(2, LOCKSHM_SECONDS(TTL_S));
	ck_assert(await(all_vote, NULL));
	a = on_host(0);
	b = on_host(1);
	ck_code(global_wait(a, K, LOCKSHM_SHARED), 0);
	ck_assert(await(all_know, NULL));
}

START_TEST(up_and_down)
{
	uint64_t token;
	int i;

	two_hosts();
	for (i = 0; i < 5; i++) {
		token = a->answer.token;
		ck_code(upgrade(a), 0);
		ck_assert_uint_gt(a->answer.token, token);
		ck_assert_uint_gt(count(string), SERVERS / 2);
		ck_assert_int_eq(lease_of(0, K).mode, LOCKSHM_EXCLUSIVE);
		ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
		ck_code(downgrade(a), 0);
		ck_assert(await(is_reader, NULL));
		ck_assert(await(all_have, set));
		ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
		ck_code(upgrade(a), LOCKSHM_BUSY);
		ck_code(agent_call(a, AGENT_CHECK), 0);
		ck_code(agent_call(b, AGENT_CHECK), 0);
		ck_code(agent_release(b), 0);
		lease_becomes(1, K, LOCKSHM_HOST_LEASE_NONE);
	}
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_assert_uint_eq(bridge_of(0).lost + bridge_of(1).lost, 0);
}
END_TEST

/* It hears of it with the next renewal, both times. */
START_TEST(one_server_was_away)
{
	two_hosts();
	proxy_set(proxies[1], PROXY_REFUSE);
	ck_code(upgrade(a), 0);
	proxies_set(PROXY_PASS);
	ck_assert(await(all_have, string));
	proxy_set(proxies[2], PROXY_REFUSE);
	ck_code(downgrade(a), 0);
	ck_assert(await(is_reader, NULL));
	ck_assert_uint_eq(has(2, string), 1);
	proxies_set(PROXY_PASS);
	ck_assert(await(all_have, set));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* One server did it, two refuse: it is a reader everywhere again. */
START_TEST(a_minority_takes_it_back)
{
	two_hosts();
	ck_redis("1", servers[1], "SADD lk:" K " stranger");
	ck_redis("1", servers[2], "SADD lk:" K " stranger");
	ck_code(upgrade(a), LOCKSHM_BUSY);
	ck_assert(await(all_have, set));
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(b), 0);
	lease_becomes(1, K, LOCKSHM_HOST_LEASE_NONE);
	ck_redis("1", servers[1], "SREM lk:" K " stranger");
	ck_assert(await(two_have_one_reader, NULL));
	/* BUSY is right, too, where one of the two is slower than the bridge waits. */
	ck_assert(await(is_upgraded, a));
	ck_assert_int_eq(lease_of(0, K).mode, LOCKSHM_EXCLUSIVE);
}
END_TEST

/* Two have done what nobody here knows of: whoever asked was killed, or gave up. */
START_TEST(an_upgrade_nobody_heard_of)
{
	unsigned i;

	two_hosts();
	for (i = 0; i < 2; i++) {
		ck_redis("OK", servers[i], "SET done %s PX 60000", lease_of(0, K).value);
		ck_redis("1", servers[i], "HSET {lk:" K "}:f turn 0:%s", lease_of(0, K).value);
		ck_redis("OK", servers[i], "RENAME done lk:" K);
	}
	ck_assert(await(all_have, set));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
}
END_TEST

START_TEST(no_majority_in_reach)
{
	int64_t begun;

	two_hosts();
	proxy_set(proxies[1], PROXY_BLACKHOLE);
	proxy_set(proxies[2], PROXY_BLACKHOLE);
	begun = now_ns();
	ck_code(upgrade(a), LOCKSHM_BUSY);
	ck_assert_int_lt(now_ns() - begun, LOCKSHM_SECONDS(2));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	proxies_set(PROXY_PASS);
	ck_assert(await(all_have, set));
	ck_code(agent_call(a, AGENT_CHECK), 0);
}
END_TEST

/* Whoever asked was killed when it was done, and here one reads on: so may others. */
START_TEST(asked_for_nobody)
{
	const struct shm_host_lease *r;

	two_hosts();
	r = &hosts[0].s->host_leases[record_of(0, K)];
	ck_code(host_lease_upgrade(hosts[0].s, record_of(0, K), load_acquire(&r->word)), 0);
	ck_assert_uint_gt(count(string), SERVERS / 2);
	ck_code(global_try(b, K, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(global_wait(b, K, LOCKSHM_SHARED), 0);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* The same, but a writer waits behind him: what a majority would have to be asked for anew is kept for that. */
START_TEST(asked_for_nobody_and_wanted)
{
	const struct shm_host_lease *r;
	struct agent *writer;
	int64_t end;

	two_hosts();
	r = &hosts[0].s->host_leases[record_of(0, K)];
	writer = on_host(0);
	global_send(writer, K, LOCKSHM_EXCLUSIVE);
	waits_on_host(writer, 0, K);
	ck_code(host_lease_upgrade(hosts[0].s, record_of(0, K), load_acquire(&r->word)), 0);
	/* Longer than it is kept for nobody. */
	for (end = now_ns() + LOCKSHM_MS(3500); now_ns() < end;)
		ck_assert_int_eq(lease_of(0, K).mode, LOCKSHM_EXCLUSIVE);
	ck_assert_int_eq(agent_poll(writer), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(writer), 0);
	ck_assert_uint_eq(bridge_of(0).acquired, 1);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* Old files of a majority: others may read beside us. */
START_TEST(an_upgrade_a_majority_forgot)
{
	unsigned i;

	two_hosts();
	ck_code(upgrade(a), 0);
	ck_assert(await(all_have, string));
	for (i = 0; i < 2; i++) {
		ck_redis("2", servers[i], "SADD before %s stranger", lease_of(0, K).value);
		ck_redis("1", servers[i], "PEXPIRE before 60000");
		ck_redis("1", servers[i], "ZADD {lk:" K "}:rx 9999999999999 %s", lease_of(0, K).value);
		ck_redis("OK", servers[i], "RENAME before lk:" K);
	}
	lost_is_told(a);
}
END_TEST

/* A server that lost the writer is told of it again before he becomes a reader, and does not refuse that. */
START_TEST(one_server_is_away_and_one_forgot)
{
	struct shm_host_lease *r;
	uint64_t w;

	two_hosts();
	ck_code(upgrade(a), 0);
	ck_assert(await(all_have, string));
	/* What a bridge does that saw readers only, and was slower than the writer that one of them became. */
	r = &hosts[0].s->host_leases[record_of(0, K)];
	w = load_acquire(&r->word);
	ck_assert(cas_from(&r->word, w, ((w & ~HOST_LEASE_EXCLUSIVE) | HOST_LEASE_DOWNGRADE) + (UINT64_C(1) << HOST_LEASE_MODE_GEN_SHIFT)));
	ck_redis("2", servers[2], "DEL lk:" K " {lk:" K "}:f");
	ck_assert(await(all_have, string));
	proxy_set(proxies[1], PROXY_REFUSE);
	ck_code(downgrade(a), 0);
	ck_assert(await(two_have, set));
	proxies_set(PROXY_PASS);
	ck_assert(await(all_have, set));
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, up_and_down);
	tcase_add_test(tc, one_server_was_away);
	tcase_add_test(tc, a_minority_takes_it_back);
	tcase_add_test(tc, an_upgrade_nobody_heard_of);
	tcase_add_test(tc, no_majority_in_reach);
	tcase_add_test(tc, asked_for_nobody);
	tcase_add_test(tc, asked_for_nobody_and_wanted);
	tcase_add_test(tc, an_upgrade_a_majority_forgot);
	tcase_add_test(tc, one_server_is_away_and_one_forgot);
}

int main(void)
{
	return hosts_main("global-quorum-modes", add);
}
