/* SPDX-License-Identifier: MIT */
/* barge.c - the side of the thread that lets its hold linger; the other side is in wait.c,
 * the middle in lock/queue-advance.c */
#include "hold/barge.h"

#include "sys/clock.h"
#include "lock/table-probe.h"

#define ROW_NS 500000 /* some wake-ups long, so that few hand-overs cost one; and the longest anybody is passed */
#define ROW_GENS 256	 /* a waiter compares the low half of my word: nine bits of its generation */

/*
 * A row of holds ends with a hand-over ROW_NS after its first release: whoever is next in line may not get a processor
 * as long as this thread has it.  Each hold knows when its row began, [units of 4096 ns:20 | generation:12]; so one
 * that is taken inside another's row does not lengthen it.  Returns the row of @h, released as @word; 0 = it is over.
 */
static uint32_t row_of(struct participant *self, const struct hold *h, uint64_t word)
{
	uint32_t gen = (uint32_t)word_gen(word) & 4095, now = (uint32_t)(clock_precise() >> 12) & 0xfffff;

	if (h->row == 0) {
		self->linger.called = 0;
		return (now ? now : 1) << 12 | gen;
	}
	return ((now - (h->row >> 12)) & 0xfffff) <= ROW_NS >> 12 && ((gen - h->row) & 4095) < ROW_GENS ? h->row : 0;
}

/*
 * R12.  Killed right behind the CAS: free, and the one behind is woken by the death.  Stopped there: it finds out at
 * its self-check, as behind any release.
 */
bool linger(struct participant *self, const struct hold *h, uint64_t word)
{
	struct lockshm *s = self->segment;
	struct place here = { h->index, word_with_state(word, REQUEST_LINGERING) };
	uint32_t row = row_of(self, h, word);

	self->linger.index = 0;
	if (!word_exclusive(word) || word_prev(word) != 0 || row == 0 ||
	    !cas_from(&s->requests[h->index].word, word, here.word))
		return false;
	if (queue_call_successor(s, h->index, &self->linger.called)) {
		self->linger.index = h->index;
		self->linger.word = here.word;
		self->linger.entry = h->entry;
		self->linger.ticket = hold_ticket(h);
		self->linger.row = row;
		self->linger.host_lease = h->host_lease;
		self->linger.host_lease_word = h->host_lease_word;
		self->linger.fence = h->token;
		return true;
	}
	/* Nobody that I can find, or can wake: a walk grants it. */
	(void)queue_end_linger(s, here);
	(void)queue_advance_tail(s, &s->entries[h->entry]);
	return true;
}

bool linger_take_up(struct participant *self, const struct known_key *known, const struct wish *wish,
		    const char *tag, struct grant *out)
{
	struct lockshm *s = self->segment;
	struct shm_request *r = &s->requests[self->linger.index];
	uint64_t word = self->linger.word, next = word_with_state(word_renewed(word), REQUEST_GRANTED);
	uint32_t entry = self->linger.entry;

	if (load_relaxed32(&known->entry) != entry || !entry_is(&s->entries[entry], known->id.id, known->id.len))
		return false;
	/* Only I fill the records of my chunks: if it lingers now it can be ended and freed before the CAS, but not be
	 * another request, to which these stores would do harm. */
	if (load_acquire(&r->word) != word) {
		self->linger.index = 0;
		return false;
	}
	out->gen = word_gen(next);
	out->ticket = self->linger.ticket;
	store_relaxed((uint64_t *)&r->since_ns, (uint64_t)wish->now);
	store_changed((uint64_t *)&r->ttl_ns, (uint64_t)wish->ttl_ns);
	request_set_extras(r, tag, true);
	/* R12: the deadline before the new generation: whoever judges that has this deadline. */
	store_relaxed(&r->deadline, queue_lease(wish, out->gen, &out->end));
	if (!cas_from(&r->word, word, next)) {
		self->linger.index = 0;
		return false;
	}
	self->linger.index = 0;
	return true;
}

void linger_drop(struct participant *self)
{
	if (self->linger.index != 0)
		(void)queue_reclaim(self->segment, self->linger.index);
	self->linger.index = 0;
}
