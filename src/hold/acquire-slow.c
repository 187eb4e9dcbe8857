/* SPDX-License-Identifier: MIT */
/*
 * acquire-slow.c - acquiring on this host off the fast path
 *
 * A thread joins at its first acquire.  Each try takes a record, finds or makes the entry, and appends the request:
 * granted if the queue is empty or its tail is a shared holder that can be joined, else waiting.
 */
#include "hold/acquire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hold/renewal.h"
#include "lock/tend.h"
#include "lock/blocker.h"
#include "lock/chunks.h"
#include "lock/damage.h"
#include "lock/deadline.h"
#include "lock/queue.h"
#include "lock/request.h"
#include "lock/sweep.h"
#include "lock/table-probe.h"
#include "lock/wait.h"
#include "sys/error.h"

#define RETRY_MAX 1000000	   /* tries without progress before the segment counts as damaged */

/* ---------------------------------------------------------------- success */

int acquire_report_damage(struct lockshm *s, const struct lockshm_request *q, const struct hold *h)
{
	struct shm_entry *e = &s->entries[h->entry];
	struct lockshm_damage here, *damage = q->report ? &q->report->damage : &here;

	(void)damage_read(s, e, damage);
	return q->flags & LOCKSHM_ROBUST ? damage->status : 0;
}

int acquire_granted(struct participant *self, const struct lockshm_request *q, struct hold *h)
{
	self->held++;
	self->free_request = 0;
	count_event(self, COUNT_ACQUIRES);
	return acquire_status(self->segment, q, h);
}

/* ---------------------------------------------------------------- slow path */

void acquire_count_failure(const struct participant *self, int err)
{
	if (err == LOCKSHM_TIMEOUT || err == LOCKSHM_CANCELLED)
		count_event(self, COUNT_TIMEOUTS);
	if (err == LOCKSHM_BUSY)
		count_event(self, COUNT_TRIES_FAILED);
}

static int find_entry(struct acquire *a)
{
	uint32_t i = table_lookup(a->s, &a->id);
	int err;

	if (i == ENTRY_NONE) {
		err = table_insert(a->self, &a->id, a->request->key, &i, a->error);
		if (err)
			return err;
	}
	if (!a->given)
		table_cache(a->self, a->request->key, &a->id, i);
	a->entry = i;
	a->at = &a->s->entries[i];
	return 0;
}

/* A free record of this thread's chunks, or one that a sweep gets back from dead threads. */
static int take_record(struct acquire *a)
{
	a->index = request_take_fast(a->self);
	if (!a->index) {
		(void)sweep_all(a->s);
		a->index = request_take(a->self);
	}
	if (!a->index) {
		(void)sweep_probing(a->s);
		a->index = request_take(a->self);
	}
	if (a->index)
		return 0;
	return a->self->no_memory ? error_system(a->error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for the list of chunks") :
				    segment_full(a->s, LOCKSHM_TABLE_REQUESTS, a->error);
}

/*
 * @latest: the last deadline of the holders from @at to the head, 0 if there is none; @holder has it.  WALK_AGAIN: the
 * queue has changed.  A walk by R7; each deadline is read before the second look at the word, so it belongs to that
 * request.
 */
static enum walk booked_until(const struct acquire *a, struct qpos at, int64_t *latest, struct qpos *holder)
{
	struct lockshm *s = a->s;
	uint32_t n;

	*latest = 0;
	*holder = at;
	for (n = 0; n < s->n_requests && at.index != 0; n++) {
		const struct shm_request *r = &s->requests[at.index];
		uint64_t d = load_acquire(&r->deadline);
		struct qpos before;
		enum walk walk;

		if (load_acquire(&r->word) != at.word || !word_live(at.word))
			return WALK_AGAIN;
		if ((word_holds(at.word) || word_is(at.word, REQUEST_COOLING)) && !(d & DEADLINE_UNSET) &&
		    deadline_ns(d) > *latest) {
			*latest = deadline_ns(d);
			*holder = at;
		}
		walk = queue_predecessor(s, a->at, &at, &before);
		if (walk != WALK_DONE)
			return walk;
		at = before;
	}
	return at.index == 0 ? WALK_DONE : WALK_BROKEN;
}

/* What look() finds at the tail of the queue. */
enum tail_state { TAIL_FREE, TAIL_JOIN, TAIL_WAIT, TAIL_MOVED, TAIL_DAMAGED };

static enum tail_state look(struct acquire *a, uint64_t *tail, struct qpos *last)
{
	struct shm_request *r;

	*tail = load_acquire(&a->at->tail);
	if (!entry_is(a->at, a->id.id, a->id.len))
		return TAIL_MOVED;
	if (tail_index(*tail) == 0)
		return TAIL_FREE;
	r = request_at(a->s, tail_index(*tail));
	if (!r)
		return TAIL_DAMAGED;
	last->index = tail_index(*tail);
	last->word = load_acquire(&r->word);
	if (load_acquire(&a->at->tail) != *tail || word_is(last->word, REQUEST_CLAIM))
		return TAIL_MOVED;
	if (!a->exclusive && !word_exclusive(last->word) && word_holds(last->word))
		return TAIL_JOIN;
	return TAIL_WAIT;
}

static bool is_try(const struct acquire *a)
{
	return a->request->timeout_ns == 0;
}

/* Does it need to know of all holders?  Then dead ones must be cleared away first. */
static bool looks_at_all(const struct acquire *a)
{
	return !is_try(a) && a->request->flags & LOCKSHM_ONLY_IF_FREE_IN_TIME;
}

/* 0 = none: it cools down. */
static uint64_t owner_of(const struct acquire *a, struct qpos at)
{
	return word_is(at.word, REQUEST_COOLING) ? 0 : load_acquire(&a->s->requests[at.index].owner);
}

/* About to fail at once because of @holder: is it dead?  Readers would join a shared one, so for them it is @last that is in
 * the way: a waiter then, that no successor probes. */
static bool holder_gone(const struct acquire *a, struct qpos holder, struct qpos last)
{
	if (!owner_found_dead(a->self, owner_of(a, holder), a->exclusive ? 0 : owner_of(a, last)))
		return false;
	(void)queue_advance_tail(a->s, a->at);
	return true;
}

/* LOCKSHM_ONLY_IF_FREE_IN_TIME: 0 = may be free in time, WAIT_AGAIN = look again. */
static int free_in_time(const struct acquire *a, struct qpos last)
{
	struct qpos holder;
	int64_t latest;

	switch (booked_until(a, last, &latest, &holder)) {
	case WALK_AGAIN:
		/* The newest request may have died since look(). */
		(void)queue_advance_tail(a->s, a->at);
		return WAIT_AGAIN;
	case WALK_BROKEN:
		return error_set(a->error, LOCKSHM_BAD_SEGMENT, "the queue of this lock is damaged");
	case WALK_DONE:
		break;
	}
	if (latest <= a->deadline)
		return 0;
	if (holder_gone(a, holder, last) || (a->request->report && !blocker_take(a->s, holder, &a->request->report->blocker)))
		return WAIT_AGAIN;
	return error_set(a->error, LOCKSHM_BUSY, "held beyond the time this call may wait");
}

/* May not wait for a lock whose newest request is @last, which conflicts: that alone shows that it is not free, if it is
 * live, and no walk to the head is needed.  WAIT_AGAIN = look again. */
static int refused(const struct acquire *a, struct qpos last, int code, const char *message)
{
	struct qpos holder;

	switch (queue_newest_holder(a->s, a->at, &last, &holder)) {
	case WALK_AGAIN:
		return WAIT_AGAIN;
	case WALK_BROKEN:
		return error_set(a->error, LOCKSHM_BAD_SEGMENT, "the queue of this lock is damaged");
	case WALK_DONE:
		break;
	}
	if (holder_gone(a, holder, last) ||
	    (a->request->report && !blocker_take(a->s, holder, &a->request->report->blocker)))
		return WAIT_AGAIN;
	return error_set(a->error, code, "%s", message);
}

/* Not free: may the request wait?  0 = yes, WAIT_AGAIN = look again. */
static int may_wait(const struct acquire *a, struct qpos last)
{
	if (is_try(a))
		return refused(a, last, LOCKSHM_BUSY, "not free");
	if (segment_now(a->s) >= a->deadline)
		return refused(a, last, LOCKSHM_TIMEOUT, "not granted in time");
	return a->request->flags & LOCKSHM_ONLY_IF_FREE_IN_TIME ? free_in_time(a, last) : 0;
}

static int wait_in_queue(struct acquire *a)
{
	struct wait_terms terms = {
		.entry = a->at,
		.index = a->index,
		.gen = a->grant.gen,
		.deadline = a->deadline,
		.enters = acquire_state(a->request) == REQUEST_ENTERED,
		.canceller = a->request->canceller,
		.error = a->error,
		.blocker = a->request->report ? &a->request->report->blocker : NULL,
	};
	int err;

	err = wait_for_grant(a->self, &terms);
	a->slept_ns += terms.slept_ns;
	if (err == 0) {
		count_event(a->self, COUNT_WAITS);
		store_relaxed((uint64_t *)&a->s->requests[a->index].granted_ns, (uint64_t)segment_now(a->s));
		/* Stored by the granter. */
		a->grant.end = deadline_ns(load_relaxed(&a->s->requests[a->index].deadline));
	}
	if (err < 0 && err != LOCKSHM_DEADLOCK && err != LOCKSHM_BAD_SEGMENT)
		error_set(a->error, err, "%s", lockshm_strerror(err));
	return err;
}

static void fill_record(struct acquire *a, bool waits)
{
	struct shm_request *r = &a->s->requests[a->index];

	a->now = deadline_clock(a->s, a->request->ttl_ns);
	/* R14: until it is collected. */
	a->ttl_ns = a->later && waits ? acquire_uncollected_ttl(a->request) : a->request->ttl_ns;
	queue_fill_owned(r, a);
	request_set_extras_if_any(r, a->request->tag, request_extras(a->request->flags));
	if (!waits)
		tend_begin_if_wanted(a->self, a->index);
	/* Before the append, so every thread that changes the word finds it. */
	if (a->later && waits)
		store_relaxed32(&r->sleeping, SLEEPS | SLEEPS_AT_DOORBELL);
}

/* Before the append: a signal handler may leave the call by a jump right after that. */
static void note_request(const struct acquire *a)
{
	uint64_t next = word_next_gen(load_relaxed(&a->s->requests[a->index].word));

	a->self->wait = (struct own_wait){ a->index, a->entry, word_gen(next) };
}

/* One try.  0 = granted, WAIT_AGAIN = look again, negative = failed. */
static int acquire_once(struct acquire *a, bool *advanced)
{
	struct qpos last;
	uint64_t tail;
	enum tail_state tail_state;
	int err = take_record(a);

	if (!err)
		err = find_entry(a);
	if (err)
		return err;
	/* table_insert() may have used and freed the record: take one again. */
	a->index = request_take_fast(a->self);
	if (!a->index)
		return WAIT_AGAIN;
	tail_state = look(a, &tail, &last);
	if (tail_state == TAIL_DAMAGED)
		return error_set(a->error, LOCKSHM_BAD_SEGMENT, "the queue of this lock is damaged");
	if (tail_state == TAIL_MOVED)
		return WAIT_AGAIN;
	if (tail_ticket(tail) >= TICKET_MAX - 1)
		return segment_full(a->s, LOCKSHM_TABLE_TICKETS, a->error);
	if (tail_state == TAIL_WAIT && !is_try(a) && !*advanced) {
		/* Once: clear away dead and overdue requests, which may free the lock. */
		*advanced = true;
		if (looks_at_all(a) || word_dead(last.word) || word_prev(last.word) == 0)
			return queue_advance_tail(a->s, a->at) == WALK_BROKEN ?
				       error_set(a->error, LOCKSHM_BAD_SEGMENT, "the queue of this lock is damaged") :
				       WAIT_AGAIN;
	}
	if (tail_state == TAIL_WAIT) {
		err = may_wait(a, last);
		if (err)
			return err;
	}
	if (tail_state == TAIL_JOIN && (!queue_expire_or_reap(a->s, last.index, &last.word) || word_dead(last.word))) {
		/* Joining a dead holder would hide its death. */
		(void)queue_advance_tail(a->s, a->at);
		return WAIT_AGAIN;
	}
	if ((a->request->flags & LOCKSHM_ROBUST) && !damage_make_robust(a->at, tail))
		return WAIT_AGAIN;
	fill_record(a, tail_state == TAIL_WAIT);
	if (!a->later)
		note_request(a);
	if (!queue_append_owned(a->s, a->at, tail, a->index, a,
				tail_state == TAIL_WAIT ? REQUEST_WAITING : acquire_state(a->request), &a->grant)) {
		request_drop(a->self, a->index);
		return WAIT_AGAIN;
	}
	if (tail_state == TAIL_WAIT)
		return a->later ? ACQUIRE_PENDING : wait_in_queue(a);
	if (tail_state == TAIL_JOIN)
		queue_hint(a->s, tail_index(tail), a->index, a->grant.gen);
	return 0;
}

int acquire_try(struct acquire *a)
{
	bool advanced = false;
	uint32_t n;
	int err = WAIT_AGAIN;

	for (n = 0; err == WAIT_AGAIN && n < RETRY_MAX; n++)
		err = segment_retired(a->s) ?
			      error_set(a->error, LOCKSHM_NO_SEGMENT, "the segment was removed: open it again") :
			      acquire_once(a, &advanced);
	return err == WAIT_AGAIN ? error_set(a->error, LOCKSHM_BAD_SEGMENT, "this lock keeps changing: damaged?") : err;
}

void acquire_begin(struct acquire *a, struct participant *self, const struct lockshm_request *q,
		   const struct known_key *given, struct lockshm_error *error)
{
	struct lockshm *s = self->segment;

	*a = (struct acquire){ .self = self, .s = s, .request = q, .given = given, .error = error };
	a->owner = self->ref;
	a->exclusive = q->mode == LOCKSHM_EXCLUSIVE;
	a->ttl_ns = q->ttl_ns;
	a->begun = segment_now(s);
	a->deadline = q->timeout_ns == LOCKSHM_FOREVER ? INT64_MAX : a->begun + q->timeout_ns;
	if (given)
		a->id = given->id;
	else
		hash_key(&a->id, s->hash_secret, q->key, q->key_len);
}

static int acquire_slow(struct lockshm *s, struct participant *self, const struct lockshm_request *q,
			const struct known_key *given, struct lockshm_error *error, struct hold *h)
{
	struct acquire a;
	int err;

	if (unlikely(self->wait.index != 0))
		wait_drop_left(self);
	acquire_begin(&a, self, q, given, error);
	err = acquire_try(&a);
	if (q->report) {
		q->report->waited_ns = segment_now(s) - a.begun;
		q->report->slept_ns = a.slept_ns;
		if (err != LOCKSHM_TIMEOUT && err != LOCKSHM_BUSY)
			q->report->blocker.state = 0; /* granted after all */
	}
	acquire_count_failure(self, err);
	if (err == 0)
		hold_fill(h, self, a.index, a.entry, &a.grant, a.id.id[0]);
	self->wait.index = 0;
	return err;
}

/* ---------------------------------------------------------------- entry points */

/* This thread's first acquire, which also checks that the file still has a name. */
static int join(struct lockshm *s, struct participant **out, struct lockshm_error *error)
{
	if (segment_is_gone(s))
		return error_set(error, LOCKSHM_NO_SEGMENT, "the segment was removed: open it again");
	return participant_get(s, out, error);
}

static int acquire_checked(struct lockshm *s, const struct lockshm_request *q, const struct known_key *given,
			   lockshm_hold_t *hold, struct lockshm_error *error)
{
	struct hold *h = hold_of(hold);
	struct participant *self;
	int err;

	self = participant_find(s);
	if (unlikely(!self)) {
		err = join(s, &self, error);
		if (err)
			return err;
	}
	err = acquire_if_free(self, q, given, h);
	if (err != NOT_TAKEN)
		return err;
	err = acquire_slow(s, self, q, given, error, h);
	return err ? err : acquire_granted(self, q, h);
}

void acquire_renew(struct lockshm *s, const struct lockshm_request *q, struct hold *h, struct renewal *r)
{
	r->index = h->index;
	r->gen = h->grant.gen;
	r->ttl_ns = request_first_ttl(q);
	r->deadline = h->grant.end;
	r->max_ns = q->max_hold_ns;
	renewals_add(s, r);
	hold_open(h);
	h->renewal = r;
	hold_close(h);
}

/* Allocate the renewal first: once the lock is held nothing may fail. */
static int acquire_renewed(struct lockshm *s, const struct lockshm_request *q, const struct known_key *given,
			   lockshm_hold_t *hold, struct lockshm_error *error)
{
	struct hold *h = hold_of(hold);
	struct renewal *r = malloc(sizeof(*r));
	struct lockshm_request first = *q;
	int err = r ? 0 : error_system(error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for auto-renewal");

	first.ttl_ns = request_first_ttl(q);
	if (!err)
		err = acquire_checked(s, &first, given, hold, error);
	if (err < 0) {
		free(r);
		return err;
	}
	acquire_renew(s, q, h, r);
	return err;
}

int acquire_local(struct lockshm *s, const struct lockshm_request *q, const struct known_key *given,
		  lockshm_hold_t *hold, struct lockshm_error *error)
{
	return q->flags & LOCKSHM_AUTO_RENEW ? acquire_renewed(s, q, given, hold, error) :
					       acquire_checked(s, q, given, hold, error);
}
