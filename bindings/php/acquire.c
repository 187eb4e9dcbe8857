/* SPDX-License-Identifier: MIT */
/* acquire.c - take a key: at once, or by a wait */
#include "php_lockshm.h"

static void count_refusal(struct lk_segment *segment, const struct lockshm_report *report)
{
	segment->refused_by = report->blocker;
	segment->skipped++;
}

/** At once; what signals and the time limit of the script need costs only those that wait.  A key across hosts waits for
 *  a reply of Redis in any case. */
static int acquire_once(struct lk_segment *segment, struct lockshm_request *request, lockshm_hold_t *hold,
			int64_t timeout_ns)
{
	bool global = request->flags & LOCKSHM_GLOBAL || segment->makes_global;
	int code = LOCKSHM_BUSY;

	request->timeout_ns = 0;
	if (!global || !timeout_ns)
		code = lockshm_acquire(segment->handle, request, hold);
	if (code != LOCKSHM_BUSY)
		return code;
	if (!timeout_ns) {
		count_refusal(segment, request->report);
		return code;
	}
	request->timeout_ns = timeout_ns;
	return lk_wait(segment, request, hold);
}

/**
 * lk_acquire - take a key
 * @request: its report and time-out may be changed
 * @report:  of any content
 *
 * Return: as lockshm_acquire().
 */
int lk_acquire(struct lk_segment *segment, struct lockshm_request *request, lockshm_hold_t *hold,
	       struct lockshm_report *report)
{
	int64_t timeout_ns = request->timeout_ns;
	int code;

	report->size = sizeof(*report);
	report->error.message[0] = '\0';
	report->blocker.state = 0;
	request->report = report;
	code = acquire_once(segment, request, hold, timeout_ns);
	if (code != LOCKSHM_NO_SEGMENT)
		return code;
	code = lk_segment_reopen(segment, &report->error);
	return code == 0 ? acquire_once(segment, request, hold, timeout_ns) : code;
}
