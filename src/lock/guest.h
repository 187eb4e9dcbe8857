/* SPDX-License-Identifier: MIT */
/*
 * guest.h - a thread that uses holds of the process and takes no part
 *
 * A participant keeps its segment mapped.  A thread without one becomes a guest at its first call on a hold of the
 * process, and keeps the segment mapped until it ends, closes the handle, or becomes a guest of another segment after
 * the service thread of this one has ended.  So each further call needs no lock.  A guest has no slot and keeps no
 * thread of the library alive: the holds of the process end with its last thread that takes part.
 */
#ifndef LOCKSHM_LOCK_GUEST_H
#define LOCKSHM_LOCK_GUEST_H

#include "lock/participant.h"

struct guest {
	struct lockshm *segment;
	uint64_t epoch; /* of the process that made it; a child's differs */
	struct guest *next; /* of this thread, for other segments */
	struct thread_part part;
};

extern __thread struct guest *guests_of_thread FAST_TLS;

/* Is the calling thread a guest of @s?  Safe for any value; as participant_known(), false in a forked child. */
static inline bool guest_known(const struct lockshm *s)
{
	const struct guest *g = guests_of_thread;
	uint64_t epoch;

	if (unlikely(!g))
		return false;
	epoch = load_relaxed(process_epoch_word);
	while (unlikely(g->segment != s) || unlikely(g->epoch != epoch)) {
		g = g->next;
		if (!g)
			return false;
	}
	return true;
}

/*
 * Make the calling thread a guest of @s, which may be any value, if it is mapped and @process_uid is that of its service
 * thread.  False also if there is no memory.
 */
MUST_CHECK bool guest_join(struct lockshm *s, uint64_t process_uid);

/* ---------------------------------------------------------------- for participant.c and thread-end.c */

/* The calling thread is no guest of @s from now on; of no segment. */
void guest_leave(struct lockshm *s);
void guest_leave_all(void);

/* After a fork: drop the guests of the parent's thread from the copied list. */
void guest_forget_inherited(uint64_t epoch);

#endif
