/* SPDX-License-Identifier: MIT */
/*
 * process.h - the identity of this process, and its forks
 *
 * A forked child shares the mapping but owns nothing.  It is detected without a system call: the epoch lives in a page
 * that the kernel wipes in a child (MADV_WIPEONFORK); where that does not exist, an atfork handler clears it.
 */
#ifndef LOCKSHM_SEGMENT_PROCESS_H
#define LOCKSHM_SEGMENT_PROCESS_H

#include <stdint.h>

#include "segment/registry.h"
#include "segment/segment.h"
#include "sys/atomic.h"
#include "sys/compiler.h"

extern uint64_t *process_epoch_word;

/* Give this process an epoch after a start or a fork, and reset the private fields of the open segments. */
uint64_t process_begin(void);

/* Number of this process in its line of forks; never 0. */
static inline uint64_t process_epoch(void)
{
	uint64_t *word = __atomic_load_n(&process_epoch_word, __ATOMIC_ACQUIRE);
	uint64_t epoch = likely(word != NULL) ? load_relaxed(word) : 0;

	return likely(epoch != 0) ? epoch : process_begin();
}

/*
 * What a folder above has to do around fork() and when its service thread ends.  A folder adds its table before it starts
 * anything that needs one (src/README.md lists them); a table stays for the life of the process.  NULL = nothing.
 */
struct process_hooks {
	/* For each open segment, with its `starting` and `lock` held: */
	void (*fork_lock)(struct lockshm *s);	/* before fork(): no thread is inside while memory is copied */
	void (*fork_unlock)(struct lockshm *s); /* after it, in the parent */
	/* In the child: drop what belongs to the parent's threads.  @consistent false: after a fork past the C library
	 * the copy may be half changed, and descriptors may be the parent's. */
	void (*forget)(struct lockshm *s, bool consistent);
	void (*forget_thread)(uint64_t epoch); /* in the child's thread, with nothing locked */
	/* Not around fork(): */
	void (*end_service)(struct renewals *renewals); /* taken out of a segment that only the service thread uses */
};

void process_add_hooks(const struct process_hooks *hooks);
void process_end_service(struct renewals *renewals);

/* A number that this process and its later children give out once. */
uint64_t process_unique(void);

/* Does the machine have more than one processor? */
bool process_is_parallel(void);

#endif
