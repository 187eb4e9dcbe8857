/* SPDX-License-Identifier: MIT */
/*
 * test-global-stale-position.c - a leader continues that was stopped before, and finds its host in the queue for another
 * request
 *
 * The test plays the stopped leader, which has decided on a command, or on giving up.
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "redis/boot-clock.h"
#include "bridge/lease.h"
#include "hold/hold.h"

static struct agent *a, *c;
static struct proxy *proxy;
static struct bridge late;
static struct redis_command cmds[COMMANDS_PER_LEASE];

/* a is on one host, whose bridge is behind the proxy, c on another. */
static void two_hosts(void)
{
	proxy = hosts_by_proxy(LOCKSHM_SECONDS(4));
	a = on_host(0);
	c = on_host(1);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
}

static uint64_t word_now(void)
{
	return load_acquire(&hosts[0].s->host_leases[record_of(0, K)].word);
}

/* A leader decides now, and is stopped before it sends. */
static void decides(enum redis_script script)
{
	late.s = hosts[0].s;
	late.leases = calloc(late.s->n_host_leases, sizeof(*late.leases));
	ck_assert_ptr_ne(late.leases, NULL);
	late.renew_until = INT64_MAX;
	ck_assert_uint_eq(bridge_lease_decide(&late, record_of(0, K), cmds), 1);
	ck_assert_int_eq(cmds[0].script, script);
}

/* It ends an epoch that it began and sent nothing in, and is stopped before its CAS.  Its successor has sent, is
 * queued, and dies before it has a reply. */
START_TEST(gives_up_its_successors_epoch)
{
	int64_t begun;
	uint64_t w;

	proxy = hosts_by_proxy(LOCKSHM_SECONDS(20));
	a = on_host(0);
	c = on_host(1);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	bridge_freeze(0);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	wanted_by(1);
	ck_assert(snapshot_init(&late.snap));
	decides(REDIS_ACQUIRE_X);
	w = word_now();
	proxy_set(proxy, PROXY_HOLD_REPLIES);
	bridge_thaw(0);
	redis_has("ZCARD {lk:" K "}:q", "1");
	bridge_kill(0);
	agent_kill(a);
	bridge_lease_give_up(&late, record_of(0, K), w);
	proxy_set(proxy, PROXY_PASS);
	bridge_start(0);
	begun = ran_ns();
	redis_has("ZCARD {lk:" K "}:q", "0");
	ck_assert_int_lt(ran_ns() - begun, LOCKSHM_SECONDS(10)); /* its time would be over after 30 s */
	bridge_lease_forget(&late.leases[record_of(0, K)]);
	free(late.leases);
	snapshot_free(&late.snap);
}
END_TEST

static bool is_releasing(void *arg)
{
	(void)arg;
	return host_lease_state(word_now()) == HOST_LEASE_RELEASING;
}

/* Without demand it leaves the queue, late: by then its successor is queued for another request.  That position is
 * lost, and a new one is taken as soon as the successor looks. */
START_TEST(leaves_its_successors_queue_position)
{
	struct redis_conn_options options = { .scripts = redis_scripts, .n_scripts = REDIS_N_SCRIPTS };
	struct redis_op op = { 0 };
	struct agent *d;

	two_hosts();
	d = on_host(0);
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	proxy_set(proxy, PROXY_BLACKHOLE);
	agent_kill(a);
	ck_assert(await(is_releasing, NULL));
	late.s = hosts[0].s;
	memcpy(late.host, late.s->redis.host, REDIS_HOST_BYTES);
	late.leases = calloc(late.s->n_host_leases, sizeof(*late.leases));
	ck_assert_ptr_nonnull(late.leases);
	ck_assert_uint_eq(bridge_lease_decide(&late, record_of(0, K), cmds), 2);
	ck_assert_int_eq(cmds[0].script, REDIS_LEAVE);
	proxy_set(proxy, PROXY_RESET);
	proxy_set(proxy, PROXY_PASS);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	global_send(d, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(redis_op_call(&op, conn_to(redis->uri, &options), cmds[0].script, cmds[0].keys, &cmds[0].args, soon()),
		0);
	ck_assert_int_eq(op.reply.queued, 0);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_assert_int_eq(agent_poll(d), AGENT_BLOCKED);
	ck_code(agent_release(c), 0);
	ck_code(agent_end(d), 0);
	redis_op_end(&op);
	bridge_lease_forget(&late.leases[record_of(0, K)]);
	free(late.leases);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, gives_up_its_successors_epoch);
	tcase_add_test(tc, leaves_its_successors_queue_position);
}

int main(void)
{
	return hosts_main("global-stale-position", add);
}
