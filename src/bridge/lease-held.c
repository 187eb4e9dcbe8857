/* SPDX-License-Identifier: MIT */
/*
 * lease-held.c - one host lease while it is held, and when it is lost, seen by the bridge: renewals, its mode, its end
 *
 * Killed or stopped after any line here: see bridge/lease.c.
 */
#define _GNU_SOURCE
#include "bridge/lease-internal.h"

#include "bridge/demand.h"
#include "lock/participant.h"
#include "lock/queue.h"
#include "lock/table.h"

#define END_AGAIN_NS LOCKSHM_MS(10) /* after holds of a lost lease that could not be ended */
#define UPGRADE_MAX_NS LOCKSHM_MS(2000) /* longer than anybody asks for one, see global_upgrade() */
#define SUPPRESS_GRANTS 2 /* that nobody has looked at: it is passed on quickly */
#define BUSY_NS LOCKSHM_MS(20)

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static struct demand look_at_holders(struct bridge *b, uint32_t i, uint64_t word)
{
	/* The word, and what is told to releases, before the look at the requests, whoever wrote them.  Pairs with the
	 * fences in enter(), forget_bargeable(), host_lease_ring_of_end() and lease_is_exclusive(). */
	fence_full();
	return demand_scan(b, i, host_lease_epoch(word));
}

/* ---------------------------------------------------------------- lost */

/* The lease is lost: end what was held under it, so that nobody waits for those who cannot know yet. */
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

		if ((word_is(seen->word, REQUEST_GRANTED) || word_is(seen->word, REQUEST_COOLING)) &&
		    request_needs_lease(load_acquire32(&r->flags), i) &&
		    host_grant_is(load_acquire(&r->host_grant), epoch))
			(void)lockshm_end_hold(b->s, key, len, b->s->token_base + seen->ticket);
	}
}

/* Until a look finds nobody left: the queue may be too busy to be seen whole, a hold may change its ticket or
 * its generation while it is ended, memory may be short.  Who is behind the place where a queue is torn
 * cannot be ended, but is told. */
enum next lease_at_lost(struct bridge *b, uint32_t i, uint64_t word)
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

/* Asked for by who holds under it.  An answer takes the bit back; without one it is asked again, and renewals go on. */
static enum next upgrade(const struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s);

	l->mode_at = now + MODE_AGAIN_NS;
	lease_command_raise(b, i, word, cmds, n);
	/* Before it is sent: from then on the token may be there for another ttl. */
	host_lease_store_asked(b->s, &b->s->host_leases[i]);
	lease_command(b, l, &cmds[(*n)++], REDIS_UPGRADE, word);
	return NEXT_COMMAND;
}

/* After a takeover: by what the segment says. */
static int64_t renew_at(const struct bridge *b, uint32_t i)
{
	struct lease *l = &b->leases[i];
	int64_t third = LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) / 3;

	if (!l->renew_at)
		l->renew_at = (int64_t)load_acquire(&b->s->host_leases[i].valid_until) - 2 * third;
	return l->renew_at;
}

/* Is it to be asked for now?  Never instead of a renewal that is due: it may be asked in vain for long.
 * Beside a downgrade it does not stand, but by damage: there somebody may write, of whom the word after an
 * upgrade would know nothing. */
static bool upgrade_due(const struct bridge *b, uint32_t i, uint64_t word)
{
	int64_t now = host_now(b->s);

	return (word & (HOST_LEASE_UPGRADE | HOST_LEASE_DOWNGRADE)) == HOST_LEASE_UPGRADE && host_lease_state(word) == HOST_LEASE_HELD &&
	       now >= b->leases[i].mode_at && now < renew_at(b, i);
}

/* Exclusive, and has been held by readers alone for some time, while others wait, or may, who might read as well:
 * whoever upgraded, or wanted to, was killed before the next line, or somebody came in beside. */
static bool unused(struct bridge *b, uint32_t i, uint64_t word, const struct demand *in)
{
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s);

	/* Who comes and goes meanwhile makes looks unsure, and says nothing about those who are not seen. */
	if (in->unsure && !in->writers)
		return false;
	/* A majority would have to be asked again, which may be in vain, for a writer who waits here. */
	if (!(word & HOST_LEASE_EXCLUSIVE) || !in->holders || in->writers || (bridge_is_quorum(b) && in->writer_waits)) {
		l->unused_since = 0;
		return false;
	}
	if (!l->unused_since)
		l->unused_since = now;
	if (host_lease_mode_gen(word) == HOST_LEASE_MODE_GEN_MAX)
		return false;
	/* A majority has no queue, so nobody here knows who waits. */
	if (bridge_is_quorum(b))
		return now - l->unused_since >= UPGRADE_MAX_NS;
	return now - l->unused_since >= LOOK_NS && host_lease_exhausted(b->s, &b->s->host_leases[i], now);
}

/* The same for the opposite.  Whoever writes under it comes first: the wish is of somebody
 * before, or waits for the end. */
static bool downgrade_due(struct bridge *b, uint32_t i, uint64_t word, const struct demand *in)
{
	int64_t now = host_now(b->s);

	if ((!unused(b, i, word, in) && !(word & HOST_LEASE_DOWNGRADE)) || now < b->leases[i].mode_at || now >= renew_at(b, i))
		return false;
	if (word & HOST_LEASE_EXCLUSIVE)
		return in->holders && !in->writers;
	return (word & HOST_LEASE_DRAINED) || demand_no_writer(b, i, host_lease_epoch(word), in);
}

/* First nobody comes in any more who writes, which cannot be taken back but by an upgrade; then whoever
 * was faster is seen, and that nobody was is noted.  Who is stopped behind that look may send it late:
 * then it is refused by its turn. */
static enum next downgrade(const struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s);

	if (host_lease_mode_gen(word) == HOST_LEASE_MODE_GEN_MAX && (word & HOST_LEASE_EXCLUSIVE))
		return move(b, i, word, word & ~HOST_LEASE_DOWNGRADE);
	if (word & HOST_LEASE_EXCLUSIVE)
		return move(b, i, word, ((word & ~HOST_LEASE_EXCLUSIVE) | HOST_LEASE_DOWNGRADE) +
						(UINT64_C(1) << HOST_LEASE_MODE_GEN_SHIFT));
	if (!(word & HOST_LEASE_DRAINED))
		return move(b, i, word, word | HOST_LEASE_DRAINED);
	l->mode_at = now + MODE_AGAIN_NS;
	/* Before it is sent: from then on the token may be there for another ttl. */
	host_lease_store_asked(b->s, &b->s->host_leases[i]);
	lease_command(b, l, &cmds[(*n)++], REDIS_DOWNGRADE, word);
	return NEXT_COMMAND;
}

/* ---------------------------------------------------------------- renewals */

/* At holders, who may have died; and when it has been idle for long enough. */
static int64_t next_look(const struct bridge *b, const struct lease *l, int64_t now)
{
	int64_t given_back = l->idle_since ? l->idle_since + LOCKSHM_MS((int64_t)b->s->redis.retain_ms) : INT64_MAX;

	return min64(now + LOOK_NS, given_back > now ? given_back : INT64_MAX);
}

/* Renew when a third of the time is over, or soon and others are renewed now, or when told that
 * something changed there. */
static enum next renew(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s);
	bool due = l->told || now >= renew_at(b, i) || b->renew_until >= l->renew_at;

	if (now < l->next_try || (!due && (!fence_low(fence_left(r)) || bridge_is_quorum(b))))
		return wait_until(l, min64(next_look(b, l, now), now < l->next_try ? l->next_try : l->renew_at));
	lease_command_raise(b, i, word, cmds, n);
	/* Before it is sent: from then on the token may be there for another ttl. */
	host_lease_store_asked(b->s, &b->s->host_leases[i]);
	lease_command(b, l, &cmds[*n], REDIS_RENEW, word);
	/* Nobody has sent a downgrade yet, and somebody may write.  Servers that are told of the writer again are told
	 * the turn in which it was one, or they would refuse the downgrade that begins this one. */
	if (host_lease_undrained(word)) {
		cmds[*n].exclusive = true;
		cmds[*n].args.turn--;
	}
	cmds[*n].args.stride = fence_low(fence_left(r)) ? STRIDE_MORE : 0;
	cmds[*n].plain = cmds[*n].exclusive && !(word & HOST_LEASE_DOWNGRADE) && cmds[*n].args.stride == 0 &&
			 load_relaxed(&r->other_hosts_waiting) == 0 && l->unverified > 0;
	(*n)++;
	return NEXT_COMMAND;
}

/* ---------------------------------------------------------------- bells, and its end */

static void end_suppression(struct shm_host_lease *r, struct lease *l)
{
	l->suppressed_at = 0;
	if (load_relaxed(&r->suppress_until) != 0)
		store_relaxed(&r->suppress_until, 0);
}

/*
 * Where several held it since it was last found to be like this, and nobody waits for their end, releases need not
 * ring: it is looked at soon in any case, and then it goes on like this, or releases ring again, and it is looked at
 * once more.  Killed, stopped: releases ring when the time is over.  Late, after another has become the bridge: a
 * release is seen as late as if its bell had been lost.
 */
static void suppress(const struct bridge *b, uint32_t i, uint64_t word)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct lease *l = &b->leases[i];
	uint64_t local_grants = load_relaxed(&r->local_grants);
	int64_t now = host_now(b->s);

	if (host_lease_state(word) != HOST_LEASE_HELD || (word & (HOST_LEASE_UPGRADE | HOST_LEASE_DOWNGRADE)) || b->ending ||
	    load_relaxed(&r->other_hosts_waiting) != 0) {
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

/* Nobody wants it at this moment, but it was passed on quickly just now: most likely one has released it and the next
 * has not asked yet.  Only for a while, as programs that poll Redis get it in such moments. */
static bool is_busy(const struct shm_host_lease *r, const struct lease *l, int64_t now)
{
	return l->suppressed_at && now - (int64_t)load_relaxed(&r->acquired) < BUSY_NS;
}

/* Is it to be given back, as soon as nobody holds under it? */
static bool must_close(const struct bridge *b, const struct shm_host_lease *r, uint64_t word, struct lease *l,
		       const struct demand *in)
{
	int64_t now = host_now(b->s), linger = LOCKSHM_MS((int64_t)b->s->redis.retain_ms);

	if (in->waiting && in->exclusive && !(word & HOST_LEASE_EXCLUSIVE))
		return !in->holders;
	if (in->other_lease && !in->waiting)
		return !in->holders && !in->unsure;
	if (in->live || in->unsure) {
		l->idle_since = 0;
		/* Where nobody comes in any more who is not in.  Whoever holds and was not seen
		 * holds on when it is closed. */
		return !in->holders && (host_lease_exhausted(b->s, r, now) || (bridge_is_quorum(b) && fence_left(r) == 0));
	}
	if (!l->idle_since)
		l->idle_since = now;
	if (b->ending || load_relaxed(&r->other_hosts_waiting) != 0)
		return true;
	return now - l->idle_since >= linger && !is_busy(r, l, now);
}

/* ---------------------------------------------------------------- all of it */

static void use_turn(struct lease *l, uint64_t word)
{
	if (l->turn == host_lease_full_mode_gen(word))
		return;
	l->turn = host_lease_full_mode_gen(word);
	l->unused_since = l->upgrade_since = l->take_back_at = 0;
}

/* Whoever asks for an upgrade takes that back himself in time.  The dead do not, nor who is stopped. */
static bool nobody_asks(const struct bridge *b, struct lease *l, uint64_t word)
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

enum next lease_at_held(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct lease *l = &b->leases[i];
	struct demand in;

	if (!host_lease_holds(b->s, i, word))
		return NEXT_AGAIN;
	suppress(b, i, word);
	in = look_at_holders(b, i, word);
	/* They wait for who holds: it has to ring. */
	if (l->suppressed_at && (in.other_lease || (in.exclusive && !(word & HOST_LEASE_EXCLUSIVE)))) {
		end_suppression(r, l);
		in = look_at_holders(b, i, word);
	}
	/* No more holds under it; then whoever was faster is seen. */
	if (host_lease_state(word) == HOST_LEASE_HELD && must_close(b, r, word, l, &in))
		return move(b, i, word, host_lease_with_state(word, HOST_LEASE_CLOSING));
	if (host_lease_state(word) == HOST_LEASE_CLOSING && demand_no_holder(b, i, host_lease_epoch(word), &in))
		return move(b, i, word, host_lease_with_state(word, HOST_LEASE_RELEASING));
	/* That counts until a renewal is answered, whatever else is asked before. */
	l->told = l->told || l->invalidated;
	l->unverified = l->invalidated ? 0 : l->unverified;
	/* Nobody can tell any more when it is over: it ends with its time. */
	if (in.damaged)
		return wait_until(l, min64(host_now(b->s) + LOOK_NS, (int64_t)load_acquire(&r->valid_until)));
	use_turn(l, word);
	if (nobody_asks(b, l, word))
		return move(b, i, word, host_lease_withdrawn(word));
	if (upgrade_due(b, i, word))
		return upgrade(b, i, word, cmds, n);
	if (downgrade_due(b, i, word, &in))
		return downgrade(b, i, word, cmds, n);
	return renew(b, i, word, cmds, n);
}
