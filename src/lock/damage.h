/* SPDX-License-Identifier: MIT */
/* damage.h - the sticky damage of a lock whose holder died or overran its lease */
#ifndef LOCKSHM_LOCK_DAMAGE_H
#define LOCKSHM_LOCK_DAMAGE_H

#include "segment/segment.h"

/* entry.damage_word: [ticket:46 | 0:13 | exclusive:1 | rank:3 | acknowledged:1], 0 = never damaged */
#define DAMAGE_ACKNOWLEDGED UINT64_C(1)

/* The worse outranks the better. */
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

/* Is there damage that is not acknowledged? */
static inline bool damage_pending(const struct shm_entry *e)
{
	uint64_t word = load_acquire(&e->damage_word);

	return unlikely(word != 0) && !(word & DAMAGE_ACKNOWLEDGED);
}

/* The word of a new key: as if exclusive damage of that ticket had been acknowledged. */
static inline uint64_t damage_fresh(uint64_t ticket)
{
	return ticket << 18 | UINT64_C(1) << 4 | DAMAGE_ACKNOWLEDGED;
}

/* The link to a dead request: the word of its successor, or the tail.  While it is unchanged, the request is linked. */
struct anchor {
	const uint64_t *word;
	uint64_t value;
};

/*
 * Record that request @index, whose dead word is @dead, damaged @e (state EXPIRED or DEAD; else nothing).  Each thread
 * that unlinks such a request calls it first; several may at once.
 */
void damage_write(struct lockshm *s, struct shm_entry *e, uint32_t index, uint64_t dead, struct anchor anchor);

/* The pending damage in *@out; returns the damage word it was read from, for damage_acknowledge(). */
uint64_t damage_read(const struct lockshm *s, const struct shm_entry *e, struct lockshm_previous *out);

/* Acknowledge the damage that was read as @seen.  LOCKSHM_BUSY if newer damage has replaced it. */
int damage_acknowledge(struct shm_entry *e, uint64_t seen);

#endif
