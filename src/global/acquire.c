/* SPDX-License-Identifier: MIT */
/*
 * acquire.c - acquire of a cross-host key: the local lock first, then the host lease
 *
 * The local request is an ordinary one, which is not entered yet.  While it waits for the host lease it has a short
 * lease of its own, which its thread renews, so that a stopped thread does not keep the other requesters of its host
 * from trying.  Once it has the host lease it gets the requested ttl, and is entered.  Everything that ends a local
 * request ends this one too; in addition each check of the hold checks the host lease (hold/hold-access.h).
 *
 * Crash points:
 *   (1) granted on this host, not flagged: a request that was given up
 *   (2) flagged, waiting for the lease: the bridge finds no demand of the dead
 *   (3) number taken, not yet stored: a number that is never used
 *   (4) stored, not entered: a holder for the bridge, and for this host a request that was given up
 *   (5) entered: a hold like any other, and its death is the death of a holder
 */
#include "global/acquire.h"

#include <string.h>

#include "hold/acquire.h"
#include "hold/barge.h"
#include "hold/renewal.h"
#include "hostlease/host-lease.h"
#include "hostlease/leader.h"
#include "lock/participant.h"
#include "lock/wait.h"
#include "sys/error.h"
#include "sys/futex.h"

#define PATIENCE_NS LOCKSHM_SECONDS(3) /* lease of the local request while it waits for the host lease */
#define PATIENCE_RENEW_NS LOCKSHM_MS(500)
#define SLICE_NS LOCKSHM_MS(50)	   /* bound of each sleep: cancellers and retirement do not end it */
#define RING_NS LOCKSHM_MS(500)	   /* ring again: the bridge may have been killed between doorbell and look */
#define ONCE_MORE 1000		   /* not a public code: the local request was lost meanwhile */
#define TRY_NS LOCKSHM_MS(1500)	   /* longest wait of a try for the bridge's reply */
#define BRIDGELESS_NS LOCKSHM_SECONDS(2) /* without a bridge, which may be starting again */
#define LOOK_NS LOCKSHM_MS(100)	   /* from then on it looks whether there is a bridge */
#define BRIDGELESS_TRY_NS LOCKSHM_SECONDS(1)
#define NO_BRIDGE "no bridge to Redis runs: start one with \"lockshm-bridge %.130s\""

struct lease_wait {
	struct lockshm *s;
	const struct lockshm_request *q;
	lockshm_hold_t *hold;
	struct lockshm_error *error;
	struct identity id;
	struct participant *self;
	uint32_t index;	  /* of the record, once it is granted on this host */
	uint32_t lease;	  /* index of the host lease */
	int64_t begun;	  /* host time: results of commands sent before it do not count */
	int64_t since;	  /* host time: results of commands sent before it are known already */
	int64_t deadline; /* this process' clock */
	int64_t renewed;  /* host time */
	uint64_t streak;	  /* fencing number of the streak that this continues; 0 = none */
	uint32_t streak_lease; /* its host lease */
	uint64_t streak_word;  /* word of that lease */
	uint64_t fence;	  /* fencing number of the hold, once it is under the lease */
	uint64_t word;	  /* of the lease, as last read */
	int64_t rung;
	uint64_t rung_for;
};

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

static bool is_try(const struct lockshm_request *q)
{
	return q->timeout_ns == 0 && q->deadline_ns == 0;
}

static int64_t deadline_of(const struct lockshm_request *q)
{
	if (q->deadline_ns)
		return q->deadline_ns;
	if (q->timeout_ns == LOCKSHM_FOREVER)
		return INT64_MAX;
	return clock_precise() + (is_try(q) ? TRY_NS : q->timeout_ns);
}

static int check(const struct lockshm *s, const struct lockshm_request *q, struct lockshm_error *error)
{
	if (!s->n_host_leases)
		return error_set(error, LOCKSHM_INVALID,
				 "LOCKSHM_GLOBAL in a segment without Redis: create it with options.redis or --redis");
	if (q->key_len > LOCKSHM_GLOBAL_KEY_MAX)
		return error_set(error, LOCKSHM_KEY_TOO_LONG, "a global key has at most %d bytes, this one %zu",
				 LOCKSHM_GLOBAL_KEY_MAX, q->key_len);
	if (q->key_len == LEADER_KEY_LEN && memcmp(q->key, LEADER_KEY, LEADER_KEY_LEN) == 0)
		return error_set(error, LOCKSHM_INVALID, "this key elects the bridge");
	if (q->redis_policy && (q->redis_policy < LOCKSHM_REDIS_FAIL || q->redis_policy > LOCKSHM_REDIS_LOCAL_ONLY))
		return error_set(error, LOCKSHM_INVALID, "redis_policy is %d, no enum lockshm_redis_policy",
				 q->redis_policy);
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
	store_release32(&r->flags, flags | (is_try(g->q) ? REQUEST_TRY : 0));
}

static bool usable(const struct lease_wait *g, uint64_t word, int64_t now)
{
	const struct shm_host_lease *l = lease_of(g);

	return host_lease_state(word) == HOST_LEASE_HELD &&
	       (g->q->mode == LOCKSHM_SHARED || (word & HOST_LEASE_EXCLUSIVE)) &&
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

static void fill_hold(const struct lease_wait *g)
{
	struct hold *h = hold_of(g->hold);

	count_event(g->self, COUNT_GLOBAL);
	hold_open(h);
	h->token = g->fence;
	h->host_lease_word = g->word;
	h->host_lease = g->lease + 1;
	h->grant.end = 0;
	hold_close(h);
	if (g->q->report)
		g->q->report->token = g->fence;
}

/* ---------------------------------------------------------------- waiting for the lease */

static void ring(struct lease_wait *g, uint64_t word, int64_t now)
{
	if (g->rung_for == word && now - g->rung < RING_NS)
		return;
	g->rung_for = word;
	g->rung = now;
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
		[0] = "",
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
	return policy_of(g) == LOCKSHM_REDIS_WAIT && !is_try(g->q) ? 0 : LOCKSHM_BRIDGE;
}

/* Apply the last result: 0 = wait on, LOCKSHM_LOCAL_ONLY, or an error. */
static int apply_result(struct lease_wait *g)
{
	uint64_t v = last_result_of(g);
	char why[HOST_LEASE_REASON_BYTES];
	int code = result_code(v) == RESULT_PASSES ? by_policy(g) : LOCKSHM_BRIDGE;

	if (result_asked(v) < g->since)
		return 0;
	g->since = result_asked(v) + 1;
	reason(g, v, why);
	if (result_code(v) == RESULT_BUSY)
		return is_try(g->q) ? error_set(g->error, LOCKSHM_BUSY, "not free: %.200s", why) : 0;
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

	return is_try(g->q) &&
	       (host_lease_state(word) == HOST_LEASE_HELD || host_lease_state(word) == HOST_LEASE_CLOSING) &&
	       host_lease_exhausted(g->s, l, host) && host_lease_is(l, &g->id);
}

static bool is_served(const struct lease_wait *g)
{
	int32_t pid, tid;

	/* Short of memory: it may be. */
	return leader_find(g->s, &pid, &tid) != 0 || pid != 0;
}

static int out_of_time(const struct lease_wait *g)
{
	char why[HOST_LEASE_REASON_BYTES] = "";
	uint64_t v = last_result_of(g);

	if (v)
		reason(g, v, why);
	else if (!is_served(g))
		return error_set(g->error, LOCKSHM_TIMEOUT, "not granted in time: " NO_BRIDGE, g->s->name);
	if (is_try(g->q))
		return error_set(g->error, LOCKSHM_BRIDGE, "the bridge does not answer%s%.180s", *why ? "; last: " : "",
				 why);
	return error_set(g->error, LOCKSHM_TIMEOUT, "not granted in time, other hosts%s%.180s", *why ? "; last: " : "",
			 why);
}

/* No bridge for so long that none is starting: as if Redis were out of reach.  All requests share the time, so those
 * that wait behind this one on its host do not wait as long again. */
static int no_bridge(struct lease_wait *g, uint64_t word, int64_t host)
{
	int code;

	/* While a lease is held it may stand still for any time. */
	if (host - g->begun < LOOK_NS || host_lease_state(word) == HOST_LEASE_HELD ||
	    host_lease_state(word) == HOST_LEASE_CLOSING || is_served(g) ||
	    host - leader_missing_since(g->s, host) < (is_try(g->q) ? BRIDGELESS_TRY_NS : BRIDGELESS_NS))
		return 0;
	code = by_policy(g);
	if (code != LOCKSHM_BRIDGE)
		return code;
	return error_set(g->error, code, NO_BRIDGE, g->s->name);
}

/* 0 = wait on. */
static int reason_to_stop(struct lease_wait *g, uint64_t word, int64_t now)
{
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
		return out_of_time(g);
	if (booked(g, word, now))
		return error_set(g->error, LOCKSHM_BUSY, "held by another host beyond the time this call may wait");
	return 0;
}

/* Renew the local request, so that it lasts as long as this thread runs.  False = too late. */
static bool keep_local(struct lease_wait *g, int64_t host)
{
	if (host - g->renewed < PATIENCE_RENEW_NS)
		return true;
	g->renewed = host;
	return lockshm_renew(g->hold, PATIENCE_NS, LOCKSHM_RENEW_RESET) >= 0;
}

/* Wait until the hold is under a lease, or fails.  ONCE_MORE: the local request was lost, or the record is another
 * key's. */
static int await_lease(struct lease_wait *g)
{
	int64_t host = g->begun; /* just now */

	for (;; host = host_now(g->s)) {
		struct shm_host_lease *l = lease_of(g);
		/* Read the sequence before everything it may be about. */
		struct futex_watch watch = { &l->waiters_seq, load_acquire32(&l->waiters_seq) };
		uint64_t word = load_acquire(&l->word);
		int64_t now;
		int err;

		g->word = word;
		g->fence = enter(g, word, host);
		if (g->fence)
			return 0;
		now = clock_precise();
		/* Barging is allowed only while the host lease is held; otherwise queue again, after the local
		 * waiters. */
		if (g->streak || !host_lease_is(l, &g->id) || !keep_local(g, host))
			return ONCE_MORE;
		err = reason_to_stop(g, word, now);
		if (err)
			return err;
		(void)host_lease_holds(g->s, g->lease, word); /* makes an expired lease LOST */
		ring(g, word, now);
		futex_wait_any(&watch, 1, g->deadline - now < SLICE_NS ? g->deadline : now + SLICE_NS);
	}
}

/* ---------------------------------------------------------------- the whole acquire */

/* Policy local-only: hold on this host alone, and withdraw the demand. */
static int go_local(const struct lease_wait *g)
{
	struct shm_request *r = record_of(g);
	struct hold *h = hold_of(g->hold);

	store_release32(&r->flags, request_make_local(load_relaxed32(&r->flags)));
	host_lease_ring(g->s, g->lease);
	/* No token: a number of this host alone would be mistaken for one that rises from host to host. */
	hold_open(h);
	h->token = 0;
	hold_close(h);
	if (g->q->report)
		g->q->report->token = 0;
	return LOCKSHM_LOCAL_ONLY;
}

static int give_up(const struct lease_wait *g, int err)
{
	struct shm_request *r = record_of(g);

	/* Never granted under the host lease, so its release must not barge. */
	store_release32(&r->flags, load_relaxed32(&r->flags) & ~REQUEST_BARGES);
	(void)lockshm_release(g->hold, 0);
	host_lease_ring(g->s, g->lease);
	if (g->q->report)
		g->q->report->token = 0;
	acquire_count_failure(g->self, err);
	return err;
}

/* The local lock is held: go on to the host lease. */
static int with_local(struct lease_wait *g, int status)
{
	int err;

	err = host_lease_find(g->s, g->self->ref, &g->id, g->q->key, &g->lease, g->error);
	if (err)
		return give_up(g, err);
	/* Before the demand becomes visible: commands for it are sent later. */
	g->begun = g->since = g->renewed = host_now(g->s);
	g->rung_for = 0;
	store_wanting(g);
	err = await_lease(g);
	if (err < 0 || err == ONCE_MORE)
		return give_up(g, err);
	if (err == LOCKSHM_LOCAL_ONLY)
		status = go_local(g);
	/* From here on it has the requested ttl. */
	if (hold_of(g->hold)->renewal)
		renewals_limit(g->s, hold_of(g->hold), g->q->max_hold_ns);
	if (lockshm_renew(g->hold, request_first_ttl(g->q), LOCKSHM_RENEW_RESET) < 0)
		return give_up(g, ONCE_MORE);
	if (!(g->q->flags & ACQUIRE_OUTSIDE) && hold_go_inside(g->hold) < 0)
		return give_up(g, ONCE_MORE);
	if (g->fence)
		fill_hold(g);
	return status;
}

/* Resume what this thread left bargeable, if its host lease goes on. */
static int resume_streak(struct lease_wait *g, const struct lockshm_request *q)
{
	struct participant *self = participant_find(g->s);
	int status = NOT_TAKEN;

	g->streak = 0;
	if (!self || self->barge.index == 0)
		return NOT_TAKEN;
	if (self->barge.host_lease &&
	    host_lease_goes_on(g->s, self->barge.host_lease - 1, self->barge.host_lease_word)) {
		g->streak = self->barge.fence;
		g->streak_lease = self->barge.host_lease - 1;
		g->streak_word = self->barge.host_lease_word;
		status = acquire_resume(self, q, NULL, hold_of(g->hold), true);
	}
	if (status != NOT_TAKEN)
		return status;
	g->streak = 0;
	barge_end(self);
	return NOT_TAKEN;
}

static int acquire_once(struct lease_wait *g)
{
	struct lockshm_request q = *g->q;
	int status;

	q.flags = (q.flags & ~LOCKSHM_GLOBAL) | ACQUIRE_OUTSIDE;
	q.ttl_ns = PATIENCE_NS;
	q.max_hold_ns = 0;
	if (!is_try(g->q) && g->deadline != INT64_MAX)
		q.deadline_ns = g->deadline;
	status = resume_streak(g, &q);
	if (status == NOT_TAKEN)
		status = acquire_local(g->s, &q, NULL, g->hold, g->error);
	if (status < 0)
		return status;
	g->self = participant_find(g->s);
	g->index = hold_of(g->hold)->index;
	return with_local(g, status);
}

int global_acquire(struct lockshm *s, const struct lockshm_request *q, lockshm_hold_t *hold,
		   struct lockshm_error *error)
{
	struct lease_wait g = { .s = s, .q = q, .hold = hold, .error = error };
	int64_t begun = q->report ? clock_precise() : 0;
	int err = check(s, q, error);

	if (err)
		return err;
	g.deadline = deadline_of(q);
	hash_key(&g.id, s->hash_secret, q->key, q->key_len);
	do
		err = acquire_once(&g);
	while (err == ONCE_MORE && clock_precise() < g.deadline);
	if (err == ONCE_MORE) {
		err = out_of_time(&g);
		acquire_count_failure(g.self, err);
	}
	if (q->report) {
		int64_t more = clock_precise() - begun - q->report->waited_ns;

		q->report->waited_ns += more;
		q->report->slept_ns += more;
	}
	return err;
}
