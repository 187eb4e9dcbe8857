/* SPDX-License-Identifier: MIT */
/*
 * table.c - looking a key up
 *
 * A key lives in one of the 32 slots of its window, or of its second window.  A look-up scans 16-bit tags, eight
 * slots at a time, and compares the 128-bit identity where a tag matches.  Nothing is pinned: the result is a hint, and
 * the acquirer's CAS on the entry's tail, read before the identity was compared, validates it.
 */
#include "lock/table.h"

#include "lock/table-probe.h"

bool table_is_claimed(const struct lockshm *s, const struct shm_entry *e, uint64_t tail)
{
	const struct shm_request *r;

	if (likely(tail_index(tail) == 0))
		return false;
	r = request_at(s, tail_index(tail));
	/* The claimer stored its word before the tail that names it. */
	return r && word_is(load_acquire(&r->word), REQUEST_CLAIM) && load_acquire(&e->tail) == tail;
}

/* The entry has the identity and is open; a claim may still be given up. */
static bool found_in(const struct lockshm *s, const struct shm_entry *e, const struct identity *id)
{
	return entry_is(e, id->id, id->len) && !table_is_claimed(s, e, load_acquire(&e->tail));
}

/* In the eight slots of one bucket. */
static uint32_t scan_bucket(const struct lockshm *s, uint32_t bucket, const struct identity *id)
{
	uint64_t mask = match_bucket(s, bucket, table_tag(id->id) * LANES);

	for (; mask; mask &= mask - 1) {
		uint32_t slot = bucket * BUCKET_SPAN + match_slot(mask);

		if (likely(found_in(s, &s->entries[slot], id)))
			return slot;
	}
	return ENTRY_NONE;
}

static uint32_t scan_window(const struct lockshm *s, uint32_t bucket, const struct identity *id)
{
	uint32_t k, found;

	for (k = 0; k < WINDOW / BUCKET_SPAN; k++) {
		found = scan_bucket(s, bucket + k < s->n_buckets ? bucket + k : bucket + k - s->n_buckets, id);
		if (likely(found != ENTRY_NONE))
			return found;
	}
	return ENTRY_NONE;
}

uint32_t table_lookup(const struct lockshm *s, const struct identity *id)
{
	uint32_t found = scan_window(s, table_bucket(s, id->id), id);

	return likely(found != ENTRY_NONE) ? found : scan_window(s, table_second_bucket(s, id->id), id);
}

uint32_t table_next_of(const struct lockshm *s, uint64_t id, uint32_t *tried, struct identity *found)
{
	uint64_t begin[2] = { id, 0 };
	uint32_t bucket = table_bucket(s, begin);

	while (*tried < s->n_locks) {
		uint32_t i = window_slot(s, bucket, (*tried)++);
		const struct shm_entry *e = &s->entries[i];

		/* Of two keys, if the entry is given to another one meanwhile: then entry_is() is false. */
		*found = (struct identity){ { load_relaxed(&e->id[0]), load_relaxed(&e->id[1]) },
					    load_relaxed(&e->key_len) };
		if (found->id[0] == id && found->len != 0)
			return i;
	}
	return ENTRY_NONE;
}

/*
 * The first entry in the key's bucket whose tag matches, else the result of a look-up.  No branch depends on the slot
 * within the bucket: it is unpredictable, and a mispredicted branch keeps the processor from running ahead to the next
 * cache miss.
 */
static uint32_t probe(const struct lockshm *s, const struct identity *id)
{
	uint32_t bucket = table_bucket(s, id->id);
	uint64_t mask;

	__builtin_prefetch(&s->entries[bucket * BUCKET_SPAN + table_preferred(id->id)], 1);
	mask = match_bucket(s, bucket, table_tag(id->id) * LANES);
	return likely(mask != 0) ? bucket * BUCKET_SPAN + match_slot(mask) : table_lookup(s, id);
}

void table_cache_probe(struct participant *self, struct cached_key *c, const unsigned char *key, struct key_ends ends,
		       size_t len)
{
	hash_key(&c->known.id, self->segment->hash_secret, key, len);
	c->known.entry = probe(self->segment, &c->known.id) | cache_mark(self->segment, key, len);
	cache_bytes(c, key, ends, len);
}

void table_key_text(const struct lockshm *s, const struct shm_entry *e, char *out, size_t size)
{
	uint64_t words[KEY_SHOWN_WORDS];
	size_t i, whole = (size_t)load_relaxed(&e->key_len), len = whole;
	const unsigned char *bytes = (const unsigned char *)words;

	for (i = 0; i < KEY_SHOWN_WORDS; i++)
		words[i] = load_relaxed(&entry_detail(s, e)->key[i]);
	if (len > sizeof(words))
		len = sizeof(words);
	if (len > size - 1)
		len = size - 1;
	for (i = 0; i < len; i++)
		out[i] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '?';
	out[len] = '\0';
	if (len < whole && len > 3)
		memcpy(out + len - 3, "...", 3);
}
