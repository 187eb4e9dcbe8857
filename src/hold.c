/* SPDX-License-Identifier: MIT */
/*
 * hold.c - what the owner of a granted request can do with it
 *
 * Each call first makes sure that the caller may: the hold is where it was filled, of this process and not its parent, and
 * of this thread or of the whole process.  Then the request's word decides: still (gen, GRANTED) or LOST.  The same word
 * is what an expirer changes, so the answer is the truth (P5).
 */
#include "hold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "error.h"
#include "keeper.h"
#include "lease.h"
#include "linger.h"
#include "mark.h"
#include "queue.h"
#include "remote.h"
#include "request.h"

struct grip {
	struct hold *h;
	struct lockshm *s;
	struct shm_request *r;
	struct shm_entry *e;
	struct participant *self; /* NULL for a hold of the process used by a thread that takes no part */
	bool locked;		  /* keeper's lock is held */
	bool referenced;	  /* the segment is kept mapped for this call */
};

static inline uint64_t grip_gen(const struct grip *g)
{
	return unlikely(g->h->renewal != NULL) ? g->h->renewal->gen : g->h->gen;
}

static inline bool granted(const struct grip *g, uint64_t w)
{
	return likely(word_gen(w) == grip_gen(g)) && likely(word_is(w, REQUEST_GRANTED));
}

/* A hold of the process: the segment pointer is good only if it is known, and its keeper the same.  True = the segment is
 * referenced, so that it stays while the last other thread may be leaving. */
static bool of_process(const struct hold *h)
{
	uint64_t uid, ref;

	if (!process_ref_segment(h->segment))
		return false;
	if (keeper_identity(h->segment, &uid, &ref) && uid == h->owner)
		return true;
	segment_unref(h->segment);
	return false;
}

static inline int grip_begin(struct grip *g, const lockshm_hold_t *hold)
{
	struct hold *h = hold_of(hold);

	if (unlikely(!h))
		return LOCKSHM_INVALID;
	if (unlikely(h->magic != hold_magic(h)))
		return LOCKSHM_NOT_HELD;
	g->self = participant_find(h->segment);
	g->locked = false;
	g->referenced = false;
	if (unlikely(!g->self) || unlikely(g->self->uid != h->owner)) {
		if (!of_process(h))
			return LOCKSHM_NOT_HELD;
		g->locked = g->referenced = true;
	}
	g->h = h;
	g->s = h->segment;
	if (unlikely(g->locked) || unlikely(h->renewal != NULL)) {
		keeper_lock(g->s);
		g->locked = true;
	}
	g->r = &g->s->requests[h->index];
	g->e = &g->s->entries[h->entry];
	return 0;
}

static inline int grip_end(const struct grip *g, int result)
{
	if (unlikely(g->locked))
		keeper_unlock(g->s);
	if (unlikely(g->referenced))
		segment_unref(g->s);
	return result;
}

/* Has that time passed?  The coarse clock answers when it is far away. */
static inline bool passed(const struct lockshm *s, int64_t deadline)
{
	if (deadline == INT64_MAX || likely(segment_now_at_most(s) < deadline))
		return false;
	return segment_now(s) > deadline;
}

static inline int64_t current_deadline(const struct grip *g)
{
	if (unlikely(g->h->remote != 0))
		return deadline_ns(load_acquire(&g->r->deadline));
	return unlikely(g->h->renewal != NULL) ? g->h->renewal->deadline : g->h->deadline;
}

/* 0 or LATE; with LOCKSHM_GLOBAL also LOST: what nobody took away on this host somebody elsewhere may have. */
static inline int late_or_ok(const struct grip *g)
{
	if (unlikely(g->h->remote != 0) && !remote_holds(g->s, g->h->remote - 1, g->h->remote_word))
		return LOCKSHM_LOST;
	return unlikely(passed(g->s, current_deadline(g))) ? LOCKSHM_LATE : 0;
}

/* ---------------------------------------------------------------- lost */

/* The oldest hold that came after @ticket, else the newest ticket of the key; 0 if none. */
static uint64_t successor_ticket(const struct grip *g, uint64_t ticket)
{
	uint64_t tail = load_acquire(&g->e->tail), found = tail_ticket(tail);
	uint32_t n, i = tail_index(tail);

	if (load_relaxed(&g->e->id[0]) != g->h->key_check || found <= ticket)
		return 0;
	for (n = 0; n < g->s->n_requests; n++) {
		const struct shm_request *r = request_at(g->s, i);
		uint64_t w = r ? load_acquire(&r->word) : 0, t = r ? ticket_of(load_relaxed(&r->ticket)) : 0;

		if (!r || load_relaxed32(&r->entry) != g->h->entry || t <= ticket)
			break;
		if (word_is(w, REQUEST_GRANTED))
			found = t;
		i = word_prev(w);
	}
	return found;
}

/* Of a global hold: the newest number this host has given out, if that is newer and the lease still this key's;
 * what others have is not known here. */
static uint64_t lost_globally_to(const struct grip *g)
{
	uint64_t next = remote_fence_of(remote_at(g->s, g->h->remote - 1), g->h->key_check);

	return next > g->h->token + 1 ? next - 1 : 0;
}

static int lost(const struct grip *g)
{
	uint64_t ticket;

	if (unlikely(g->h->remote != 0)) {
		g->h->lost_to = lost_globally_to(g);
		return LOCKSHM_LOST;
	}
	/* Policy local-only: it has no token, and the number of whoever followed cannot be compared with anything. */
	if (unlikely(g->h->token == 0)) {
		g->h->lost_to = 0;
		return LOCKSHM_LOST;
	}
	ticket = successor_ticket(g, hold_ticket(g->h));
	g->h->lost_to = ticket ? g->s->token_base + ticket : 0;
	return LOCKSHM_LOST;
}

/* What is to be told of a hold that is granted here. */
static int told(const struct grip *g)
{
	int outcome = late_or_ok(g);

	return unlikely(outcome == LOCKSHM_LOST) ? lost(g) : outcome;
}

/* ---------------------------------------------------------------- release */

/* The hold is over, however it ended. */
static inline int forget(struct grip *g, int result)
{
	struct hold *h = g->h;
	struct renewal *renewal = h->renewal;

	h->magic = 0;
	h->renewal = NULL;
	/* Perhaps nobody on this host wants the lease any more, or it has to go on to another one. */
	if (unlikely(h->remote != 0))
		remote_ring(g->s, h->remote - 1);
	if (g->self && g->self->uid == h->owner) {
		g->self->held--;
		if (likely(!h->moved))
			g->self->free_request = h->index;
	}
	if (result == LOCKSHM_LOST && g->self)
		count_event(g->self, COUNT_LOST);
	/* Whoever unlinked it may have been killed before freeing it. */
	if (result == LOCKSHM_LOST && !h->moved)
		(void)queue_reclaim(g->s, h->index);
	if (unlikely(renewal != NULL))
		keeper_remove(g->s, renewal); /* under the keeper's lock */
	return grip_end(g, result);
}

/* Grant whoever may go now that I have died or changed my mode. */
static void look_behind(const struct grip *g)
{
	/* A moved hold's record may be another request by now, whose hint leads into another queue. */
	if (unlikely(g->h->moved))
		(void)queue_advance_tail(g->s, g->e);
	else
		queue_look_after_successor(g->s, g->e, g->h->index);
}

bool hold_in_use(struct hold *h)
{
	struct grip g;

	if (h->magic != hold_magic(h) || grip_begin(&g, (const lockshm_hold_t *)h) != 0)
		return false;
	if (granted(&g, load_acquire(&g.r->word)))
		return grip_end(&g, true);
	/* Lost, and never released: what belongs to it goes now. */
	(void)forget(&g, LOCKSHM_LOST);
	return false;
}

/* R3: somebody is behind, or before, me.  False = ended by somebody else. */
static bool die(const struct grip *g)
{
	uint64_t w = load_acquire(&g->r->word);

	while (granted(g, w)) {
		if (!cas(&g->r->word, &w, word_with_state(w, REQUEST_RELEASED)))
			continue;
		look_behind(g);
		return true;
	}
	return false;
}

/*
 * R11: the end of the cooldown first, then COOLING.  Killed in between: held until then by the dead, that is, free.
 * Delayed in between for longer than the cooldown: expired by it, which is as good as released.
 */
static bool cool_down(const struct grip *g, int64_t end)
{
	uint64_t w;

	if (!lease_set_deadline(g->s, g->h->index, grip_gen(g), end))
		return false;
	w = load_acquire(&g->r->word);
	while (granted(g, w)) {
		if (!cas(&g->r->word, &w, word_with_state(w, REQUEST_COOLING)))
			continue;
		queue_nudge_successor(g->s, g->h->index);
		return true;
	}
	return false;
}

/* Not ours to release.  Another thread of this process may hold it; if not, the hold is over. */
static int drop_foreign(lockshm_hold_t *hold, int err)
{
	struct hold *h = hold_of(hold);

	if (h && h->magic == hold_magic(h) && (h->epoch != process_epoch() || !process_knows_segment(h->segment)))
		h->magic = 0;
	return err;
}

static int release_closed(struct grip *g, int64_t cooldown_ns, int outcome)
{
	int64_t end = segment_now(g->s) + cooldown_ns;

	if (cool_down(g, end) || (passed(g->s, end) && !passed(g->s, current_deadline(g))))
		return forget(g, outcome);
	return forget(g, lost(g));
}

static bool goes_on(const struct grip *g)
{
	return likely(g->h->remote == 0) || global_goes_on(g->s, g->h->remote - 1, g->h->remote_word);
}

/* Declared to, and still its own thread's: who else has it could not take it up again.  Without a number it is of this host
 * alone by policy, until Redis is back. */
static bool barges(const struct grip *g)
{
	return unlikely(load_relaxed32(&g->r->flags) & REQUEST_BARGES) && !g->h->moved && !g->h->renewal && !g->locked &&
	       g->h->token != 0 && goes_on(g);
}

/* Under a lease that goes on, and that whoever is behind wants, the bridge has nothing to look at; if the one behind does not
 * want it, or gives up, the bridge finds out at its own next look. */
static int forget_lingering(struct grip *g, int outcome)
{
	/* My CAS to LINGERING before my look at the lease: one that is closed meanwhile is looked at for holders, and waits for
	 * a bell if it found this one.  Pairs with the fences in lease_close() and at_held(). */
	fence_after_rmw();
	if (g->self->linger.index == g->h->index && goes_on(g))
		g->h->remote = 0;
	return forget(g, outcome);
}

static __attribute__((noinline)) int release_careful(lockshm_hold_t *hold, int64_t cooldown_ns)
{
	struct grip g;
	uint64_t w;
	int err = grip_begin(&g, hold), outcome;

	if (unlikely(err))
		return drop_foreign(hold, err);
	w = load_acquire(&g.r->word);
	if (unlikely(!granted(&g, w)))
		return forget(&g, lost(&g));
	if (unlikely(cooldown_ns != 0) &&
	    (cooldown_ns < 0 || cooldown_ns > LOCKSHM_TIME_MAX || !word_exclusive(w)))
		return grip_end(&g, LOCKSHM_INVALID);
	outcome = late_or_ok(&g);
	if (unlikely(outcome == LOCKSHM_LOST))
		(void)lost(&g);
	else if (unlikely(cooldown_ns != 0))
		return release_closed(&g, cooldown_ns, outcome);
	if (likely(queue_pop_owned(g.s, g.e, g.h->index, grip_gen(&g), g.h->moved)))
		return forget(&g, outcome);
	if (barges(&g) && linger(g.self, g.h, w))
		return forget_lingering(&g, outcome);
	return forget(&g, die(&g) ? outcome : lost(&g));
}

/* An ordinary hold of this thread, in time, with nobody before or behind: R2 and nothing else.  False = anything else. */
static inline bool release_fast(struct hold *h, struct participant *self)
{
	struct lockshm *s;

	/* A strict hold is never late, so it needs no clock. */
	if (unlikely(h->deadline != INT64_MAX && segment_now_at_most(self->segment) >= h->deadline))
		return false;
	s = self->segment;
	if (unlikely(!queue_pop_owned(s, &s->entries[h->entry], h->index, h->gen, false)))
		return false;
	h->magic = 0;
	self->held--;
	self->free_request = h->index;
	return true;
}

LOCKSHM_EXPORT int lockshm_release(lockshm_hold_t *hold, int64_t cooldown_ns)
{
	struct hold *h = hold_of(hold);
	struct participant *self;

	if (likely(h != NULL) && likely(h->magic == hold_magic(h)) &&
	    likely(!((uint64_t)cooldown_ns | (uintptr_t)h->renewal | h->moved))) {
		self = participant_known(h->segment);
		if (likely(self != NULL) && likely(self->uid == h->owner))
			return likely(release_fast(h, self)) ? 0 : release_careful((lockshm_hold_t *)h, 0);
	}
	return release_careful(hold, cooldown_ns);
}

/* ---------------------------------------------------------------- renew, check */

/* @ttl: what auto-renewal gives from now on; 0 = as before. */
static int renew_to(struct grip *g, int64_t ttl, int64_t end)
{
	uint64_t gen = grip_gen(g);
	bool sooner = end < current_deadline(g);
	int outcome = late_or_ok(g);

	if (unlikely(outcome == LOCKSHM_LOST) || !lease_renew(g->s, g->h->index, &gen, end))
		return lost(g);
	if (sooner)
		queue_nudge_successor(g->s, g->h->index);
	g->h->gen = gen;
	g->h->deadline = g->h->remote ? 0 : end;
	if (g->h->renewal)
		keeper_retime(g->s, g->h->renewal, gen, ttl ? ttl : g->h->renewal->ttl_ns, end);
	return outcome;
}

LOCKSHM_EXPORT int lockshm_renew(lockshm_hold_t *hold, int64_t ns, int how)
{
	struct grip g;
	int64_t base;
	int err = grip_begin(&g, hold);

	if (err)
		return err;
	if ((how != LOCKSHM_RENEW_RESET && how != LOCKSHM_RENEW_ADD) ||
	    (ns == LOCKSHM_FOREVER ? how == LOCKSHM_RENEW_ADD : ns < LOCKSHM_TTL_MIN || ns > LOCKSHM_TIME_MAX) ||
	    (how == LOCKSHM_RENEW_ADD && current_deadline(&g) == INT64_MAX))
		return grip_end(&g, LOCKSHM_INVALID);
	if (!granted(&g, load_acquire(&g.r->word)))
		return grip_end(&g, lost(&g));
	base = how == LOCKSHM_RENEW_ADD ? current_deadline(&g) : segment_now(g.s);
	if (ns == LOCKSHM_FOREVER)
		return grip_end(&g, renew_to(&g, INT64_MAX, INT64_MAX));
	/* Added times must not run away: no lease ends later than the longest one would. */
	if (base > segment_now(g.s) + LOCKSHM_TIME_MAX)
		return grip_end(&g, LOCKSHM_INVALID);
	/* Added time is a single gift: what the keeper renews by stays. */
	return grip_end(&g, renew_to(&g, how == LOCKSHM_RENEW_ADD ? 0 : ns, base + ns));
}

LOCKSHM_EXPORT int lockshm_check(const lockshm_hold_t *hold, int64_t *remaining_ns)
{
	struct grip g;
	int64_t left;
	int outcome, err = grip_begin(&g, hold);

	if (remaining_ns)
		*remaining_ns = 0;
	if (err)
		return err;
	if (!granted(&g, load_acquire(&g.r->word)))
		return grip_end(&g, lost(&g));
	outcome = late_or_ok(&g);
	if (unlikely(outcome == LOCKSHM_LOST))
		return grip_end(&g, lost(&g));
	if (remaining_ns && current_deadline(&g) == INT64_MAX) {
		*remaining_ns = LOCKSHM_FOREVER;
	} else if (remaining_ns) {
		left = current_deadline(&g) - segment_now(g.s);
		*remaining_ns = left > 0 ? left : 0;
	}
	if (unlikely(g.h->remote != 0) && remaining_ns) {
		left = remote_left(g.s, g.h->remote - 1, g.h->remote_word);
		*remaining_ns = left < *remaining_ns ? left : *remaining_ns;
	}
	return grip_end(&g, outcome);
}

LOCKSHM_EXPORT uint64_t lockshm_token(const lockshm_hold_t *hold)
{
	const struct hold *h = hold_of(hold);

	return h && h->magic == hold_magic(h) ? h->token : 0;
}

LOCKSHM_EXPORT uint64_t lockshm_lost_to(const lockshm_hold_t *hold)
{
	return hold ? hold_of(hold)->lost_to : 0;
}

/* ---------------------------------------------------------------- upgrade, downgrade */

/* Change the mode of a granted request, whatever bypass moves its prev. */
static bool set_mode(const struct grip *g, bool exclusive)
{
	uint64_t w = load_acquire(&g->r->word);

	while (granted(g, w))
		if (cas(&g->r->word, &w, word_with_mode(w, exclusive)))
			return true;
	return false;
}

/* Nobody before me, nobody behind me, after clearing away the dead? */
static bool sole(const struct grip *g, uint64_t *tail)
{
	struct place last, before;

	/* Without judging myself: overdue is not lost. */
	if (queue_live_tail(g->s, g->e, &last, g->h->index) != WALK_DONE || last.index == 0)
		return false;
	if (last.index != g->h->index) {
		owner_look_closer(g->s, load_acquire(&g->s->requests[last.index].owner));
		return false;
	}
	if (queue_predecessor(g->s, g->e, &last, &before) != WALK_DONE)
		return false;
	if (before.index != 0) {
		owner_look_closer(g->s, load_acquire(&g->s->requests[before.index].owner));
		return false;
	}
	*tail = load_acquire(&g->e->tail);
	return tail_index(*tail) == g->h->index && word_prev(load_acquire(&g->r->word)) == 0;
}

#define WANTS_LEASE 1000 /* beside the public codes */

/* Of a shared hold under a lease that is exclusive: a new number.  Else WANTS_LEASE; LOCKSHM_BUSY if none is left. */
static int upgrade_token(const struct grip *g, uint64_t *token, uint64_t *word)
{
	struct shm_remote *l = remote_at(g->s, g->h->remote - 1);
	uint64_t left;

	*word = l ? load_acquire(&l->word) : 0;
	if (!(*word & REMOTE_EXCLUSIVE))
		return l ? WANTS_LEASE : LOCKSHM_BUSY;
	*token = remote_take_fence(l, &left);
	return *token ? 0 : LOCKSHM_BUSY;
}

/* Is the lease still what upgrade_token() found?  The bridge may be about to make it shared; and in a later turn others may
 * have had larger numbers. */
static bool lease_is_exclusive(const struct grip *g, uint64_t found)
{
	const struct shm_remote *l = remote_at(g->s, g->h->remote - 1);
	uint64_t w;

	/* My mode before my look at the word.  Pairs with the fence in at_held(). */
	fence_after_rmw();
	w = load_acquire(&l->word);
	return remote_full_turn(w) == remote_full_turn(found) && (w & REMOTE_EXCLUSIVE);
}

static int upgrade(lockshm_hold_t *hold)
{
	struct grip g;
	uint64_t tail = 0, ticket, w, token = 0, lease = 0;
	int outcome, err = grip_begin(&g, hold);

	if (err)
		return err;
	outcome = late_or_ok(&g);
	if (outcome == LOCKSHM_LOST)
		return grip_end(&g, lost(&g));
	/* The ticket first: if my word is granted after that, it is the ticket of this use of the record. */
	ticket = load_acquire(&g.r->ticket);
	w = load_acquire(&g.r->word);
	if (granted(&g, w) && word_exclusive(w))
		return grip_end(&g, outcome);
	/* Twice: the first look may find out that a thread is gone. */
	if (granted(&g, w) && !sole(&g, &tail) && !sole(&g, &tail))
		return grip_end(&g, LOCKSHM_BUSY);
	err = unlikely(g.h->remote != 0) && granted(&g, w) ? upgrade_token(&g, &token, &lease) : 0;
	if (unlikely(err))
		return grip_end(&g, err);
	if (!granted(&g, w) || !set_mode(&g, true))
		return grip_end(&g, lost(&g));
	if (unlikely(g.h->remote != 0) && !lease_is_exclusive(&g, lease)) {
		err = set_mode(&g, false) ? WANTS_LEASE : lost(&g);
		look_behind(&g);
		return grip_end(&g, err);
	}
	if (tail_ticket(tail) >= TICKET_MAX - 1) {
		err = set_mode(&g, false) ? LOCKSHM_FULL : lost(&g);
		return grip_end(&g, err);
	}
	/* R10.  Crash and stop points: (1) exclusive, tail not yet: newcomers wait for my lease or life, as for any holder;
	 * (2) tail: upgraded, and if I die before I note my new ticket my death is told with the old one; stopped here until
	 * the hold is taken away and the record filled anew, I find another generation in the ticket and leave it alone. */
	if (cas_from(&g.e->tail, tail, tail_make(tail_ticket(tail) + 1, g.h->index))) {
		(void)cas_from(&g.r->ticket, ticket, ticket_replace(ticket, tail_ticket(tail) + 1));
		/* The tail named me, dead or alive: my word says which. */
		if (!granted(&g, load_acquire(&g.r->word)))
			return grip_end(&g, lost(&g));
		g.h->local_token = g.s->token_base + tail_ticket(tail) + 1;
		if (g.h->token != 0)
			g.h->token = token ? token : g.h->local_token;
		return grip_end(&g, outcome);
	}
	err = set_mode(&g, false) ? LOCKSHM_BUSY : lost(&g);
	look_behind(&g);
	return grip_end(&g, err);
}

/* Where the lease has to come first, that is with nothing locked: the keeper must be able to renew meanwhile. */
LOCKSHM_EXPORT int lockshm_upgrade(lockshm_hold_t *hold)
{
	struct hold *h = hold_of(hold);
	struct lockshm *s;
	int err = upgrade(hold);

	if (likely(err != WANTS_LEASE))
		return err;
	s = h->segment;
	if (!process_ref_segment(s))
		return LOCKSHM_NOT_HELD;
	err = global_upgrade(s, h->remote - 1, h->remote_word);
	/* Lost: so that this is noted, and told. */
	if (err != LOCKSHM_BUSY) {
		err = upgrade(hold);
		/* Somebody has come in meanwhile who reads here: nobody needs it any more.  Killed before that: see unused(). */
		if (err == LOCKSHM_BUSY)
			remote_wish_shared(s, h->remote - 1, h->remote_word);
	}
	segment_unref(s);
	return err == WANTS_LEASE ? LOCKSHM_BUSY : err;
}

LOCKSHM_EXPORT int lockshm_downgrade(lockshm_hold_t *hold)
{
	struct grip g;
	uint64_t w;
	int outcome, err = grip_begin(&g, hold);

	if (err)
		return err;
	outcome = told(&g);
	if (outcome == LOCKSHM_LOST)
		return grip_end(&g, outcome);
	w = load_acquire(&g.r->word);
	if (granted(&g, w) && !word_exclusive(w))
		return grip_end(&g, outcome);
	if (!set_mode(&g, false))
		return grip_end(&g, lost(&g));
	look_behind(&g);
	/* Who reads on this host is in; now those of others. */
	if (unlikely(g.h->remote != 0))
		remote_wish_shared(g.s, g.h->remote - 1, g.h->remote_word);
	return grip_end(&g, outcome);
}

/* ---------------------------------------------------------------- acknowledge, move */

LOCKSHM_EXPORT int lockshm_acknowledge(lockshm_hold_t *hold)
{
	struct grip g;
	int err = grip_begin(&g, hold);

	if (err)
		return err;
	/* Who has lost it cannot know what is behind the mark by now. */
	if (!granted(&g, load_acquire(&g.r->word)) || late_or_ok(&g) == LOCKSHM_LOST)
		return grip_end(&g, lost(&g));
	return grip_end(&g, mark_acknowledge(g.e, g.h->mark));
}

/*
 * Change the owner, then advance the generation: who judged me by the old owner's life loses its CAS.  Killed in between by
 * the old owner's death: the hold ends with its lease or with the new owner.  Keeper's lock held, so that no other move
 * can bring the same owner word back to the record for another request.
 */
static int change_owner(struct grip *g, uint64_t uid, uint64_t ref)
{
	uint64_t old = load_acquire(&g->r->owner), gen = grip_gen(g), end = load_acquire(&g->r->deadline);
	int outcome = late_or_ok(g);

	if (outcome == LOCKSHM_LOST)
		return lost(g);
	/* Owner and deadline before the word: if that is still mine, so were they. */
	if (!granted(g, load_acquire(&g->r->word)) || !cas_from(&g->r->owner, old, ref))
		return lost(g);
	g->h->moved = true;
	if (!lease_renew(g->s, g->h->index, &gen, deadline_ns(end)))
		return lost(g);
	g->h->gen = gen;
	if (g->h->renewal)
		g->h->renewal->gen = gen;
	if (g->self && g->self->uid == g->h->owner)
		g->self->held--;
	g->h->owner = uid;
	queue_nudge_successor(g->s, g->h->index); /* it watches the old owner's life */
	return outcome;
}

/* Who shall own it.  Its slot says from now on that it may own other threads' records, for the sweep. */
static int move_target(const lockshm_hold_t *hold, int to, uint64_t *uid, uint64_t *ref)
{
	struct hold *h = hold_of(hold);
	struct participant *self;
	int err;

	if (!h || (to != LOCKSHM_TO_PROCESS && to != LOCKSHM_TO_CALLER))
		return LOCKSHM_INVALID;
	if (h->magic != hold_magic(h) || h->epoch != process_epoch())
		return LOCKSHM_NOT_HELD;
	if (to == LOCKSHM_TO_PROCESS) {
		err = keeper_start(h->segment, NULL);
		return !err && !keeper_identity(h->segment, uid, ref) ? LOCKSHM_SYSTEM : err;
	}
	err = participant_get(h->segment, &self, NULL);
	if (err)
		return err;
	*uid = self->uid;
	*ref = self->ref;
	store_release32(&self->shared->flags, load_relaxed32(&self->shared->flags) | OWNER_ADOPTED);
	return 0;
}

static int move(lockshm_hold_t *hold, int to)
{
	struct participant *self;
	struct grip g;
	uint64_t uid = 0, ref = 0;
	int err = move_target(hold, to, &uid, &ref);

	if (!err)
		err = grip_begin(&g, hold);
	if (err)
		return err;
	if (!granted(&g, load_acquire(&g.r->word)))
		return grip_end(&g, lost(&g));
	if (g.h->owner == uid)
		return grip_end(&g, told(&g));
	if (!g.locked) {
		keeper_lock(g.s);
		g.locked = true;
	}
	err = change_owner(&g, uid, ref);
	self = participant_find(g.s);
	if (err >= 0 && self && self->uid == uid)
		self->held++;
	return grip_end(&g, err);
}

LOCKSHM_EXPORT int lockshm_move(lockshm_hold_t *hold, int to)
{
	struct hold *h = hold_of(hold);
	struct lockshm *s;
	int err;

	if (!h)
		return LOCKSHM_INVALID;
	s = h->segment;
	/* The epoch before the reference: in a fresh child it makes us forget the parent's. */
	if (h->magic != hold_magic(h) || h->epoch != process_epoch() || !process_ref_segment(s))
		return to == LOCKSHM_TO_PROCESS || to == LOCKSHM_TO_CALLER ? LOCKSHM_NOT_HELD : LOCKSHM_INVALID;
	err = move(hold, to);
	segment_unref(s);
	return err;
}

/* ---------------------------------------------------------------- notify */

/* Keeper's lock held.  Takes over what it needs of @spare and @fd, and leaves the rest. */
static void begin_watch(const struct grip *g, struct renewal **spare, int *fd)
{
	struct hold *h = g->h;
	struct renewal *r = h->renewal;

	if (!r) {
		r = *spare;
		*spare = NULL;
		r->index = h->index;
		r->gen = h->gen;
		r->ttl_ns = 0;
		r->max_ns = 0;
		r->deadline = current_deadline(g);
		keeper_add_held(g->s, r);
		h->renewal = r;
	}
	/* Of a moved hold the record is another thread's, who may have filled it anew: then one call is made for
	 * nothing. */
	(void)fetch_or32(&g->r->flags, REQUEST_WATCHED);
	/* My flag before my look at the word, in told() and by the keeper: whoever takes the hold away changes the word
	 * and then looks for the flag.  Pairs with queue_tell_holder(). */
	fence_full();
	keeper_watch(g->s, r, h, *fd);
	*fd = -1;
}

/* Keeper's lock held. */
static void end_watch(const struct grip *g)
{
	struct hold *h = g->h;

	if (!h->renewal)
		return;
	h->gen = h->renewal->gen;
	if (h->renewal->ttl_ns) {
		keeper_watch(g->s, h->renewal, h, -1);
		return;
	}
	keeper_remove(g->s, h->renewal);
	h->renewal = NULL;
}

static int notify(lockshm_hold_t *hold, struct renewal **spare, int *fd)
{
	struct grip g;
	int outcome, err = grip_begin(&g, hold);

	if (err)
		return err;
	if (!g.locked && *fd >= 0) {
		keeper_lock(g.s);
		g.locked = true;
	}
	if (*fd >= 0)
		begin_watch(&g, spare, fd);
	else
		end_watch(&g);
	outcome = granted(&g, load_acquire(&g.r->word)) ? told(&g) : lost(&g);
	if (outcome == LOCKSHM_LOST)
		end_watch(&g);
	return grip_end(&g, outcome);
}

/* What cannot be written to at once would stop the keeper. */
static bool can_be_told(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDONLY;
}

LOCKSHM_EXPORT int lockshm_notify(lockshm_hold_t *hold, int fd)
{
	struct hold *h = hold_of(hold);
	struct renewal *spare = NULL;
	struct lockshm *s;
	int err = 0, copy = -1;

	if (!h || fd < -1 || (fd >= 0 && !can_be_told(fd)))
		return LOCKSHM_INVALID;
	s = h->segment;
	/* As in lockshm_move(). */
	if (h->magic != hold_magic(h) || h->epoch != process_epoch() || !process_ref_segment(s))
		return LOCKSHM_NOT_HELD;
	if (fd >= 0) {
		/* So that closing it, and opening something else under its number, does no harm. */
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		spare = malloc(sizeof(*spare));
		err = copy < 0 ? LOCKSHM_SYSTEM : !spare ? LOCKSHM_NO_MEMORY : keeper_start(s, NULL);
	}
	if (!err)
		err = notify(hold, &spare, &copy);
	if (copy >= 0)
		close(copy);
	free(spare);
	segment_unref(s);
	return err;
}
