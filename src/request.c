/* SPDX-License-Identifier: MIT */
/*
 * request.c - handing out request records
 *
 * Records are handed to threads in chunks: the chunk's word names its owner and is taken by one CAS.  Inside a chunk
 * only its owner takes records, with plain stores; everybody may give one back, by the CAS from its dead word to FREE.
 * So everything a dead thread left behind is found through its chunks (sweep.c).
 *
 * Crash points: (1) chunk taken, nothing filled: all its records are FREE, the sweep returns it.
 */
#include "request.h"

#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "sweep.h"

static uint32_t chunk_first(const struct lockshm *s, uint32_t chunk)
{
	return chunk * s->chunk_size + 1;
}

static uint32_t free_in_chunk(const struct lockshm *s, uint32_t chunk)
{
	uint32_t i, first = chunk_first(s, chunk);

	for (i = first; i < first + s->chunk_size; i++)
		if (word_is(load_acquire(&s->requests[i].word), REQUEST_FREE))
			return i;
	return 0;
}

static uint32_t free_in_own(const struct participant *self)
{
	uint32_t c, i;

	for (c = 0; c < self->n_chunks; c++) {
		i = free_in_chunk(self->segment, self->chunks[c]);
		if (i)
			return i;
	}
	return 0;
}

/* R4: whoever unlinked one of our dead records may have been killed before freeing it. */
static uint32_t reclaim_own(const struct participant *self)
{
	const struct lockshm *s = self->segment;
	uint32_t c, i;

	for (c = 0; c < self->n_chunks; c++) {
		uint32_t first = chunk_first(s, self->chunks[c]);

		for (i = first; i < first + s->chunk_size; i++)
			if (queue_reclaim(self->segment, i))
				return i;
	}
	return 0;
}

static bool remember_chunk(struct participant *self, uint32_t chunk)
{
	if (self->n_chunks == self->chunk_cap) {
		uint32_t cap = self->chunk_cap ? self->chunk_cap * 2 : 8;
		uint32_t *more = realloc(self->chunks, cap * sizeof(*more));

		if (!more)
			return false;
		self->chunks = more;
		self->chunk_cap = cap;
	}
	self->chunks[self->n_chunks++] = chunk;
	return true;
}

static uint32_t take_chunk(struct participant *self)
{
	struct lockshm *s = self->segment;
	uint32_t i, free, start = self->slot % s->n_chunks;

	for (i = 0; i < s->n_chunks; i++) {
		uint32_t chunk = (start + i) % s->n_chunks;

		if (load_relaxed(chunk_word(s, chunk)) != 0 || !cas_from(chunk_word(s, chunk), 0, self->ref))
			continue;
		if (!remember_chunk(self, chunk)) {
			(void)cas_from(chunk_word(s, chunk), self->ref, 0);
			return 0;
		}
		/* None may be free, all cooling down since their owner left: then it stays nobody's. */
		free = free_in_chunk(s, chunk);
		if (free)
			return free;
		self->n_chunks--;
		(void)cas_from(chunk_word(s, chunk), self->ref, 0);
	}
	return 0;
}

uint32_t request_take(struct participant *self)
{
	uint32_t i = free_in_own(self);

	if (!i)
		i = reclaim_own(self);
	if (!i)
		i = take_chunk(self);
	if (!i && !self->sweeping) {
		/* The sweep itself may want a record, to take over a claim of the dead. */
		self->sweeping = true;
		sweep_closely(self->segment);
		i = free_in_own(self);
		if (!i)
			i = take_chunk(self);
		self->sweeping = false;
	}
	self->free_request = i;
	return i;
}

void request_drop(struct participant *self, uint32_t index)
{
	struct shm_request *r = &self->segment->requests[index];

	/* Nobody can reach it: a plain store by its owner. */
	store_release(&r->word, word_make(word_gen(load_relaxed(&r->word)), false, REQUEST_FREE, 0));
	self->free_request = index;
}

void request_set_tag(struct shm_request *r, const char *tag)
{
	char text[TAG_WORDS * 8] = { 0 };
	uint64_t words[TAG_WORDS];
	int i;

	if (!tag || !*tag) {
		store_relaxed32(&r->flags, 0);
		return;
	}
	memcpy(text, tag, strnlen(tag, LOCKSHM_TAG_MAX));
	memcpy(words, text, sizeof(words));
	for (i = 0; i < TAG_WORDS; i++)
		store_relaxed(&r->tag[i], words[i]);
	store_relaxed32(&r->flags, REQUEST_HAS_TAG);
}

void request_tag(const struct shm_request *r, char out[LOCKSHM_TAG_MAX + 2])
{
	uint64_t words[TAG_WORDS] = { 0 };
	int i;

	if (load_relaxed32(&r->flags) & REQUEST_HAS_TAG)
		for (i = 0; i < TAG_WORDS; i++)
			words[i] = load_relaxed(&r->tag[i]);
	memcpy(out, words, sizeof(words));
	out[LOCKSHM_TAG_MAX] = '\0';
	out[LOCKSHM_TAG_MAX + 1] = '\0';
}
