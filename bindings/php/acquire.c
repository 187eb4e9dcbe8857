/* SPDX-License-Identifier: MIT */
/* acquire.c - take a key: at once, or by a wait */
#include "php_lockshm.h"

static void count_refusal(struct lk_segment *segment, const struct lockshm_report *report)
{
	segment->refused_by = report->blocker;
	segment->skipped++;
}

/** The key was not free a moment ago. */
static int acquire_busy(struct lk_segment *segment, struct lockshm_request *request, lockshm_hold_t *hold)
{
	int code;

	if (request->timeout_ns)
		return lk_wait(segment, request, hold);
	code = lockshm_acquire(segment->handle, request, hold);
	if (code == LOCKSHM_BUSY)
		count_refusal(segment, request->report);
	return code;
}

/**
 * lk_acquire - take a key
 * @request: its report and time-out may be changed
 * @report:  filled with a negative code
 *
 * A free key needs no report, which costs as much as the rest.  One across hosts is not tried first: that takes a reply
 * of Redis.
 *
 * Return: as lockshm_acquire().
 */
int lk_acquire(struct lk_segment *segment, struct lockshm_request *request, lockshm_hold_t *hold,
	       struct lockshm_report *report)
{
	int64_t timeout_ns = request->timeout_ns;
	int code;

	if (!(request->flags & LOCKSHM_GLOBAL) && !segment->makes_global) {
		request->timeout_ns = 0;
		code = lockshm_acquire(segment->handle, request, hold);
		if (code >= 0)
			return code;
	}
	*report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	request->report = report;
	request->timeout_ns = timeout_ns;
	code = acquire_busy(segment, request, hold);
	if (code != LOCKSHM_NO_SEGMENT)
		return code;
	code = lk_segment_reopen(segment, &report->error);
	return code == 0 ? acquire_busy(segment, request, hold) : code;
}
