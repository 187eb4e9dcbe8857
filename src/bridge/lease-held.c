/* SPDX-License-Identifier: MIT */
/*
 * lease-held.c - one host lease while it is held, and once it is lost: renewals, the end; table in bridge/lease.h
 *
 * Crash points: as in bridge/lease.c.
 */
#define _GNU_SOURCE
#include "bridge/lease-internal.h"

#include "bridge/demand.h"
#include "lock/participant.h"
#include "lock/queue.h"
#include "lock/table.h"
#include "sys/min.h"

#define END_AGAIN_NS LOCKSHM_MS(10) /* after holds of a lost lease could not be ended */
#define SUPPRESS_GRANTS 2 /* since the last look: handed over quickly */
#define BUSY_NS LOCKSHM_MS(20)

static struct demand look_at_holders(struct bridge *b, uint32_t i, uint64_t word)
{
	/* The word and suppress_until before the scan of the requests, whichever leader stored them.  Pairs with the
	 * fences in enter(), forget_bargeable() and host_lease_ring_of_end(). */
	fence_full();
	return demand_scan(b, i, host_lease_epoch(word));
}

/* ---------------------------------------------------------------- lost */

/* The lease is lost: end the holds under it, so that no local request waits for a holder that has not noticed. */
static void end_holds(struct bridge *b, uint32_t i, uint64_t epoch)
{
	unsigned char key[LOCKSHM_GLOBAL_KEY_MAX];
	size_t len = host_lease_key(&b->s->host_leases[i], key);
	uint32_t entry = table_lookup(b->s, &b->leases[i].id), k;

	if (!len || entry == ENTRY_NONE || !snapshot_take(b->s, &b->s->entries[entry], &b->snap))
		return;
	for (k = 0; k < b->snap.n; k++) {
		const struct snapshot_request *seen = &b->snap.requests[k];
		const struct shm_request *r = &b->s->requests[seen->index];
		uint64_t grant = load_acquire(&r->host_grant);

		if ((word_holds(seen->word) || word_is(seen->word, REQUEST_COOLING)) &&
		    request_needs_lease(load_acquire32(&r->flags), i) &&
		    host_grant_is(grant, epoch))
			(void)lockshm_end_hold(b->s, key, len, host_grant_fence(grant));
	}
}

/* Repeated until a scan finds no holder: the queue may be too busy for a whole scan, a hold may change its ticket or
 * generation while it is ended, memory may be short.  A holder beyond the break of a damaged queue cannot be ended; its
 * next access reports the loss. */
enum next bridge_lease_at_lost(struct bridge *b, uint32_t i, uint64_t word)
{
	struct demand in;

	bridge_lease_log_expiry(b, i);
	end_holds(b, i, host_lease_epoch(word));
	in = look_at_holders(b, i, word);
	if (in.damaged ? in.holders : !demand_no_holder(b, i, host_lease_epoch(word), &in))
		return wait_until(&b->leases[i], host_now(b->s) + END_AGAIN_NS);
	return move(b, i, word, host_lease_with_state(word, HOST_LEASE_RELEASING));
}

/* ---------------------------------------------------------------- renewals */

static uint64_t fence_left(const struct shm_host_lease *r)
{
	return load_relaxed(&r->fence) & FENCE_LEFT_MASK;
}

/* After a takeover: from valid_until. */
static int64_t renew_at(const struct bridge *b, uint32_t i)
{
	struct bridge_lease *l = &b->leases[i];
	int64_t third = LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) / 3;

	if (!l->renew_at)
		l->renew_at = (int64_t)load_acquire(&b->s->host_leases[i].valid_until) - 2 * third;
	return l->renew_at;
}

/* The next scan for holders that died, or the end of the retention time. */
static int64_t next_look(const struct bridge *b, const struct bridge_lease *l, int64_t now)
{
	int64_t given_back = l->idle_since ? l->idle_since + LOCKSHM_MS((int64_t)b->s->redis.retain_ms) : INT64_MAX;

	return min64(now + LOOK_NS, given_back > now ? given_back : INT64_MAX);
}

static bool renews_tokens(const struct bridge *b)
{
	return !b->client || redis_client_renews_tokens(b->client);
}

static bool renews_many(const struct bridge *b)
{
	return !b->client || redis_client_renews_many(b->client);
}

/* Renew after a third of the ttl, or with others that are renewed now, or after an invalidation; or at once for the note
 * of a key that became robust. */
static enum next renew(struct bridge *b, uint32_t i, uint64_t word, const struct demand *in, struct redis_command *cmds,
		       size_t *n)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s);
	bool unknown = in->robust && !(host_note_bits(r, word) & NOTE_KNOWN);
	bool due = unknown || l->reverify || now >= renew_at(b, i) || b->renew_until >= l->renew_at;

	if (now < l->next_try || (!due && (!fence_low(fence_left(r)) || !renews_tokens(b))))
		return wait_until(l, min64(next_look(b, l, now), now < l->next_try ? l->next_try : l->renew_at));
	bridge_lease_command_raise(b, i, word, cmds, n);
	/* Before sending: from then on the value may be in Redis for another ttl. */
	host_lease_store_asked(b->s, &b->s->host_leases[i]);
	bridge_lease_command(b, l, &cmds[*n], REDIS_RENEW, word);
	cmds[*n].args.stride = fence_low(fence_left(r)) ? STRIDE_MORE : 0;
	cmds[*n].plain = cmds[*n].exclusive && cmds[*n].args.stride == 0 && !unknown &&
			 load_relaxed(&r->other_hosts_waiting) == 0 && l->unverified > 0;
	/* Where each is renewed by itself, servers that have lost the note get a new one. */
	if (in->robust && (!cmds[*n].plain || !renews_many(b)))
		bridge_lease_note(b, i, word, &cmds[*n].args);
	(*n)++;
	return NEXT_COMMAND;
}

/* ---------------------------------------------------------------- doorbells, and its end */

static void end_suppression(struct shm_host_lease *r, struct bridge_lease *l)
{
	l->suppressed_at = 0;
	if (load_relaxed(&r->suppress_until) != 0)
		store_relaxed(&r->suppress_until, 0);
}

/*
 * Suppress the doorbell while the lease is handed over locally: at least SUPPRESS_GRANTS holds since the last look, and
 * no waiter depends on an end.  The leader looks again soon in any case; then this repeats, or releases ring again and
 * the leader looks once more.  Killed or stopped: releases ring once suppress_until has passed.  Late, after a
 * takeover: a release is noticed as late as after a lost ring.
 */
static void suppress(const struct bridge *b, uint32_t i, uint64_t word)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	uint64_t local_grants = load_relaxed(&r->local_grants);
	int64_t now = host_now(b->s);

	if (host_lease_state(word) != HOST_LEASE_HELD || b->ending || load_relaxed(&r->other_hosts_waiting) != 0) {
		end_suppression(r, l);
	} else if (local_grants - l->local_grants >= SUPPRESS_GRANTS) {
		l->local_grants = local_grants;
		l->idle_since = 0;
		l->suppressed_at = now + LOCKSHM_MS(HOST_LEASE_SUPPRESS_MS) / 2;
		store_relaxed(&r->suppress_until, (uint64_t)(now + LOCKSHM_MS(HOST_LEASE_SUPPRESS_MS)));
	} else if (now >= l->suppressed_at) {
		end_suppression(r, l);
	}
}

/* No demand at this moment, but quick hand-overs until now: most likely one holder has released and the next has not
 * requested yet.  Bounded, because programs that poll Redis acquire in such moments. */
static bool is_busy(const struct shm_host_lease *r, const struct bridge_lease *l, int64_t now)
{
	return l->suppressed_at && now - (int64_t)load_relaxed(&r->acquired) < BUSY_NS;
}

/* Is the lease to be released once there are no holders? */
static bool must_close(const struct bridge *b, const struct shm_host_lease *r, uint64_t word, struct bridge_lease *l,
		       const struct demand *in)
{
	int64_t now = host_now(b->s), retain = LOCKSHM_MS((int64_t)b->s->redis.retain_ms);

	/* A writer waits for the next lease. */
	if (in->waiting && in->exclusive && !(word & HOST_LEASE_EXCLUSIVE))
		return !in->holders;
	if (in->other_lease && !in->waiting)
		return !in->holders && !in->unsure;
	if (in->live || in->unsure) {
		l->idle_since = 0;
		/* Exhausted, or without tokens: no new hold can start.  A holder that the scan missed keeps its hold in
		 * CLOSING. */
		return !in->holders &&
		       (host_lease_exhausted(b->s, r, now) || (!renews_tokens(b) && fence_left(r) == 0));
	}
	if (!l->idle_since)
		l->idle_since = now;
	if (b->ending || load_relaxed(&r->other_hosts_waiting) != 0)
		return true;
	return now - l->idle_since >= retain && !is_busy(r, l, now);
}

/* ---------------------------------------------------------------- all of it */

enum next bridge_lease_at_held(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	struct demand in;

	l->held = true;
	if (!host_lease_holds(b->s, i, word))
		return NEXT_AGAIN;
	suppress(b, i, word);
	in = look_at_holders(b, i, word);
	/* These waiters depend on the holder's end: releases must ring. */
	if (l->suppressed_at && (in.other_lease || (in.exclusive && !(word & HOST_LEASE_EXCLUSIVE)))) {
		end_suppression(r, l);
		in = look_at_holders(b, i, word);
	}
	/* No new holds from here on; the next scan sees those that were faster. */
	if (host_lease_state(word) == HOST_LEASE_HELD && must_close(b, r, word, l, &in))
		return move(b, i, word, host_lease_with_state(word, HOST_LEASE_CLOSING));
	if (host_lease_state(word) == HOST_LEASE_CLOSING && demand_no_holder(b, i, host_lease_epoch(word), &in))
		return move(b, i, word, host_lease_with_state(word, HOST_LEASE_RELEASING));
	/* Until the reply to a renewal, whatever is sent before. */
	l->reverify = l->reverify || l->invalidated;
	l->unverified = l->invalidated ? 0 : l->unverified;
	/* The end of holds cannot be seen any more: the lease expires. */
	if (in.damaged)
		return wait_until(l, min64(host_now(b->s) + LOOK_NS, (int64_t)load_acquire(&r->valid_until)));
	return renew(b, i, word, &in, cmds, n);
}
