/* SPDX-License-Identifier: MIT */
/* soak-acquire.c - a worker takes locks, see soak-ops.h */
#include "soak-ops.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t ops_run_delay(const struct soak_thread *t)
{
	char text[96];
	ssize_t n = t->schedstat < 0 ? -1 : pread(t->schedstat, text, sizeof(text) - 1, 0);
	const char *second;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	second = strchr(text, ' ');
	return second ? strtoll(second, NULL, 10) : 0;
}

/* ---------------------------------------------------------------- one */

uint32_t ops_any_key(struct soak_thread *t)
{
	const struct soak_config *c = &t->process->config;

	return soak_below(&t->random, 10) < 6 ? soak_below(&t->random, c->hot) : soak_below(&t->random, c->keys);
}

int64_t ops_any_ttl(struct soak_thread *t)
{
	switch (soak_below(&t->random, 10)) {
	case 0:
	case 1:
		return LOCKSHM_MS(soak_between(&t->random, 1, 15));
	case 2:
	case 3:
		return LOCKSHM_MS(soak_between(&t->random, 40, 120));
	case 4:
		return LOCKSHM_MS(500);
	case 5:
	case 6:
		return LOCKSHM_SECONDS(30);
	default:
		return LOCKSHM_FOREVER;
	}
}

static int64_t any_timeout(struct soak_thread *t)
{
	if (soak_one_in(&t->random, 4))
		return 0;
	if (t->forked) /* its parent waits for it, and holds */
		return soak_between(&t->random, 100000, 10000000);
	if (t->process->config.patient)
		return LOCKSHM_SECONDS(5);
	if (soak_one_in(&t->random, 3))
		return soak_between(&t->random, 100000, 10000000);
	return LOCKSHM_MS(soak_between(&t->random, 100, 2000));
}

static void any_flags(struct soak_thread *t, struct lockshm_request *q, struct history_record *r)
{
	if (q->ttl_ns != LOCKSHM_FOREVER && q->ttl_ns >= LOCKSHM_AUTO_RENEW_TTL_MIN && soak_one_in(&t->random, 4)) {
		q->flags |= LOCKSHM_AUTO_RENEW;
		r->flags |= HISTORY_AUTO_RENEW;
	}
	if (soak_one_in(&t->random, 2)) {
		q->flags |= LOCKSHM_ROBUST;
		r->flags |= HISTORY_ROBUST;
	}
	if (q->timeout_ns && soak_one_in(&t->random, 16)) {
		q->flags |= LOCKSHM_ONLY_IF_FREE_IN_TIME;
		r->flags |= HISTORY_BOOKED;
	}
	if (!q->timeout_ns)
		r->flags |= HISTORY_TRY;
}

/* A request, and its record. */
void ops_any_request(struct soak_thread *t, struct lockshm_request *q, struct history_record *r)
{
	static const struct lockshm_request init = LOCKSHM_REQUEST_INIT;

	*q = init;
	q->mode = soak_one_in(&t->random, 2) ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;
	q->ttl_ns = ops_any_ttl(t);
	q->timeout_ns = any_timeout(t);
	q->tag = t->tag;
	any_flags(t, q, r);
	r->mode = (uint8_t)q->mode;
	r->ns = q->ttl_ns;
	r->deadline = history_now() + q->timeout_ns;
}

static void cancellable(struct soak_thread *t, struct lockshm_request *q, const struct history_record *r)
{
	if (!q->timeout_ns || t->forked || !soak_one_in(&t->random, 4))
		return;
	pthread_mutex_lock(&t->cancel_lock);
	t->canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	t->cancellable = ops_number(t, r) + 1;
	pthread_mutex_unlock(&t->cancel_lock);
	q->canceller = &t->canceller;
}

static void not_cancellable(struct soak_thread *t, const struct lockshm_request *q)
{
	if (!q->canceller)
		return;
	pthread_mutex_lock(&t->cancel_lock);
	t->cancellable = 0;
	pthread_mutex_unlock(&t->cancel_lock);
}

void ops_keep(struct soak_thread *t, struct soak_hold *h, uint32_t acquire, uint32_t key, int mode, bool strict)
{
	h->seat = t->seat;
	h->realm = t->seat->realm;
	h->acquire = acquire;
	h->key = key;
	h->mode = mode;
	h->strict = strict;
	t->holds[t->n_holds++] = h;
}

void ops_removed(struct soak_thread *t, int code)
{
	if (code == LOCKSHM_NO_SEGMENT)
		__atomic_store_n(&t->seat->stale, true, __ATOMIC_RELAXED);
}

static void say_waiting(struct soak_thread *t, uint32_t number)
{
	__atomic_store_n(&t->writer.history->header->tracks[t->writer.track].waits, number, __ATOMIC_RELEASE);
}

static int call_acquire(struct soak_thread *t, struct lockshm_request *q, struct history_record *r,
			lockshm_hold_t *hold)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	int64_t delay = q->timeout_ns ? ops_run_delay(t) : 0, now;
	int code;

	/* Without one the library takes a shorter way. */
	if (soak_one_in(&t->random, 4))
		r->flags |= HISTORY_NO_REPORT;
	else
		q->report = &report;
	cancellable(t, q, r);
	say_waiting(t, ops_number(t, r) + 1);
	history_enter(r, HISTORY_ACQUIRE);
	code = lockshm_acquire(t->seat->segment, q, hold);
	now = history_now();
	say_waiting(t, 0);
	r->token = code < 0 ? 0 : lockshm_token(hold);
	if (q->report) {
		r->token = report.token;
		r->slept_ns = report.slept_ns;
		soak_note_previous(r, &report.damage);
	}
	if (q->timeout_ns)
		r->run_delay_ns = ops_run_delay(t) - delay;
	history_leave(r, now, code);
	not_cancellable(t, q);
	return code;
}

void ops_acquire(struct soak_thread *t)
{
	struct history_record *r = ops_record(t, NULL);
	struct soak_hold *h = calloc(1, sizeof(*h));
	unsigned char key[SOAK_KEY_MAX];
	struct lockshm_request q;
	int code;

	ops_any_request(t, &q, r);
	r->key = ops_any_key(t);
	q.key = key;
	q.key_len = soak_key(key, r->key);
	code = call_acquire(t, &q, r, &h->hold);
	if (code < 0) {
		free(h);
		ops_removed(t, code);
		return;
	}
	ops_keep(t, h, ops_number(t, r), r->key, q.mode, q.ttl_ns == LOCKSHM_FOREVER);
	if (code > 0 && soak_below(&t->random, 10) < 6)
		ops_acknowledge(t, h);
}

/* ---------------------------------------------------------------- many */

static bool is_duplicate(const struct bundle *b, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (b->records[k]->key == b->records[i]->key)
			return true;
	return false;
}

/* Equal keys count once, with the stronger mode, which the first record has. */
static void merge(struct bundle *b, size_t i)
{
	size_t k;

	b->records[i]->flags |= HISTORY_DUPLICATE;
	for (k = 0; k < i; k++)
		if (b->records[k]->key == b->records[i]->key && b->records[i]->mode == LOCKSHM_EXCLUSIVE)
			b->records[k]->mode = LOCKSHM_EXCLUSIVE;
}

void ops_fill_bundle(struct soak_thread *t, struct bundle *b, struct lockshm_request *q)
{
	size_t i;

	for (i = 0; i < b->n; i++) {
		struct history_record *r = i == 0 ? b->records[0] : ops_record(t, NULL);

		b->records[i] = r;
		r->group = ops_number(t, b->records[0]);
		r->ns = q->ttl_ns;
		r->deadline = b->records[0]->deadline;
		r->flags = b->records[0]->flags | HISTORY_MANY;
		r->key = ops_any_key(t);
		r->mode = soak_one_in(&t->random, 3) ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
		b->keys[i] = (struct lockshm_key){ .data = b->bytes[i], .len = soak_key(b->bytes[i], r->key),
						   .mode = r->mode };
	}
	for (i = 0; i < b->n; i++)
		if (is_duplicate(b, i))
			merge(b, i);
}

static struct history_record *release_record(struct soak_thread *t, const struct bundle *b, size_t i)
{
	const struct history_record *acquire = b->records[i];
	struct soak_hold h = { .realm = t->seat->realm, .acquire = ops_number(t, acquire), .key = acquire->key };

	return acquire->flags & HISTORY_DUPLICATE ? NULL : ops_record(t, &h);
}

static void release_one_by_one(struct soak_thread *t, struct bundle *b)
{
	size_t i;

	for (i = 0; i < b->n; i++) {
		struct history_record *r = release_record(t, b, i);
		int64_t now;
		int code;

		if (!r)
			continue;
		ops_dawdle(t);
		history_enter(r, HISTORY_RELEASE);
		code = lockshm_release(&b->holds[i], 0);
		now = history_now();
		r->other = lockshm_lost_to(&b->holds[i]);
		history_leave(r, now, code);
	}
}

/* One outcome for all: the worst.  Only OK holds for each. */
static void release_together(struct soak_thread *t, struct bundle *b)
{
	struct history_record *records[SOAK_HOLDS];
	int64_t now;
	size_t i;
	int code;

	ops_dawdle(t);
	for (i = 0; i < b->n; i++) {
		records[i] = release_record(t, b, i);
		if (records[i])
			history_enter(records[i], HISTORY_RELEASE);
	}
	code = lockshm_release_many(b->holds, b->n);
	now = history_now();
	for (i = 0; i < b->n; i++) {
		if (!records[i])
			continue;
		if (code != LOCKSHM_OK)
			records[i]->flags |= HISTORY_WORST;
		history_leave(records[i], now, code);
	}
}

/* The mark of each key. */
static void look_at_bundle(struct soak_thread *t, struct bundle *b)
{
	size_t i;

	for (i = 0; i < b->n; i++) {
		const struct history_record *acquire = b->records[i];
		struct soak_hold h = { .realm = t->seat->realm, .acquire = ops_number(t, acquire), .key = acquire->key };

		if (!(acquire->flags & HISTORY_DUPLICATE))
			ops_previous(t, &h, &b->holds[i]);
	}
}

/* A hold must stay where it is while it is held: these are used up at once. */
void ops_use_up(struct soak_thread *t, struct bundle *b, int64_t now, int code)
{
	size_t i;

	for (i = 0; i < b->n; i++) {
		struct history_record *r = b->records[i];

		r->token = code < 0 ? 0 : lockshm_token(&b->holds[i]);
		history_leave(r, now, code);
	}
	if (code < 0)
		return;
	if (soak_one_in(&t->random, 3))
		look_at_bundle(t, b);
	if (soak_one_in(&t->random, 2))
		release_together(t, b);
	else
		release_one_by_one(t, b);
}

void ops_many(struct soak_thread *t)
{
	struct lockshm_request q;
	struct bundle b;
	int64_t now;
	size_t i;
	int code;

	memset(&b, 0, sizeof(b));
	b.n = 2 + soak_below(&t->random, SOAK_HOLDS - 1);
	b.records[0] = ops_record(t, NULL);
	ops_any_request(t, &q, b.records[0]);
	ops_fill_bundle(t, &b, &q);
	for (i = 0; i < b.n; i++)
		history_enter(b.records[i], HISTORY_ACQUIRE);
	code = lockshm_acquire_many(t->seat->segment, &q, b.keys, b.n, b.holds);
	now = history_now();
	ops_use_up(t, &b, now, code);
	ops_removed(t, code);
}
