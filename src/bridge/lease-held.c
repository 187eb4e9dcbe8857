/* SPDX-License-Identifier: MIT */
/*
 * lease-held.c - one host lease while it is held, and once it is lost: mode changes, renewals, the end; table in
 * bridge/lease.h
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
#define UPGRADE_MAX_NS LOCKSHM_MS(2000) /* longer than any request for one lasts, see host_lease_upgrade() */
#define SUPPRESS_GRANTS 2 /* since the last look: handed over quickly */
#define BUSY_NS LOCKSHM_MS(20)

static struct demand look_at_holders(struct bridge *b, uint32_t i, uint64_t word)
{
	/* The word and suppress_until before the scan of the requests, whichever leader stored them.  Pairs with the
	 * fences in enter(), forget_bargeable(), host_lease_ring_of_end() and lease_is_exclusive(). */
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

		if ((word_holds(seen->word) || word_is(seen->word, REQUEST_COOLING)) &&
		    request_needs_lease(load_acquire32(&r->flags), i) &&
		    host_grant_is(load_acquire(&r->host_grant), epoch))
			(void)lockshm_end_hold(b->s, key, len, b->s->token_base + seen->ticket);
	}
}

/* Repeated until a scan finds no holder: the queue may be too busy for a whole scan, a hold may change its ticket or
 * generation while it is ended, memory may be short.  A holder beyond the break of a damaged queue cannot be ended; its
 * next access reports the loss. */
enum next bridge_lease_at_lost(struct bridge *b, uint32_t i, uint64_t word)
{
	struct demand in;

	end_holds(b, i, host_lease_epoch(word));
	in = look_at_holders(b, i, word);
	if (in.damaged ? in.holders : !demand_no_holder(b, i, host_lease_epoch(word), &in))
		return wait_until(&b->leases[i], host_now(b->s) + END_AGAIN_NS);
	return move(b, i, word, host_lease_with_state(word, HOST_LEASE_RELEASING));
}

/* ---------------------------------------------------------------- mode */

static uint64_t fence_left(const struct shm_host_lease *r)
{
	return load_relaxed(&r->fence) & FENCE_LEFT_MASK;
}

/* A holder has set UPGRADE; a reply clears it.  Without a reply the command is repeated, and renewals continue. */
static enum next upgrade(const struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s);

	l->mode_at = now + MODE_AGAIN_NS;
	bridge_lease_command_raise(b, i, word, cmds, n);
	/* Before sending: from then on the value may be in Redis for another ttl. */
	host_lease_store_asked(b->s, &b->s->host_leases[i]);
	bridge_lease_command(b, l, &cmds[(*n)++], REDIS_UPGRADE, word);
	return NEXT_COMMAND;
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

/* Never instead of a due renewal: upgrades may be refused for long.  UPGRADE with DOWNGRADE is damage: an undrained
 * writer may exist, and the word after an upgrade would not show it. */
static bool upgrade_due(const struct bridge *b, uint32_t i, uint64_t word)
{
	int64_t now = host_now(b->s);

	return (word & (HOST_LEASE_UPGRADE | HOST_LEASE_DOWNGRADE)) == HOST_LEASE_UPGRADE &&
	       host_lease_state(word) == HOST_LEASE_HELD && now >= b->leases[i].mode_at && now < renew_at(b, i);
}

/* Exclusive, but held by readers alone for some time, while other hosts wait, or may wait, that could read as well: the
 * upgrading holder was killed before its next step, or another reader joined. */
static bool unused(struct bridge *b, uint32_t i, uint64_t word, const struct demand *in)
{
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s);

	/* An unstable snapshot proves nothing about requests that it missed. */
	if (in->unsure && !in->writers)
		return false;
	/* A majority would need another upgrade, possibly in vain, for the writer that waits here. */
	if (!(word & HOST_LEASE_EXCLUSIVE) || !in->holders || in->writers ||
	    (bridge_is_quorum(b) && in->writer_waits)) {
		l->unused_since = 0;
		return false;
	}
	if (!l->unused_since)
		l->unused_since = now;
	if (host_lease_mode_gen(word) == HOST_LEASE_MODE_GEN_MAX)
		return false;
	/* A majority has no queue, so waiters of other hosts are unknown. */
	if (bridge_is_quorum(b))
		return now - l->unused_since >= UPGRADE_MAX_NS;
	return now - l->unused_since >= LOOK_NS && host_lease_exhausted(b->s, &b->s->host_leases[i], now);
}

/* Is the downgrade to be prepared, or sent, now?  Never instead of a due renewal.  Writers under the lease come first:
 * DOWNGRADE was set before they came, or waits for their end. */
static bool downgrade_due(struct bridge *b, uint32_t i, uint64_t word, const struct demand *in)
{
	int64_t now = host_now(b->s);

	if ((!unused(b, i, word, in) && !(word & HOST_LEASE_DOWNGRADE)) || now < b->leases[i].mode_at ||
	    now >= renew_at(b, i))
		return false;
	if (word & HOST_LEASE_EXCLUSIVE)
		return in->holders && !in->writers;
	return (word & HOST_LEASE_DRAINED) || demand_no_writer(b, i, host_lease_epoch(word), in);
}

/* First EXCLUSIVE is cleared, so no writer enters; only an upgrade can set it again.  Then the scan finds the writers
 * that were faster, and DRAINED records that there are none.  A leader stopped after that scan may send its downgrade
 * late: its mode_gen is then refused. */
static enum next downgrade(const struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s);

	if (host_lease_mode_gen(word) == HOST_LEASE_MODE_GEN_MAX && (word & HOST_LEASE_EXCLUSIVE))
		return move(b, i, word, word & ~HOST_LEASE_DOWNGRADE);
	if (word & HOST_LEASE_EXCLUSIVE)
		return move(b, i, word,
			    ((word & ~HOST_LEASE_EXCLUSIVE) | HOST_LEASE_DOWNGRADE) +
				    (UINT64_C(1) << HOST_LEASE_MODE_GEN_SHIFT));
	if (!(word & HOST_LEASE_DRAINED))
		return move(b, i, word, word | HOST_LEASE_DRAINED);
	l->mode_at = now + MODE_AGAIN_NS;
	/* Before sending: from then on the value may be in Redis for another ttl. */
	host_lease_store_asked(b->s, &b->s->host_leases[i]);
	bridge_lease_command(b, l, &cmds[(*n)++], REDIS_DOWNGRADE, word);
	return NEXT_COMMAND;
}

/* ---------------------------------------------------------------- renewals */

/* The next scan for holders that died, or the end of the retention time. */
static int64_t next_look(const struct bridge *b, const struct bridge_lease *l, int64_t now)
{
	int64_t given_back = l->idle_since ? l->idle_since + LOCKSHM_MS((int64_t)b->s->redis.retain_ms) : INT64_MAX;

	return min64(now + LOOK_NS, given_back > now ? given_back : INT64_MAX);
}

/* Renew after a third of the ttl, or with others that are renewed now, or after an invalidation. */
static enum next renew(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s);
	bool due = l->reverify || now >= renew_at(b, i) || b->renew_until >= l->renew_at;

	if (now < l->next_try || (!due && (!fence_low(fence_left(r)) || bridge_is_quorum(b))))
		return wait_until(l, min64(next_look(b, l, now), now < l->next_try ? l->next_try : l->renew_at));
	bridge_lease_command_raise(b, i, word, cmds, n);
	/* Before sending: from then on the value may be in Redis for another ttl. */
	host_lease_store_asked(b->s, &b->s->host_leases[i]);
	bridge_lease_command(b, l, &cmds[*n], REDIS_RENEW, word);
	/* The downgrade is not sent yet, and a writer may exist.  A server that lost the writer's record gets it again
	 * with the mode_gen in which it was written: a newer one would make it refuse the downgrade of this
	 * mode_gen. */
	if (host_lease_undrained(word)) {
		cmds[*n].exclusive = true;
		cmds[*n].args.mode_gen--;
	}
	cmds[*n].args.stride = fence_low(fence_left(r)) ? STRIDE_MORE : 0;
	cmds[*n].plain = cmds[*n].exclusive && !(word & HOST_LEASE_DOWNGRADE) && cmds[*n].args.stride == 0 &&
			 load_relaxed(&r->other_hosts_waiting) == 0 && l->unverified > 0;
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

	if (host_lease_state(word) != HOST_LEASE_HELD || (word & (HOST_LEASE_UPGRADE | HOST_LEASE_DOWNGRADE)) ||
	    b->ending || load_relaxed(&r->other_hosts_waiting) != 0) {
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

	if (in->waiting && in->exclusive && !(word & HOST_LEASE_EXCLUSIVE))
		return !in->holders;
	if (in->other_lease && !in->waiting)
		return !in->holders && !in->unsure;
	if (in->live || in->unsure) {
		l->idle_since = 0;
		/* Exhausted, or without tokens: no new hold can start.  A holder that the scan missed keeps its hold in
		 * CLOSING. */
		return !in->holders &&
		       (host_lease_exhausted(b->s, r, now) || (bridge_is_quorum(b) && fence_left(r) == 0));
	}
	if (!l->idle_since)
		l->idle_since = now;
	if (b->ending || load_relaxed(&r->other_hosts_waiting) != 0)
		return true;
	return now - l->idle_since >= retain && !is_busy(r, l, now);
}

/* ---------------------------------------------------------------- all of it */

static void use_mode_gen(struct bridge_lease *l, uint64_t word)
{
	if (l->mode_gen == host_lease_full_mode_gen(word))
		return;
	l->mode_gen = host_lease_full_mode_gen(word);
	l->unused_since = l->upgrade_since = l->withdraw_at = 0;
}

/* A requester clears UPGRADE in time, unless it is dead or stopped. */
static bool upgrade_abandoned(const struct bridge *b, struct bridge_lease *l, uint64_t word)
{
	int64_t now = host_now(b->s);

	if ((word & (HOST_LEASE_UPGRADE | HOST_LEASE_EXCLUSIVE | HOST_LEASE_DOWNGRADE)) != HOST_LEASE_UPGRADE) {
		l->upgrade_since = 0;
		return false;
	}
	if (!l->upgrade_since)
		l->upgrade_since = now;
	return now - l->upgrade_since >= UPGRADE_MAX_NS;
}

enum next bridge_lease_at_held(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	struct demand in;

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
	use_mode_gen(l, word);
	if (upgrade_abandoned(b, l, word))
		return move(b, i, word, host_lease_withdrawn(word));
	if (upgrade_due(b, i, word))
		return upgrade(b, i, word, cmds, n);
	if (downgrade_due(b, i, word, &in))
		return downgrade(b, i, word, cmds, n);
	return renew(b, i, word, cmds, n);
}
