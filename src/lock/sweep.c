/* SPDX-License-Identifier: MIT */
/*
 * sweep.c - everything a dead thread left: requests, records, chunks, its slot
 *
 * Never needed to let others proceed: waiters after the dead request do that.  Needed to use the records and the slot
 * again.  Any number of sweepers may work on one slot, be killed, or be stopped: every step is a CAS that carries the
 * generation it decided on.  Crash points: after each step the next sweeper continues from there.
 */
#include "lock/sweep.h"

#include <limits.h>

#include "lock/participant.h"
#include "lock/queue.h"
#include "lock/table.h"

/* May the sweep touch record @index, with word @w?  Only what a dead owner left, and what cools down: the chunk may be
 * another thread's by now, and a live owner's record may be between fill and append.  Read the owner after the word:
 * the CAS on that word then makes sure that it is the owner's. */
static bool is_leftover(const struct lockshm *s, uint32_t index, uint64_t w)
{
	return word_is(w, REQUEST_COOLING) || owner_is_dead(s, load_acquire(&s->requests[index].owner));
}

/* A live request of a dead owner dies; one that cools down stays until its time. */
static uint64_t end_live(struct lockshm *s, uint32_t index, uint64_t w)
{
	struct shm_request *r = &s->requests[index];
	struct shm_entry *e = entry_at(s, load_relaxed32(&r->entry));

	if (queue_expire_or_reap(s, index, &w) && word_dead(w) && e)
		(void)queue_advance_tail(s, e);
	return load_acquire(&r->word);
}

/* True = the record is FREE, or cools down: then it has no owner, and the thread that takes it off its queue
 * frees it. */
static bool reclaim_record(struct lockshm *s, uint32_t index)
{
	struct shm_request *r = &s->requests[index];
	uint64_t w = load_acquire(&r->word);

	if ((word_live(w) || word_is(w, REQUEST_CLAIM)) && !is_leftover(s, index, w))
		return false;
	if (word_live(w))
		w = end_live(s, index, w);
	if (word_is(w, REQUEST_CLAIM) && table_end_claim(s, participant_find(s), index, w)) {
		(void)cas_from(&r->word, w, word_make(word_gen(w), false, REQUEST_FREE, 0));
		w = load_acquire(&r->word);
	}
	if (word_dead(w))
		return queue_reclaim(s, index);
	return word_is(w, REQUEST_FREE) || word_is(w, REQUEST_COOLING);
}

/* True = the chunk has no owner, or another. */
static bool reclaim_chunk(struct lockshm *s, uint32_t chunk, uint64_t ref)
{
	uint32_t i, first = chunk * s->chunk_size + 1;
	bool all_free = true;

	if (load_acquire(chunk_word(s, chunk)) != ref)
		return true;
	for (i = first; i < first + s->chunk_size; i++)
		if (!reclaim_record(s, i))
			all_free = false;
	if (all_free)
		(void)cas_from(chunk_word(s, chunk), ref, 0);
	return all_free;
}

/* Requests that were moved to the dead thread lie in other threads' chunks: end them while the slot still has its
 * identity. */
static void reclaim_adopted(struct lockshm *s, uint64_t ref)
{
	uint32_t i;

	for (i = 1; i <= s->n_requests; i++) {
		uint64_t w = load_acquire(&s->requests[i].word);
		int tries;

		/* Again if a bypass changed the word meanwhile. */
		for (tries = 0; tries < 100 && word_live(w) && load_acquire(&s->requests[i].owner) == ref; tries++)
			w = end_live(s, i, w);
	}
}

static void keep_counts(struct lockshm *s, const uint64_t counts[OWNER_COUNTERS])
{
	int i;

	for (i = 0; i < OWNER_COUNTERS; i++)
		if (counts[i])
			(void)fetch_add_relaxed(&s->header->retired[i], counts[i]);
}

/* All chunks, or the @n that @own lists.  True = none of them is the owner's any more. */
static bool reclaim_chunks(struct lockshm *s, uint64_t ref, const uint32_t *own, uint32_t n)
{
	bool empty = true;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!reclaim_chunk(s, own ? own[i] : i, ref))
			empty = false;
	return empty;
}

/* The slot as of its control word @c, which the last CAS compares: so a new owner of the slot keeps it. */
static bool sweep(struct lockshm *s, uint32_t slot, uint64_t c, const uint32_t *own, uint32_t n)
{
	struct shm_owner *o = &s->owners[slot];
	uint64_t counts[OWNER_COUNTERS], ref = owner_ref(control_gen(c), slot);
	bool empty;
	int i;

	if (control_state(c) == OWNER_FREE || !owner_slot_is_dead(s, slot, c))
		return false;
	empty = reclaim_chunks(s, ref, own, n);
	if (load_relaxed32(&o->flags) & (OWNER_PROCESS | OWNER_ADOPTED))
		reclaim_adopted(s, ref);
	if (!empty || !owner_slot_is_retired(s, slot, c))
		return false;
	for (i = 0; i < OWNER_COUNTERS; i++)
		counts[i] = control_state(c) >= OWNER_ACTIVE ? owner_count(s, slot, (enum owner_count)i) : 0;
	if (!cas_from(&o->control, c, control_make((control_gen(c) + 1) & OWNER_GEN_MASK, 0, 0, OWNER_FREE)))
		return false;
	keep_counts(s, counts);
	return true;
}

bool sweep_slot(struct lockshm *s, uint32_t slot)
{
	return sweep(s, slot, load_acquire(&s->owners[slot].control), NULL, s->n_chunks);
}

void sweep_left(struct lockshm *s, uint32_t slot, uint64_t ref, const uint32_t *chunks, uint32_t n)
{
	static const uint32_t none[1];
	uint64_t c = load_acquire(&s->owners[slot].control);

	/* Swept by another thread already, the slot may have a new owner, with other chunks. */
	if (owner_ref(control_gen(c), slot) == ref)
		(void)sweep(s, slot, c, n ? chunks : none, n);
}

int sweep_some(struct lockshm *s, int most)
{
	uint32_t slot;
	int freed = 0;

	for (slot = 0; slot < s->n_owners && freed < most; slot++)
		if (control_state(load_acquire(&s->owners[slot].control)) != OWNER_FREE && sweep_slot(s, slot))
			freed++;
	return freed;
}

int sweep_all(struct lockshm *s)
{
	return sweep_some(s, INT_MAX);
}

int sweep_probing(struct lockshm *s)
{
	uint32_t slot;

	for (slot = 0; slot < s->n_owners; slot++) {
		uint64_t c = load_acquire(&s->owners[slot].control);

		if (control_state(c) == OWNER_ACTIVE)
			owner_probe(s, owner_ref(control_gen(c), slot));
	}
	return sweep_all(s);
}
