/* SPDX-License-Identifier: MIT */
/*
 * acquire-many.c - several locks, all or none
 *
 * All callers take keys in the same order, so that two such calls never wait for each other in a circle.  In a segment
 * of one host that is the order of the identities.  These depend on the segment's secret, so with Redis it is the order
 * of the keys themselves, for local calls too, because local calls meet global ones.  Between two keys the holds taken
 * so far are ordinary ones: a caller that is killed there leaves nothing special.
 */
#include <string.h>

#include "api/acquire.h"
#include "hold/acquire.h"
#include "sys/clock.h"
#include "sys/error.h"
#include "sys/hash.h"
#include "sys/sized.h"

struct wanted {
	struct identity id;
	const struct lockshm_key *by; /* the key itself, if that is the order; else NULL */
	uint32_t qpos; /* in the caller's arrays */
	int mode;
};

static int compare_bytes(const struct lockshm_key *a, const struct lockshm_key *b)
{
	int d = memcmp(a->data, b->data, a->len < b->len ? a->len : b->len);

	return d ? d : (a->len > b->len) - (a->len < b->len);
}

static int compare_keys(const struct wanted *a, const struct wanted *b)
{
	return a->by ? compare_bytes(a->by, b->by) : memcmp(&a->id, &b->id, sizeof(a->id));
}

static int compare(const struct wanted *a, const struct wanted *b)
{
	int d = compare_keys(a, b);

	return d ? d : (a->qpos > b->qpos) - (a->qpos < b->qpos);
}

/* Insertion sort: at most 64, and qsort may allocate. */
static void sort(struct wanted *w, size_t n)
{
	size_t i, j;

	for (i = 1; i < n; i++)
		for (j = i; j > 0 && compare(&w[j - 1], &w[j]) > 0; j--) {
			struct wanted t = w[j];

			w[j] = w[j - 1];
			w[j - 1] = t;
		}
}

/* Keep the first of equal keys, with the stronger mode.  Returns how many are left. */
static size_t merge(struct wanted *w, size_t n)
{
	size_t i, kept = 0;

	for (i = 0; i < n; i++) {
		if (kept > 0 && compare_keys(&w[kept - 1], &w[i]) == 0) {
			if (w[i].mode == LOCKSHM_EXCLUSIVE)
				w[kept - 1].mode = LOCKSHM_EXCLUSIVE;
		} else {
			w[kept++] = w[i];
		}
	}
	return kept;
}

static int check_key(const struct lockshm_key *k, size_t i, const struct lockshm_request *common,
		     struct lockshm_error *error)
{
	int mode = k->mode ? k->mode : common->mode;

	if (!k->data || k->len == 0)
		return error_set(error, LOCKSHM_INVALID, "key %zu is empty", i);
	if (k->len > LOCKSHM_KEY_MAX)
		return error_set(error, LOCKSHM_KEY_TOO_LONG, "key %zu has %zu bytes, at most %d are allowed", i,
				 k->len, LOCKSHM_KEY_MAX);
	if (mode != LOCKSHM_SHARED && mode != LOCKSHM_EXCLUSIVE)
		return error_set(error, LOCKSHM_INVALID, "mode of key %zu is %d", i, mode);
	if (k->reserved[0] | k->reserved[1] | k->reserved[2])
		return error_set(error, LOCKSHM_INVALID, "reserved words of key %zu must be 0", i);
	return 0;
}

static int collect(const struct lockshm *s, struct wanted *w, const struct lockshm_request *common,
		   const struct lockshm_key *keys, size_t n, struct lockshm_error *error)
{
	size_t i;
	int err;

	for (i = 0; i < n; i++) {
		err = check_key(&keys[i], i, common, error);
		if (err)
			return err;
		w[i].by = s->n_host_leases ? &keys[i] : NULL;
		if (!w[i].by)
			hash_key(&w[i].id, s->hash_secret, keys[i].data, keys[i].len);
		w[i].qpos = (uint32_t)i;
		w[i].mode = keys[i].mode ? keys[i].mode : common->mode;
	}
	return 0;
}

/* One deadline for all keys: the time-out counts from now. */
static int64_t common_deadline(const struct lockshm_request *common)
{
	if (common->deadline_ns || common->timeout_ns <= 0 || common->timeout_ns > LOCKSHM_TIME_MAX)
		return common->deadline_ns;
	return clock_precise() + common->timeout_ns;
}

/* LOCAL_ONLY, other hosts are not excluded, outranks all damage, which report.previous has in any case. */
static int worse(int a, int b)
{
	if (a == LOCKSHM_LOCAL_ONLY || b == LOCKSHM_LOCAL_ONLY)
		return LOCKSHM_LOCAL_ONLY;
	if (a == LOCKSHM_OWNER_DIED || b == LOCKSHM_OWNER_DIED)
		return LOCKSHM_OWNER_DIED;
	return a ? a : b;
}

struct report_sum {
	struct lockshm_report one, all;
};

static void add_report(struct report_sum *sum)
{
	sum->all.waited_ns += sum->one.waited_ns;
	sum->all.slept_ns += sum->one.slept_ns;
	sum->all.error = sum->one.error;
	sum->all.blocker = sum->one.blocker;
	if (!sum->all.token)
		sum->all.token = sum->one.token;
	if (!sum->all.previous.status || sum->one.previous.status == LOCKSHM_OWNER_DIED)
		sum->all.previous = sum->one.previous;
}

/* None is held: what was said of the keys so far is not about the next try, nor about a failed call. */
static void forget_holds(struct report_sum *sum)
{
	sum->all.token = 0;
	memset(&sum->all.previous, 0, sizeof(sum->all.previous));
}

/* R13: no key is entered before the last is granted.  False = a lease ended before that. */
static bool enter_all(const lockshm_hold_t *holds, const struct wanted *w, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (hold_go_inside(&holds[w[i].qpos]) < 0)
			return false;
	return true;
}

/* Damage is reported only when all keys are held, so it may be acknowledged only then. */
static void acknowledge_all(lockshm_hold_t *holds, const struct wanted *w, size_t n)
{
	while (n-- > 0)
		(void)lockshm_acknowledge(&holds[w[n].qpos]);
}

static void undo(lockshm_hold_t *holds, const struct wanted *w, size_t n)
{
	while (n-- > 0)
		(void)lockshm_release(&holds[w[n].qpos], 0);
}

#define AGAIN 1000 /* not a public code: a lease ended before the last key was granted */
#define TRIES 1000

/* @q: without LOCKSHM_ACKNOWLEDGE. */
static int take_once(struct lockshm *s, struct lockshm_request *q, const struct lockshm_key *keys,
		     const struct wanted *w, size_t n, lockshm_hold_t *holds, struct report_sum *sum)
{
	int status = 0, err;
	size_t i;

	for (i = 0; i < n; i++) {
		q->key = keys[w[i].qpos].data;
		q->key_len = keys[w[i].qpos].len;
		q->mode = w[i].mode;
		q->report = &sum->one;
		err = acquire_outside(s, q, &holds[w[i].qpos]);
		add_report(sum);
		if (err < 0) {
			undo(holds, w, i);
			forget_holds(sum);
			return err;
		}
		status = worse(status, err);
	}
	if (enter_all(holds, w, n))
		return status;
	undo(holds, w, n);
	forget_holds(sum);
	return AGAIN;
}

static int take_all(struct lockshm *s, struct lockshm_request *q, const struct lockshm_key *keys,
		    const struct wanted *w, size_t n, lockshm_hold_t *holds, struct report_sum *sum)
{
	unsigned acknowledge = q->flags & LOCKSHM_ACKNOWLEDGE;
	int tries, status = AGAIN;

	q->flags &= ~LOCKSHM_ACKNOWLEDGE;
	for (tries = 0; tries < TRIES && status == AGAIN; tries++)
		status = take_once(s, q, keys, w, n, holds, sum);
	if (status == AGAIN)
		return error_set(&sum->all.error, LOCKSHM_TIMEOUT,
				 "the leases end before the last key is granted: ttl_ns is too short");
	if (status >= 0 && acknowledge)
		acknowledge_all(holds, w, n);
	return status;
}

/* Check everything that is not one key's. */
static int check_many(const struct lockshm *s, const struct lockshm_request *common, const struct lockshm_key *keys,
		      size_t n, const lockshm_hold_t *holds, struct lockshm_error *error)
{
	size_t i;

	if (!segment_valid(s))
		return error_set(error, LOCKSHM_INVALID, "segment is NULL or closed");
	if (!keys || !holds)
		return error_set(error, LOCKSHM_INVALID, "%s is NULL", keys ? "holds" : "keys");
	if (common->flags & LOCKSHM_BARGE)
		return error_set(error, LOCKSHM_INVALID, "flags: LOCKSHM_BARGE is for one key");
	if ((common->flags & (LOCKSHM_ACKNOWLEDGE | LOCKSHM_ROBUST)) == LOCKSHM_ACKNOWLEDGE)
		return error_set(error, LOCKSHM_INVALID, "flags: LOCKSHM_ACKNOWLEDGE needs LOCKSHM_ROBUST");
	if (n < 1 || n > LOCKSHM_MANY_MAX)
		return error_set(error, LOCKSHM_INVALID, "n is %zu, must be 1..%d", n, LOCKSHM_MANY_MAX);
	for (i = 0; i < n; i++)
		if (hold_in_use(hold_of(&holds[i])))
			return error_set(error, LOCKSHM_INVALID, "hold %zu is in use: release it first", i);
	return 0;
}

/* @common: a copy, which is used up. */
static int acquire_many(struct lockshm *segment, struct lockshm_request *common, const struct lockshm_key *keys,
			size_t n, lockshm_hold_t *holds, struct report_sum *sum)
{
	struct wanted wanted[LOCKSHM_MANY_MAX];
	int err = check_many(segment, common, keys, n, holds, &sum->all.error);

	if (!err)
		err = collect(segment, wanted, common, keys, n, &sum->all.error);
	if (err)
		return err;
	memset(holds, 0, n * sizeof(*holds));
	sort(wanted, n);
	common->deadline_ns = common_deadline(common);
	return take_all(segment, common, keys, wanted, merge(wanted, n), holds, sum);
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
