/* SPDX-License-Identifier: MIT */
/* owner.h - the threads that take part, as other threads see them: alive or dead; see owner.c and life.c */
#ifndef LOCKSHM_LOCK_OWNER_H
#define LOCKSHM_LOCK_OWNER_H

#include "segment/segment.h"
#include "sys/futex.h"

struct participant;

/* Can the owner never run user code again?  False also means "cannot tell now". */
bool owner_is_dead(const struct lockshm *s, uint64_t ref);

/* A life that the kernel has not flagged may have ended all the same (exec, core dump, see life.c): look in /proc, and
 * store the death in the slot. */
void owner_probe(const struct lockshm *s, uint64_t ref);

/* A call of @self is about to fail, or has failed, because of the requests of these owners (0 = none): has one of them
 * died, though the kernel has not reported it?  Looks in /proc every 10 ms at most. */
bool owner_found_dead(struct participant *self, uint64_t one, uint64_t other);

/* The life word of an owner and its value, to sleep on; false if it has none the kernel would flag. */
bool owner_watch(const struct lockshm *s, uint64_t ref, struct futex_watch *out);

/* Repeat the kernel's single wake-up for a death to all other watchers. */
void owner_wake_watchers(const struct lockshm *s, uint64_t ref);

/* Process and thread for messages; all 0 if the slot has another owner by now. */
struct owner_identity {
	int32_t pid;
	int32_t tid;
	char name[LOCKSHM_THREAD_NAME_MAX + 1];
};
struct owner_identity owner_identity(const struct lockshm *s, uint64_t ref);

/* The events of one kind that a slot has counted. */
uint64_t owner_count(const struct lockshm *s, uint32_t slot, enum owner_count event);

/* Is the thread of a slot dead, whatever stage the slot is in? */
bool owner_slot_is_dead(const struct lockshm *s, uint32_t slot, uint64_t control);

/* The thread of the slot is dead: is the kernel done with its life word, so that the slot may be used again? */
bool owner_slot_is_retired(const struct lockshm *s, uint32_t slot, uint64_t control);

/* Hash of what procfs_pid_namespace() returned; 0 = unknown. */
static inline uint32_t owner_namespace_hash(uint64_t ns)
{
	return ns ? (uint32_t)(ns * UINT64_C(0x9e3779b97f4a7c15) >> 48) | 1 : 0;
}

#endif
