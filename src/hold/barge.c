/* SPDX-License-Identifier: MIT */
/* barge.c - the holder's side of barging; the waiter's side is in lock/wait.c, the walk's in lock/queue-advance.c */
#include "hold/barge.h"

#include "lock/table-probe.h"
#include "sys/clock.h"

#define STREAK_NS 500000 /* several wake-ups: few hand-overs pay for one; also the longest time a waiter is overtaken */
#define STREAK_GENS 256	 /* waiters compare the low half of the word, with nine bits of its generation */

/*
 * A streak ends with a hand-over STREAK_NS after its first release: as long as this thread has its processor the
 * successor may not get one.  Each hold stores when its streak began, [units of 4096 ns:20 | generation:12], so a hold
 * that is taken inside the streak of another does not lengthen that.  Returns the streak of @h, released as @word; 0 =
 * it is over.
 */
static uint32_t streak_of(struct participant *self, const struct hold *h, uint64_t word)
{
	uint32_t gen = (uint32_t)word_gen(word) & 4095, now = (uint32_t)(clock_precise() >> 12) & 0xfffff;

	if (h->streak == 0) {
		self->barge.kicked = 0;
		return (now ? now : 1) << 12 | gen;
	}
	return ((now - (h->streak >> 12)) & 0xfffff) <= STREAK_NS >> 12 && ((gen - h->streak) & 4095) < STREAK_GENS ?
		       h->streak :
		       0;
}

/*
 * R12.  Crash points: killed right after the CAS, the lock is free and the death wakes the successor; stopped there,
 * the successor finds the lock at its self-check, as after any release.
 */
bool barge(struct participant *self, const struct hold *h, uint64_t word)
{
	struct lockshm *s = self->segment;
	struct qpos here = { h->index, word_with_state(word, REQUEST_BARGEABLE) };
	uint32_t streak = streak_of(self, h, word);

	store_relaxed32(&self->barge.index, 0);
	if (!word_exclusive(word) || word_prev(word) != 0 || streak == 0 ||
	    !cas_from(&s->requests[h->index].word, word, here.word))
		return false;
	if (queue_kick_successor(s, h->index, &self->barge.kicked)) {
		store_relaxed32(&self->barge.index, h->index);
		self->barge.word = here.word;
		self->barge.entry = h->entry;
		self->barge.ticket = h->grant.ticket;
		self->barge.streak = streak;
		self->barge.host_lease = h->host_lease;
		self->barge.host_lease_word = h->host_lease_word;
		self->barge.fence = h->token;
		return true;
	}
	/* No successor was found, or it cannot be woken: a walk grants it. */
	(void)queue_end_barge(s, here);
	(void)queue_advance_tail(s, &s->entries[h->entry]);
	return true;
}

bool barge_resume(struct participant *self, const struct known_key *known, const struct acquire *a,
		  const char *tag, enum request_state state, struct grant *out)
{
	struct lockshm *s = self->segment;
	struct shm_request *r = &s->requests[self->barge.index];
	uint64_t word = self->barge.word, next = word_with_state(word_renewed(word), state);
	uint32_t entry = self->barge.entry;

	if (known_entry(known) != entry || !entry_is(&s->entries[entry], known->id.id, known->id.len))
		return false;
	/* Only this thread fills the records of its chunks: a record that is bargeable now can be ended and freed
	 * before the CAS, but cannot become another request, which these stores would corrupt. */
	if (load_acquire(&r->word) != word) {
		self->barge.index = 0;
		return false;
	}
	out->gen = word_gen(next);
	out->ticket = self->barge.ticket;
	store_relaxed((uint64_t *)&r->since_ns, (uint64_t)a->now);
	store_changed((uint64_t *)&r->ttl_ns, (uint64_t)a->ttl_ns);
	request_set_extras(r, tag, REQUEST_BARGES);
	/* R12: the deadline before the new generation: an expirer that sees the generation sees this deadline. */
	store_relaxed(&r->deadline, queue_lease(a, out->gen, &out->end));
	if (!cas_from(&r->word, word, next)) {
		self->barge.index = 0;
		return false;
	}
	self->barge.index = 0;
	return true;
}

static bool enter(struct barge_place *place)
{
	return place && __atomic_exchange_n(&place->busy, 1, __ATOMIC_ACQUIRE) == 0;
}

static void leave(struct barge_place *place)
{
	store_release32(&place->busy, 0);
}

/* A window that is there is ended by its successor, or by its loop when that needs the record. */
bool barge_of_loop(struct lockshm *s, const struct hold *h, uint64_t word)
{
	struct barge_place *place = __atomic_load_n(&s->barge_place, __ATOMIC_ACQUIRE);
	bool done;

	if (!enter(place))
		return false;
	place->loop = h->loop;
	done = barge(&place->process, h, word);
	leave(place);
	return done;
}

void barge_take(struct participant *self, uint64_t loop)
{
	struct barge_place *place = self->segment->barge_place;

	/* A look without the lock: most requests find nothing. */
	if (load_relaxed32(&place->process.barge.index) == 0 || !enter(place))
		return;
	if (place->loop == loop && place->process.barge.index != 0) {
		self->barge = place->process.barge;
		store_relaxed32(&place->process.barge.index, 0);
	}
	leave(place);
}

void barge_end(struct participant *self)
{
	if (self->barge.index != 0)
		(void)queue_reclaim(self->segment, self->barge.index);
	self->barge.index = 0;
}
