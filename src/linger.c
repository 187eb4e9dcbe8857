/* SPDX-License-Identifier: MIT */
/* linger.c - the side of the thread that lets its hold linger; the other side is in wait.c, the middle in queue-help.c */
#include "linger.h"

#include "clock.h"
#include "table-guess.h"

#define LINGER_NS 500000 /* some wake-ups long, so that few hand-overs cost one; and the longest anybody is passed */

/* A row of holds ends with a hand-over that long after its first release: whoever is next in line may not get a processor
 * as long as this thread has it. */
static bool may_go_on(struct participant *self)
{
	int64_t now = clock_precise();

	if (self->linger.until == 0)
		self->linger.until = now + LINGER_NS;
	if (now <= self->linger.until)
		return true;
	self->linger.until = 0;
	self->linger.called = 0;
	return false;
}

static void forget(struct participant *self)
{
	self->linger.index = 0;
	self->linger.until = 0;
	self->linger.called = 0;
}

/*
 * R12.  Killed right behind the CAS: free, and the one behind is woken by the death.  Stopped there: it finds out at its
 * self-check, as behind any release.
 */
bool linger(struct participant *self, const struct hold *h, uint64_t word)
{
	struct lockshm *s = self->segment;
	struct place here = { h->index, word_with_state(word, REQUEST_LINGERING) };

	if (!word_exclusive(word) || word_prev(word) != 0 || !may_go_on(self) ||
	    !cas_from(&s->requests[h->index].word, word, here.word))
		return false;
	if (queue_call_successor(s, h->index, &self->linger.called)) {
		self->linger.index = h->index;
		self->linger.word = here.word;
		self->linger.entry = (uint32_t)h->entry;
		self->linger.ticket = h->token - s->token_base;
		return true;
	}
	/* Nobody that I can find: whoever is there needs a walk. */
	forget(self);
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

	if (known->entry != self->linger.entry || !entry_is(&s->entries[known->entry], known->id.id, known->id.len))
		return false;
	/* Only I fill the records of my chunks: if it lingers now it can be ended and freed before the CAS, but not be another
	 * request, to which these stores would do harm. */
	if (load_acquire(&r->word) != word) {
		forget(self);
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
		forget(self);
		return false;
	}
	self->linger.index = 0;
	return true;
}
