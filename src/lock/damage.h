/* SPDX-License-Identifier: MIT */
/* damage.h - the sticky mark of a lock that was left badly */
#ifndef LOCKSHM_LOCK_DAMAGE_H
#define LOCKSHM_LOCK_DAMAGE_H

#include "segment/segment.h"

/* entry.damage_word: [ticket:46 | 0:13 | exclusive:1 | rank:3 | acknowledged:1], 0 = never marked */
#define DAMAGE_ACKNOWLEDGED UINT64_C(1)

/* What a mark says; the worse outranks the better. */
enum damage_rank {
	DAMAGE_NONE = 0,
	DAMAGE_SHARED_EXPIRED = 1,
	DAMAGE_EXCLUSIVE_EXPIRED = 2,
	DAMAGE_SHARED_DIED = 3,
	DAMAGE_EXCLUSIVE_DIED = 4
};

static inline enum damage_rank damage_rank(uint64_t word)
{
	return (enum damage_rank)(word >> 1 & 7);
}

/* Is there a mark that nobody has acknowledged? */
static inline bool damage_pending(const struct shm_entry *e)
{
	uint64_t word = load_acquire(&e->damage_word);

	return unlikely(word != 0) && !(word & DAMAGE_ACKNOWLEDGED);
}

/* What a new key starts with: as if an exclusive mark with that ticket had been acknowledged. */
static inline uint64_t damage_fresh(uint64_t ticket)
{
	return ticket << 18 | UINT64_C(1) << 4 | DAMAGE_ACKNOWLEDGED;
}

/* What keeps a dead request linked: the word of its successor, or the tail.  While it is
 * unchanged, nobody unlinked it. */
struct anchor {
	const uint64_t *word;
	uint64_t value;
};

/*
 * Write down that request @index, whose dead word is @dead, left @e badly (state EXPIRED or DEAD; else nothing).
 * Called before such a request is unlinked, by whoever does it; several may.
 */
void damage_write(struct lockshm *s, struct shm_entry *e, uint32_t index, uint64_t dead, struct anchor anchor);

/* Tell what the mark says; returns the mark word it belongs to, for damage_acknowledge(). */
uint64_t damage_read(const struct lockshm *s, const struct shm_entry *e, struct lockshm_previous *out);

/* Clear the mark that was read as @seen. LOCKSHM_BUSY if a newer one has replaced it. */
int damage_acknowledge(struct shm_entry *e, uint64_t seen);

#endif
