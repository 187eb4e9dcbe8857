/* SPDX-License-Identifier: MIT */
/* wait.h - sleeping until a request is granted: the one sleep/wake protocol of the library */
#ifndef LOCKSHM_LOCK_WAIT_H
#define LOCKSHM_LOCK_WAIT_H

#include "lock/participant.h"
#include "lock/queue.h"

/* The request was granted, and its lease ended before its owner was inside: append a new one. */
#define WAIT_AGAIN 1

struct wait_terms {
	struct shm_entry *entry;
	uint32_t index;
	uint64_t gen;
	int64_t deadline; /* segment time, INT64_MAX = never */
	lockshm_canceller_t *canceller;
	struct lockshm_error *error;
	bool enters;	  /* R13: a granted request becomes a hold before the call returns */
	struct lockshm_blocker *blocker; /* [out] with LOCKSHM_TIMEOUT; NULL = not wanted */
	int64_t slept_ns; /* [out] */
	int64_t check_at; /* the next self-check, 0 = not yet set; earlier wake-ups do not move it */
	int64_t suspected; /* each self-check since this time has found a deadlock, 0 = the last one found none */
};

/*
 * Wait until my request is granted.  0 = granted, WAIT_AGAIN, or LOCKSHM_TIMEOUT, CANCELLED, DEADLOCK, NO_SEGMENT,
 * BAD_SEGMENT: then the request is gone.
 */
MUST_CHECK int wait_for_grant(struct participant *self, struct wait_terms *t);

/*
 * A signal handler has left the last wait of @self by a jump (siglongjmp()): take its request out of the queue, or release
 * it if it was granted meanwhile.  For the begin of a call of its thread, if self->wait.index is not 0.
 */
void wait_drop_left(struct participant *self);

/* ---------------------------------------------------------------- waits that no thread sleeps for */

#define WAIT_OVER 2 /* the request waits no more: its word says why */

/* What such a wait depends on. */
struct wait_view {
	struct qpos me;		 /* its own position, and its predecessor's: unchanged, no ring was missed */
	struct qpos before;
	uint64_t owner;		 /* of its predecessor; 0 = none */
	struct futex_watch life; /* of that owner, if @watched */
	bool watched;
	bool holds;		 /* its predecessor does not wait */
	int64_t until;		 /* look again at this time: the predecessor may be overdue */
};

/* What a thread does before it sleeps, for the service thread; and what to sleep on.  0, WAIT_OVER, BAD_SEGMENT. */
MUST_CHECK int wait_view(struct lockshm *s, const struct wait_terms *t, struct wait_view *out);

/* The walk of a self-check (R9).  @qpos: the distance from the head; and the time to the next walk from there. */
void wait_walk(struct lockshm *s, const struct wait_terms *t, uint32_t *qpos);
int64_t wait_walk_every(uint32_t qpos);

/* @self is about to give such a wait up, or had it cancelled: is a holder in its way dead, though the kernel has not reported
 * it?  Then the request may be granted now. */
void wait_last_look(struct participant *self, const struct wait_terms *t);

/* R3: take it out of the queue, in any thread.  True = it is out; false = granted, or ended by another thread, at the
 * same moment. */
bool wait_abandon(struct lockshm *s, const struct wait_terms *t);

/* cancel.c: is *@c a canceller without a wait?  Was it cancelled?  Begin and end its use by a wait; meanwhile, what to
 * sleep on until it is cancelled. */
bool canceller_is_idle(const lockshm_canceller_t *c);
bool canceller_used(const lockshm_canceller_t *c);
void canceller_begin(lockshm_canceller_t *c, struct lockshm *s, uint32_t index, uint64_t gen);
void canceller_end(lockshm_canceller_t *c);
struct futex_watch canceller_watch(const lockshm_canceller_t *c);

#endif
