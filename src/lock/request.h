/* SPDX-License-Identifier: MIT */
/* request.h - request records: filling one and giving it back */
#ifndef LOCKSHM_LOCK_REQUEST_H
#define LOCKSHM_LOCK_REQUEST_H

#include "lock/participant.h"

/* The first step of a new use of a record, before any other field is written. */
static inline void request_begin_use(struct shm_request *r, uint64_t owner, uint32_t entry)
{
	/* The end of the record's last use before the fields of this one.  Pairs with fence_acquire() in
	 * damage_write(), snapshot_take(), snapshot_one() and copy_place(). */
	fence_release();
	store_changed(&r->owner, owner);
	store_changed32(&r->entry, entry);
	store_changed32(&r->sleeping, 0);
}

/* The same for a record that was not used since it was filled with the same owner, entry, ttl, flags and tag. */
static inline void request_begin_next_use(struct shm_request *r)
{
	/* The end of the record's last use before times and ticket of this one.  Pairs with fence_acquire() in
	 * damage_write(), snapshot_take(), snapshot_one() and copy_place(). */
	fence_release();
	/* A hint of the last use may come late. */
	store_changed(&r->next, 0);
}

/* Give a record back that was filled but never became reachable. */
void request_drop(struct participant *self, uint32_t index);

/* Set all flags anew: REQUEST_BARGES or REQUEST_TELLS, and a label, cut to fit, or none. */
void request_set_extras(struct shm_request *r, const char *tag, uint32_t flags);

/* What a request asks for of these. */
static inline uint32_t request_extras(unsigned flags)
{
	return (flags & LOCKSHM_BARGE ? REQUEST_BARGES : 0) | (flags & LOCKSHM_TELL_LOSS ? REQUEST_TELLS : 0);
}

/* The usual case: no label and none of these now, and none at the last use. */
static inline void request_set_extras_if_any(struct shm_request *r, const char *tag, uint32_t flags)
{
	if (unlikely(tag != NULL) || unlikely(flags != load_relaxed32(&r->flags)))
		request_set_extras(r, tag, flags);
}

/* The label as a string. */
void request_tag(const struct shm_request *r, char out[LOCKSHM_TAG_MAX + 2]);

#endif
