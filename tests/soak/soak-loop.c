/* SPDX-License-Identifier: MIT */
/*
 * soak-loop.c - a worker's requests that wait for an event loop, see soak-ops.h
 *
 * Some threads have a loop.  A thread with a loop goes on with everything else while its requests wait, so it is a slow
 * collector; now and then it does nothing but poll, which the records say, so that lateness can be told.  What a thread
 * leaves when it ends, the manager closes.
 */
#define _GNU_SOURCE
#include "soak-ops.h"
#include "support/rows.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct soak_wait {
	struct history_record *r; /* of several keys the first one */
	struct soak_hold *h; /* of one key */
	struct bundle *b; /* of several */
	lockshm_canceller_t canceller;
	bool cancellable;
	struct lockshm_report report;
	int64_t delay;
};

static _Noreturn void give_up(const char *what, int code)
{
	fprintf(stderr, "soak-worker: %s: %s\n", what, lockshm_code_name(code));
	_exit(EXIT_FAILURE);
}

/* ---------------------------------------------------------------- the loop */

static bool open_loop(struct soak_thread *t)
{
	int code = lockshm_loop_open(&t->loop, t->seat->segment, -1, NULL);

	if (code == LOCKSHM_NO_SEGMENT)
		__atomic_store_n(&t->seat->stale, true, __ATOMIC_RELAXED);
	/* The service thread needs a slot; and it cannot be started while another thread calls exec. */
	else if (code != 0 && code != LOCKSHM_FULL && code != LOCKSHM_SYSTEM)
		give_up("loop_open", code);
	return code == 0;
}

static void free_wait(struct soak_wait *w)
{
	free(w->h);
	free(w->b);
	free(w);
}

static void forget_wait(struct soak_thread *t, unsigned i)
{
	t->waits[i] = t->waits[--t->n_waits];
}

/* All records of its keys. */
static void leave_all(struct soak_wait *w, int64_t polled, int64_t now, int code)
{
	size_t i, n = w->b ? w->b->n : 1;

	for (i = 0; i < n; i++) {
		struct history_record *r = w->b ? w->b->records[i] : w->r;

		r->other = (uint64_t)polled;
		history_leave(r, now, code);
	}
}

void ops_loop_close(struct soak_thread *t, struct history_writer *w)
{
	struct history_record *records[SOAK_WAITS];
	int64_t now;
	unsigned i;
	int code;

	if (!t->loop)
		return;
	for (i = 0; i < t->n_waits; i++) {
		records[i] = history_new(w);
		records[i]->realm = t->waits[i]->r->realm;
		records[i]->key = t->waits[i]->r->key;
		records[i]->subject = history_number(&t->process->history, t->waits[i]->r);
		records[i]->flags |= HISTORY_AT_CLOSE;
		history_enter(records[i], HISTORY_WITHDRAW);
	}
	code = lockshm_loop_close(t->loop);
	now = history_now();
	if (code != 0)
		give_up("loop_close", code);
	for (i = 0; i < t->n_waits; i++) {
		history_leave(records[i], now, 0);
		leave_all(t->waits[i], t->polled, now, LOCKSHM_CANCELLED);
		free_wait(t->waits[i]);
	}
	t->n_waits = 0;
	t->loop = NULL;
}

void ops_loop_forget(struct soak_thread *t)
{
	struct lockshm_outcome out = LOCKSHM_OUTCOME_INIT;

	if (!t->loop)
		return;
	if (lockshm_loop_next(t->loop, &out) != LOCKSHM_NOT_HELD || lockshm_loop_fd(t->loop) != LOCKSHM_NOT_HELD ||
	    lockshm_loop_close(t->loop) != LOCKSHM_NOT_HELD)
		abort(); /* a status of its own for the parent */
	while (t->n_waits)
		free_wait(t->waits[--t->n_waits]);
	t->loop = NULL;
}

/* ---------------------------------------------------------------- the end of a wait */

static void finish_one(struct soak_thread *t, struct soak_wait *w, int64_t now, int code)
{
	struct history_record *r = w->r;
	struct soak_hold *h = w->h;

	r->token = code < 0 ? 0 : lockshm_token(&h->hold);
	if (!(r->flags & HISTORY_NO_REPORT)) {
		r->token = w->report.token;
		r->slept_ns = w->report.slept_ns;
		soak_note_previous(r, &w->report.damage);
	}
	r->run_delay_ns = ops_run_delay(t) - w->delay;
	history_leave(r, now, code);
	if (code < 0)
		return;
	w->h = NULL;
	h->of_process = true;
	ops_keep(t, h, ops_number(t, r), r->key, r->mode, r->ns == LOCKSHM_FOREVER);
	if (code > 0 && soak_below(&t->random, 10) < 6)
		ops_acknowledge(t, h);
}

static void finish_wait(struct soak_thread *t, struct soak_wait *w, int64_t collect, int64_t now, int code)
{
	size_t i;

	for (i = 0; w->b && i < w->b->n; i++) {
		w->b->records[i]->collect = collect;
		w->b->records[i]->other = (uint64_t)t->polled;
	}
	w->r->collect = collect;
	w->r->other = (uint64_t)t->polled;
	if (w->b)
		ops_use_up(t, w->b, now, code);
	else
		finish_one(t, w, now, code);
	ops_removed(t, code);
	free_wait(w);
}

static unsigned find_wait(const struct soak_thread *t, const void *wait)
{
	unsigned i;

	for (i = 0; i < t->n_waits; i++)
		if (t->waits[i] == wait)
			break;
	return i;
}

/* False = there was no outcome. */
static bool collect_one(struct soak_thread *t)
{
	struct history_record *next = ops_record(t, NULL);
	struct lockshm_outcome out = LOCKSHM_OUTCOME_INIT;
	struct soak_wait *w;
	int64_t now;
	unsigned i;
	int n;

	next->subject = HISTORY_NO_WAIT;
	history_enter(next, HISTORY_NEXT);
	n = lockshm_loop_next(t->loop, &out);
	now = history_now();
	if (n < 0)
		give_up("loop_next", n);
	if (n == 0) {
		next->flags |= HISTORY_EMPTY;
		history_leave(next, now, 0);
		return false;
	}
	i = find_wait(t, out.user);
	if (i < t->n_waits) {
		next->subject = ops_number(t, t->waits[i]->r);
		next->key = t->waits[i]->r->key;
	}
	history_leave(next, now, out.status);
	if (i == t->n_waits)
		return true;
	w = t->waits[i];
	forget_wait(t, i);
	finish_wait(t, w, next->enter, now, out.status);
	return true;
}

static bool is_readable(struct soak_thread *t, int ms)
{
	struct pollfd p = { .fd = lockshm_loop_fd(t->loop), .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* As far as its holds have room. */
static void collect(struct soak_thread *t)
{
	while (t->n_holds < SOAK_HOLDS && collect_one(t))
		;
}

/* Nothing else than waiting, for some time; what is granted is released at once. */
void ops_loop_drain(struct soak_thread *t, int64_t ns)
{
	int64_t end;

	if (!t->loop)
		return;
	ops_release_all(t);
	t->polled = history_now();
	end = t->polled + ns;
	while (t->n_waits && history_now() < end)
		while (is_readable(t, 10) && (collect_one(t) || is_readable(t, 0)))
			ops_release_all(t);
	if (history_now() < end)
		t->polled = 0;
}

/* ---------------------------------------------------------------- requests */

static struct soak_wait *new_wait(struct soak_thread *t, struct lockshm_request *q)
{
	struct soak_wait *w = calloc(1, sizeof(*w));

	w->r = ops_record(t, NULL);
	ops_any_request(t, q, w->r);
	w->r->flags |= HISTORY_LOOP;
	w->report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	w->canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	w->delay = ops_run_delay(t);
	w->cancellable = q->timeout_ns && soak_one_in(&t->random, 4);
	if (w->cancellable)
		q->canceller = &w->canceller;
	if (soak_one_in(&t->random, 4))
		w->r->flags |= HISTORY_NO_REPORT;
	else
		q->report = &w->report;
	return w;
}

/* Its tag has the number of the wait's record, so it is none but this one. */
static void see_own(struct soak_thread *t, const struct soak_wait *w, const struct lockshm_request *q)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	struct history_record *r;
	int64_t from = history_now(), to;
	uint64_t ticket = 0;
	int code;

	EACH_ROW(row, code, t->seat->segment, LOCKSHM_LIST_KEY, q->key, q->key_len)
		if (row.request.state == LOCKSHM_WAITING && strcmp(row.request.tag, q->tag) == 0)
			ticket = row.request.ticket;
	if (code != 0 || !ticket)
		return;
	to = history_now();
	r = ops_record(t, NULL);
	r->subject = ops_number(t, w->r);
	r->token = ticket;
	r->key = w->r->key;
	history_enter(r, HISTORY_SEEN);
	r->enter = from;
	history_leave(r, to, 0);
}

static void request_one(struct soak_thread *t)
{
	unsigned char key[SOAK_KEY_MAX];
	char tag[LOCKSHM_TAG_MAX + 1];
	struct lockshm_request q;
	struct soak_wait *w = new_wait(t, &q);
	int64_t now;
	int code;

	w->h = calloc(1, sizeof(*w->h));
	w->r->key = ops_any_key(t);
	q.key = key;
	q.key_len = soak_key(key, w->r->key);
	snprintf(tag, sizeof(tag), "track %" PRIu32 " #%" PRIx32, t->writer.track, ops_number(t, w->r));
	q.tag = tag;
	history_enter(w->r, HISTORY_ACQUIRE);
	code = lockshm_loop_acquire(t->loop, &q, &w->h->hold, w);
	now = history_now();
	if (code != LOCKSHM_PENDING) {
		finish_wait(t, w, 0, now, code);
		return;
	}
	w->r->pending = now;
	t->waits[t->n_waits++] = w;
	see_own(t, w, &q);
}

static void request_many(struct soak_thread *t)
{
	struct lockshm_request q;
	struct soak_wait *w = new_wait(t, &q);
	struct bundle *b = calloc(1, sizeof(*b));
	int64_t now;
	size_t i;
	int code;

	w->b = b;
	b->n = 2 + soak_below(&t->random, SOAK_HOLDS - 1);
	b->records[0] = w->r;
	ops_fill_bundle(t, b, &q);
	for (i = 0; i < b->n; i++)
		history_enter(b->records[i], HISTORY_ACQUIRE);
	code = lockshm_loop_acquire_many(t->loop, &q, b->keys, b->n, b->holds, w);
	now = history_now();
	if (code != LOCKSHM_PENDING) {
		finish_wait(t, w, 0, now, code);
		return;
	}
	for (i = 0; i < b->n; i++)
		b->records[i]->pending = now;
	t->waits[t->n_waits++] = w;
}

/* ---------------------------------------------------------------- cancel */

static void withdraw(struct soak_thread *t, unsigned i)
{
	struct soak_wait *w = t->waits[i];
	struct history_record *r = ops_record(t, NULL);
	int64_t now;
	int code;

	r->subject = ops_number(t, w->r);
	r->key = w->r->key;
	history_enter(r, HISTORY_WITHDRAW);
	code = lockshm_loop_cancel(t->loop, w->b ? w->b->holds : &w->h->hold);
	now = history_now();
	history_leave(r, now, code);
	if (code < 0)
		return;
	leave_all(w, 0, now, LOCKSHM_CANCELLED);
	forget_wait(t, i);
	free_wait(w);
}

/* An outcome follows. */
static void use_canceller(struct soak_thread *t, struct soak_wait *w)
{
	struct history_record *r;
	int code;

	if (!w->cancellable)
		return;
	r = ops_record(t, NULL);
	r->subject = ops_number(t, w->r);
	history_enter(r, HISTORY_CANCEL);
	code = lockshm_cancel(&w->canceller);
	history_leave(r, history_now(), code);
}

/* ---------------------------------------------------------------- one step */

static bool has_loop(struct soak_thread *t)
{
	/* Threads of a patient round wait for long, and deadlocks behind holds of a process are not found. */
	if (t->process->config.patient || t->number >= t->process->n_loops || seat_is_stale(t->seat))
		return t->loop != NULL;
	return t->loop || open_loop(t);
}

/* Beyond what an uncollected grant lasts, of short leases or of any. */
static void oversleep(struct soak_thread *t)
{
	struct timespec ts = { 0, (long)soak_between(&t->random, 5000000, 60000000) };

	if (soak_one_in(&t->random, 40))
		ts = (struct timespec){ 1, (long)soak_between(&t->random, 50000000, 200000000) };
	nanosleep(&ts, NULL);
}

/* Undisturbed waits show whether the doorbell is rung. */
static bool is_calm(const struct soak_thread *t)
{
	return __atomic_load_n(&t->process->history.header->calm, __ATOMIC_RELAXED);
}

bool ops_loop_step(struct soak_thread *t)
{
	uint32_t dice = soak_below(&t->random, 100);

	if (!has_loop(t))
		return false;
	t->polled = 0;
	if (dice < 40 && t->n_waits < SOAK_WAITS && t->n_holds < SOAK_HOLDS && !seat_is_stale(t->seat)) {
		if (!is_calm(t) && soak_one_in(&t->random, 8))
			request_many(t);
		else
			request_one(t);
	} else if (is_calm(t) && dice < 90) {
		ops_loop_drain(t, LOCKSHM_MS(200));
	} else if (dice < 70) {
		if (is_readable(t, (int)soak_below(&t->random, 3)) || soak_one_in(&t->random, 20))
			collect(t);
	} else if (dice < 73 && t->n_waits) {
		withdraw(t, soak_below(&t->random, t->n_waits));
	} else if (dice < 75 && t->n_waits) {
		use_canceller(t, t->waits[soak_below(&t->random, t->n_waits)]);
	} else if (dice < 80) {
		ops_loop_drain(t, LOCKSHM_MS(soak_between(&t->random, 1, 300)));
	} else if (soak_one_in(&t->random, 150) && !is_calm(t)) {
		oversleep(t);
	} else if (soak_one_in(&t->random, 400)) {
		ops_loop_close(t, &t->writer);
	} else {
		return false;
	}
	return true;
}
