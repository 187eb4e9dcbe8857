/* SPDX-License-Identifier: MIT */
/* table.h - from a key to its entry; table.c looks up, table-insert.c adds and re-keys */
#ifndef LOCKSHM_LOCK_TABLE_H
#define LOCKSHM_LOCK_TABLE_H

#include "lock/participant.h"

#define ENTRY_NONE UINT32_MAX

/* Has the entry that identity?  Only a CAS from a tail that was read before validates the result. */
static inline bool entry_is(const struct shm_entry *e, const uint64_t id[2], uint64_t len)
{
	return load_relaxed(&e->id[0]) == id[0] && load_relaxed(&e->id[1]) == id[1] && load_relaxed(&e->key_len) == len;
}

/* The buckets of a key's two windows: the first serialises its insertion, the second window is for overflow. */
static inline uint32_t table_bucket(const struct lockshm *s, const uint64_t id[2])
{
	return (uint32_t)(((unsigned __int128)id[0] * s->n_buckets) >> 64);
}

static inline uint32_t table_second_bucket(const struct lockshm *s, const uint64_t id[2])
{
	return (uint32_t)(((unsigned __int128)id[1] * s->n_buckets) >> 64);
}

/* The slot of its first bucket that a new key takes if it is empty: there a look-up can prefetch its entry. */
static inline uint32_t table_preferred(const uint64_t id[2])
{
	return (uint32_t)(id[1] >> 32) % BUCKET_SPAN;
}

/* Never 0, the tag of an empty slot. */
static inline uint16_t table_tag(const uint64_t id[2])
{
	uint16_t tag = (uint16_t)(id[1] ^ id[0] >> 16);

	return tag ? tag : 1;
}

static inline uint32_t window_slot(const struct lockshm *s, uint32_t bucket, uint32_t i)
{
	uint32_t slot = bucket * BUCKET_SPAN + i;

	return slot < s->n_locks ? slot : slot - s->n_locks;
}

/* The entry of a key, ENTRY_NONE if it has none. */
uint32_t table_lookup(const struct lockshm *s, const struct identity *id);

/* The next entry of a key whose identity begins with @id, for operators: they have no more of a long key.  *@tried is 0 at
 * first.  Reads the table once; ENTRY_NONE = no more.  The entry may be given to another key after @found was read. */
uint32_t table_next_of(const struct lockshm *s, uint64_t id, uint32_t *tried, struct identity *found);

/* The entry of a key, inserted if there is none.  LOCKSHM_FULL, BAD_SEGMENT. */
MUST_CHECK int table_insert(struct participant *self, const struct identity *id, const void *key, uint32_t *out,
			    struct lockshm_error *error);

/*
 * A request in state CLAIM of a dead owner: open the entry if the claim was announced, else take it over with @self's
 * record and empty the entry.  @self NULL: the former only.  True = no tail names the claim any more.
 */
bool table_end_claim(struct lockshm *s, struct participant *self, uint32_t index, uint64_t claim);

/* Is @tail, read from @e, a claim? */
bool table_is_claimed(const struct lockshm *s, const struct shm_entry *e, uint64_t tail);

/* The beginning of the key for a message: printable, terminated. */
void table_key_text(const struct lockshm *s, const struct shm_entry *e, char *out, size_t size);

#endif
