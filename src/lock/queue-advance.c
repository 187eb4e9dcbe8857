/* SPDX-License-Identifier: MIT */
/*
 * queue-advance.c - walks that advance a queue for all of its requests
 *
 * R7, the rule of every walk: a request is reached from an anchor, the nearest live request after it.  While the
 * anchor's word has not changed, its predecessor cannot have been unlinked, because that takes a CAS on this very word
 * (or, for a walk that starts at the tail, on the tail).  So: read the predecessor, then read the anchor again.  A dead
 * request never validates anything: it may be unlinked already, and its record in another use.
 *
 * All loops are bounded by the number of records, so a damaged segment ends a walk (WALK_BROKEN) and cannot trap it.
 */
#include "lock/queue.h"

#include <limits.h>

#include "lock/doorbell.h"
#include "lock/damage.h"
#include "lock/participant.h"

/* Is the anchor unchanged?  WALK_AGAIN: still live, its new word is taken.  WALK_BROKEN: give the anchor up, also where
 * only its generation differs: that may be a renewal, or another request in another queue. */
static enum walk recheck(const struct lockshm *s, struct qpos *at)
{
	uint64_t w = load_acquire(&s->requests[at->index].word);

	if (w == at->word)
		return WALK_DONE;
	if (!word_live(w) || word_gen(w) != word_gen(at->word))
		return WALK_BROKEN;
	at->word = w;
	return WALK_AGAIN;
}

enum walk queue_predecessor(struct lockshm *s, struct shm_entry *e, struct qpos *at, struct qpos *before)
{
	uint32_t tries, bound = 2 * s->n_requests + 1000;

	for (tries = 0; tries < bound; tries++) {
		uint32_t p = word_prev(at->word);
		struct shm_request *r = request_at(s, p);
		uint64_t w;

		*before = (struct qpos){ p, 0 };
		if (p == 0)
			return WALK_DONE;
		if (!r)
			return WALK_BROKEN;
		w = load_acquire(&r->word);
		/* R7: the anchor again, after the load above; the acquire keeps this order. */
		switch (recheck(s, at)) {
		case WALK_AGAIN:
			continue;
		case WALK_BROKEN:
			return WALK_AGAIN;
		case WALK_DONE:
			break;
		}
		if (word_live(w) && !queue_expire_or_reap(s, p, &w))
			continue;
		before->word = w;
		if (word_live(w))
			return WALK_DONE;
		if (!word_dead(w)) {
			/* If it was freed since, the anchor has changed.  Otherwise the queue is damaged. */
			if (recheck(s, at) == WALK_DONE && load_acquire(&r->word) == w)
				return WALK_BROKEN;
			continue;
		}
		if (!queue_bypass(s, e, at, p, w)) {
			if (recheck(s, at) == WALK_BROKEN)
				return WALK_AGAIN;
			continue;
		}
		/* R4: the next end of a request finds its successor without a walk; a waiter sleeps on the life word of the
		 * wrong owner now. */
		if (word_prev(at->word) != 0 && request_at(s, word_prev(at->word)))
			queue_hint(s, word_prev(at->word), at->index, word_gen(at->word));
		if (word_is(at->word, REQUEST_WAITING))
			queue_wake(s, at->index);
		queue_free_dead(s, p, w);
	}
	return WALK_BROKEN;
}

bool queue_look_before(const struct lockshm *s, struct qpos *at, uint32_t *hops)
{
	uint32_t p = word_prev(at->word);

	for (; p != 0 && *hops > 0; --*hops) {
		const struct shm_request *r = request_at(s, p);
		uint64_t w = r ? load_acquire(&r->word) : 0;

		/* R7: the anchor again. */
		if (!r || load_acquire(&s->requests[at->index].word) != at->word)
			return false;
		if (word_live(w)) {
			--*hops;
			*at = (struct qpos){ p, w };
			return true;
		}
		p = word_prev(w);
	}
	return false;
}

static bool due(const struct qpos *at, const struct qpos *before)
{
	if (!word_is(at->word, REQUEST_WAITING))
		return false;
	if (before->index == 0)
		return true;
	return !word_exclusive(at->word) && !word_exclusive(before->word) && word_holds(before->word);
}

/* The successor of @index by its hint, if the hint is valid (R6). */
static bool hinted_successor(const struct lockshm *s, uint32_t index, struct qpos *out)
{
	struct request_ref ref = ref_unpack(load_acquire(&s->requests[index].next));
	const struct shm_request *r = request_at(s, ref.index);

	if (!r)
		return false;
	out->index = ref.index;
	out->word = load_acquire(&r->word);
	return word_gen(out->word) == ref.gen && word_live(out->word) && word_prev(out->word) == index;
}

#define RUN_DIRECT 32  /* readers that a granter wakes one by one behind the first of a run */
#define RUN_SEGMENT 64 /* of those behind, it wakes two of so many, which wake the others */
#define RUN_PASSES 2   /* that it wakes of a segment, and each reader that has learned of its grant */
#define RUN_AWAKE 4    /* so many behind such a reader that are awake: it leaves the rest to them */
#define RUN_LOOKS 8    /* for a successor while a neighbour leaves */

/* The readers granted last that were left asleep: their positions, since a hint may not be valid when they are
 * woken. */
struct run {
	struct qpos asleep[RUN_SEGMENT];
	unsigned n;
};

/* Only when the whole segment is granted: a reader that runs before finds none to wake.  If no reader follows that could
 * look back (@ends), also the last one.  Killed here, others do it as in R5. */
static void wake_segment(struct lockshm *s, struct run *run, bool ends)
{
	unsigned i, woken = 0;

	/* Granter: CAS on their words, then load their flags.  Sleeper: store its flag, then load its word.  Pairs with
	 * the fence in wait_asleep(). */
	fence_after_rmw();
	for (i = 0; i < run->n && woken < RUN_PASSES; i++)
		woken += queue_wake_granted(s, &run->asleep[i]);
	if (ends && i < run->n)
		(void)queue_wake_granted(s, &run->asleep[run->n - 1]);
	run->n = 0;
}

/* The successor by its hint; false = none, or a neighbour that leaves has been stopped. */
static bool successor(const struct lockshm *s, uint32_t index, struct qpos *behind)
{
	unsigned looks;

	for (looks = 0; looks < RUN_LOOKS; looks++)
		if (hinted_successor(s, index, behind))
			return true;
	return false;
}

/* The request before @me, if it sleeps: the readers before it that were to wake it are stopped. */
static void wake_before(struct lockshm *s, const struct qpos *me)
{
	struct qpos before = { .index = word_prev(me->word) };
	const struct shm_request *r = request_at(s, before.index);

	if (!r)
		return;
	before.word = load_acquire(&r->word);
	/* Here: load its word, which another thread has swapped, then its flag.  Sleeper: store its flag, then load its
	 * word.  Pairs with the fence in wait_asleep(). */
	fence_after_rmw();
	if (word_is(before.word, REQUEST_GRANTED))
		(void)queue_wake_granted(s, &before);
}

/*
 * Each wakes two behind it that were granted, sleep, and that no other thread has woken yet, and the one before it.  Where
 * four behind it are awake and have not entered yet it leaves the rest to them: they come here themselves, from nearer.  So
 * two that are stopped or killed before they get here delay none: of the two at the begin of a segment and the one behind
 * its end, or at the end of the run, one is left.  Nor do more that are neighbours, as those of one process may be.  Of
 * others that stop, death notices and each sleeper's own self-check remain.
 */
void queue_wake_run(struct lockshm *s, struct shm_entry *e, uint32_t index, uint64_t gen)
{
	struct qpos at = { index, load_acquire(&s->requests[index].word) }, behind;
	unsigned hops, woken = 0, awake = 0;

	if (word_gen(at.word) != gen || word_exclusive(at.word) || !word_holds(at.word))
		return;
	wake_before(s, &at);
	for (hops = 0; hops < RUN_SEGMENT && woken < RUN_PASSES && awake < RUN_AWAKE; hops++) {
		if (!successor(s, at.index, &behind)) {
			if (tail_index(load_acquire(&e->tail)) != at.index)
				(void)queue_advance_tail(s, e);
			return;
		}
		if (word_exclusive(behind.word) || !word_holds(behind.word))
			return;
		/* Here: load its word, which another thread has swapped, then its flag.  Sleeper: store its flag, then load
		 * its word.  Pairs with the fence in wait_asleep(). */
		fence_after_rmw();
		if (word_is(behind.word, REQUEST_GRANTED)) {
			if (queue_wake_granted(s, &behind))
				woken++;
			else if (!load_relaxed32(&s->requests[behind.index].sleeping)) /* a loop's wait comes not here */
				awake++;
		}
		at = behind;
	}
}

/* Grant @behind, which is due, as number @number behind the first of a run; wake it, or leave that to its segment.  The
 * wait of a loop, whose flag was stored before its append, is rung here, and wakes none: a segment ends before it. */
static bool grant_in_run(struct lockshm *s, struct run *run, struct qpos *behind, uint32_t number)
{
	bool rings = load_relaxed32(&s->requests[behind->index].sleeping) & SLEEPS_AT_DOORBELL;

	if (!queue_grant_asleep(s, behind))
		return false;
	if (rings || run->n == RUN_SEGMENT)
		wake_segment(s, run, rings);
	if (rings)
		queue_wake(s, behind->index);
	else
		run->asleep[run->n++] = *behind;
	if (number <= RUN_DIRECT)
		wake_segment(s, run, true);
	return true;
}

/*
 * R5: the granter of a shared request also grants its successor, so that a run of readers never stops.
 * False: a successor exists, but its hint is stale: a walk has to find it.
 */
static bool grant_run(struct lockshm *s, const struct shm_entry *e, struct qpos first, struct run *run)
{
	struct qpos at = first, behind;
	uint32_t n;

	for (n = 0; n < s->n_requests && !word_exclusive(at.word); n++) {
		/* Granter: CAS on the word, then load the hint.  Successor: store the hint, then load that word.  Pairs
		 * with the fence in wait_announce(). */
		fence_after_rmw();
		if (!hinted_successor(s, at.index, &behind))
			return tail_index(load_acquire(&e->tail)) == at.index;
		if (!due(&behind, &at))
			return true;
		if (!word_is_same_hold(load_acquire(&s->requests[at.index].word), at.word) ||
		    !grant_in_run(s, run, &behind, n + 1))
			return false;
		at = behind;
	}
	return true;
}

/* As queue_grant_if_due(), for one step of a walk that is repeated if *@unfinished is set. */
static bool grant_step(struct lockshm *s, const struct shm_entry *e, struct qpos *at, const struct qpos *before,
		       bool *unfinished)
{
	struct run run;

	run.n = 0;
	if (!due(at, before)) {
		/* R5: its granter may have been killed before the wake. */
		if (word_is(at->word, REQUEST_GRANTED))
			queue_wake(s, at->index);
		return false;
	}
	if (!queue_grant(s, at))
		return false;
	if (!grant_run(s, e, *at, &run))
		*unfinished = true;
	wake_segment(s, &run, true);
	return true;
}

bool queue_grant_if_due(struct lockshm *s, struct shm_entry *e, struct qpos *at, const struct qpos *before)
{
	bool unfinished = false, won = grant_step(s, e, at, before, &unfinished);

	if (unfinished)
		(void)queue_advance_tail(s, e);
	return won;
}

/* Has the dead request @dead been unlinked, by a thread that has woken its successor since?  NULL = false. */
static bool is_freed(const struct lockshm *s, const struct qpos *dead)
{
	return dead && load_acquire(&s->requests[dead->index].word) != dead->word;
}

/* R9: one walk from @from to the head, or until @past, if not NULL, is unlinked. */
static enum walk advance_once(struct lockshm *s, struct shm_entry *e, struct qpos from, uint32_t *steps,
			      const struct qpos *past, bool *unfinished)
{
	struct qpos at = from, before;
	uint32_t n;

	for (n = 1; n <= s->n_requests; n++) {
		enum walk walk = queue_predecessor(s, e, &at, &before);

		if (walk != WALK_DONE)
			return walk;
		if (steps)
			*steps = n;
		/* R12: at a self-check: its successor had time enough to end the barge window, and may be stopped. */
		if (steps && word_is(before.word, REQUEST_BARGEABLE) && queue_end_barge(s, before)) {
			*unfinished = true;
			return WALK_DONE;
		}
		(void)grant_step(s, e, &at, &before, unfinished);
		if (before.index == 0 || (!*unfinished && is_freed(s, past)))
			return WALK_DONE;
		at = before;
	}
	return WALK_BROKEN;
}

static enum walk advance(struct lockshm *s, struct shm_entry *e, struct qpos from, uint32_t *steps,
			 const struct qpos *past)
{
	enum walk walk;
	uint32_t n = 0;
	bool unfinished;

	/* Each repetition follows a grant, so requests bound their number. */
	do {
		unfinished = false;
		walk = advance_once(s, e, from, steps, past, &unfinished);
		past = NULL;
	} while (walk == WALK_DONE && unfinished && ++n < s->n_requests);
	return walk;
}

enum walk queue_advance(struct lockshm *s, struct shm_entry *e, struct qpos from, uint32_t *steps)
{
	return advance(s, e, from, steps, NULL);
}

enum walk queue_live_tail(struct lockshm *s, struct shm_entry *e, struct qpos *out, uint32_t spare)
{
	uint32_t tries;

	for (tries = 0; tries < s->n_requests + 1000; tries++) {
		uint64_t tail = load_acquire(&e->tail), w;
		struct shm_request *r = request_at(s, tail_index(tail));

		out->index = tail_index(tail);
		if (out->index == 0)
			return WALK_DONE;
		if (!r)
			return WALK_BROKEN;
		w = load_acquire(&r->word);
		if (load_acquire(&e->tail) != tail)
			continue;
		if (word_live(w) && out->index != spare && !queue_expire_or_reap(s, out->index, &w))
			continue;
		out->word = w;
		/* R12: it has no successor, so any thread may end the barge window. */
		if (word_is(w, REQUEST_BARGEABLE)) {
			(void)queue_end_barge(s, *out);
			continue;
		}
		if (word_live(w))
			return WALK_DONE;
		if (word_is(w, REQUEST_CLAIM)) {
			/* Being re-keyed: no queue here. */
			out->index = 0;
			return WALK_DONE;
		}
		if (word_dead(w))
			(void)queue_pop_dead(s, e, tail, w);
		else if (load_acquire(&e->tail) == tail && load_acquire(&r->word) == w)
			return WALK_BROKEN;
	}
	return WALK_BROKEN;
}

/* From the tail to the head, or until @past, if not NULL, is unlinked. */
static enum walk advance_tail(struct lockshm *s, struct shm_entry *e, const struct qpos *past)
{
	struct qpos at;
	uint32_t tries;
	enum walk walk;

	for (tries = 0; tries < 1000; tries++) {
		walk = queue_live_tail(s, e, &at, 0);
		if (walk != WALK_DONE || at.index == 0 || is_freed(s, past))
			return walk;
		walk = advance(s, e, at, NULL, past);
		if (walk != WALK_AGAIN)
			return walk;
	}
	return WALK_AGAIN;
}

enum walk queue_newest_holder(struct lockshm *s, struct shm_entry *e, const struct qpos *tail, struct qpos *out)
{
	struct qpos before;
	enum walk walk = queue_live_tail(s, e, out, 0);
	uint32_t n;

	if (walk == WALK_DONE && (out->index != tail->index || out->word != tail->word))
		return WALK_AGAIN;
	for (n = 0; walk == WALK_DONE && word_is(out->word, REQUEST_WAITING); n++) {
		if (n > s->n_requests)
			return WALK_BROKEN;
		walk = queue_predecessor(s, e, out, &before);
		if (walk != WALK_DONE)
			return walk;
		/* R5: granted now, or by another thread. */
		if (queue_grant_if_due(s, e, out, &before) || before.index == 0)
			return WALK_AGAIN;
		*out = before;
	}
	/* R5: its granter may have been killed before the wake. */
	if (walk == WALK_DONE && word_is(out->word, REQUEST_GRANTED))
		queue_wake(s, out->index);
	return walk;
}

enum walk queue_advance_tail(struct lockshm *s, struct shm_entry *e)
{
	return advance_tail(s, e, NULL);
}

/* @index is the newest after a pop.  What is dead there is unlinked, too; a granted one is woken: its granter may have
 * been killed before that (R5). */
static void look_at_newest(struct lockshm *s, struct shm_entry *e, uint32_t index)
{
	const struct shm_request *r = request_at(s, index);
	uint64_t w = r ? load_acquire(&r->word) : 0;
	struct qpos newest;

	if (word_is(w, REQUEST_GRANTED))
		queue_wake(s, index);
	else if (word_dead(w) || word_is(w, REQUEST_BARGEABLE))
		(void)queue_live_tail(s, e, &newest, 0);
}

/* R2: unlink the dead request @here if it is the newest: then no request waits for it. */
static bool pop_newest(struct lockshm *s, struct shm_entry *e, struct qpos here)
{
	uint64_t tail = load_acquire(&e->tail);

	/* R2: the tail first, then the word. */
	if (tail_index(tail) != here.index || is_freed(s, &here) || !queue_pop_dead(s, e, tail, here.word))
		return false;
	look_at_newest(s, e, word_prev(here.word));
	return true;
}

#define LEAVE_TRIES 8 /* to meet a neighbour that leaves at the same time, which takes it a fraction of a microsecond */

void queue_grant_next(struct lockshm *s, struct shm_entry *e, uint32_t index)
{
	struct qpos here = { index, 0 }, at, before;
	uint32_t tries;

	/* R6: the change of @index first, then load its hint, and the tail.  Pairs with the fence in wait_announce(). */
	fence_after_rmw();
	here.word = load_acquire(&s->requests[index].word);
	for (tries = 0; tries < LEAVE_TRIES; tries++) {
		if (hinted_successor(s, index, &at) && queue_predecessor(s, e, &at, &before) == WALK_DONE) {
			(void)queue_grant_if_due(s, e, &at, &before);
			return;
		}
		if (word_live(here.word))
			break;
		if (!word_dead(here.word) || pop_newest(s, e, here) || is_freed(s, &here))
			return;
	}
	/* Its successor is not known yet, or it or its helper was stopped on the way. */
	(void)advance_tail(s, e, word_live(here.word) ? NULL : &here);
}

/*
 * R2, R4: unlink the reader @index of the calling thread, dead as @dead, without a walk.  Only this thread fills the
 * record, and only the thread that unlinks it frees it: so FREE by a plain store, after the hint.  False = its
 * successor is not known to hold the lock, or has changed.
 */
static bool unlink_reader(struct lockshm *s, struct shm_entry *e, uint32_t index, uint64_t dead)
{
	uint64_t tail, freed = word_make(word_gen(dead), false, REQUEST_FREE, 0);
	struct shm_request *r = &s->requests[index], *ahead = request_at(s, word_prev(dead));
	struct qpos at, before;

	/* R6: the swap to RELEASED first, then the hint and the tail.  Pairs with the fence in wait_announce(). */
	fence_after_rmw();
	if (!hinted_successor(s, index, &at)) {
		tail = load_acquire(&e->tail);
		if (tail_index(tail) != index ||
		    !cas_from(&e->tail, tail, tail_make(tail_ticket(tail), word_prev(dead))))
			return false;
		store_release(&r->word, freed);
		look_at_newest(s, e, word_prev(dead));
		return true;
	}
	before.word = word_with_prev(at.word, word_prev(dead));
	if (!word_is(at.word, REQUEST_ENTERED) || !cas_from(&s->requests[at.index].word, at.word, before.word))
		return false;
	at.word = before.word;
	if (ahead)
		queue_hint(s, word_prev(dead), at.index, word_gen(at.word));
	store_release(&r->word, freed);
	if (ahead && unlikely(word_dead(load_acquire(&ahead->word))))
		(void)queue_predecessor(s, e, &at, &before);
	return true;
}

bool queue_release_reader_owned(struct lockshm *s, uint32_t entry, uint32_t index, const struct grant *mine,
				uint64_t owner)
{
	struct shm_request *r = &s->requests[index];
	uint64_t w = load_acquire(&r->word);

	if (word_exclusive(w) || load_relaxed32(&r->entry) != entry || load_relaxed(&r->owner) != owner ||
	    ticket_of(load_relaxed(&r->ticket) ^ mine->ticket) != 0)
		return false;
	do {
		if (word_gen(w) != mine->gen || !word_holds(w))
			return false;
	} while (!cas(&r->word, &w, word_with_state(w, REQUEST_RELEASED)));
	if (!unlink_reader(s, &s->entries[entry], index, word_with_state(w, REQUEST_RELEASED)))
		queue_grant_next(s, &s->entries[entry], index);
	return true;
}

struct behind queue_note_behind(const struct lockshm *s, const struct shm_entry *e, uint32_t index)
{
	struct behind behind = { .tail = load_acquire(&e->tail) };

	if (tail_index(behind.tail) != index)
		behind.tail = 0;
	if (!hinted_successor(s, index, &behind.successor))
		behind.successor.index = 0;
	return behind;
}

/* In the same use of its record, the successor is in this queue still, whatever is before it now. */
void queue_grant_behind(struct lockshm *s, struct shm_entry *e, struct behind behind)
{
	struct qpos at = behind.successor, before;

	/* The caller's CAS before the look at the successor: one that announced itself too late to be known has seen the
	 * change, or is found by the walk.  Pairs with the fence in wait_announce(). */
	fence_after_rmw();
	if (at.index != 0) {
		at.word = load_acquire(&s->requests[at.index].word);
		if (word_gen(at.word) == word_gen(behind.successor.word) && word_live(at.word) &&
		    queue_predecessor(s, e, &at, &before) == WALK_DONE) {
			(void)queue_grant_if_due(s, e, &at, &before);
			return;
		}
	}
	/* Still the tail, which never has a value twice: a request that comes behind it from now on sees the change. */
	if (behind.tail != 0 && load_acquire(&e->tail) == behind.tail)
		(void)queue_live_tail(s, e, &at, 0);
	else
		(void)queue_advance_tail(s, e);
}

void queue_wake_successor(struct lockshm *s, uint32_t index)
{
	struct qpos behind;

	/* The caller's change first, then load the hint.  Pairs with the fence in wait_announce(). */
	fence_full();
	if (hinted_successor(s, index, &behind))
		queue_wake(s, behind.index);
}

bool queue_kick_successor(struct lockshm *s, uint32_t index, uint64_t *kicked)
{
	struct qpos behind;
	uint32_t sleep;

	/* R12: CAS on the word, then load the hint and the sleep flag.  The successor stores each of them and then
	 * loads the word, at the latest in the kernel.  Pairs with the fences in wait_announce() and wait_asleep(). */
	fence_after_rmw();
	if (!hinted_successor(s, index, &behind))
		return false;
	sleep = load_relaxed32(&s->requests[behind.index].sleeping);
	if (sleep & SLEEPS_ON_ONE_WORD)
		return false;
	/* The same sleep number: woken already, but its thread has not run yet to clear the flag.  If it was not yet in
	 * the kernel, it does not fall asleep: my word has changed, and too few times for its low half to recur. */
	if (!sleep || *kicked == ((uint64_t)sleep << 32 | behind.index))
		return true;
	*kicked = (uint64_t)sleep << 32 | behind.index;
	if (sleep & SLEEPS_AT_DOORBELL) {
		doorbell_ring(s, behind.index);
		return true;
	}
	/* All, because the kernel's count includes sleepers that another word has woken and that have not run yet. */
	futex_wake((const uint32_t *)(const void *)&s->requests[index].word, INT_MAX);
	return true;
}

bool queue_reclaim(struct lockshm *s, uint32_t index)
{
	struct shm_request *r = &s->requests[index];
	uint64_t w = load_acquire(&r->word);
	struct shm_entry *e = entry_at(s, load_relaxed32(&r->entry));

	if (word_is(w, REQUEST_COOLING) && e) {
		/* It may be overdue and not yet expired. */
		(void)queue_advance_tail(s, e);
		w = load_acquire(&r->word);
	}
	/* R12: its thread needs the record for another use. */
	if (word_is(w, REQUEST_BARGEABLE) && queue_end_barge(s, (struct qpos){ index, w }))
		w = word_with_state(w, REQUEST_RELEASED);
	if (!word_dead(w))
		return word_is(w, REQUEST_FREE);
	/* A complete walk unlinks and frees every dead request it meets; a record it did not meet is in no queue. */
	if (!e || queue_advance_tail(s, e) != WALK_DONE)
		return false;
	(void)cas_from(&r->word, w, word_make(word_gen(w), false, REQUEST_FREE, 0));
	return word_is(load_acquire(&r->word), REQUEST_FREE);
}
