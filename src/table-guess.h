/* SPDX-License-Identifier: MIT */
/*
 * table-guess.h - where a key most likely is: the inlined first look of the fast path
 *
 * Only a guess: the caller compares the identity behind a look at the entry's tail and goes the slow way if it differs.
 * No branch depends on which of a home's slots has the key, because that can never be foreseen, and a mispredicted branch
 * keeps the processor from running ahead to the next cache miss.
 */
#ifndef LOCKSHM_TABLE_GUESS_H
#define LOCKSHM_TABLE_GUESS_H

#include <string.h>

#include "table.h"

/* ---------------------------------------------------------------- tags, eight at a time */

#define LANES UINT64_C(0x0001000100010001)

/* High bit of each 16-bit lane of @word that equals the lanes of @pattern; may also flag a lane above a true one. */
static inline uint64_t equal_lanes(uint64_t word, uint64_t pattern)
{
	uint64_t x = word ^ pattern;

	return (x - LANES) & ~x & (LANES << 15);
}

/* Which of a home's eight tags fit: bit 16 * i + 15 is slot i, bit 16 * i + 7 is slot 4 + i. */
static inline uint64_t match_home(const struct lockshm *s, uint32_t home, uint64_t pattern)
{
	const uint64_t *tags = (const uint64_t *)(const void *)(s->tags + (size_t)home * HOME_SPAN);

	return equal_lanes(load_relaxed(tags), pattern) | equal_lanes(load_relaxed(tags + 1), pattern) >> 8;
}

static inline uint32_t match_slot(uint64_t mask)
{
	uint32_t bit = (uint32_t)__builtin_ctzll(mask);

	return bit / 16 + (~bit >> 1 & 4);
}

/* ---------------------------------------------------------------- the thread's own cache of keys */

static inline uint64_t load_bytes(const unsigned char *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return v;
}

/* A cheap mix of length, first and last bytes; only chooses a place. */
static inline unsigned cache_place(const unsigned char *key, size_t len)
{
	uint64_t mix;

	if (len >= 8)
		mix = load_bytes(key, 8) ^ (load_bytes(key + len - 8, 8) << 7);
	else if (len >= 4)
		mix = load_bytes(key, 4) | load_bytes(key + len - 4, 4) << 32;
	else
		mix = (uint64_t)key[0] | (uint64_t)key[len / 2] << 8 | (uint64_t)key[len - 1] << 16;
	return (unsigned)((mix + len) * UINT64_C(0x9e3779b97f4a7c15) >> 60) % KEY_CACHE_SLOTS;
}

/* memcmp() of keys as long as keys are, without the call. */
static inline bool same_bytes(const unsigned char *a, const unsigned char *b, size_t len)
{
	size_t i;

	if (len < 8)
		return memcmp(a, b, len) == 0;
	for (i = 0; i + 8 < len; i += 8)
		if (load_bytes(a + i, 8) != load_bytes(b + i, 8))
			return false;
	return load_bytes(a + len - 8, 8) == load_bytes(b + len - 8, 8);
}

/* memcpy() likewise; the last word overlaps. */
static inline void copy_bytes(unsigned char *to, const unsigned char *from, size_t len)
{
	uint64_t word;
	size_t i;

	if (len < 8) {
		memcpy(to, from, len);
		return;
	}
	for (i = 0; i + 8 < len; i += 8) {
		word = load_bytes(from + i, 8);
		memcpy(to + i, &word, 8);
	}
	word = load_bytes(from + len - 8, 8);
	memcpy(to + len - 8, &word, 8);
}

static inline void table_cache(struct participant *self, const void *key, const struct identity *id, uint32_t entry)
{
	struct cached_key *c;

	if (id->len > KEY_CACHE_BYTES)
		return;
	c = &self->keys[cache_place(key, id->len)];
	c->len = id->len;
	c->id[0] = id->id[0];
	c->id[1] = id->id[1];
	c->entry = entry;
	copy_bytes(c->bytes, key, id->len);
}

/* The entry that the thread's cache knows, or the first in the key's home whose tag fits.  ENTRY_NONE = no idea. */
static inline uint32_t table_guess(struct participant *self, const void *key, size_t len, struct identity *id)
{
	const struct lockshm *s = self->segment;
	const struct cached_key *c = &self->keys[cache_place(key, len)];
	uint64_t mask;
	uint32_t home, entry;

	if (likely(c->len == len) && likely(same_bytes(c->bytes, key, len))) {
		id->id[0] = c->id[0];
		id->id[1] = c->id[1];
		id->len = len;
		return c->entry;
	}
	hash_key(id, s->hash_secret, key, len);
	home = table_home(s, id->id);
	__builtin_prefetch(&s->entries[home * HOME_SPAN + table_preferred(id->id)], 1);
	mask = match_home(s, home, table_tag(id->id) * LANES);
	entry = likely(mask != 0) ? home * HOME_SPAN + match_slot(mask) : table_lookup(s, id);
	if (likely(entry != ENTRY_NONE))
		table_cache(self, key, id, entry);
	return entry;
}

#endif
