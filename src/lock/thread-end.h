/* SPDX-License-Identifier: MIT */
/*
 * thread-end.h - what a thread has in a segment, a participant or a guest, ends with the thread
 *
 * A destructor of thread-specific data does that in the last of the rounds of destructors: those of the program, which
 * run in no order that a library could choose, may use the thread's holds until then.  A thread that has its first part
 * from a destructor may end without another round.  The kernel reports its death as any other; its memory is given back by
 * other threads of the process.
 */
#ifndef LOCKSHM_LOCK_THREAD_END_H
#define LOCKSHM_LOCK_THREAD_END_H

#include "segment/segment.h"

/* In the list of its segment, with that lock held. */
struct thread_part {
	struct cds_list_head of_segment;
	int32_t tid;
	void (*give_back)(struct thread_part *part); /* the thread is gone */
};

/* Make the calling thread's parts end when it exits.  0 or an errno: a process has a limited number of such keys. */
MUST_CHECK int thread_expect_end(void);

/* The segment's lock held: of the calling thread, and its end. */
void thread_part_begin(struct lockshm *s, struct thread_part *part, void (*give_back)(struct thread_part *part));
static inline void thread_part_end(struct thread_part *part)
{
	cds_list_del(&part->of_segment);
}

/* Give back parts of threads that are gone, after a look at some of all, or at each.  The caller has a reference. */
void thread_parts_give_back(struct lockshm *s, bool each);

#endif
