/* SPDX-License-Identifier: MIT */
/*
 * chaos-faults.c - faults of Redis, of the network paths to it, and of the bridges, for chaos
 *
 * Each fault is recorded before it begins, once it is certainly there, before it is lifted, and when it is over.  A
 * bridge that is back in time is no fault: no lease is lost by that.
 */
#define _GNU_SOURCE
#include "chaos.h"

#include <signal.h>
#include <sys/wait.h>

uint32_t *hold_on, *inside;
struct redis *chaos_redis;
struct proxy *chaos_proxies[CHAOS_HOSTS];
pid_t chaos_standbys[CHAOS_HOSTS];

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

/* ---------------------------------------------------------------- of the bridge */

static void wait_until_it_leads(unsigned host, pid_t pid)
{
	while (bridge_of(host).pid != pid)
		nap_ms(5);
}

static void started_again(unsigned host)
{
	hosts[host].bridge = bridge_spawn(host);
	wait_until_it_leads(host, hosts[host].bridge);
}

/* For longer than leases last, or nearly. */
static void bridge_gone(void)
{
	unsigned host = dice(CHAOS_HOSTS);
	struct history_record *r = fault_begins(FAULT_AWAY, 1u << host);
	bool stopped = dice(2);

	if (stopped)
		bridge_freeze(host);
	else
		bridge_kill(host);
	fault_is_there(r);
	nap_ms(1000 + dice(3000));
	fault_ends(r);
	if (stopped)
		bridge_thaw(host);
	else
		started_again(host);
	fault_is_over(r);
}

static void bridge_killed(unsigned host)
{
	bridge_kill(host);
	nap_ms(dice(2) ? 0 : dice(300));
	started_again(host);
}

static void bridge_stopped(unsigned host)
{
	bridge_freeze(host);
	nap_ms(20 + dice(200));
	bridge_thaw(host);
}

/* Another one takes over while it is stopped; it continues later, with what it had decided. */
static void bridge_replaced(unsigned host)
{
	pid_t late = hosts[host].bridge;

	chaos_standbys[host] = bridge_standby(host);
	bridge_freeze(host);
	wait_until_it_leads(host, chaos_standbys[host]);
	hosts[host].bridge = chaos_standbys[host];
	chaos_standbys[host] = 0;
	nap_ms(dice(500));
	kill(late, SIGCONT);
	nap_ms(dice(200));
	kill(late, SIGKILL);
	waitpid(late, NULL, 0);
}

void bridge_any(unsigned (*random)(unsigned below))
{
	static void (*const acts[])(unsigned host) = { bridge_killed, bridge_stopped, bridge_replaced };
	struct history_record *r = history_new(&driver);

	dice = random;
	r->subject = HISTORY_A_BRIDGE;
	history_enter(r, HISTORY_STOP);
	acts[dice(sizeof(acts) / sizeof(acts[0]))](dice(CHAOS_HOSTS));
	history_leave(r, history_now(), 0);
}

void fault_any(unsigned (*random)(unsigned below))
{
	/* The last is the one that takes most luck to show something. */
	static void (*const faults[])(void) = { emptied,	 server_killed, server_stopped,	   partition,
						connections_end, bridge_gone,	late_then_cut_off, late_then_cut_off };

	dice = random;
	faults[dice(sizeof(faults) / sizeof(faults[0]))]();
}
