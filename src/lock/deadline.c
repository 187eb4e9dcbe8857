/* SPDX-License-Identifier: MIT */
/*
 * deadline.c - moving the end of a granted request
 *
 * R8.  The new deadline is stored first, then the CAS on the word advances the generation.  An expirer reads word,
 * deadline, clock and then CASes that word: if it used the old deadline, its CAS and the renewal's are on the same
 * word, and one of them fails.  Crash and stop points: (1) deadline stored: the lease ends at the new time, as
 * requested, and a renewer that continues after that gets LOST;  (2) generation advanced: renewed.
 */
#include "lock/deadline.h"

#include "lock/queue.h"

bool deadline_set(struct lockshm *s, uint32_t index, uint64_t gen, int64_t end)
{
	struct shm_request *r = &s->requests[index];
	uint64_t d, w;

	/* The deadline before the word: if the word is still mine, so was that deadline, and a CAS from it fails on a
	 * later use of the record by another thread of this process. */
	do {
		d = load_acquire(&r->deadline);
		w = load_acquire(&r->word);
		if (word_gen(w) != gen || !word_holds(w))
			return false;
	} while (!cas_from(&r->deadline, d, deadline_make(end, gen + 1)));
	return true;
}

/*
 * R6: the hint of the predecessor names the generation that has ended; without a new one a release of that reader walks
 * the queue.  @word is the new one.  Crash and stop points: a hint that is missing or late costs a walk.
 */
static void renew_hint(struct lockshm *s, uint32_t index, uint64_t word)
{
	if (word_prev(word) != 0 && request_at(s, word_prev(word)))
		queue_hint(s, word_prev(word), index, word_gen(word));
}

bool deadline_renew(struct lockshm *s, uint32_t index, uint64_t *gen, int64_t end)
{
	struct shm_request *r = &s->requests[index];
	uint64_t w;

	if (!deadline_set(s, index, *gen, end))
		return false;
	w = load_acquire(&r->word);
	/* A bypass may change the prev of a granted request: retry with the new word. */
	while (word_gen(w) == *gen && word_holds(w)) {
		if (!cas(&r->word, &w, word_renewed(w)))
			continue;
		*gen = word_gen(word_renewed(w));
		renew_hint(s, index, word_renewed(w));
		return true;
	}
	return false;
}

/* Crash and stop points: (1) deadline stored: reaped as a request that was never entered, or its lease ends at the new
 * time;  (2) generation advanced: a hold. */
bool deadline_enter(struct lockshm *s, uint32_t index, uint64_t *gen, int64_t end)
{
	struct shm_request *r = &s->requests[index];
	uint64_t w, next;

	if (!deadline_set(s, index, *gen, end))
		return false;
	w = load_acquire(&r->word);
	while (word_gen(w) == *gen && word_is(w, REQUEST_GRANTED)) {
		next = word_with_state(word_renewed(w), REQUEST_ENTERED);
		if (!cas(&r->word, &w, next))
			continue;
		*gen = word_gen(next);
		renew_hint(s, index, next);
		return true;
	}
	return false;
}
