/* SPDX-License-Identifier: MIT */
/*
 * chunks.c - handing out request records
 *
 * Records are handed to threads in chunks: the chunk's word names its owner and is taken by one CAS.  Inside a chunk
 * only its owner takes records, with plain stores; any thread may give one back, by the CAS from its dead word to FREE.
 * So everything a dead thread left is found through its chunks (sweep.c), and they within its slot's reach.
 *
 * A thread may hold many thousands, so it searches its chunks in turn and continues where it last found one.  If a
 * whole round finds less than one in eight free it takes an eighth more chunks before the next round.  So a record
 * costs about eight looks, however many are held, and a thread has at most a third more records than it once had in
 * use.
 *
 * Crash points: (1) reach extended, no chunk taken: the sweep looks at one more;  (2) chunk taken, nothing filled: all
 * its records are FREE, the sweep returns it.
 */
#include "lock/chunks.h"

#include <stdlib.h>

#include "lock/queue.h"
#include "lock/tend.h"

#define POOR 8		/* one in 8: a smaller share of free records is not worth a search */
#define NEAR_CHUNKS 16	/* how many are tried if there is another source */

static uint32_t chunk_first(const struct lockshm *s, uint32_t chunk)
{
	return chunk * s->chunk_size + 1;
}

static uint32_t free_in_chunk(const struct participant *self, uint32_t chunk)
{
	const struct lockshm *s = self->segment;
	uint32_t i, first = chunk_first(s, chunk);

	for (i = first; i < first + s->chunk_size; i++)
		if (word_is(load_acquire(&s->requests[i].word), REQUEST_FREE) && !tend_keeps(self, i))
			return i;
	return 0;
}

/* R4: a dead record may be left by a thread that was killed between unlinking and freeing it; one that has cooled down
 * may not have been visited since; a bargeable one can be given up. */
static uint32_t reclaim_in_chunk(const struct participant *self, uint32_t chunk)
{
	struct lockshm *s = self->segment;
	uint32_t i, first = chunk_first(s, chunk);

	for (i = first; i < first + s->chunk_size; i++) {
		uint64_t w = load_acquire(&s->requests[i].word);

		if ((word_dead(w) || word_is(w, REQUEST_COOLING) || word_is(w, REQUEST_BARGEABLE)) &&
		    queue_reclaim(s, i) && !tend_keeps(self, i))
			return i;
	}
	return 0;
}

/* From the last find to the end of the round. */
static uint32_t take_in_round(struct participant *self)
{
	uint32_t i = 0;

	while (self->at_chunk < self->n_chunks) {
		i = free_in_chunk(self, self->chunks[self->at_chunk]);
		if (!i)
			i = reclaim_in_chunk(self, self->chunks[self->at_chunk]);
		if (i)
			break;
		self->at_chunk++;
	}
	/* No more than needed to rate the round. */
	if (i && self->found < self->segment->n_requests)
		self->found++;
	return i;
}

static void begin_round(struct participant *self)
{
	self->at_chunk = 0;
	self->found = 0;
	self->growth = 0;
}

/* Less than one in eight was free, or none: another round would not pay off. */
static bool round_was_poor(const struct participant *self)
{
	return self->found * POOR <= self->n_chunks * self->segment->chunk_size;
}

static uint32_t take_own(struct participant *self)
{
	uint32_t i = take_in_round(self);

	if (i || self->growth || round_was_poor(self))
		return i;
	begin_round(self);
	return take_in_round(self);
}

static bool remember_chunk(struct participant *self, uint32_t chunk)
{
	if (self->n_chunks == self->chunk_cap) {
		uint32_t cap = self->chunk_cap ? self->chunk_cap * 2 : 8;
		uint32_t *more = realloc(self->chunks, cap * sizeof(*more));

		self->no_memory = !more;
		if (!more)
			return false;
		self->chunks = more;
		self->chunk_cap = cap;
	}
	self->chunks[self->n_chunks++] = chunk;
	return true;
}

static bool all_free(const struct lockshm *s, uint32_t chunk)
{
	uint32_t i, first = chunk_first(s, chunk);

	for (i = first; i < first + s->chunk_size; i++)
		if (!word_is(load_acquire(&s->requests[i].word), REQUEST_FREE))
			return false;
	return true;
}

/* Crash point: between two chunks, the sweep of the slot finds the others by their words. */
void chunks_leave(struct participant *from, struct participant *heir)
{
	struct lockshm *s = from->segment;

	while (from->n_chunks > 0) {
		uint32_t chunk = from->chunks[--from->n_chunks];

		if (all_free(s, chunk) && cas_from(chunk_word(s, chunk), from->ref, 0))
			continue;
		/* Without memory its records are not used again before the slot is swept. */
		(void)remember_chunk(heir, chunk);
	}
}

/* The chunk that was looked at last lies within the reach that the slot shows.  Several loops may have one slot, so by a
 * swap.  Only a sweep after the death reads it, and verify: the chunk's word first.  Killed before the taking: a reach that
 * is one too large. */
static void extend_reach(const struct participant *self)
{
	uint32_t n_chunks = self->segment->n_chunks, reach = self->next_chunk - self->slot;
	uint32_t *flags = &self->shared->flags, old = load_relaxed32(flags);

	if (reach > n_chunks)
		reach = n_chunks;
	while (owner_reach(old, n_chunks) < reach && !cas32_from(flags, old, owner_with_reach(old, reach)))
		old = load_relaxed32(flags);
}

/* A chunk without an owner, among the next @most after the last one looked at. */
static uint32_t take_chunk(struct participant *self, uint32_t most)
{
	struct lockshm *s = self->segment;
	uint32_t n, free;

	for (n = 0; n < most && n < s->n_chunks; n++) {
		uint32_t chunk = self->next_chunk++ % s->n_chunks;

		if (load_relaxed(chunk_word(s, chunk)) != 0)
			continue;
		extend_reach(self);
		if (!cas_from(chunk_word(s, chunk), 0, self->ref))
			continue;
		if (!remember_chunk(self, chunk)) {
			(void)cas_from(chunk_word(s, chunk), self->ref, 0);
			return 0;
		}
		/* All may be cooling down since their owner left: then the chunk stays without an owner. */
		free = free_in_chunk(self, chunk);
		if (free) {
			self->at_chunk = self->n_chunks - 1;
			return free;
		}
		self->n_chunks--;
		(void)cas_from(chunk_word(s, chunk), self->ref, 0);
	}
	return 0;
}

/* After a poor round: an eighth more chunks, one after the other, before the next round. */
static uint32_t grow(struct participant *self)
{
	uint32_t i;

	if (!self->growth)
		self->growth = self->n_chunks / POOR + 1;
	i = take_chunk(self, NEAR_CHUNKS);
	if (!i || --self->growth == 0)
		begin_round(self);
	return i;
}

/* At any cost: search all own chunks, then all without an owner. */
static uint32_t take_anything(struct participant *self)
{
	uint32_t i;

	begin_round(self);
	i = take_in_round(self);
	return i ? i : take_chunk(self, self->segment->n_chunks);
}

uint32_t request_take(struct participant *self)
{
	uint32_t i = take_own(self);

	self->no_memory = false;
	if (!i)
		i = grow(self);
	if (!i)
		i = take_anything(self);
	self->free_request = i;
	return i;
}
