/* SPDX-License-Identifier: MIT */
/* life.h - life words: 32 bits in the segment that the kernel flags when a thread ends; see life.c */
#ifndef LOCKSHM_LOCK_LIFE_H
#define LOCKSHM_LOCK_LIFE_H

#include "lock/owner.h"

/* The @i-th count of loops in the life page of a slot. */
static inline struct shm_loop_count *life_loop_count(const struct lockshm *s, uint32_t slot, uint32_t i)
{
	return (struct shm_loop_count *)(void *)(s->lives + (size_t)slot * LIFE_BYTES + LOOP_COUNTS_OFFSET) + i;
}

/* The futex word of the life in @slot; NULL = its offset is damaged. */
uint32_t *life_word(const struct lockshm *s, uint32_t slot);

/* For the thread of @p: lock the mutex of its life, and publish the offset of its word.  False where robust mutexes do
 * not work. */
MUST_CHECK bool life_begin(struct participant *p, uint32_t tid);

/* Unlock it: from then on the thread is dead to others.  False = a damaged segment has another thread's number in it:
 * the mutex stays on the C library's list, and so must its memory. */
bool life_end(struct participant *p);

/* Unmap what it needed memory for: it is unlocked, or its thread is gone. */
void life_unmap(const struct participant *p);

/* In a forked child: drop the node of the parent's thread @p. */
void life_forget(const struct participant *p);

#endif
