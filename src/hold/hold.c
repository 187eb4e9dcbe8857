/* SPDX-License-Identifier: MIT */
/*
 * hold.c - calls on a granted request: release, renew, check, acknowledge
 *
 * Upgrade and downgrade are in hold/upgrade.c, the change of owner in hold/move.c.
 */
#include "hold/hold.h"

#include <stdio.h>

#include "hold/acquire.h"
#include "hold/barge.h"
#include "hold/hold-access.h"
#include "hostlease/host-note.h"
#include "lock/damage.h"
#include "lock/guest.h"
#include "lock/queue.h"
#include "lock/request.h"
#include "lock/table.h"
#include "sys/error.h"

/* ---------------------------------------------------------------- release */

/* The hold is over: released or lost. */
static inline int finish(struct access *g, int result)
{
	struct hold *h = g->h;

	h->magic = result == LOCKSHM_LOST ? hold_lost_seal(h) : 0;
	/* The host lease may be unused on this host now, or wanted by another host. */
	if (unlikely(h->host_lease != 0))
		host_lease_ring_of_end(g->s, h->host_lease - 1);
	if (access_of_thread(g)) {
		g->self->held--;
		if (likely(!h->moved))
			g->self->free_request = h->index;
	}
	if (result == LOCKSHM_LOST && g->self)
		count_event(g->self, COUNT_LOST);
	/* The thread that unlinked it may have been killed before freeing it. */
	if (result == LOCKSHM_LOST && !h->moved)
		(void)queue_reclaim(g->s, h->index);
	if (unlikely(g->renewal != NULL))
		renewals_remove(g->s, g->renewal); /* under the renewals' lock */
	if (unlikely(g->tend != NULL))
		tend_end(g->tend, h->grant.gen);
	return hold_leave(g, result);
}

/* @text: what it is in use for; NULL = that does not matter. */
static bool use_or_finish(struct access *g, void *text)
{
	char key[HOLD_USE_BYTES / 2];

	if (access_granted(g, load_acquire(&g->r->word))) {
		if (text) {
			table_key_text(g->s, g->e, key, sizeof(key));
			snprintf(text, HOLD_USE_BYTES, "in use for \"%s\", by %s", key,
				 access_of_thread(g) ? "this thread" : "this process");
		}
		return hold_leave(g, true);
	}
	/* Lost and never released: clear up after it. */
	(void)finish(g, LOCKSHM_LOST);
	return false;
}

bool hold_in_use(struct hold *h, char text[HOLD_USE_BYTES])
{
	return hold_visit(h, use_or_finish, text);
}

/* R3: release with other requests in the queue.  False = another thread ended the hold. */
static bool die(const struct access *g)
{
	uint64_t w = load_acquire(&g->r->word);
	struct behind behind = { { 0, 0 }, 0 };

	while (access_granted(g, w)) {
		if (unlikely(g->h->moved))
			behind = queue_note_behind(g->s, g->e, g->h->index);
		if (!cas(&g->r->word, &w, word_with_state(w, REQUEST_RELEASED)))
			continue;
		if (unlikely(g->h->moved))
			queue_grant_behind(g->s, g->e, behind);
		else
			access_grant_next(g);
		return true;
	}
	return false;
}

/*
 * R11: the end of the cooldown first, then COOLING.  Crash point: killed in between, the holder is dead and the lock is
 * free.  Delayed in between for longer than the cooldown: the request expires, which is equivalent to a release.
 */
static bool cool_down(const struct access *g, int64_t end)
{
	uint64_t w;

	if (!deadline_set(g->s, g->h->index, access_gen(g), end))
		return false;
	w = load_acquire(&g->r->word);
	while (access_granted(g, w)) {
		if (!cas(&g->r->word, &w, word_with_state(w, REQUEST_COOLING)))
			continue;
		queue_wake_successor(g->s, g->h->index);
		return true;
	}
	return false;
}

/* The caller may not release it.  It may be held by another thread of this process; if not, the hold is over. */
static int drop_foreign(lockshm_hold_t *hold, int err)
{
	struct hold *h = hold_of(hold);

	if (h && hold_sealed(h) && (h->epoch != process_epoch() || !process_knows_segment(h->segment)))
		h->magic = 0;
	return err;
}

static int release_closed(struct access *g, int64_t cooldown_ns, int outcome)
{
	int64_t end = segment_now(g->s) + cooldown_ns;

	if (cool_down(g, end) || (access_passed(g->s, end) && !access_passed(g->s, access_deadline(g))))
		return finish(g, outcome);
	return finish(g, access_lost(g));
}

static bool may_resume(const struct access *g)
{
	return likely(g->h->host_lease == 0) || host_lease_goes_on(g->s, g->h->host_lease - 1, g->h->host_lease_word);
}

/* Declared to barge, and not moved: another thread could not resume it.  Without a token it is local by policy, until
 * Redis is back. */
static bool barges(const struct access *g)
{
	return unlikely(load_relaxed32(&g->r->flags) & REQUEST_BARGES) && !g->h->moved && !g->renewal && !g->locked &&
	       g->h->token != 0 && may_resume(g);
}

/* While the host lease goes on and the successor needs it, the bridge has nothing to do; if the successor does not need
 * it, or gives up, the bridge finds out at its own next look. */
static int forget_bargeable(struct access *g, int outcome)
{
	/* The CAS to BARGEABLE before the look at the lease: a bridge that closes the lease meanwhile looks for
	 * holders, and waits for a ring if it found this one.  Pairs with the fence in look_at_holders(). */
	fence_after_rmw();
	if (g->self->barge.index == g->h->index && may_resume(g))
		g->h->host_lease = 0;
	return finish(g, outcome);
}

/*
 * The host lease is lost, so another host may have the key: ended as the bridge ends it, so that it leaves its mark, if it
 * was entered.  Crash point: EXPIRED or ABANDONED and linked, as after an end by others.
 */
static int release_lost(struct access *g)
{
	uint64_t w = load_acquire(&g->r->word);

	while (access_granted(g, w))
		if (cas(&g->r->word, &w,
			word_with_state(w, word_is(w, REQUEST_GRANTED) ? REQUEST_ABANDONED : REQUEST_EXPIRED))) {
			(void)queue_advance_tail(g->s, g->e);
			break;
		}
	return finish(g, access_lost(g));
}

static __attribute__((noinline)) int release_careful(lockshm_hold_t *hold, int64_t cooldown_ns)
{
	struct grant mine;
	struct access g;
	uint64_t w;
	int err = hold_enter(&g, hold), outcome;

	if (unlikely(err))
		return drop_foreign(hold, err);
	w = load_acquire(&g.r->word);
	if (unlikely(!access_granted(&g, w)))
		return finish(&g, access_lost(&g));
	if (unlikely(cooldown_ns != 0) &&
	    (cooldown_ns < 0 || cooldown_ns > LOCKSHM_TIME_MAX || !word_exclusive(w)))
		return hold_leave(&g, LOCKSHM_INVALID);
	outcome = access_late_or_ok(&g);
	/* Before the swap that ends the hold: no loss is told any more. */
	if (unlikely(g.tend != NULL) && !tend_claim(g.tend, g.h->grant.gen))
		return finish(&g, access_lost(&g));
	if (unlikely(outcome == LOCKSHM_LOST))
		return release_lost(&g);
	if (unlikely(cooldown_ns != 0))
		return release_closed(&g, cooldown_ns, outcome);
	mine = (struct grant){ access_gen(&g), g.h->grant.ticket, 0 };
	if (likely(queue_pop_owned(g.s, g.e, g.h->index, &mine, g.owner, g.h->moved)))
		return finish(&g, outcome);
	if (barges(&g) && barge(g.self, g.h, w))
		return forget_bargeable(&g, outcome);
	if (unlikely(g.h->loop != 0) && !g.renewal && barge_of_loop(g.s, g.h, w))
		return finish(&g, outcome);
	return finish(&g, die(&g) ? outcome : access_lost(&g));
}

/*
 * R2 and nothing else: an ordinary hold of this thread, in time, alone in its queue or a reader.  False = any other
 * case.  The record is granted to this generation, ticket and owner, and is the last of that entry's queue, or for that
 * entry: so it is this hold's, whatever the hold's memory was used for before.  (The owner: a sibling process from a
 * fork may have a participant with the same uid.  The ticket: an upgrade replaces it.)
 */
static inline bool release_fast(struct hold *h, struct participant *self)
{
	struct lockshm *s;

	/* A strict hold is never late, so it needs no clock. */
	if (unlikely(h->grant.end != INT64_MAX && segment_now_at_most(self->segment) >= h->grant.end))
		return false;
	s = self->segment;
	if (unlikely(!queue_pop_owned(s, &s->entries[h->entry], h->index, &h->grant, self->ref, false)) &&
	    !queue_release_reader_owned(s, h->entry, h->index, &h->grant, self->ref))
		return false;
	h->magic = 0;
	self->held--;
	self->free_request = h->index;
	return true;
}

/*
 * The same for a hold of the process, by any of its threads.  Its owner_ref names the service thread's present use of a
 * slot: if that thread ends meanwhile, a sweep or this call ends the hold.  The record may be filled anew as soon as it
 * is free.
 */
static inline bool release_of_process(struct hold *h)
{
	struct lockshm *s = h->segment;
	uint64_t ref;

	if (unlikely(!participant_known(s)) && unlikely(!guest_known(s)))
		return false;
	if (unlikely(h->grant.end != INT64_MAX && segment_now_at_most(s) >= h->grant.end))
		return false;
	if (unlikely(!segment_is_process(s, h->owner, &ref)) ||
	    unlikely(!queue_pop_owned(s, &s->entries[h->entry], h->index, &h->grant, ref, true)))
		return false;
	h->magic = 0;
	return true;
}

/*
 * The same for a tended hold, without the renewals' lock.  It has claimed the end, so the record is not filled anew before
 * tend_end(); a renewal under way may have given the record's word another generation: before the pop, then it fails, or
 * after it, then the record is freed here.
 */
static inline bool release_tended(struct hold *h)
{
	struct lockshm *s = h->segment;
	struct tend *t;
	uint64_t ref;

	if (unlikely(!participant_known(s)) && unlikely(!guest_known(s)))
		return false;
	if (unlikely(h->grant.end != INT64_MAX && segment_now_at_most(s) >= h->grant.end))
		return false;
	if (unlikely(!segment_is_process(s, h->owner, &ref)) || unlikely(!s->tends))
		return false;
	t = tend_of(s, h->index);
	if (unlikely(!tend_claim(t, h->grant.gen)))
		return false;
	if (unlikely(!queue_pop_owned(s, &s->entries[h->entry], h->index, &h->grant, ref, true))) {
		tend_unclaim(t, h->grant.gen);
		return false;
	}
	h->magic = 0;
	if (unlikely(!word_is(load_acquire(&s->requests[h->index].word), REQUEST_FREE)))
		queue_free_renewed(s, h->index, h->grant.gen);
	store_release(&t->use, 0);
	return true;
}

static __attribute__((noinline)) int release_moved(lockshm_hold_t *hold, int64_t cooldown_ns)
{
	struct hold *h = hold_of(hold);

	if (likely(h != NULL) && likely(!((uint64_t)cooldown_ns | (uintptr_t)h->renewal | (h->moved ^ 1))) &&
	    likely(h->magic == hold_seal_with(h, 0, 1)) && likely(release_of_process(h)))
		return 0;
	if (likely(h != NULL) && likely(!((uint64_t)cooldown_ns | (uintptr_t)h->renewal | (h->moved ^ HOLD_TENDED))) &&
	    likely(h->magic == hold_seal_with(h, 0, HOLD_TENDED)) && likely(release_tended(h)))
		return 0;
	return release_careful(hold, cooldown_ns);
}

LOCKSHM_EXPORT int lockshm_release(lockshm_hold_t *hold, int64_t cooldown_ns)
{
	struct hold *h = hold_of(hold);
	struct participant *self;

	if (likely(h != NULL) && likely(!((uint64_t)cooldown_ns | (uintptr_t)h->renewal | h->moved)) &&
	    likely(h->magic == hold_seal_with(h, 0, 0))) {
		self = participant_known(h->segment);
		if (likely(self != NULL) && likely(self->uid == h->owner))
			return likely(release_fast(h, self)) ? 0 : release_careful((lockshm_hold_t *)h, 0);
	}
	return release_moved(hold, cooldown_ns);
}

/* ---------------------------------------------------------------- enter, renew, check */

/* @ttl: what auto-renewal sets from now on; 0 = as before. */
static int renew_to(struct access *g, int64_t ttl, int64_t end)
{
	uint64_t gen = access_gen(g);
	bool sooner = end < access_deadline(g);
	int outcome = access_late_or_ok(g);

	if (unlikely(outcome == LOCKSHM_LOST) || !deadline_renew(g->s, g->h->index, &gen, end))
		return access_lost(g);
	if (sooner)
		queue_wake_successor(g->s, g->h->index);
	if (g->tend)
		tend_retime(g->s, g->tend, g->h->grant.gen, gen, ttl);
	hold_open(g->h);
	g->h->grant.gen = gen;
	g->h->grant.end = g->h->host_lease ? 0 : end;
	hold_close(g->h);
	if (g->renewal)
		renewals_retime(g->s, g->renewal, gen, ttl ? ttl : g->renewal->ttl_ns, end);
	return outcome;
}

/* The lease ends @ns from now. */
static int reset(struct access *g, int64_t ns)
{
	if (ns == LOCKSHM_FOREVER)
		return renew_to(g, INT64_MAX, INT64_MAX);
	return renew_to(g, ns, deadline_clock(g->s, ns) + ns);
}

static int go_inside(const struct access *g)
{
	return queue_enter_owned(g->s, g->h->index, access_gen(g)) ? 0 : access_lost(g);
}

int hold_go_inside(const lockshm_hold_t *hold)
{
	struct access g;
	int err = hold_enter(&g, hold);

	return err ? err : hold_leave(&g, go_inside(&g));
}

int hold_begin_lease(const lockshm_hold_t *hold, int64_t ttl_ns, bool inside)
{
	struct access g;
	int err = hold_enter(&g, hold);

	if (err)
		return err;
	err = access_granted(&g, load_acquire(&g.r->word)) ? reset(&g, ttl_ns) : access_lost(&g);
	if (err >= 0 && inside)
		err = go_inside(&g);
	return hold_leave(&g, err);
}

static bool lease_is_good(int64_t ns)
{
	return ns >= LOCKSHM_TTL_MIN && ns <= LOCKSHM_TIME_MAX;
}

LOCKSHM_EXPORT int lockshm_renew(lockshm_hold_t *hold, int64_t ns)
{
	struct access g;
	int err = hold_enter(&g, hold);

	if (err)
		return err;
	if (ns != LOCKSHM_FOREVER && !lease_is_good(ns))
		return hold_leave(&g, LOCKSHM_INVALID);
	if (!access_granted(&g, load_acquire(&g.r->word)))
		return hold_leave(&g, access_lost(&g));
	return hold_leave(&g, reset(&g, ns));
}

LOCKSHM_EXPORT int lockshm_extend(lockshm_hold_t *hold, int64_t ns)
{
	struct access g;
	int64_t base;
	int err = hold_enter(&g, hold);

	if (err)
		return err;
	if (!lease_is_good(ns) || access_deadline(&g) == INT64_MAX)
		return hold_leave(&g, LOCKSHM_INVALID);
	if (!access_granted(&g, load_acquire(&g.r->word)))
		return hold_leave(&g, access_lost(&g));
	base = access_deadline(&g);
	/* Bound what additions accumulate: no lease ends later than the longest one that starts now. */
	if (base > segment_now(g.s) + LOCKSHM_TIME_MAX)
		return hold_leave(&g, LOCKSHM_INVALID);
	/* Added time counts once: auto-renewal keeps its ttl. */
	return hold_leave(&g, renew_to(&g, 0, base + ns));
}

LOCKSHM_EXPORT int lockshm_check(const lockshm_hold_t *hold, int64_t *remaining_ns)
{
	struct access g;
	int64_t left;
	int outcome, err = hold_enter(&g, hold);

	if (remaining_ns)
		*remaining_ns = 0;
	if (err)
		return err;
	if (!access_granted(&g, load_acquire(&g.r->word)))
		return hold_leave(&g, access_lost(&g));
	outcome = access_late_or_ok(&g);
	if (unlikely(outcome == LOCKSHM_LOST))
		return hold_leave(&g, access_lost(&g));
	if (remaining_ns && access_deadline(&g) == INT64_MAX) {
		*remaining_ns = LOCKSHM_FOREVER;
	} else if (remaining_ns) {
		left = access_deadline(&g) - segment_now(g.s);
		*remaining_ns = left > 0 ? left : 0;
	}
	if (unlikely(g.h->host_lease != 0) && remaining_ns) {
		left = host_lease_left(g.s, g.h->host_lease - 1, g.h->host_lease_word);
		*remaining_ns = left < *remaining_ns ? left : *remaining_ns;
	}
	return hold_leave(&g, outcome);
}

LOCKSHM_EXPORT uint64_t lockshm_token(const lockshm_hold_t *hold)
{
	const struct hold *h = hold_of(hold);

	return h && (hold_sealed(h) || hold_is_open(h)) ? h->token : 0;
}

LOCKSHM_EXPORT uint64_t lockshm_lost_to(const lockshm_hold_t *hold)
{
	const struct hold *h = hold_of(hold);

	return h && (hold_sealed(h) || h->magic == hold_lost_seal(h)) ? h->lost_to : 0;
}

/* ---------------------------------------------------------------- damage */

/* While the hold lasts no other leaves a mark, so one that was read before the hold was seen to last is not newer. */
static bool lasts(const struct access *g)
{
	return access_granted(g, load_acquire(&g->r->word)) && access_late_or_ok(g) != LOCKSHM_LOST;
}

LOCKSHM_EXPORT int lockshm_damage(const lockshm_hold_t *hold, struct lockshm_damage *damage)
{
	struct lockshm_damage none;
	struct access g;
	int err = hold_enter(&g, hold);

	if (!damage)
		damage = &none;
	memset(damage, 0, sizeof(*damage));
	if (err)
		return err;
	(void)damage_read(g.s, g.e, damage);
	if (!damage->status && g.h->host_lease)
		host_note_read(g.s, g.h->host_lease - 1, g.h->host_lease_word, damage);
	if (lasts(&g))
		return hold_leave(&g, 0);
	memset(damage, 0, sizeof(*damage));
	return hold_leave(&g, access_lost(&g));
}

LOCKSHM_EXPORT int lockshm_acknowledge(lockshm_hold_t *hold)
{
	struct access g;
	uint64_t seen;
	int err = hold_enter(&g, hold);

	if (err)
		return err;
	do {
		seen = load_acquire(&g.e->damage_word);
		if (!lasts(&g))
			return hold_leave(&g, access_lost(&g));
	} while (damage_is_mark(seen) && !damage_acknowledge(g.e, seen));
	if (g.h->host_lease)
		host_note_acknowledge(g.s, g.h->host_lease - 1, g.h->host_lease_word);
	return hold_leave(&g, 0);
}
