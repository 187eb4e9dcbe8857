/* SPDX-License-Identifier: MIT */
/* marks.c - operators acknowledge damage marks without the locks: of one key, of many, or of all */
#include <string.h>

#include "lock/damage.h"
#include "lock/table.h"
#include "segment/process.h"
#include "sys/hash.h"
#include "sys/sized.h"

static bool filter_valid(const struct lockshm_marks *which)
{
	return (which->key ? which->key_len > 0 : which->key_len == 0) &&
	       (which->prefix ? which->prefix_len <= LOCKSHM_KEY_SHOWN_MAX : which->prefix_len == 0) &&
	       which->older_than_ns >= 0;
}

/* The key of an entry with a mark does not change: the mark keeps the entry. */
static bool begins_with(const struct lockshm *s, const struct shm_entry *e, const void *prefix, size_t len)
{
	uint64_t words[KEY_SHOWN_WORDS];
	int i;

	if (len == 0)
		return true;
	for (i = 0; i < KEY_SHOWN_WORDS; i++)
		words[i] = load_relaxed(&entry_detail(s, e)->key[i]);
	return load_relaxed(&e->key_len) >= len && memcmp(words, prefix, len) == 0;
}

static bool is_meant(const struct lockshm *s, const struct shm_entry *e, const struct lockshm_marks *which,
		     const struct lockshm_previous *mark)
{
	return (which->token == 0 || which->token == mark->token) &&
	       (which->id == 0 || which->id == load_relaxed(&e->id[0])) && mark->age_ns >= which->older_than_ns &&
	       begins_with(s, e, which->prefix, which->prefix_len);
}

/*
 * True = acknowledged.  @id: of which->key, NULL = of any.  The mark is read first and replaced by CAS: while it is there
 * the entry is not given to another key, and the word of another mark differs.
 */
static bool acknowledge(struct lockshm *s, struct shm_entry *e, const struct identity *id,
			const struct lockshm_marks *which)
{
	struct lockshm_previous mark;
	uint64_t seen;

	do {
		seen = damage_read(s, e, &mark);
		if (mark.status == 0 || (id && !entry_is(e, id->id, id->len)) || !is_meant(s, e, which, &mark))
			return false;
	} while (!damage_acknowledge(e, seen));
	return true;
}

static size_t acknowledge_one(struct lockshm *s, const struct lockshm_marks *which)
{
	struct identity id;
	uint32_t i;

	hash_key(&id, s->hash_secret, which->key, which->key_len);
	i = table_lookup(s, &id);
	return i != ENTRY_NONE && acknowledge(s, &s->entries[i], &id, which);
}

static size_t acknowledge_any(struct lockshm *s, const struct lockshm_marks *which)
{
	size_t n = 0;
	uint32_t i;

	for (i = 0; i < s->n_locks; i++)
		n += acknowledge(s, &s->entries[i], NULL, which);
	return n;
}

LOCKSHM_EXPORT int lockshm_acknowledge_marks(lockshm_t *segment, const struct lockshm_marks *which, size_t *count)
{
	struct lockshm_marks own = LOCKSHM_MARKS_INIT;
	size_t n;

	if (count)
		*count = 0;
	if (which && sized_in(&own, sizeof(own), which, MARKS_SIZE_0_1, "marks", NULL))
		return LOCKSHM_INVALID;
	if (!segment_valid(segment) || !filter_valid(&own))
		return LOCKSHM_INVALID;
	if (own.key_len > LOCKSHM_KEY_MAX)
		return LOCKSHM_KEY_TOO_LONG;
	if (segment->read_only)
		return LOCKSHM_PERMISSION;
	(void)process_epoch(); /* in a forked child the clock may differ */
	n = own.key ? acknowledge_one(segment, &own) : acknowledge_any(segment, &own);
	if (count)
		*count = n;
	return 0;
}
