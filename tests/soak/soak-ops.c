/* SPDX-License-Identifier: MIT */
/* soak-ops.c - see soak-ops.h */
#define _GNU_SOURCE
#include "soak-ops.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct history_record *ops_record(struct soak_thread *t, const struct soak_hold *h)
{
	struct history_record *r = history_new(&t->writer);

	r->realm = t->seat ? t->seat->realm : 0;
	if (h) {
		r->realm = h->realm;
		r->key = h->key;
		r->subject = h->acquire;
	}
	return r;
}

uint32_t ops_number(const struct soak_thread *t, const struct history_record *r)
{
	return history_number(t->writer.history, r);
}

/* Time for errors of others, or for a signal. */
void ops_dawdle(struct soak_thread *t)
{
	uint32_t r = soak_below(&t->random, 400);
	struct timespec ts = { 0, 20000 + (long)soak_below(&t->random, 1000000) };

	if (r == 0)
		ts.tv_nsec = (long)soak_between(&t->random, 5000000, 40000000); /* longer than many a lease */
	if (r < 20)
		nanosleep(&ts, NULL);
	else if (r < 60)
		sched_yield();
	else
		for (volatile uint32_t i = soak_below(&t->random, 600); i > 0; i--)
			;
}

void ops_begin(struct soak_thread *t, struct soak_process *p, uint32_t parent)
{
	t->process = p;
	history_track_begin(&t->writer, &p->history, p->number, p->image, parent);
	/* Independent of the order in which threads start, unlike numbers of processes and tracks. */
	soak_seed(&t->random, p->history.header->seed, p->history.header->round, p->life,
		  (uint64_t)p->image << 48 | (uint64_t)t->number << 32 | t->lives);
	snprintf(t->tag, sizeof(t->tag), "track %" PRIu32, t->writer.track);
	t->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

void ops_end(struct soak_thread *t)
{
	if (t->schedstat >= 0)
		close(t->schedstat);
	t->schedstat = -1;
}

/* ---------------------------------------------------------------- on a hold */

void ops_acknowledge(struct soak_thread *t, struct soak_hold *h)
{
	struct history_record *r = ops_record(t, h);
	int code;

	history_enter(r, HISTORY_ACKNOWLEDGE);
	code = lockshm_acknowledge(&h->hold);
	history_leave(r, history_now(), code);
}

void ops_previous(struct soak_thread *t, const struct soak_hold *h, const lockshm_hold_t *hold)
{
	struct history_record *r = ops_record(t, h);
	struct lockshm_damage damage;
	int64_t now;
	int code;

	history_enter(r, HISTORY_PREVIOUS);
	code = lockshm_damage(hold, &damage);
	now = history_now();
	r->ns = damage.age_ns;
	soak_note_previous(r, &damage);
	history_leave(r, now, code);
}

static void op_release(struct soak_thread *t, struct soak_hold *h)
{
	struct history_record *r = ops_record(t, h);
	int64_t now;
	int code;

	if (h->mode == LOCKSHM_EXCLUSIVE && soak_one_in(&t->random, 12))
		r->ns = soak_between(&t->random, 200000, 8000000);
	history_enter(r, HISTORY_RELEASE);
	code = lockshm_release(&h->hold, r->ns);
	now = history_now();
	r->other = lockshm_lost_to(&h->hold);
	history_leave(r, now, code);
}

static void op_check(struct soak_thread *t, struct soak_hold *h)
{
	struct history_record *r = ops_record(t, h);
	int64_t left = 0, now;
	int code;

	history_enter(r, HISTORY_CHECK);
	code = lockshm_check(&h->hold, &left);
	now = history_now();
	r->ns = left;
	history_leave(r, now, code);
}

static void op_renew(struct soak_thread *t, struct soak_hold *h)
{
	struct history_record *r = ops_record(t, h);
	int code;

	r->mode = !h->strict && soak_one_in(&t->random, 3);
	do
		r->ns = ops_any_ttl(t);
	while (r->ns == LOCKSHM_FOREVER && r->mode);
	history_enter(r, HISTORY_RENEW);
	code = r->mode ? lockshm_extend(&h->hold, r->ns) : lockshm_renew(&h->hold, r->ns);
	history_leave(r, history_now(), code);
	if (code >= 0 && !r->mode)
		h->strict = r->ns == LOCKSHM_FOREVER;
}

static void op_upgrade(struct soak_thread *t, struct soak_hold *h)
{
	struct history_record *r = ops_record(t, h);
	int64_t now;
	int code;

	history_enter(r, HISTORY_UPGRADE);
	code = lockshm_upgrade(&h->hold);
	now = history_now();
	r->token = lockshm_token(&h->hold);
	history_leave(r, now, code);
	if (code >= 0)
		h->mode = LOCKSHM_EXCLUSIVE;
}

static void op_downgrade(struct soak_thread *t, struct soak_hold *h)
{
	struct history_record *r = ops_record(t, h);
	int code;

	history_enter(r, HISTORY_DOWNGRADE);
	code = lockshm_downgrade(&h->hold);
	history_leave(r, history_now(), code);
	if (code >= 0)
		h->mode = LOCKSHM_SHARED;
}

static int op_move(struct soak_thread *t, struct soak_hold *h, int to)
{
	struct history_record *r = ops_record(t, h);
	int code;

	r->mode = (uint8_t)to;
	history_enter(r, HISTORY_MOVE);
	code = lockshm_move(&h->hold, to);
	history_leave(r, history_now(), code);
	if (code >= 0)
		h->of_process = to == LOCKSHM_TO_PROCESS;
	return code;
}

/* A copy, or one that was released: must be NOT_HELD. */
static void use_foreign(struct soak_thread *t, struct soak_hold *h, lockshm_hold_t *hold)
{
	struct history_record *r = ops_record(t, h);
	int code;

	r->flags |= HISTORY_FOREIGN;
	history_enter(r, HISTORY_CHECK);
	code = lockshm_check(hold, NULL);
	history_leave(r, history_now(), code);
}

static void op_foreign(struct soak_thread *t, struct soak_hold *h)
{
	lockshm_hold_t copy = h->hold;

	use_foreign(t, h, &copy);
}

static void take_out(struct soak_thread *t, unsigned i)
{
	t->holds[i] = t->holds[--t->n_holds];
}

static void finish(struct soak_thread *t, unsigned i)
{
	struct soak_hold *h = t->holds[i];

	op_release(t, h);
	if (soak_one_in(&t->random, 8))
		use_foreign(t, h, &h->hold);
	take_out(t, i);
	free(h);
}

void ops_release_all(struct soak_thread *t)
{
	while (t->n_holds)
		finish(t, t->n_holds - 1);
}

/* ---------------------------------------------------------------- the shelf */

/* Give a hold to the process: any thread may use it. */
static void op_shelve(struct soak_thread *t, unsigned i)
{
	struct soak_process *p = t->process;
	struct soak_hold *h = t->holds[i];

	if (t->forked || p->config.patient || op_move(t, h, LOCKSHM_TO_PROCESS) < 0)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->n_shelf < SOAK_SHELF) {
		p->shelf[p->n_shelf++] = h;
		take_out(t, i);
	}
	pthread_mutex_unlock(&p->lock);
}

static void op_unshelve(struct soak_thread *t)
{
	struct soak_process *p = t->process;
	struct soak_hold *h = NULL;
	unsigned i;

	if (t->forked || t->n_holds == SOAK_HOLDS)
		return;
	pthread_mutex_lock(&p->lock);
	for (i = 0; i < p->n_shelf && !h; i++) {
		if (p->shelf[i]->seat != t->seat)
			continue;
		h = p->shelf[i];
		p->shelf[i] = p->shelf[--p->n_shelf];
	}
	pthread_mutex_unlock(&p->lock);
	if (!h)
		return;
	t->holds[t->n_holds++] = h;
	/* Either make it the thread's own, or use it as one of the process. */
	if (soak_one_in(&t->random, 2))
		op_move(t, h, LOCKSHM_TO_CALLER);
}

void ops_forget_shelf(struct soak_process *p, const struct seat *seat)
{
	unsigned i = 0;

	while (i < p->n_shelf) {
		if (p->shelf[i]->seat != seat) {
			i++;
			continue;
		}
		free(p->shelf[i]);
		p->shelf[i] = p->shelf[--p->n_shelf];
	}
}

void ops_disown(struct soak_thread *t, struct history_writer *w)
{
	struct history_writer mine = t->writer;

	t->writer = *w;
	while (t->n_holds) {
		struct soak_hold *h = t->holds[--t->n_holds];

		if (h->of_process)
			op_release(t, h);
		else
			use_foreign(t, h, &h->hold);
		free(h);
	}
	*w = t->writer;
	t->writer = mine;
}

void ops_forget(struct soak_thread *t)
{
	while (t->n_holds) {
		struct soak_hold *h = t->holds[--t->n_holds];

		use_foreign(t, h, &h->hold);
		free(h);
	}
}

/* ---------------------------------------------------------------- cancel */

static void op_cancel(struct soak_thread *t)
{
	struct soak_process *p = t->process;
	struct soak_thread *other = &p->threads[soak_below(&t->random, p->n_threads)];
	struct history_record *r;
	int code;

	if (t->forked || other == t)
		return;
	pthread_mutex_lock(&other->cancel_lock);
	if (other->cancellable) {
		r = ops_record(t, NULL);
		r->subject = other->cancellable - 1;
		history_enter(r, HISTORY_CANCEL);
		code = lockshm_cancel(&other->canceller);
		history_leave(r, history_now(), code);
	}
	pthread_mutex_unlock(&other->cancel_lock);
}

/* ---------------------------------------------------------------- one step */

static void step_on_hold(struct soak_thread *t)
{
	unsigned i = soak_below(&t->random, t->n_holds);
	struct soak_hold *h = t->holds[i];
	uint32_t dice = soak_below(&t->random, 100);

	if (dice < 40)
		finish(t, i);
	else if (dice < 52)
		op_check(t, h);
	else if (dice < 63)
		op_renew(t, h);
	else if (dice < 71)
		op_upgrade(t, h);
	else if (dice < 79)
		op_downgrade(t, h);
	else if (dice < 83)
		ops_acknowledge(t, h);
	else if (dice < 86)
		ops_previous(t, h, &h->hold);
	else if (dice < 88)
		op_shelve(t, i);
	else if (dice < 90)
		op_foreign(t, h);
	else
		ops_dawdle(t);
}

void ops_step(struct soak_thread *t)
{
	uint32_t dice = soak_below(&t->random, 100);

	if (ops_loop_step(t))
		return;
	/* While it blocks it collects nothing, and all keys would wait for its grants to end. */
	if (t->loop && t->n_holds == 0 && !soak_one_in(&t->random, 20))
		return;
	if (t->loop && t->n_holds)
		dice = soak_one_in(&t->random, 20) ? 70 : 10;
	if (dice < 3)
		op_unshelve(t);
	else if (dice < 6)
		op_cancel(t);
	else if (t->n_holds && (dice < 66 || t->n_holds == SOAK_HOLDS || seat_is_stale(t->seat)))
		step_on_hold(t);
	else if (dice < 95)
		ops_acquire(t);
	else
		ops_many(t);
}
