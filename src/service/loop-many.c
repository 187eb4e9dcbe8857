/* SPDX-License-Identifier: MIT */
/*
 * loop-many.c - several locks for one outcome, all or none
 *
 * One wait takes the locks one after the other, in the order of hold/key-order.h.  What it has so far is granted and not
 * entered, in holds of its own; the caller's are filled when the last lock is granted.  Crash point: the process ends
 * with all of its requests.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hold/key-order.h"
#include "segment/global-keys.h"
#include "service/loop.h"
#include "sys/error.h"
#include "sys/sized.h"

struct many {
	lockshm_hold_t *holds; /* the caller's */
	size_t n;	       /* different keys */
	size_t at;	       /* the next one */
	unsigned tries;
	int status;
	struct lockshm_request common;
	struct lockshm_report sum;
	struct wanted wanted[LOCKSHM_MANY_MAX];
	struct lockshm_key keys[LOCKSHM_MANY_MAX]; /* as given, with the bytes below */
	lockshm_hold_t own[LOCKSHM_MANY_MAX]; /* in the order they are taken */
	unsigned char bytes[];
};

void many_free(struct many *m)
{
	free(m);
}

lockshm_hold_t *many_hold(const struct many *m)
{
	return &m->holds[m->wanted[m->at].qpos];
}

void many_undo(struct many *m)
{
	while (m->at > 0)
		(void)lockshm_release(&m->own[--m->at], 0);
	m->status = 0;
	many_forget_holds(&m->sum);
}

/* ---------------------------------------------------------------- one lock after the other */

/* Its own key may be global, and the one before not: no wait is under way for either. */
static int prepare_lease(struct wait *w, const struct lockshm_request *q, struct lockshm_report *report)
{
	const struct lockshm *s = w->loop->s;
	bool global = q->flags & LOCKSHM_GLOBAL || segment_makes_global(s, q->key, q->key_len);

	if (!global) {
		free(w->lease);
		w->lease = NULL;
		return 0;
	}
	if (!w->lease)
		w->lease = wait_make_lease(w);
	if (!w->lease)
		return error_system(&report->error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for a wait");
	return lease_wait_check(s, q, &report->error);
}

static int submit_next(struct wait *w, struct lockshm_report *report)
{
	struct many *m = w->many;
	const struct wanted *wanted = &m->wanted[m->at];
	struct lockshm_request q = m->common;
	int err;

	q.key = m->keys[wanted->qpos].data;
	q.key_len = m->keys[wanted->qpos].len;
	q.mode = wanted->mode;
	w->request.mode = q.mode;
	wait_copy_key(w, q.key, q.key_len);
	err = prepare_lease(w, &q, report);
	if (err)
		return err;
	return wait_submit(w, &q, report);
}

/* R13: no key is entered before the last is granted.  False = a lease ended before that. */
static bool enter_all(const struct many *m)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (hold_go_inside(&m->own[i]) < 0)
			return false;
	return true;
}

/* It may have been lost at this moment, when there was no loop to tell. */
static void tell_from_now_on(struct lockshm_loop *loop, uint32_t index)
{
	uint64_t use;

	waits_lock(loop->all);
	__atomic_store_n(&tend_of(loop->s, index)->loop, loop, __ATOMIC_RELAXED);
	if (tend_is_lost(loop->s, index, &use))
		waits_list_loss(loop->all, index);
	waits_unlock(loop->all);
	waits_write(loop->all, false);
}

/* The holds become the caller's, at another address. */
static void hand_over(struct lockshm_loop *loop, struct many *m)
{
	size_t i;

	for (i = 0; i < m->n; i++) {
		struct hold *h = hold_of(&m->holds[m->wanted[i].qpos]);

		*h = *hold_of(&m->own[i]);
		hold_close(h);
		hold_of(&m->own[i])->magic = 0;
		if (m->common.flags & LOCKSHM_TELL_LOSS)
			tell_from_now_on(loop, h->index);
	}
}

/* The lock that was waited for is granted.  True = it was the last, and all are held. */
static bool take(struct wait *w)
{
	struct many *m = w->many;
	struct lockshm_report one = LOCKSHM_REPORT_INIT;
	int status = wait_fill_hold(w, hold_of(&m->own[m->at]), &one);

	m->status = many_worse(m->status, status);
	many_add_report(&m->sum, &one);
	if (++m->at < m->n)
		return false;
	if (enter_all(m))
		return true;
	many_undo(m);
	m->tries++;
	return false;
}

int many_go_on(struct wait *w, int status, struct lockshm_report *report)
{
	struct many *m = w->many;

	while (status == 0 && !take(w)) {
		if (m->tries < MANY_TRIES)
			status = submit_next(w, report);
		else
			status = error_set(&report->error, LOCKSHM_TIMEOUT,
					   "the leases end before the last key is granted: ttl_ns is too short");
	}
	if (status == LOCKSHM_PENDING)
		return status;
	if (status < 0) {
		many_undo(m);
		return status;
	}
	m->sum.error = report->error;
	*report = m->sum;
	hand_over(w->loop, m);
	return m->status;
}

/* ---------------------------------------------------------------- the call */

static struct many *make_many(const struct lockshm *s, const struct lockshm_request *common,
			      const struct lockshm_key *keys, size_t n, lockshm_hold_t *holds,
			      struct lockshm_error *error, int *err)
{
	size_t i, len = 0;
	struct many *m;

	for (i = 0; i < n; i++)
		len += keys[i].data && keys[i].len <= LOCKSHM_KEY_MAX ? keys[i].len : 0;
	m = calloc(1, sizeof(*m) + len);
	if (!m) {
		*err = error_system(error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for a wait");
		return NULL;
	}
	m->holds = holds;
	m->sum = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	m->common = *common;
	m->common.report = NULL;
	m->common.flags = common->flags | ACQUIRE_OUTSIDE;
	/* The order refers to the copies. */
	for (i = 0, len = 0; i < n; i++) {
		m->keys[i] = keys[i];
		if (!keys[i].data || keys[i].len > LOCKSHM_KEY_MAX)
			continue;
		m->keys[i].data = memcpy(m->bytes + len, keys[i].data, keys[i].len);
		len += keys[i].len;
	}
	*err = many_order(s, m->wanted, common, m->keys, n, &m->n, error);
	if (!*err)
		return m;
	free(m);
	return NULL;
}

/* The common request as one for a key, to be checked. */
static int check(struct lockshm_loop *loop, const struct lockshm_request *common, const struct lockshm_key *keys, size_t n,
		 lockshm_hold_t *holds, struct lockshm_error *error)
{
	struct lockshm_request q = *common;
	int err = many_check(common, keys, n, holds, error);
	size_t i;

	for (i = 1; !err && i < n; i++)
		err = loop_check_hold(loop, &holds[i], error);
	if (err)
		return err;
	q.key = "key";
	q.key_len = 3;
	if (q.mode == 0)
		q.mode = LOCKSHM_EXCLUSIVE;
	return loop_check_request(loop, &q, holds, error);
}

static int acquire_many(struct lockshm_loop *loop, struct lockshm_request *common, const struct lockshm_key *keys,
			size_t n, lockshm_hold_t *holds, void *user, struct lockshm_report *own)
{
	struct lockshm_report *report = common->report;
	int status = check(loop, common, keys, n, holds, &own->error);
	struct many *m = NULL;
	struct wait *w;

	if (!status) {
		common->ttl_ns = request_first_ttl(common);
		m = make_many(loop->s, common, keys, n, holds, &own->error, &status);
	}
	if (!m)
		return status;
	w = wait_make(loop, &m->common, holds, user, report);
	if (!w) {
		many_free(m);
		return error_system(&own->error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for a wait");
	}
	w->many = m;
	w->n_holds = n;
	memset(holds, 0, n * sizeof(*holds));
	status = many_go_on(w, submit_next(w, own), own);
	if (status != LOCKSHM_PENDING)
		wait_free(w);
	return status;
}

LOCKSHM_EXPORT int lockshm_loop_acquire_many(lockshm_loop_t *loop, const struct lockshm_request *common,
					     const struct lockshm_key *keys, size_t n, lockshm_hold_t *holds, void *user)
{
	struct lockshm_report own = LOCKSHM_REPORT_INIT;
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	int err;

	if (!common)
		return LOCKSHM_INVALID;
	err = sized_in(&q, sizeof(q), common, REQUEST_SIZE_0_1, "request", &own.error);
	if (q.report && !sized_good(q.report, REPORT_SIZE_0_1))
		return LOCKSHM_INVALID;
	if (!err)
		err = loop_check_told(loop, &own.error);
	if (!err)
		err = acquire_many(loop, &q, keys, n, holds, user, &own);
	if (q.report)
		sized_out(q.report, &own, sizeof(own));
	return err;
}
