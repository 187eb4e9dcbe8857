/* SPDX-License-Identifier: MIT */
/*
 * test-global-stale-mode-change.c - a lease changes its mode, and somebody goes on who was stopped before that
 *
 * The test itself is who was stopped: a bridge that has decided what to ask, and hears the answer now; or
 * somebody who called lockshm_upgrade() while he held.  All orders of the steps are in model/lease.pml; these
 * are the ones that did harm.
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "redis/boot-clock.h"
#include "bridge/lease.h"
#include "hold/hold.h"

static struct agent *a, *b, *c;
static struct proxy *proxy;
static struct bridge late;
static struct redis_command cmds[COMMANDS_PER_LEASE];

/* a and b are on one host, c on another; b is the bridge of the first, behind the proxy. */
static void two_hosts(int mode)
{
	proxy = hosts_by_proxy(LOCKSHM_SECONDS(4));
	a = on_host(0);
	b = on_host(0);
	c = on_host(1);
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(a, K, mode), 0);
	ck_assert_int_eq(bridge_of(0).pid, b->pid);
}

static uint64_t word_now(void)
{
	return load_acquire(&hosts[0].s->host_leases[record_of(0, K)].word);
}

static bool has_bits(void *bits)
{
	return (word_now() & *(uint64_t *)bits) == *(uint64_t *)bits;
}

static bool has_none_of(void *bits)
{
	return (word_now() & *(uint64_t *)bits) == 0;
}

static void word_gets(uint64_t bits)
{
	ck_assert(await(has_bits, &bits));
}

static void word_loses(uint64_t bits)
{
	ck_assert(await(has_none_of, &bits));
}

static void is_writer(void)
{
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_redis(lease_of(0, K).value, redis, "GET lk:" K);
}

static void is_reader(void)
{
	word_loses(HOST_LEASE_EXCLUSIVE | HOST_LEASE_DOWNGRADE);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_redis("1", redis, "SISMEMBER lk:" K " %s", lease_of(0, K).value);
	ck_code(global_wait(c, K, LOCKSHM_SHARED), 0);
	ck_code(agent_release(c), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}

/* What a bridge does that has seen readers only, and was slower than the writer that one of them became. */
static void exclusive_is_taken_back(void)
{
	uint64_t w = word_now();

	ck_assert(w & HOST_LEASE_EXCLUSIVE);
	ck_assert(cas_from(&hosts[0].s->host_leases[record_of(0, K)].word, w,
			   ((w & ~HOST_LEASE_EXCLUSIVE) | HOST_LEASE_DOWNGRADE) + (UINT64_C(1) << HOST_LEASE_MODE_GEN_SHIFT)));
}

/* A bridge decides now, and is stopped before it asks. */
static void decides(enum redis_script script)
{
	late.s = hosts[0].s;
	late.leases = calloc(late.s->n_host_leases, sizeof(*late.leases));
	ck_assert_ptr_ne(late.leases, NULL);
	late.renew_until = INT64_MAX;
	ck_assert_uint_eq(lease_decide(&late, record_of(0, K), cmds), 1);
	ck_assert_int_eq(cmds[0].script, script);
}

/* It goes on, and this is the answer. */
static void hears(enum redis_status status, enum redis_kind kind)
{
	cmds[0].reply.status = status;
	cmds[0].reply.kind = kind;
	cmds[0].reply.fence = (int64_t)host_lease_fence_next(&late.s->host_leases[record_of(0, K)]) + 1000;
	cmds[0].valid_until = redis_valid_until(redis_now(), cmds[0].args.ttl_ms);
	if (cmds[0].script == REDIS_RENEW)
		cmds[0].reply.fence = 0;
	ck_assert_uint_eq(lease_apply_reply(&late, record_of(0, K), &cmds[0], NULL), 0);
	lease_forget(&late.leases[record_of(0, K)]);
	free(late.leases);
}

/* ---------------------------------------------------------------- whoever holds no more */

/* His upgrade, and that he gives it up, make no reader of a writer. */
START_TEST(asks_while_somebody_else_writes)
{
	int64_t end;

	two_hosts(LOCKSHM_EXCLUSIVE);
	proxy_set(proxy, PROXY_DROP_REPLIES);
	exclusive_is_taken_back();
	ck_code(host_lease_upgrade(hosts[0].s, record_of(0, K), word_now()), LOCKSHM_BUSY);
	proxy_set(proxy, PROXY_RESET);
	proxy_set(proxy, PROXY_PASS);
	for (end = now_ns() + LOCKSHM_SECONDS(1); now_ns() < end;)
		is_writer();
	ck_code(agent_call(a, AGENT_DOWNGRADE), 0);
	is_reader();
}
END_TEST

/* What he obtains nobody uses: those who wait elsewhere do not wait for the end of the lease. */
START_TEST(asks_for_nobody)
{
	two_hosts(LOCKSHM_SHARED);
	ck_code(host_lease_upgrade(hosts[0].s, record_of(0, K), word_now()), 0);
	is_writer();
	global_send(c, K, LOCKSHM_SHARED);
	ck_code(agent_end(c), 0);
	ck_code(agent_release(c), 0);
	is_reader();
}
END_TEST

/* The same where somebody has come in beside, and nobody waits. */
START_TEST(is_not_alone_any_more)
{
	struct agent *beside;

	two_hosts(LOCKSHM_SHARED);
	beside = on_host(0);
	redis_freeze(redis);
	agent_send(a, (struct agent_command){ .op = AGENT_UPGRADE });
	word_gets(HOST_LEASE_UPGRADE);
	ck_code(global_wait(beside, K, LOCKSHM_SHARED), 0);
	redis_thaw(redis);
	ck_code(agent_end(a), LOCKSHM_BUSY);
	is_reader();
}
END_TEST

/* ---------------------------------------------------------------- a bridge that was stopped */

/* It asked whether a writer's lease is there, and hears of readers: it was made that since, and is not lost. */
START_TEST(hears_of_a_downgrade)
{
	two_hosts(LOCKSHM_EXCLUSIVE);
	exclusive_is_taken_back();
	decides(REDIS_RENEW);
	ck_code(agent_call(a, AGENT_DOWNGRADE), 0);
	word_loses(HOST_LEASE_DOWNGRADE);
	hears(REDIS_DONE, REDIS_KIND_READERS);
	is_reader();
}
END_TEST

/* It asked before the downgrade, and hears after it that a writer has it: nobody wants that. */
START_TEST(hears_of_the_writer_before)
{
	uint64_t w;

	two_hosts(LOCKSHM_EXCLUSIVE);
	exclusive_is_taken_back();
	decides(REDIS_RENEW);
	ck_code(agent_call(a, AGENT_DOWNGRADE), 0);
	word_loses(HOST_LEASE_DOWNGRADE);
	w = word_now();
	hears(REDIS_DONE, REDIS_KIND_HOST);
	ck_assert_uint_eq(word_now(), w);
	is_reader();
}
END_TEST

/* Its upgrade was granted, as its successor's was; since then it is wished that readers of others come in, too. */
START_TEST(hears_that_it_may_write)
{
	two_hosts(LOCKSHM_SHARED);
	proxy_set(proxy, PROXY_HOLD_REPLIES);
	agent_send(a, (struct agent_command){ .op = AGENT_UPGRADE });
	word_gets(HOST_LEASE_UPGRADE);
	decides(REDIS_UPGRADE);
	proxy_set(proxy, PROXY_PASS);
	ck_code(agent_end(a), 0);
	host_lease_request_downgrade(hosts[0].s, record_of(0, K), word_now());
	hears(REDIS_GRANTED, REDIS_KIND_HOST);
	ck_assert_uint_ne(word_now() & HOST_LEASE_DOWNGRADE, 0);
	is_writer();
	ck_code(agent_call(a, AGENT_DOWNGRADE), 0);
	is_reader();
}
END_TEST

/* ---------------------------------------------------------------- places in line */

/* It gives up what it began and never asked for, and is stopped before it says so.  Its successor
 * has asked, and has a place. */
START_TEST(gives_up_what_its_successor_asked)
{
	uint64_t w;

	proxy = hosts_by_proxy(LOCKSHM_SECONDS(20));
	a = on_host(0);
	b = on_host(0);
	c = on_host(1);
	ck_code(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(c, K, LOCKSHM_EXCLUSIVE), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	ck_assert_int_eq(bridge_of(0).pid, b->pid);
	agent_stop(b);
	global_send(a, K, LOCKSHM_EXCLUSIVE);
	wanted_by(1);
	ck_assert(snapshot_init(&late.snap));
	decides(REDIS_ACQUIRE_X);
	w = word_now();
	agent_cont(b);
	redis_has("ZCARD {lk:" K "}:q", "1");
	agent_stop(b);
	agent_kill(a);
	lease_give_up(&late, record_of(0, K), w);
	agent_cont(b);
	redis_has("ZCARD {lk:" K "}:q", "0");
	lease_forget(&late.leases[record_of(0, K)]);
	free(late.leases);
	snapshot_free(&late.snap);
}
END_TEST

static bool is_releasing(void *arg)
{
	(void)arg;
	return host_lease_state(word_now()) == HOST_LEASE_RELEASING;
}

/* Nobody wanted it any more, and it leaves the queue, late: by then its successor has a place for somebody else.  That
 * is lost, and another one taken as soon as the successor looks. */
START_TEST(leaves_the_place_of_its_successor)
{
	struct redis_conn_options options = { .scripts = redis_scripts, .n_scripts = REDIS_N_SCRIPTS };
	struct redis_op op = { 0 };
	struct agent *d;

	two_hosts(LOCKSHM_EXCLUSIVE);
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
	ck_assert_uint_eq(lease_decide(&late, record_of(0, K), cmds), 2);
	ck_assert_int_eq(cmds[0].script, REDIS_LEAVE);
	proxy_set(proxy, PROXY_RESET);
	proxy_set(proxy, PROXY_PASS);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	global_send(d, K, LOCKSHM_EXCLUSIVE);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_code(redis_op_call(&op, conn_to(redis->uri, &options), cmds[0].script, cmds[0].keys, &cmds[0].args, soon()), 0);
	ck_assert_int_eq(op.reply.queued, 0);
	redis_has("ZCARD {lk:" K "}:q", "1");
	ck_assert_int_eq(agent_poll(d), AGENT_BLOCKED);
	ck_code(agent_release(c), 0);
	ck_code(agent_end(d), 0);
	redis_op_end(&op);
	lease_forget(&late.leases[record_of(0, K)]);
	free(late.leases);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, asks_while_somebody_else_writes);
	tcase_add_test(tc, asks_for_nobody);
	tcase_add_test(tc, is_not_alone_any_more);
	tcase_add_test(tc, hears_of_a_downgrade);
	tcase_add_test(tc, hears_of_the_writer_before);
	tcase_add_test(tc, hears_that_it_may_write);
	tcase_add_test(tc, gives_up_what_its_successor_asked);
	tcase_add_test(tc, leaves_the_place_of_its_successor);
}

int main(void)
{
	return hosts_main("global-late", add);
}
