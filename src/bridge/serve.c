/* SPDX-License-Identifier: MIT */
/*
 * serve.c - the leader of a segment: the local lock that elects it, and its loop; see bridge/serve.h
 *
 *   renew leadership | empty the doorbell | decide about leases that are due: rung, invalidated, by time | send, take
 *   replies and apply them | read invalidations | sleep on the doorbell
 *
 * No pass waits for a reply: a lease whose commands are under way is left out until they are over (bridge/flight.h).
 * The loop sleeps on a futex, so that processes wake it directly; meanwhile the listener's thread does a pass for what
 * servers send (bridge/listener.h).  Nothing here must be finished: hostlease/host-lease.h has what a successor finds.
 */
#define _GNU_SOURCE
#include "bridge/serve-internal.h"

#include <stdlib.h>
#include <string.h>

#include "bridge/client-settings.h"
#include "hold/acquire.h"
#include "hold/hold.h"
#include "hostlease/leader.h"
#include "lock/owner.h"
#include "lock/wait.h"
#include "sys/error.h"
#include "sys/futex.h"
#include "sys/min.h"

#define CLIENT_AGAIN_NS LOCKSHM_MS(200)
#define END_NS LOCKSHM_MS(250)
#define DRAIN_NS LOCKSHM_MS(500) /* a connect and a reply, see IO_MAX_NS */
#define IO_MAX_NS LOCKSHM_MS(250)
#define FLIGHTS_FOR_TWO 8 /* commands under way, up to which both threads do passes */
#define LEAD_TTL_MAX_NS LOCKSHM_SECONDS(5)
#define FIRST_TTL_MIN_NS LOCKSHM_MS(20)

/* ---------------------------------------------------------------- one pass */

static void beat(const struct leader *v, int64_t at)
{
	if (v->pulse)
		__atomic_store_n(&v->pulse->at, at, __ATOMIC_RELAXED);
}

/* Short: when this leader is stopped, its successor has most of the leases' time left. */
static int64_t lead_ttl(const struct lockshm *s)
{
	return min64(LOCKSHM_MS((int64_t)s->redis.ttl_ms) / 4, LEAD_TTL_MAX_NS);
}

bool bridge_pulse_is_good(const struct bridge_pulse *pulse, const struct lockshm *segment)
{
	int64_t at = __atomic_load_n(&pulse->at, __ATOMIC_RELAXED);

	return at == 0 || clock_precise() - at < lead_ttl(segment);
}

static bool keep_leadership(struct leader *v)
{
	int64_t now = clock_precise();

	beat(v, now);
	if (now - v->lead_renewed < v->lead_ttl / 4)
		return true;
	if (lockshm_renew(&v->leadership, v->lead_ttl) < 0)
		return false;
	v->lead_renewed = now;
	leader_is_here(v->s);
	return true;
}

static void make_client(struct leader *v, int64_t now)
{
	struct redis_settings settings;

	if (v->b.client || now < v->client_at)
		return;
	v->client_at = now + CLIENT_AGAIN_NS;
	v->b.client_tried = redis_now();
	bridge_client_settings(&settings, &v->s->redis);
	if (redis_client_new(&v->b.client, &settings, &v->b.client_error) != 0)
		bridge_log_refusal(v->b.client_error.text);
}

/* Was the leadership still this process' a moment ago?  Over in time it is, as long as no standby took the lock.  Both
 * threads ask; lockshm_check() is for the one that acquired it. */
static bool leads(const struct leader *v)
{
	const struct hold *h = hold_of((const lockshm_hold_t *)&v->leadership);
	uint64_t word = load_acquire(&v->s->requests[h->index].word);

	return word_gen(word) == h->grant.gen && word_holds(word);
}

/* Takes replies and applies them, and sends what was decided.  True = there may be more to do. */
static bool exchange(struct leader *v)
{
	if (!v->b.client)
		return false;
	redis_client_step(v->b.client, v->b.io_ns);
	bridge_log_servers(&v->logs, v->b.client);
	v->b.superseded = !leads(v);
	return flights_land(&v->flights, &v->b);
}

/* Do all that can be done now.  Returns when to continue, host time. */
static int64_t work(struct leader *v)
{
	bool landed, sent;
	int64_t next;

	make_client(v, host_now(v->s));
	serve_scan(v, host_now(v->s));
	serve_take_rings(v);
	next = serve_decide(v, &sent);
	if (v->b.client) {
		landed = exchange(v);
		v->b.tracked = redis_client_tracks(v->b.client);
		if (serve_take_hints(v) || landed)
			return 0;
		if (v->listener.runs)
			redis_client_watch(v->b.client, v->listener.epoll);
		if (redis_client_due(v->b.client) != INT64_MAX)
			next = min64(next, redis_client_due(v->b.client) + v->s->boot_offset);
	}
	return min64(next, v->scan_at);
}

/* The listener's pass.  A process that was stopped may lead no more, which the loop finds out before it does anything: so
 * the loop is to wake, and rings meant for its successor stay. */
static int64_t work_of_listener(void *arg)
{
	struct leader *v = arg;

	if (leads(v))
		return work(v);
	host_lease_ring_leader(v->s);
	return INT64_MAX;
}

/* Sleeps until a ring, a reply, or @until, host time. */
static void rest(struct leader *v, const struct futex_watch *watch, int64_t until)
{
	int64_t now = host_now(v->s);
	int64_t left = min64(until - now, v->lead_renewed + v->lead_ttl / 4 - clock_precise());

	if (left <= 0)
		return;
	/* Without the listener, a ring waits for a reply. */
	if (!v->listener.runs && v->flights.n > 0) {
		redis_client_wait(v->b.client, redis_now() + left);
		return;
	}
	/* In a removed segment each pass may be the last, which only the loop notices.  Of many commands each pass of one
	 * thread takes more replies, and sends more at once. */
	if (v->b.ending || v->flights.n > FLIGHTS_FOR_TWO) {
		futex_wait_any(watch, 1, clock_precise() + left);
		return;
	}
	listener_give_turn(&v->listener, now + left);
	futex_wait_any(watch, 1, clock_precise() + left);
	listener_take_turn(&v->listener);
}

/*
 * The end of leadership: what was sent gets its replies.  A process that leads no more applies none of them, but removes
 * what it obtained for an epoch that is over.  Without a reply, or killed here: as at any other time.
 */
static void drain(struct leader *v)
{
	int64_t end = redis_now() + DRAIN_NS;

	while (v->flights.n > 0 && redis_now() < end)
		if (!exchange(v) && v->flights.n > 0)
			redis_client_wait(v->b.client, end);
}

/* ---------------------------------------------------------------- leadership */

/*
 * Stopped standbys are queued ahead of running ones, and each would hold leadership for its first ttl.  So that is
 * short, and extended right after the grant.  A running standby that was too slow for that gets twice the ttl next time.
 */
static int64_t first_ttl(const struct leader *v)
{
	int64_t ns = LOCKSHM_MS((int64_t)v->s->redis.ttl_ms) / 50;

	return min64(ns > FIRST_TTL_MIN_NS ? ns : FIRST_TTL_MIN_NS, v->lead_ttl);
}

static bool extend_leadership(struct leader *v)
{
	v->lead_renewed = clock_precise();
	if (lockshm_renew(&v->leadership, v->lead_ttl) < 0) {
		v->first_ttl = min64(2 * v->first_ttl, v->lead_ttl);
		return false;
	}
	v->first_ttl = first_ttl(v);
	leader_is_here(v->s);
	return true;
}

/* Is there nothing left to renew or release? */
static bool all_done(const struct leader *v)
{
	uint32_t i;

	for (i = 0; i < v->s->n_host_leases; i++) {
		enum host_lease_state state = host_lease_state(load_acquire(&v->s->host_leases[i].word));

		if (state != HOST_LEASE_NONE && state != HOST_LEASE_CLAIM)
			return false;
	}
	return true;
}

bool bridge_is_unused(struct lockshm *s)
{
	uint32_t i;

	for (i = 0; i < s->n_host_leases; i++) {
		enum host_lease_state state = host_lease_state(load_acquire(&s->host_leases[i].word));

		if (state != HOST_LEASE_NONE && state != HOST_LEASE_CLAIM)
			return false;
	}
	for (i = 1; i <= s->n_requests; i++) {
		const struct shm_request *r = &s->requests[i];

		if (word_live(load_acquire(&r->word)) && load_acquire32(&r->flags) & REQUEST_GLOBAL &&
		    !owner_is_dead(s, load_relaxed(&r->owner)))
			return false;
	}
	return true;
}

/* True = cancelled, or all done in a removed segment.  False = another process leads. */
static bool lead_loop(struct leader *v)
{
	while (keep_leadership(v)) {
		struct futex_watch watch = { &v->s->bridge->doorbell, load_acquire32(&v->s->bridge->doorbell) };
		int64_t until = work(v);

		if (canceller_used(v->canceller))
			return true;
		/* No new requests in a removed segment; holds are served until their release. */
		v->b.ending = segment_is_gone(v->s);
		if (v->b.ending && all_done(v))
			return true;
		rest(v, &watch, until);
	}
	return false;
}

/* Release what this host does not need, so that other hosts need not wait for it to expire: also what a reply grants
 * meanwhile.  Once superseded no reply is applied, so the same would be sent again. */
static void finish(struct leader *v)
{
	int64_t end = clock_precise() + END_NS;
	uint32_t i;
	bool sent, landed;

	v->b.ending = true;
	v->scan_at = 0;
	serve_scan(v, host_now(v->s));
	for (i = 0; i < v->s->n_host_leases; i++)
		v->b.leases[i].pending = bridge_lease_active(&v->b, i);
	do {
		(void)serve_decide(v, &sent);
		landed = exchange(v);
		if (!landed && v->flights.n > 0)
			redis_client_wait(v->b.client, redis_now() + end - clock_precise());
	} while ((sent || landed || v->flights.n > 0) && !v->b.superseded && clock_precise() < end);
}

static int acquire_leadership(struct leader *v, struct lockshm_error *error)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	int err;

	q.key = LEADER_KEY;
	q.key_len = LEADER_KEY_LEN;
	q.ttl_ns = v->first_ttl;
	q.timeout_ns = LOCKSHM_FOREVER;
	q.tag = "bridge";
	q.canceller = v->canceller;
	err = acquire_local(v->s, &q, NULL, &v->leadership, error);
	return err < 0 ? err : 0;
}

static void forget_all(struct leader *v)
{
	uint32_t i;

	/* First: it uses names and values of the leases. */
	redis_client_free(v->b.client);
	v->b.client = NULL;
	v->client_at = 0;
	v->flights.n = 0;
	for (i = 0; i < v->s->n_host_leases; i++)
		bridge_lease_forget(&v->b.leases[i]);
	memset(v->b.active, 0, sizeof(v->b.active));
	v->b.superseded = false;
	v->scan_at = 0;
}

/* As lead_loop(). */
static bool lead(struct leader *v)
{
	bool ended;

	bridge_log("leads: obtains the leases of this host");
	listener_start(&v->listener, v->s, work_of_listener, v);
	ended = lead_loop(v);
	beat(v, 0);
	if (!ended)
		bridge_log("leads no more: it was stopped for too long, or another process took over; stands by");
	if (ended && canceller_used(v->canceller))
		finish(v);
	drain(v);
	listener_stop(&v->listener);
	forget_all(v);
	return ended;
}

int bridge_can_serve(const struct lockshm *s, struct lockshm_error *error)
{
	if (!s->n_host_leases)
		return error_set(error, LOCKSHM_INVALID,
				 "a segment without Redis: create it with options.redis or --redis");
	if (s->read_only)
		return error_set(error, LOCKSHM_PERMISSION, "the segment is open read-only");
	if (s->boot_lost)
		return error_set(error, LOCKSHM_SYSTEM, "cannot tell this process' time namespace");
	return 0;
}

static void log_standby(const struct leader *v)
{
	int32_t pid, tid;

	if (leader_find(v->s, &pid, &tid) == 0 && pid)
		bridge_log("stands by: pid %d obtains the leases of this host", (int)pid);
}

static int serve(struct leader *v, struct lockshm_error *error)
{
	bool ended = false;
	int err = 0;

	log_standby(v);
	while (!ended) {
		err = bridge_can_serve(v->s, error);
		if (!err)
			err = acquire_leadership(v, error);
		if (err)
			break;
		if (extend_leadership(v))
			ended = lead(v);
		(void)lockshm_release(&v->leadership, 0);
	}
	if (err)
		return err;
	return canceller_used(v->canceller) ? error_set(error, LOCKSHM_CANCELLED, "cancelled")
					    : error_set(error, LOCKSHM_NO_SEGMENT, "the segment was removed");
}

int bridge_serve(struct lockshm *segment, lockshm_canceller_t *canceller, struct bridge_pulse *pulse,
		 struct lockshm_error *error)
{
	struct leader *v;
	int err;

	error_set(error, 0, "%s", "");
	err = bridge_can_serve(segment, error);
	if (err)
		return err;
	v = calloc(1, sizeof(*v));
	if (!v)
		return error_set(error, LOCKSHM_NO_MEMORY, "no memory for the bridge");
	v->s = v->b.s = segment;
	v->canceller = canceller;
	memcpy(v->b.host, segment->redis.host, REDIS_HOST_BYTES);
	v->pulse = pulse;
	v->lead_ttl = lead_ttl(segment);
	v->first_ttl = first_ttl(v);
	v->b.io_ns = min64(LOCKSHM_MS((int64_t)segment->redis.ttl_ms) / 10, IO_MAX_NS);
	v->b.leases = calloc(segment->n_host_leases, sizeof(*v->b.leases));
	v->flights.of = calloc(segment->n_host_leases, sizeof(*v->flights.of));
	err = v->b.leases && v->flights.of && snapshot_init(&v->b.snap)
		      ? serve(v, error)
		      : error_set(error, LOCKSHM_NO_MEMORY, "no memory for the bridge");
	snapshot_free(&v->b.snap);
	free(v->flights.of);
	free(v->b.leases);
	free(v);
	return err;
}
