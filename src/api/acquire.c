/* SPDX-License-Identifier: MIT */
/* acquire.c - lockshm_acquire(): the fast path, then every check, then dispatch */
#include "api/acquire.h"

#include "global/acquire.h"
#include "hold/acquire-fast.h"
#include "segment/global-keys.h"
#include "service/service.h"
#include "sys/error.h"
#include "sys/sized.h"

int acquire_dispatch(struct lockshm *s, const struct lockshm_request *q, const struct known_key *given,
		     lockshm_hold_t *hold, struct lockshm_error *error)
{
	int err = q->flags & LOCKSHM_AUTO_RENEW ? service_start(s, error) : 0;

	if (err)
		return err;
	/* That of a lock object was decided when the object met the segment, and here is a part of its key. */
	if (q->flags & LOCKSHM_GLOBAL || (!given && segment_makes_global(s, q->key, q->key_len)))
		return global_acquire(s, q, hold, error);
	return acquire_local(s, q, given, hold, error);
}

/*
 * @request and its report have the library's own sizes.  The report is cleared before anything is refused.
 * @how: 0, or as for acquire_outside().
 */
static int acquire_own_sizes(struct lockshm *segment, const struct lockshm_request *request, lockshm_hold_t *hold,
			     unsigned how)
{
	struct lockshm_error *error = NULL;
	struct lockshm_request outside;
	int err;

	if (unlikely(request->report != NULL)) {
		report_clear(request->report);
		error = &request->report->error;
	}
	if (unlikely(!segment_valid(segment)))
		return error_set(error, LOCKSHM_INVALID, "segment is NULL or closed");
	if (unlikely(!hold))
		return error_set(error, LOCKSHM_INVALID, "hold is NULL");
	err = acquire_check(request, hold, error);
	if (unlikely(err))
		return err;
	if (unlikely(segment->read_only))
		return error_set(error, LOCKSHM_PERMISSION, "the segment is open read-only");
	if (likely(!how))
		return acquire_dispatch(segment, request, NULL, hold, error);
	outside = *request;
	outside.flags |= how;
	return acquire_dispatch(segment, &outside, NULL, hold, error);
}

int acquire_outside(struct lockshm *s, const struct lockshm_request *q, lockshm_hold_t *hold, unsigned how)
{
	return acquire_own_sizes(s, q, hold, how);
}

/* The program was compiled with another header, or its sizes are wrong. */
static int acquire_other_sizes(struct lockshm *segment, const struct lockshm_request *request, lockshm_hold_t *hold)
{
	struct lockshm_report own = LOCKSHM_REPORT_INIT, *report;
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	int err = sized_in(&q, sizeof(q), request, REQUEST_SIZE_0_1, "request", &own.error);

	report = q.report;
	if (report && !sized_good(report, REPORT_SIZE_0_1))
		return LOCKSHM_INVALID;
	q.report = report ? &own : NULL;
	if (!err)
		err = acquire_own_sizes(segment, &q, hold, 0);
	if (report)
		sized_out(report, &own, sizeof(own));
	return err;
}

static int acquire_careful(struct lockshm *segment, const struct lockshm_request *request, lockshm_hold_t *hold)
{
	if (unlikely(!request))
		return LOCKSHM_INVALID;
	if (likely(request->size == sizeof(*request)) &&
	    (!request->report || likely(request->report->size == sizeof(*request->report))))
		return acquire_own_sizes(segment, request, hold, 0);
	return acquire_other_sizes(segment, request, hold);
}

/* Off the straight line, which keeps that short. */
static __attribute__((noinline)) int resume_plain(struct participant *self, const struct lockshm_request *q,
						  struct hold *h)
{
	if (!request_is_plain_but(q, LOCKSHM_BARGE) || q->mode != LOCKSHM_EXCLUSIVE)
		return NOT_TAKEN;
	return acquire_resume(self, q, NULL, h, false);
}

LOCKSHM_EXPORT int lockshm_acquire(lockshm_t *segment, const struct lockshm_request *request, lockshm_hold_t *hold)
{
	struct hold *h = hold_of(hold);
	struct participant *self = participant_known(segment);
	int status;

	/* A thread that takes part has the segment mapped, though its handle may be closed. */
	if (unlikely(!self) || unlikely(!request) || unlikely(!h) || unlikely(segment->magic != SEGMENT_MAGIC))
		return acquire_careful(segment, request, hold);
	if (unlikely(h->magic != 0) && unlikely(hold_sealed(h)))
		return acquire_careful(segment, request, hold);
	if (unlikely(self->barge.index != 0)) {
		status = resume_plain(self, request, h);
		if (status != NOT_TAKEN)
			return status;
	}
	if (unlikely(!request_is_plain(request)))
		return acquire_careful(segment, request, hold);
	status = take_free(self, request, NULL, h, true, false);
	return likely(status != NOT_TAKEN) ? status : acquire_careful(segment, request, hold);
}
