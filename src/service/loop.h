/* SPDX-License-Identifier: MIT */
/* loop.h - what the calls on a loop have in common; see waits.h */
#ifndef LOCKSHM_SERVICE_LOOP_H
#define LOCKSHM_SERVICE_LOOP_H

#include "service/tend.h"
#include "service/waits.h"

/* 0, or LOCKSHM_INVALID (no loop), or LOCKSHM_NOT_HELD (the parent's). */
MUST_CHECK int loop_check_told(const struct lockshm_loop *loop, struct lockshm_error *error);

/* INVALID = it is awaited. */
MUST_CHECK int loop_check_hold(struct lockshm_loop *loop, const lockshm_hold_t *hold, struct lockshm_error *error);

/* As acquire_check(), for a loop, and is @hold awaited? */
MUST_CHECK int loop_check_request(struct lockshm_loop *loop, const struct lockshm_request *q, const lockshm_hold_t *hold,
				  struct lockshm_error *error);

#define LOOP_TENDS (LOCKSHM_AUTO_RENEW | LOCKSHM_TELL_LOSS)

/* The checked @q has its first ttl. */
static inline int64_t loop_tend_ttl(const struct lockshm_request *q)
{
	return q->flags & LOCKSHM_AUTO_RENEW ? q->ttl_ns : 0;
}

/* How the service thread tends @hold; of a request that has LOOP_TENDS. */
void loop_tend_terms(struct lockshm_loop *loop, const struct lockshm_request *q, lockshm_hold_t *hold, void *user,
		     struct tend_terms *out);

/* @h was filled for @loop: it is the process', and may leave its barge window to the loop. */
void loop_set_hold(const struct lockshm_loop *loop, const struct lockshm_request *q, struct hold *h);

/* ---------------------------------------------------------------- one wait; loop-wait.c */

/*
 * A wait in no table yet, for the checked @q; its report is the caller's @report.  It copies what must outlive the call.
 * NULL = no memory.
 */
struct wait *wait_make(struct lockshm_loop *loop, const struct lockshm_request *q, lockshm_hold_t *hold, void *user,
		       struct lockshm_report *report);
void wait_free(struct wait *w);

/* The key it is for: what the segment shows of it. */
void wait_copy_key(struct wait *w, const void *key, size_t len);

/*
 * Append its request.  0 = granted; LOCKSHM_PENDING = it waits in the tables; else a code.  With ACQUIRE_OUTSIDE a granted
 * request is not entered.  @first: the caller's, with the whole key, the first time for that key; then NULL.  @report:
 * the library's own, or NULL.
 */
MUST_CHECK int wait_submit(struct wait *w, const struct lockshm_request *first, struct lockshm_report *report);

/* It was decided, and is in no table: take the grant, or submit it again.  Returns as wait_submit(). */
MUST_CHECK int wait_collect(struct wait *w, struct lockshm_report *report);

/* R14.  False = its lease has ended before. */
MUST_CHECK bool wait_take_grant(struct wait *w);

/* It is granted: fill @h.  Returns the status. */
int wait_fill_hold(struct wait *w, struct hold *h, struct lockshm_report *report);

/* It is in no table: out of its queue for good.  True = it had been granted. */
bool wait_give_up(struct wait *w);

/* Mark the memory of its holds as awaited. */
void wait_set_awaited(const struct wait *w);
/* Was the memory of @hold marked as awaited?  The mark is gone afterwards. */
bool wait_is_awaited(const lockshm_hold_t *hold);
void wait_end_awaited(const struct wait *w);

/* ---------------------------------------------------------------- global keys; loop-lease.c */

/* NULL = no memory. */
struct wait_lease *wait_make_lease(struct wait *w);

/* Its local request: not entered, for the time that the local way of the wait needs. */
void wait_make_local(struct lockshm_request *q);

/* The same as wait_take_grant() for the local request. */
MUST_CHECK bool wait_take_local(struct wait *w);

/* It is granted on this host: wait for the lease.  0 = held, and taken; LOCKSHM_PENDING; WAIT_AGAIN; or a code. */
MUST_CHECK int wait_begin_lease(struct wait *w, struct lockshm_report *report);

/* It was decided in its second phase.  Returns as wait_submit(). */
MUST_CHECK int wait_collect_lease(struct wait *w, struct lockshm_report *report);

/* ---------------------------------------------------------------- several locks; loop-many.c */

/* The lock of w->many that was waited for is decided as @status: go on.  Returns as wait_submit(), for all of them. */
MUST_CHECK int many_go_on(struct wait *w, int status, struct lockshm_report *report);

/* Release what it has so far. */
void many_undo(struct many *m);
void many_free(struct many *m);
/* The caller's hold for the lock that is taken now. */
lockshm_hold_t *many_hold(const struct many *m);

#endif
