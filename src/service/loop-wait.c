/* SPDX-License-Identifier: MIT */
/*
 * loop-wait.c - one wait of a loop, from its request to its hold
 *
 * All of this runs in the loop's thread.  R14: a granted request is collected by its new deadline, and then one CAS that
 * enters it; if its lease has ended before that, the request is appended again.
 */
#include "service/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lock/damage.h"
#include "lock/deadline.h"
#include "lock/queue.h"
#include "sys/error.h"

#define HOLD_AWAITED UINT64_C(0x7469617761206c6f)
#define SUBMITS_MAX 1000 /* grants in a row that end before they are collected: the segment is damaged */

/* ---------------------------------------------------------------- memory */

void wait_copy_key(struct wait *w, const void *key, size_t len)
{
	w->request.key = w->shown;
	w->request.key_len = len;
	if (key)
		memcpy(w->shown, key, len < sizeof(w->shown) ? len : sizeof(w->shown));
}

/* Keeps the request, and what the caller may reuse. */
static void copy_request(struct wait *w, const struct lockshm_request *q, struct lockshm_report *report)
{
	w->request = *q;
	wait_copy_key(w, q->key, q->key_len);
	w->request.report = NULL;
	w->report = report;
	if (q->tag) {
		memcpy(w->tag, q->tag, strnlen(q->tag, LOCKSHM_TAG_MAX));
		w->request.tag = w->tag;
	}
}

struct wait *wait_make(struct lockshm_loop *loop, const struct lockshm_request *q, lockshm_hold_t *hold, void *user,
		       struct lockshm_report *report)
{
	struct wait *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->loop = loop;
	w->hold = hold;
	w->n_holds = 1;
	w->user = user;
	copy_request(w, q, report);
	w->spare = calloc(1, sizeof(*w->spare));
	w->lease = q->flags & LOCKSHM_GLOBAL ? wait_make_lease(w) : NULL;
	if (w->spare && (w->lease || !(q->flags & LOCKSHM_GLOBAL)))
		return w;
	wait_free(w);
	return NULL;
}

void wait_free(struct wait *w)
{
	if (w->many)
		many_free(w->many);
	free(w->lease);
	free(w->spare);
	free(w);
}

void wait_set_awaited(const struct wait *w)
{
	size_t i;

	for (i = 0; i < w->n_holds; i++) {
		struct hold *h = hold_of(&w->hold[i]);

		memset(h, 0, sizeof(*h));
		h->grant.gen = w->grant.gen;
		h->index = w->index;
		h->magic = HOLD_AWAITED ^ (uint64_t)(uintptr_t)h;
	}
}

void wait_end_awaited(const struct wait *w)
{
	size_t i;

	for (i = 0; i < w->n_holds; i++)
		hold_of(&w->hold[i])->magic = 0;
}

bool wait_is_awaited(const lockshm_hold_t *hold)
{
	return hold_of(hold)->magic == (HOLD_AWAITED ^ (uint64_t)(uintptr_t)hold);
}

/* ---------------------------------------------------------------- waiting */

static struct wait_terms terms_of(const struct wait *w)
{
	return (struct wait_terms){ .entry = &w->loop->s->entries[w->entry], .index = w->index, .gen = w->grant.gen };
}

/* Into the tables; or decided at this moment, then in no table. */
static int enter_tables(struct wait *w, const struct wait_view *view)
{
	struct waits *all = w->loop->all;
	int status;

	waits_lock(all);
	/* A doorbell that rang before found no wait: the granter changed the word before it rang. */
	status = waits_outcome(w->loop->s, w);
	if (status == LOCKSHM_PENDING)
		waits_add(all, w, view);
	waits_unlock(all);
	return status;
}

/* Its request is in the queue.  LOCKSHM_PENDING, or as it was decided. */
static int begin_wait(struct wait *w)
{
	struct lockshm *s = w->loop->s;
	lockshm_canceller_t *canceller = w->request.canceller;
	struct wait_terms t = terms_of(w);
	struct wait_view view;
	int status;

	if (canceller)
		canceller_begin(canceller, s, w->index, w->grant.gen);
	if (canceller && canceller_used(canceller) && wait_abandon(s, &t)) {
		status = LOCKSHM_CANCELLED;
	} else {
		status = wait_view(s, &t, &view);
		/* Over, or damaged: enter_tables() finds out; only a view that is none must not be used. */
		if (status == WAIT_OVER)
			view = (struct wait_view){ .until = INT64_MAX };
		if (status >= 0)
			status = enter_tables(w, &view);
		else
			(void)wait_abandon(s, &t);
	}
	if (status != LOCKSHM_PENDING && canceller)
		canceller_end(canceller);
	return status;
}

/* How its hold is tended, from the swap on that makes it one.  False = it is not. */
static bool tend_terms_of(const struct wait *w, struct tend_terms *out)
{
	if (!(w->request.flags & LOOP_TENDS))
		return false;
	loop_tend_terms(w->loop, &w->request, w->many ? many_hold(w->many) : w->hold, w->user, out);
	/* Not before all of them are held. */
	if (w->many)
		out->loop = NULL;
	return true;
}

bool wait_take_grant(struct wait *w)
{
	struct lockshm *s = w->loop->s;
	int64_t ttl = w->request.ttl_ns;
	int64_t end = ttl == LOCKSHM_FOREVER ? INT64_MAX : deadline_clock(s, ttl) + ttl;
	bool outside = w->request.flags & ACQUIRE_OUTSIDE, taken;
	struct tend_terms terms;

	if (tend_terms_of(w, &terms)) {
		w->loop->self->tending = &terms;
		tend_begin(w->loop->self, w->index, w->grant.gen + 1);
	}
	taken = outside ? deadline_renew(s, w->index, &w->grant.gen, end) :
			  deadline_enter(s, w->index, &w->grant.gen, end);
	if (w->loop->self->tending && !taken)
		tend_drop(w->loop->self, w->index);
	w->loop->self->tending = NULL;
	if (!taken)
		return false;
	w->grant.end = end;
	store_relaxed((uint64_t *)&s->requests[w->index].granted_ns, (uint64_t)segment_now(s));
	return true;
}

/* A request for a global key is not held yet. */
static bool take_first(struct wait *w)
{
	return w->lease ? wait_take_local(w) : wait_take_grant(w);
}

/* Append it once.  WAIT_AGAIN = granted, but not any more. */
static int submit_once(struct wait *w, const struct lockshm_request *first, struct lockshm_report *report)
{
	struct lockshm_error *error = report ? &report->error : NULL;
	struct lockshm_request q = first ? *first : w->request;
	struct tend_terms terms;
	struct acquire a;
	int err;

	q.report = report;
	if (w->lease)
		wait_make_local(&q);
	acquire_begin(&a, w->loop->self, &q, first ? NULL : &w->key, error);
	if (first)
		w->key.id = a.id;
	if (!w->spare)
		w->spare = calloc(1, sizeof(*w->spare));
	if (!w->spare)
		return error_system(error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for a wait");
	if (w->deadline == 0) {
		w->begun = a.begun;
		w->deadline = a.deadline;
	}
	a.begun = w->begun;
	a.deadline = w->deadline;
	a.later = true;
	tend_look_at_free(w->loop->self);
	if (!w->lease && tend_terms_of(w, &terms))
		w->loop->self->tending = &terms;
	err = acquire_try(&a);
	w->loop->self->tending = NULL;
	w->index = a.index;
	w->entry = a.entry;
	w->grant = a.grant;
	w->key.entry = a.entry;
	if (err == 0)
		return 0;
	if (err != ACQUIRE_PENDING)
		return err;
	w->loop->self->free_request = 0;
	err = begin_wait(w);
	return err == 0 && !take_first(w) ? WAIT_AGAIN : err;
}

/* Ended by another thread, it may still be linked.  If it was unlinked, this thread may have filled its record anew. */
static void unlink_ended(struct wait *w)
{
	struct lockshm *s = w->loop->s;

	if (word_gen(load_acquire(&s->requests[w->index].word)) == w->grant.gen)
		queue_grant_next(s, &s->entries[w->entry], w->index);
}

int wait_submit(struct wait *w, const struct lockshm_request *first, struct lockshm_report *report)
{
	struct lockshm_error *error = report ? &report->error : NULL;
	int err = WAIT_AGAIN, tries;

	if (w->lease && first)
		memcpy(w->lease->key, first->key, w->lease->g.key_len = first->key_len);
	for (tries = 0; err == WAIT_AGAIN && tries < SUBMITS_MAX; tries++) {
		err = submit_once(w, tries ? NULL : first, report);
		if (err == 0 && w->lease) {
			err = wait_begin_lease(w, report);
			if (err != WAIT_AGAIN)
				return err;
		}
		if (err == WAIT_AGAIN || err == LOCKSHM_CANCELLED)
			unlink_ended(w);
	}
	if (err == LOCKSHM_PENDING)
		wait_set_awaited(w);
	if (err == WAIT_AGAIN)
		return error_set(error, LOCKSHM_BAD_SEGMENT, "this lock keeps changing: damaged?");
	return err == LOCKSHM_CANCELLED ? error_set(error, err, "%s", lockshm_strerror(err)) : err;
}

int wait_collect(struct wait *w, struct lockshm_report *report)
{
	int status = w->status;

	wait_end_awaited(w);
	w->collected = true;
	if (w->lease && w->lease->second)
		return wait_collect_lease(w, report);
	if (w->request.canceller)
		canceller_end(w->request.canceller);
	if (status == 0)
		status = take_first(w) ? 0 : WAIT_AGAIN;
	if (status == WAIT_AGAIN && w->request.canceller && canceller_used(w->request.canceller))
		status = LOCKSHM_CANCELLED;
	if (status == WAIT_AGAIN || status == LOCKSHM_CANCELLED)
		unlink_ended(w);
	if (status == 0)
		count_event(w->loop->self, COUNT_WAITS);
	if (status == 0 && w->lease) {
		status = wait_begin_lease(w, report);
		return status == WAIT_AGAIN ? wait_submit(w, NULL, report) : status;
	}
	if (status == WAIT_AGAIN)
		return wait_submit(w, NULL, report);
	if (status == LOCKSHM_TIMEOUT)
		report->blocker = w->blocker;
	return status < 0 ? error_set(&report->error, status, "%s", lockshm_strerror(status)) : status;
}

/* ---------------------------------------------------------------- its end */

int wait_fill_hold(struct wait *w, struct hold *h, struct lockshm_report *report)
{
	struct lockshm_request q = w->request;
	int status;

	if (w->lease)
		q.flags &= ~LOCKSHM_BARGE;
	hold_fill(h, w->loop->self, w->index, w->entry, &w->grant, w->key.id.id[0]);
	loop_set_hold(w->loop, &q, h);
	q.report = report;
	if (w->lease && lease_wait_fill(&w->lease->g, h) != 0)
		count_event(w->loop->self, COUNT_GLOBAL);
	if (hold_is_tended(h) && h->host_lease)
		tend_under_lease(w->loop->s, w->index, h->host_lease, h->host_lease_word);
	status = acquire_granted(w->loop->self, &q, h);
	if (w->lease)
		status = lease_wait_status(&w->lease->g, &q, status);
	return w->lease && w->lease->local_only ? LOCKSHM_LOCAL_ONLY : status;
}

/* It is granted, and not collected: R3. */
static bool release_grant(struct wait *w)
{
	struct lockshm *s = w->loop->s;
	uint64_t *word = &s->requests[w->index].word, old = load_acquire(word);

	while (word_gen(old) == w->grant.gen && word_is(old, REQUEST_GRANTED))
		if (cas(word, &old, word_with_state(old, REQUEST_RELEASED)))
			return true;
	return false;
}

bool wait_give_up(struct wait *w)
{
	struct wait_terms t = terms_of(w);
	bool waited, granted;

	wait_last_look(w->loop->self, &t);
	waited = wait_abandon(w->loop->s, &t);
	granted = !waited && release_grant(w);
	if (!waited)
		unlink_ended(w);
	if (w->lease && w->lease->second)
		lease_wait_withdraw(&w->lease->g);
	if (w->request.canceller)
		canceller_end(w->request.canceller);
	return granted;
}
