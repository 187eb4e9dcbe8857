/* SPDX-License-Identifier: MIT */
/* damage-details.h - process, thread and label of the holders that left damage marks: a pool for the whole segment */
#ifndef LOCKSHM_LOCK_DAMAGE_DETAILS_H
#define LOCKSHM_LOCK_DAMAGE_DETAILS_H

#include "segment/segment.h"

/* The holder that left a mark. */
struct dead_holder {
	uint64_t ticket;
	int32_t pid, tid;
	char tag[LOCKSHM_TAG_MAX + 2];
};

/* Store the details of the mark @word of @e, unless that is done, the pool is full, or the mark is gone. */
void damage_details_put(struct lockshm *s, const struct shm_entry *e, uint64_t word, const struct dead_holder *o);

/* Fill pid, tid and tag of *@out as far as they are known for the mark @word of @e. */
void damage_details_get(const struct lockshm *s, const struct shm_entry *e, uint64_t word, struct lockshm_damage *out);

#endif
