/* SPDX-License-Identifier: MIT */
/* chunks.h - request records for a thread; see chunks.c */
#ifndef LOCKSHM_LOCK_CHUNKS_H
#define LOCKSHM_LOCK_CHUNKS_H

#include "lock/participant.h"

/*
 * A FREE record of the caller's own chunks: the one used last, another of its chunks, one of a new chunk.  0 = there is
 * none; a sweep may free some that dead threads left (sweep_probing()).
 */
uint32_t request_take(struct participant *self);

/* Give back the chunks of @from that are free, and leave the others to @heir. */
void chunks_leave(struct participant *from, struct participant *heir);

static inline uint32_t request_take_fast(struct participant *self)
{
	const struct shm_request *requests = self->segment->requests;
	uint32_t i = self->free_request;

	if (likely(i != 0) && likely(word_is(load_acquire(&requests[i].word), REQUEST_FREE)))
		return i;
	return request_take(self);
}

#endif
