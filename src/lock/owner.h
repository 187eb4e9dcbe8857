/* SPDX-License-Identifier: MIT */
/* owner.h - the threads that take part, as others see them: alive or dead; see owner.c and life.c */
#ifndef LOCKSHM_LOCK_OWNER_H
#define LOCKSHM_LOCK_OWNER_H

#include "segment/segment.h"
#include "sys/futex.h"

struct participant;

/* Can the owner never run user code again?  False also means "cannot tell now". */
bool owner_is_dead(const struct lockshm *s, uint64_t ref);

/* A life that the kernel has not flagged may be over all the same (exec, core dump, see owner.c): ask
 * /proc, and say so in the slot. */
void owner_probe(const struct lockshm *s, uint64_t ref);

/* The life word of an owner and its value, to sleep on; false if it has none the kernel would flag. */
bool owner_watch(const struct lockshm *s, uint64_t ref, struct futex_watch *out);

/* Pass the kernel's single wake-up for a death on to every other watcher. */
void owner_wake_watchers(const struct lockshm *s, uint64_t ref);

/* Identity for messages; 0 if the slot has moved on. */
void owner_identity(const struct lockshm *s, uint64_t ref, int32_t *pid, int32_t *tid);

/* Is the thread behind a slot dead, whatever stage the slot is in? */
bool owner_slot_is_dead(const struct lockshm *s, uint32_t slot, uint64_t control);

/* Of a slot whose thread is dead: is the kernel through with its life word, so that it may be used again? */
bool owner_slot_is_retired(const struct lockshm *s, uint32_t slot, uint64_t control);

/* Of a pid namespace as procfs_pid_namespace() tells it; 0 = cannot tell. */
static inline uint32_t owner_namespace_hash(uint64_t ns)
{
	return ns ? (uint32_t)(ns * UINT64_C(0x9e3779b97f4a7c15) >> 48) | 1 : 0;
}

#endif
