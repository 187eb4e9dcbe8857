/* SPDX-License-Identifier: MIT */
/*
 * chaos-faults.c - faults of Redis and of the network paths to it, for chaos
 *
 * Each fault is recorded before it begins, once it is certainly there, before it is lifted, and when it is over.
 */
#define _GNU_SOURCE
#include "chaos.h"

uint32_t *hold_on;
struct redis *chaos_redis;
struct proxy *chaos_proxies[CHAOS_HOSTS];

static unsigned (*dice)(unsigned below);

static void nap_ms(unsigned ms)
{
	chaos_nap(LOCKSHM_MS((int64_t)ms));
}

static struct history_record *fault_begins(enum history_fault kind, unsigned hosts_mask)
{
	struct history_record *r = history_new(&driver);

	r->mode = (uint8_t)kind;
	r->key = hosts_mask;
	r->ns = INT64_MAX;
	r->deadline = INT64_MAX - LOCKSHM_SECONDS(1000);
	history_enter(r, HISTORY_FAULT);
	return r;
}

static void fault_is_there(struct history_record *r)
{
	r->deadline = history_now();
}

static void fault_ends(struct history_record *r)
{
	r->ns = history_now();
}

static void fault_is_over(struct history_record *r)
{
	history_leave(r, history_now(), 0);
}

/* ---------------------------------------------------------------- of the server */

static void emptied(void)
{
	struct history_record *r = fault_begins(FAULT_FORGETS, ALL_HOSTS);

	if (dice(2))
		ck_redis("OK", chaos_redis, "FLUSHALL");
	else
		(void)redis_say(chaos_redis, "DEL lk:%s", chaos_keys[dice(KEYS)]);
	fault_is_over(r);
}

/* With or without its data on disk, which is all it ever acknowledged. */
static void server_killed(void)
{
	bool loses = dice(2) == 0;
	struct history_record *forgets = loses ? fault_begins(FAULT_FORGETS, ALL_HOSTS) : NULL;
	struct history_record *away = fault_begins(FAULT_AWAY, ALL_HOSTS);

	redis_kill(chaos_redis);
	fault_is_there(away);
	if (loses)
		redis_lose(chaos_redis);
	nap_ms(dice(3) ? dice(500) : dice(4000));
	fault_ends(away);
	redis_restart(chaos_redis);
	fault_is_over(away);
	if (forgets)
		fault_is_over(forgets);
}

static void server_stopped(void)
{
	struct history_record *r = fault_begins(FAULT_AWAY, ALL_HOSTS);

	redis_freeze(chaos_redis);
	fault_is_there(r);
	nap_ms(dice(3) ? dice(400) : dice(4000));
	fault_ends(r);
	redis_thaw(chaos_redis);
	fault_is_over(r);
}

/* ---------------------------------------------------------------- of the path to it */

static void cut_off(struct proxy *p, unsigned host, enum proxy_fault fault, unsigned ms)
{
	struct history_record *r = fault_begins(FAULT_AWAY, 1u << host);

	proxy_set(p, fault);
	fault_is_there(r);
	nap_ms(ms);
	fault_ends(r);
	proxy_set(p, PROXY_PASS);
	fault_is_over(r);
}

static void partition(void)
{
	static const enum proxy_fault faults[] = { PROXY_BLACKHOLE, PROXY_DROP_REPLIES, PROXY_DROP_REQUESTS,
						   PROXY_REFUSE };
	unsigned host = dice(CHAOS_HOSTS);

	cut_off(chaos_proxies[host], host, faults[dice(4)], dice(3) ? dice(600) : 1000 + dice(3000));
}

/* Replies are late, but in time; then there are none: the host relies on what came late. */
static void late_then_cut_off(void)
{
	unsigned host = dice(CHAOS_HOSTS);
	struct history_record *slow = fault_begins(FAULT_SLOW, 1u << host);
	struct proxy *p = chaos_proxies[host];
	unsigned i;

	fault_is_there(slow);
	__atomic_fetch_or(hold_on, 1u << host, __ATOMIC_SEQ_CST);
	/* For longer than until the next renewal. */
	for (i = 0; i < 7; i++) {
		proxy_set(p, PROXY_HOLD_REPLIES);
		nap_ms(110 + dice(60));
		proxy_set(p, PROXY_PASS);
		nap_ms(i < 6 ? 10 : 0);
	}
	cut_off(p, host, PROXY_BLACKHOLE, 2200 + dice(800));
	__atomic_fetch_and(hold_on, ~(1u << host), __ATOMIC_SEQ_CST);
	fault_ends(slow);
	fault_is_over(slow);
}

static void connections_end(void)
{
	unsigned host = dice(CHAOS_HOSTS);
	struct history_record *r = fault_begins(FAULT_SLOW, 1u << host);

	fault_is_there(r);
	proxy_set(chaos_proxies[host], dice(2) ? PROXY_RESET : PROXY_HALF_OPEN);
	nap_ms(dice(300));
	fault_ends(r);
	fault_is_over(r);
}

void fault_any(unsigned (*random)(unsigned below))
{
	/* The last is the one that takes most luck to show something. */
	static void (*const faults[])(void) = { emptied,	 server_killed,	    server_stopped,   partition,
						connections_end, late_then_cut_off, late_then_cut_off };

	dice = random;
	faults[dice(sizeof(faults) / sizeof(faults[0]))]();
}
