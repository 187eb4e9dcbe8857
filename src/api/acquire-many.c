/* SPDX-License-Identifier: MIT */
/*
 * acquire-many.c - several locks, all or none, in the order of hold/key-order.h
 *
 * Between two keys the holds taken so far are ordinary ones: a caller that is killed there leaves nothing special.
 */
#include <string.h>

#include "api/acquire.h"
#include "global/lease-wait.h"
#include "hold/key-order.h"
#include "sys/clock.h"
#include "sys/error.h"
#include "sys/sized.h"

/* Of all keys: the time-out counts from now, and so does what a try may wait for Redis.  0 = each key has that of the
 * request: endless, a try on this host, or refused. */
static int64_t common_deadline(const struct lockshm_request *common)
{
	if (common->timeout_ns < 0 || common->timeout_ns > LOCKSHM_TIME_MAX)
		return 0;
	return common->timeout_ns || common->flags & LOCKSHM_GLOBAL ? lease_wait_deadline(common) : 0;
}

struct many_how {
	int64_t deadline;
	unsigned flags;
};

struct report_sum {
	struct lockshm_report one, all;
};

/* R13: no key is entered before the last is granted.  False = a lease ended before that. */
static bool enter_all(const lockshm_hold_t *holds, const struct wanted *w, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (hold_go_inside(&holds[w[i].qpos]) < 0)
			return false;
	return true;
}

static void undo(lockshm_hold_t *holds, const struct wanted *w, size_t n)
{
	while (n-- > 0)
		(void)lockshm_release(&holds[w[n].qpos], 0);
}

#define AGAIN 1000 /* not a public code: a lease ended before the last key was granted */

static int take_once(struct lockshm *s, struct lockshm_request *q, const struct many_how *how,
		     const struct lockshm_key *keys, const struct wanted *w, size_t n, lockshm_hold_t *holds,
		     struct report_sum *sum)
{
	int status = 0, err;
	size_t i;

	for (i = 0; i < n; i++) {
		q->key = keys[w[i].qpos].data;
		q->key_len = keys[w[i].qpos].len;
		q->mode = w[i].mode;
		q->report = &sum->one;
		if (how->deadline)
			q->timeout_ns = timeout_until(how->deadline);
		err = acquire_outside(s, q, &holds[w[i].qpos], how->flags);
		many_add_report(&sum->all, &sum->one);
		if (err < 0) {
			undo(holds, w, i);
			many_forget_holds(&sum->all);
			return err;
		}
		status = many_worse(status, err);
	}
	if (enter_all(holds, w, n))
		return status;
	undo(holds, w, n);
	many_forget_holds(&sum->all);
	return AGAIN;
}

static int take_all(struct lockshm *s, struct lockshm_request *q, const struct lockshm_key *keys,
		    const struct wanted *w, size_t n, lockshm_hold_t *holds, struct report_sum *sum)
{
	struct many_how how = { common_deadline(q), ACQUIRE_OUTSIDE };
	int tries, status = AGAIN;

	if (how.deadline && q->timeout_ns == 0)
		how.flags |= ACQUIRE_TRY;
	for (tries = 0; tries < MANY_TRIES && status == AGAIN; tries++)
		status = take_once(s, q, &how, keys, w, n, holds, sum);
	if (status == AGAIN)
		return error_set(&sum->all.error, LOCKSHM_TIMEOUT,
				 "the leases end before the last key is granted: ttl_ns is too short");
	return status;
}

/* @common: a copy, which is used up. */
static int acquire_many(struct lockshm *segment, struct lockshm_request *common, const struct lockshm_key *keys,
			size_t n, lockshm_hold_t *holds, struct report_sum *sum)
{
	struct wanted wanted[LOCKSHM_MANY_MAX];
	size_t n_wanted = 0;
	int err;

	if (!segment_valid(segment))
		return error_set(&sum->all.error, LOCKSHM_INVALID, "segment is NULL or closed");
	err = many_check(common, keys, n, holds, &sum->all.error);
	if (!err)
		err = many_order(segment, wanted, common, keys, n, &n_wanted, &sum->all.error);
	if (err)
		return err;
	memset(holds, 0, n * sizeof(*holds));
	return take_all(segment, common, keys, wanted, n_wanted, holds, sum);
}

LOCKSHM_EXPORT int lockshm_acquire_many(lockshm_t *segment, const struct lockshm_request *common,
					const struct lockshm_key *keys, size_t n, lockshm_hold_t *holds)
{
	struct report_sum sum = { LOCKSHM_REPORT_INIT, LOCKSHM_REPORT_INIT };
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_report *report;
	int err;

	if (!common)
		return LOCKSHM_INVALID;
	err = sized_in(&q, sizeof(q), common, REQUEST_SIZE_0_1, "request", &sum.all.error);
	report = q.report;
	if (report && !sized_good(report, REPORT_SIZE_0_1))
		return LOCKSHM_INVALID;
	if (!err)
		err = acquire_many(segment, &q, keys, n, holds, &sum);
	if (report)
		sized_out(report, &sum.all, sizeof(sum.all));
	return err;
}

static int worse_outcome(int a, int b)
{
	if (a == LOCKSHM_LOST || b == LOCKSHM_LOST)
		return LOCKSHM_LOST;
	return a ? a : b;
}

LOCKSHM_EXPORT int lockshm_release_many(lockshm_hold_t *holds, size_t n)
{
	int outcome = 0, one;

	if (!holds || n > LOCKSHM_MANY_MAX)
		return LOCKSHM_INVALID;
	while (n-- > 0) {
		one = lockshm_release(&holds[n], 0);
		if (one != LOCKSHM_NOT_HELD)
			outcome = worse_outcome(outcome, one);
	}
	return outcome;
}
