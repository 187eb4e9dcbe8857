/* SPDX-License-Identifier: MIT */
/*
 * process.h - which process is this?
 *
 * A forked child shares the mapping but owns nothing.  It is noticed without a system call: the epoch lives in a page
 * that the kernel wipes in a child (MADV_WIPEONFORK); where that does not exist, an atfork handler clears it.
 */
#ifndef LOCKSHM_SEGMENT_PROCESS_H
#define LOCKSHM_SEGMENT_PROCESS_H

#include <stdint.h>

#include "sys/atomic.h"
#include "sys/compiler.h"
#include "segment/segment.h"

extern uint64_t *process_epoch_word;

/* Give this process an epoch after a start or a fork, and set the open segments' private fields up anew. */
uint64_t process_begin(void);

/* Number of this process in its line of forks; never 0. */
static inline uint64_t process_epoch(void)
{
	uint64_t *word = __atomic_load_n(&process_epoch_word, __ATOMIC_ACQUIRE);
	uint64_t epoch = likely(word != NULL) ? load_relaxed(word) : 0;

	return likely(epoch != 0) ? epoch : process_begin();
}

/* A place among the segments that process_sees_segment() finds; it stays, and is used again.  NULL = no memory. */
struct seen_segment *process_reserve(void);

/* The list of open segments, for the child of a fork.  It has its place. */
void process_add_segment(struct lockshm *s);
void process_remove_segment(struct lockshm *s);

/* Does this pointer lead to a segment that is mapped, be its handle open or closed?  Safe for any value. */
bool process_knows_segment(const struct lockshm *wanted);

/* The same without a lock, for signal handlers. */
bool process_sees_segment(const struct lockshm *wanted);

/* As process_knows_segment(), and keep it mapped until segment_unref(). */
bool process_ref_segment(struct lockshm *wanted);

/* A number that this process and its later children give out once. */
uint64_t process_unique(void);

/* More than one processor to run on? */
bool process_is_parallel(void);

#endif
