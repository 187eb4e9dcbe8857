/* SPDX-License-Identifier: MIT */
/*
 * doorbell.h - telling a process of changes of its waits
 *
 * A request that waits for an event loop has no thread that sleeps on its word.  Its owner is the slot of the service
 * thread of its process, and where a thread's request is woken, a ringer rings that slot's doorbell: it sets the bit of the
 * record's class, and wakes the service thread if that is asleep.
 *
 * Crash points of a ringer, after the change that it rings for: killed or stopped before the bit is set, or between bit
 * and wake-up, the service thread finds the change at its self-check, as a thread does that no futex call has woken.
 * Bits are hints: a wrong one costs a look, a missing one waits for the self-check.
 */
#ifndef LOCKSHM_LOCK_DOORBELL_H
#define LOCKSHM_LOCK_DOORBELL_H

#include "segment/segment.h"
#include "sys/futex.h"

#define DOORBELL_CLASSES (DOORBELL_WORDS * 64) /* of records, by their index */

/*
 * Tell the owner of @index that its word, or its predecessor, has changed: the caller's change is followed by a fence.
 * If it is this process, a wait is looked at in the calling thread.
 */
void doorbell_ring(struct lockshm *s, uint32_t index);

/* The same, always by way of the service thread: for a signal handler. */
void doorbell_ring_service(const struct lockshm *s, uint32_t index);

/* ---------------------------------------------------------------- for the service thread */

/* Call @look with each class that was rung since the last time. */
void doorbell_answer(const struct lockshm *s, uint32_t slot, void (*look)(void *arg, uint32_t class), void *arg);

/*
 * The word to sleep on.  Read it first, then answer, then announce the sleep of this thread: false = a bit was set
 * since.  Each announcement is taken back, when the thread is awake again or does not sleep after all.
 */
struct futex_watch doorbell_watch(const struct lockshm *s, uint32_t slot);
bool doorbell_fall_asleep(const struct lockshm *s, uint32_t slot);
void doorbell_wake_up(const struct lockshm *s, uint32_t slot);

#endif
