/* SPDX-License-Identifier: MIT */
/* lease-wait.c - a request that is granted on this host waits for the host lease; see lease-wait.h */
#include "global/lease-wait.h"

#include <stdio.h>
#include <string.h>

#include "hold/hold.h"
#include "hostlease/leader.h"
#include "lock/wait.h"
#include "segment/global-keys.h"
#include "sys/error.h"
#include "sys/min.h"

#define TICK_NS LOCKSHM_MS(500)	   /* renew the local request, and ring again: the bridge may have been killed between
				    * doorbell and look */
#define TRY_NS LOCKSHM_MS(1500)	   /* longest wait of a try for the bridge's reply */
#define BRIDGELESS_NS LOCKSHM_SECONDS(2) /* without a bridge, which may be starting again */
#define LOOK_NS LOCKSHM_MS(100)	   /* from then on it looks whether there is a bridge */
#define BRIDGELESS_TRY_NS LOCKSHM_SECONDS(1)
#define NEWS_NS LOCKSHM_SECONDS(1) /* longer than a pause between two attempts, and the time that a reply may take */
#define NO_BRIDGE "no bridge to Redis runs: start one with \"lockshm-bridge %.130s\""

static struct shm_host_lease *lease_of(const struct lease_wait *g)
{
	return &g->s->host_leases[g->lease];
}

static struct shm_request *record_of(const struct lease_wait *g)
{
	return &g->s->requests[g->index];
}

static int policy_of(const struct lease_wait *g)
{
	return g->q->redis_policy ? g->q->redis_policy : (int)g->s->redis.policy;
}

int64_t lease_wait_deadline(const struct lockshm_request *q)
{
	if (q->timeout_ns == LOCKSHM_FOREVER)
		return INT64_MAX;
	return clock_precise() + (q->timeout_ns ? q->timeout_ns : TRY_NS);
}

int lease_wait_check(const struct lockshm *s, const struct lockshm_request *q, struct lockshm_error *error)
{
	if (!s->n_host_leases)
		return error_set(error, LOCKSHM_INVALID,
				 "LOCKSHM_GLOBAL in a segment without Redis: create it with options.redis or --redis");
	if (q->key_len > LOCKSHM_GLOBAL_KEY_MAX)
		return error_field(error, LOCKSHM_FIELD_KEY, LOCKSHM_KEY_TOO_LONG,
				   "key has %zu bytes, a global one at most %d", q->key_len, LOCKSHM_GLOBAL_KEY_MAX);
	if (q->key_len == LEADER_KEY_LEN && memcmp(q->key, LEADER_KEY, LEADER_KEY_LEN) == 0)
		return error_set(error, LOCKSHM_INVALID, "this key elects the bridge");
	if (q->redis_policy && (q->redis_policy < LOCKSHM_REDIS_FAIL || q->redis_policy > LOCKSHM_REDIS_LOCAL_ONLY))
		return error_field(error, LOCKSHM_FIELD_REDIS_POLICY, LOCKSHM_INVALID,
				   "redis_policy is %d, no enum lockshm_redis_policy", q->redis_policy);
	if (s->boot_lost)
		return error_set(error, LOCKSHM_SYSTEM, "cannot tell this process' time namespace");
	return 0;
}

/* ---------------------------------------------------------------- holding under the lease */

/* Flag the request as global, which shows its demand to the bridge. */
static void store_wanting(const struct lease_wait *g)
{
	struct shm_request *r = record_of(g);
	uint32_t flags = request_make_global(load_relaxed32(&r->flags) & ~REQUEST_TRY, g->lease);

	store_relaxed(&r->host_grant, 0);
	store_release32(&r->flags, flags | (lease_is_try(g->q) ? REQUEST_TRY : 0));
}

static bool usable(const struct lease_wait *g, uint64_t word, int64_t now)
{
	const struct shm_host_lease *l = lease_of(g);

	return host_lease_state(word) == HOST_LEASE_HELD &&
	       (g->q->mode == LOCKSHM_SHARED || (word & HOST_LEASE_EXCLUSIVE)) &&
	       (!(g->q->flags & LOCKSHM_ROBUST) || host_note_bits(l, word) & NOTE_KNOWN) &&
	       host_lease_good(g->s, word, load_acquire(&l->valid_until), now + LOCKSHM_MS(HOST_LEASE_GRANT_MIN_MS)) &&
	       !host_lease_exhausted(g->s, l, now) && host_lease_is(l, &g->id);
}

/* Hold under the lease if that is possible at @now, host time.  Returns the fencing number, or 0. */
static uint64_t enter(const struct lease_wait *g, uint64_t word, int64_t now)
{
	struct shm_host_lease *l = lease_of(g);
	struct shm_request *r = record_of(g);
	uint64_t fence, left = 0;

	if (!usable(g, word, now))
		return 0;
	if (g->streak &&
	    (g->lease != g->streak_lease || host_lease_epoch(word) != host_lease_epoch(g->streak_word)))
		return 0;
	fence = g->streak ? g->streak : host_lease_take_fence(l, &left);
	if (!fence)
		return 0;
	store_release(&r->host_grant, host_grant_make(host_lease_epoch(word), fence));
	/* Store host_grant before the look at the word.  Pairs with the fence in look_at_holders(). */
	fence_full();
	if (load_acquire(&l->word) != word) {
		store_release(&r->host_grant, 0);
		return 0;
	}
	/* A streak has one number: no other hold came in between. */
	if (g->streak)
		return fence;
	(void)fetch_add_relaxed(&l->local_grants, 1);
	/* Ring once for each range of numbers. */
	if (fence_low(left) && !fence_low(left + 1))
		host_lease_ring(g->s, g->lease);
	return fence;
}

/* ---------------------------------------------------------------- waiting for the lease */

static void ring(struct lease_wait *g, uint64_t word, bool tick)
{
	if (g->rung_for == word && !tick)
		return;
	g->rung_for = word;
	host_lease_ring(g->s, g->lease);
}

/* The last result, if its command was sent since this wait began and for this key; else 0. */
static uint64_t last_result_of(const struct lease_wait *g)
{
	uint64_t v = load_acquire(&lease_of(g)->last_result);

	/* Read the result before the record's key: a result for another key was stored after the record became that
	 * key's.  Pairs with the release in host_lease_store_result(), which also publishes blocked_until and the
	 * reason. */
	if (result_asked(v) < g->begun || result_asked(v) > host_now(g->s) || !host_lease_is(lease_of(g), &g->id))
		return 0;
	return v;
}

/* The reason stored with the result, or a general one. */
static void reason(const struct lease_wait *g, uint64_t last_result, char out[HOST_LEASE_REASON_BYTES])
{
	static const char *const plain[] = {
		[RESULT_NOT_YET] = "Redis has not replied",
		[RESULT_BUSY] = "another host holds it",
		[RESULT_PASSES] = "Redis is out of reach, or not able now",
		[RESULT_LASTS] = "Redis refuses it",
	};

	if (!host_lease_reason(lease_of(g), last_result, out))
		strcpy(out, plain[result_code(last_result)]);
}

/* Redis is out of reach: 0 = wait on, LOCKSHM_LOCAL_ONLY, or LOCKSHM_BRIDGE for the caller to explain. */
static int by_policy(const struct lease_wait *g)
{
	if (policy_of(g) == LOCKSHM_REDIS_LOCAL_ONLY)
		return LOCKSHM_LOCAL_ONLY;
	return policy_of(g) == LOCKSHM_REDIS_WAIT && !lease_is_try(g->q) ? 0 : LOCKSHM_BRIDGE;
}

/* Apply the last result: 0 = wait on, LOCKSHM_LOCAL_ONLY, or an error. */
static int apply_result(struct lease_wait *g)
{
	uint64_t v = last_result_of(g);
	char why[HOST_LEASE_REASON_BYTES];
	int code = result_code(v) == RESULT_PASSES ? by_policy(g) : LOCKSHM_BRIDGE;

	if (result_code(v) == RESULT_NOT_YET || result_asked(v) < g->since)
		return 0;
	g->since = result_asked(v) + 1;
	reason(g, v, why);
	if (result_code(v) == RESULT_BUSY)
		return lease_is_try(g->q) ? error_set(g->error, LOCKSHM_BUSY, "not free: %.200s", why) : 0;
	return code == LOCKSHM_BRIDGE ? error_set(g->error, code, "%.230s", why) : code;
}

/* LOCKSHM_ONLY_IF_FREE_IN_TIME: is the lease of another host booked beyond the deadline? */
static bool booked(const struct lease_wait *g, uint64_t word, int64_t now)
{
	uint64_t v = last_result_of(g);
	int64_t until;

	if (!(g->q->flags & LOCKSHM_ONLY_IF_FREE_IN_TIME) || g->deadline == INT64_MAX ||
	    host_lease_state(word) != HOST_LEASE_ACQUIRING || result_code(v) != RESULT_BUSY)
		return false;
	until = host_lease_blocked_until(lease_of(g), v);
	return until != 0 && until - host_now(g->s) > g->deadline - now;
}

/* A try is not granted under a lease that other hosts wait for: those come first. */
static bool passed_over(const struct lease_wait *g, uint64_t word, int64_t host)
{
	const struct shm_host_lease *l = lease_of(g);

	return lease_is_try(g->q) &&
	       (host_lease_state(word) == HOST_LEASE_HELD || host_lease_state(word) == HOST_LEASE_CLOSING) &&
	       host_lease_exhausted(g->s, l, host) && host_lease_is(l, &g->id);
}

static bool is_served(const struct lease_wait *g)
{
	int32_t pid, tid;
	bool served;

	if (g->round && g->round->looked)
		return g->round->served;
	/* Short of memory: it may be. */
	served = leader_find(g->s, &pid, &tid) != 0 || pid != 0;
	if (g->round)
		*g->round = (struct lease_round){ true, served };
	return served;
}

/* The last result that is news, also if its command was sent before this wait: it is of something that passes, no lease
 * came after it, and the next attempt is not overdue.  0 = there is none. */
static uint64_t news_of(const struct lease_wait *g)
{
	const struct shm_host_lease *l = lease_of(g);
	uint64_t v = load_acquire(&l->last_result);
	int64_t asked = result_asked(v), now = host_now(g->s);
	bool is_old = !v || result_code(v) == RESULT_LASTS || asked <= (int64_t)load_relaxed(&l->acquired) || asked > now ||
		      now - asked >= NEWS_NS;

	return is_old || !host_lease_is(l, &g->id) ? 0 : v;
}

/* As far as Redis has said so: other hosts; else what is known. */
static int out_of_time_without_news(struct lease_wait *g, int code)
{
	const struct shm_host_lease *l = lease_of(g);
	enum host_lease_state state = host_lease_state(load_acquire(&l->word));
	bool held = state == HOST_LEASE_HELD || state == HOST_LEASE_CLOSING;

	if (!is_served(g))
		return error_set(g->error, code, "not granted in time: " NO_BRIDGE, g->s->name);
	if (held && load_relaxed(&l->other_hosts_waiting))
		return error_set(g->error, code, "not granted in time, other hosts: they wait for it, and come first");
	return error_set(g->error, code, "not granted in time: %s",
			 held || (!lease_is_try(g->q) && host_now(g->s) - g->begun < NEWS_NS)
				 ? "the bridge has no lease from Redis yet"
				 : "the bridge does not answer");
}

int lease_wait_out_of_time(struct lease_wait *g)
{
	int code = lease_is_try(g->q) ? LOCKSHM_BRIDGE : LOCKSHM_TIMEOUT;
	char why[HOST_LEASE_REASON_BYTES], when[32] = "";
	uint64_t v = news_of(g);
	bool busy = result_code(v) == RESULT_BUSY;

	if (!v)
		return out_of_time_without_news(g, code);
	if (result_asked(v) < g->begun)
		snprintf(when, sizeof(when), "%.1f s ago: ", (double)(host_now(g->s) - result_asked(v)) / 1e9);
	reason(g, v, why);
	return error_set(g->error, code, "not granted in time%s%s%.180s", busy ? ", other hosts; " : *when ? "; " : ": ",
			 *when ? when : busy ? "last: " : "", why);
}

/* No bridge for so long that none is starting: as if Redis were out of reach.  All requests share the time, so those
 * that wait behind this one on its host do not wait as long again. */
static int no_bridge(struct lease_wait *g, uint64_t word, int64_t host)
{
	int code;

	g->look_at = g->begun + LOOK_NS;
	if (host < g->look_at)
		return 0;
	g->look_at = INT64_MAX;
	/* While a lease is held it may stand still for any time. */
	if (host_lease_state(word) == HOST_LEASE_HELD || host_lease_state(word) == HOST_LEASE_CLOSING || is_served(g))
		return 0;
	g->look_at = leader_missing_since(g->s, host) + (lease_is_try(g->q) ? BRIDGELESS_TRY_NS : BRIDGELESS_NS);
	if (host < g->look_at)
		return 0;
	code = by_policy(g);
	if (code != LOCKSHM_BRIDGE)
		return code;
	return error_set(g->error, code, NO_BRIDGE, g->s->name);
}

/* 0 = wait on. */
static int reason_to_stop(struct lease_wait *g, uint64_t word, int64_t now)
{
	char why[HOST_LEASE_REASON_BYTES];
	int err = apply_result(g);

	if (err)
		return err;
	if (g->q->canceller && canceller_used(g->q->canceller))
		return error_set(g->error, LOCKSHM_CANCELLED, "%s", lockshm_strerror(LOCKSHM_CANCELLED));
	if (segment_retired(g->s))
		return error_set(g->error, LOCKSHM_NO_SEGMENT, "the segment was removed: open it again");
	if (passed_over(g, word, host_now(g->s)))
		return error_set(g->error, LOCKSHM_BUSY, "not free: other hosts wait for it");
	err = no_bridge(g, word, host_now(g->s));
	if (err)
		return err;
	if (now >= g->deadline)
		return lease_wait_out_of_time(g);
	if (!booked(g, word, now))
		return 0;
	reason(g, last_result_of(g), why);
	return error_set(g->error, LOCKSHM_BUSY, "not free in the time this call may wait: %.180s", why);
}

/* ---------------------------------------------------------------- one look */

/* The local request lasts as long as this process runs.  False = too late. */
static bool keep_local(struct lease_wait *g, bool tick, int64_t host)
{
	if (!tick)
		return true;
	g->renewed = host;
	return g->renew_local(g);
}

/* Not entered at @host: how it goes on. */
static int go_on(struct lease_wait *g, uint64_t word, int64_t host)
{
	int64_t now = clock_precise();
	bool tick = host - g->renewed >= TICK_NS;
	int err;

	/* Barging is allowed only while the host lease is held; otherwise queue again, after the local waiters. */
	if (g->streak || !host_lease_is(lease_of(g), &g->id) || !keep_local(g, tick, host))
		return LEASE_AGAIN;
	err = reason_to_stop(g, word, now);
	if (err)
		return err;
	(void)host_lease_holds(g->s, g->lease, word); /* makes an expired lease LOST */
	ring(g, word, tick);
	return 0;
}

/* Read the sequence before everything it may be about. */
static uint64_t read_word(struct lease_wait *g)
{
	g->seq = load_acquire32(&lease_of(g)->waiters_seq);
	return g->word = load_acquire(&lease_of(g)->word);
}

static int enter_or_go_on(struct lease_wait *g, uint64_t word, int64_t host)
{
	g->fence = enter(g, word, host);
	return g->fence ? LEASE_ENTERED : go_on(g, word, host);
}

int lease_wait_try(struct lease_wait *g)
{
	uint64_t word = read_word(g);

	return enter_or_go_on(g, word, host_now(g->s));
}

/* A thread that is stopped before it enters could as well be stopped after a look at the clock here. */
int lease_wait_first_try(struct lease_wait *g)
{
	return enter_or_go_on(g, read_word(g), g->begun);
}

int64_t lease_wait_until(const struct lease_wait *g)
{
	return min64(g->deadline, clock_precise() + min64(g->look_at, g->renewed + TICK_NS) - host_now(g->s));
}

int lease_wait_look(struct lease_wait *g)
{
	uint64_t word = read_word(g);
	int64_t host = host_now(g->s);

	if (usable(g, word, host) && host_lease_has_fence(lease_of(g)))
		return LEASE_READY;
	return go_on(g, word, host);
}

/* ---------------------------------------------------------------- begin and end */

int lease_wait_begin(struct lease_wait *g)
{
	int err = host_lease_find(g->s, g->owner, &g->id, g->key, &g->lease, g->error);

	if (err)
		return err;
	/* Before the demand becomes visible: commands for it are sent later. */
	g->begun = g->since = g->renewed = host_now(g->s);
	g->rung_for = UINT64_MAX;
	g->fence = 0;
	store_wanting(g);
	return 0;
}

void lease_wait_withdraw(const struct lease_wait *g)
{
	host_lease_ring(g->s, g->lease);
}

void lease_wait_go_local(const struct lease_wait *g)
{
	struct shm_request *r = record_of(g);

	store_release32(&r->flags, request_make_local(load_relaxed32(&r->flags)));
	host_lease_ring(g->s, g->lease);
}

int lease_wait_status(const struct lease_wait *g, const struct lockshm_request *q, int status)
{
	struct lockshm_damage there;

	if (!g->fence || (!(q->flags & LOCKSHM_ROBUST) && !q->report))
		return status;
	host_note_read(g->s, g->lease, g->word, &there);
	if (!there.status)
		return status;
	if (status)
		return status;
	if (q->report && !q->report->damage.status)
		q->report->damage = there;
	return q->flags & LOCKSHM_ROBUST ? there.status : 0;
}

uint64_t lease_wait_fill(const struct lease_wait *g, struct hold *h)
{
	hold_open(h);
	/* Without a lease no token: a number of this host alone would be mistaken for one that rises from host to host. */
	h->token = g->fence;
	if (g->fence) {
		h->host_lease_word = g->word;
		h->host_lease = g->lease + 1;
		h->grant.end = 0;
	}
	hold_close(h);
	return g->fence;
}
