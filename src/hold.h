/* SPDX-License-Identifier: MIT */
/* hold.h - what is behind the caller's opaque lockshm_hold_t */
#ifndef LOCKSHM_HOLD_H
#define LOCKSHM_HOLD_H

#include "owner.h"

#define HOLD_MAGIC UINT64_C(0x646c6f68206c6f63)

struct renewal;

struct hold {
	uint64_t magic; /* HOLD_MAGIC mixed with its own address: a copy is no hold */
	struct lockshm *segment;
	uint64_t epoch;	 /* process that took it */
	uint64_t owner;	 /* uid of the participant it depends on: its thread, or the keeper */
	uint64_t gen;	 /* of the request; with auto-renewal the renewal's is newer */
	uint32_t index;
	uint32_t entry;
	uint64_t token;
	uint64_t lost_to;
	int64_t deadline; /* segment time at which it is late; what release compares with the clock */
	uint64_t mark;	 /* mark word it was told of */
	struct renewal *renewal; /* keeper.c, or NULL */
	uint64_t moved;	 /* its record is, or was, another thread's */
	uint64_t key_check; /* part of the key's identity: is the entry still this key's? */
};
_Static_assert(sizeof(struct hold) <= sizeof(lockshm_hold_t), "the opaque hold must be large enough");

static inline struct hold *hold_of(const lockshm_hold_t *h)
{
	return (struct hold *)(uintptr_t)h;
}

static inline uint64_t hold_magic(const struct hold *h)
{
	return HOLD_MAGIC ^ (uint64_t)(uintptr_t)h;
}

/* Is this memory a hold that is really held now?  Safe for any content.  Clears up behind one that was lost. */
bool hold_in_use(struct hold *h);

#endif
