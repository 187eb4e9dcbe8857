/* SPDX-License-Identifier: MIT */
/* damage.h - the damage mark of a lock whose exclusive holder died inside or lost the lock */
#ifndef LOCKSHM_LOCK_DAMAGE_H
#define LOCKSHM_LOCK_DAMAGE_H

#include "segment/segment.h"
#include "sys/atomic.h"

/* Is there a mark that is not acknowledged? */
static inline bool damage_pending(const struct shm_entry *e)
{
	return damage_is_mark(load_acquire(&e->damage_word));
}

/* The word of a new key. */
static inline uint64_t damage_fresh(uint64_t ticket)
{
	return damage_make(ticket, DAMAGE_ACKNOWLEDGED);
}

static inline bool damage_is_robust(const struct shm_entry *e)
{
	return load_acquire(&e->damage_word) & DAMAGE_ROBUST;
}

/*
 * A request asks for marks of the key of @e.  The caller has compared the identity after it read @tail, and appends from
 * that.  The entry may be given to another key at any time: then the tail has changed, or the CAS here fails, since the
 * word of another key has another ticket.  False = look again.
 */
bool damage_make_robust(struct shm_entry *e, uint64_t tail);

/* The link to a dead request: the word of its successor, or the tail.  While it is unchanged, the request is linked. */
struct anchor {
	const uint64_t *word;
	uint64_t value;
};

/*
 * Leave a mark if request @index, whose dead word is @dead, was an exclusive hold (EXPIRED or DEAD) of a robust key.
 * Each thread that unlinks such a request calls it first; several may at once.
 */
void damage_write(struct lockshm *s, struct shm_entry *e, uint32_t index, uint64_t dead, struct anchor anchor);

/* The mark in *@out, status 0 = none; returns the damage word it was read from, for damage_acknowledge(). */
uint64_t damage_read(const struct lockshm *s, const struct shm_entry *e, struct lockshm_damage *out);

/* Acknowledge the mark that was read as @seen.  False = the word has changed. */
bool damage_acknowledge(struct shm_entry *e, uint64_t seen);

#endif
