/* SPDX-License-Identifier: MIT */
/*
 * table-probe.h - where a key most likely is: the inlined first probe of the fast path
 *
 * Its result is a hint: the caller loads the entry's tail, then compares the identity, and takes the slow path if it
 * differs.
 */
#ifndef LOCKSHM_LOCK_TABLE_PROBE_H
#define LOCKSHM_LOCK_TABLE_PROBE_H

#include <string.h>

#include "lock/table.h"
#include "segment/global-keys.h"

/* ---------------------------------------------------------------- tags, eight at a time */

#define LANES UINT64_C(0x0001000100010001)

/* High bit of each 16-bit lane of @word that equals the lanes of @pattern; may also flag a lane above a true one. */
static inline uint64_t equal_lanes(uint64_t word, uint64_t pattern)
{
	uint64_t x = word ^ pattern;

	return (x - LANES) & ~x & (LANES << 15);
}

/* The tags of a bucket's eight that match: bit 16 * i + 15 is slot i, bit 16 * i + 7 is slot 4 + i. */
static inline uint64_t match_bucket(const struct lockshm *s, uint32_t bucket, uint64_t pattern)
{
	const uint64_t *tags = (const uint64_t *)(const void *)(s->tags + (size_t)bucket * BUCKET_SPAN);

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

/* Both ends of a key: with its length they are the whole key, up to 16 bytes. */
struct key_ends {
	uint64_t first;
	uint64_t last;
};

static inline struct key_ends key_ends(const unsigned char *key, size_t len)
{
	if (likely(len >= 8))
		return (struct key_ends){ load_bytes(key, 8), load_bytes(key + len - 8, 8) };
	if (len >= 4)
		return (struct key_ends){ load_bytes(key, 4), load_bytes(key + len - 4, 4) };
	return (struct key_ends){ (uint64_t)key[0] | (uint64_t)key[len / 2] << 8 | (uint64_t)key[len - 1] << 16, 0 };
}

/* The cache line for a key: a cheap mix of length, first and last bytes. */
static inline struct cached_key *cache_place(struct participant *self, struct key_ends ends, size_t len)
{
	uint64_t mix = (ends.first ^ ends.last << 7) + len;

	return &self->keys[mix * UINT64_C(0x9e3779b97f4a7c15) >> (64 - KEY_CACHE_BITS)];
}

static inline bool is_cached(const struct cached_key *c, const unsigned char *key, struct key_ends ends, size_t len)
{
	return likely(c->known.id.len == len) && likely(c->first == ends.first) && likely(c->last == ends.last) &&
	       (likely(len <= 16) || memcmp(c->middle, key + 8, len - 16) == 0);
}

static inline void cache_bytes(struct cached_key *c, const unsigned char *key, struct key_ends ends, size_t len)
{
	c->first = ends.first;
	c->last = ends.last;
	if (unlikely(len > 16))
		memcpy(c->middle, key + 8, len - 16);
}

static inline uint32_t cache_mark(const struct lockshm *s, const unsigned char *key, size_t len)
{
	return segment_makes_global(s, key, len) ? KNOWN_GLOBAL : 0;
}

/* table.c: put @key into @c of the thread's cache, with a probed entry. */
void table_cache_probe(struct participant *self, struct cached_key *c, const unsigned char *key, struct key_ends ends,
		       size_t len);

/* Remember that @key is in @entry. */
static inline void table_cache(struct participant *self, const unsigned char *key, const struct identity *id, uint32_t entry)
{
	struct key_ends ends;
	struct cached_key *c;

	if (id->len > KEY_CACHE_BYTES)
		return;
	ends = key_ends(key, id->len);
	c = cache_place(self, ends, id->len);
	c->known.id = *id;
	c->known.entry = entry | cache_mark(self->segment, key, id->len);
	cache_bytes(c, key, ends, id->len);
}

/* The thread's cached entry for a key of up to KEY_CACHE_BYTES; a key that is missing is added, with a probed entry. */
static ALWAYS_INLINE const struct known_key *table_known(struct participant *self, const unsigned char *key,
							 size_t len)
{
	struct key_ends ends = key_ends(key, len);
	struct cached_key *c = cache_place(self, ends, len);

	if (unlikely(!is_cached(c, key, ends, len)))
		table_cache_probe(self, c, key, ends, len);
	return &c->known;
}

#endif
