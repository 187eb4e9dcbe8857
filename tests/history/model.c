/* SPDX-License-Identifier: MIT */
/* model.c - from records to holds and keys, see history/model.h */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *model_must(void *p)
{
	if (!p) {
		fputs("history: out of memory\n", stderr);
		exit(99);
	}
	return p;
}

void *model_room(size_t n, size_t size)
{
	return model_must(calloc(n ? n : 1, size));
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

const struct history_record *model_record(const struct model *m, uint32_t number)
{
	const struct history_record *r = &m->h->records[number];

	if (number >= m->n_records || __atomic_load_n(&r->op, __ATOMIC_ACQUIRE) == HISTORY_NONE)
		return NULL;
	return r;
}

struct hold *model_hold(const struct model *m, uint32_t acquire)
{
	if (acquire >= m->n_records || m->hold_of[acquire] == NO_HOLD)
		return NULL;
	return &m->holds[m->hold_of[acquire]];
}

uint32_t model_process(const struct model *m, const struct history_record *r)
{
	return m->h->header->tracks[r->track].process;
}

/* ---------------------------------------------------------------- holds */

static bool is_on_hold(const struct history_record *r)
{
	return r->op >= HISTORY_RELEASE && r->op <= HISTORY_MOVE && !(r->flags & HISTORY_FOREIGN);
}

static bool is_granted(const struct history_record *r)
{
	return r->op == HISTORY_ACQUIRE && r->leave && r->outcome >= 0 && !(r->flags & HISTORY_DUPLICATE);
}

static int by_enter(const void *a, const void *b)
{
	const struct history_record *x = *(const struct history_record *const *)a;
	const struct history_record *y = *(const struct history_record *const *)b;

	return x->enter != y->enter ? (x->enter > y->enter) - (x->enter < y->enter) : (x > y) - (x < y);
}

/* Count, place, fill: the operations of each hold side by side. */
static void place_ops(struct model *m)
{
	uint32_t i, at = 0;

	for (i = 0; i < m->n_holds; i++) {
		m->holds[i].ops = &m->ops[at];
		at += m->holds[i].n_ops;
		m->holds[i].n_ops = 0;
	}
	for (i = 0; i < m->n_records; i++) {
		const struct history_record *r = model_record(m, i);
		struct hold *hold = r && is_on_hold(r) ? model_hold(m, r->subject) : NULL;

		if (hold)
			hold->ops[hold->n_ops++] = r;
	}
	for (i = 0; i < m->n_holds; i++)
		qsort(m->holds[i].ops, m->holds[i].n_ops, sizeof(m->holds[i].ops[0]), by_enter);
}

static void find_holds(struct model *m)
{
	uint32_t i, n = 0, n_ops = 0;

	for (i = 0; i < m->n_records; i++) {
		const struct history_record *r = model_record(m, i);

		m->hold_of[i] = NO_HOLD;
		if (r && is_granted(r))
			m->hold_of[i] = n++;
	}
	m->n_holds = n;
	m->holds = model_room(n, sizeof(*m->holds));
	for (i = 0; i < m->n_records; i++) {
		const struct history_record *r = model_record(m, i);
		struct hold *hold = r ? model_hold(m, r->op == HISTORY_ACQUIRE ? i : r->subject) : NULL;

		if (hold && r->op == HISTORY_ACQUIRE)
			hold->acquire = r;
		else if (hold && is_on_hold(r))
			hold->n_ops++, n_ops++;
	}
	m->ops = model_room(n_ops, sizeof(*m->ops));
	place_ops(m);
}

static void build_holds(struct model *m)
{
	uint32_t i;

	find_holds(m);
	model_build_tokens(m);
	for (i = 0; i < m->n_holds; i++)
		model_evaluate_hold(m, &m->holds[i]);
}

/* ---------------------------------------------------------------- keys */

static int by_key(const void *a, const void *b)
{
	const struct history_record *x = ((const struct attempt *)a)->acquire,
				    *y = ((const struct attempt *)b)->acquire;

	if (x->realm != y->realm)
		return x->realm < y->realm ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return by_enter(&x, &y);
}

/* Has an operator ended a grant of that key that no call had returned by then? */
static bool may_have_been_ended(const struct model *m, const struct history_record *r)
{
	uint32_t i;

	for (i = 0; i < m->end_holds.n; i++) {
		const struct history_record *e = m->end_holds.list[i];
		const struct hold *hold;

		if (e->key != r->key || e->realm != r->realm || (e->leave && e->outcome == LOCKSHM_NOT_HELD) ||
		    (e->leave && e->leave < r->enter) || (r->leave && e->enter > r->leave))
			continue;
		hold = model_find_token(m, e->realm, e->key, e->token);
		if (!hold || hold->acquire == r)
			return true;
	}
	return false;
}

/* Of a loop: it may have been granted and not collected for so long that it is at the end of the queue again. */
bool model_grant_may_have_ended(const struct model *m, const struct history_record *r)
{
	int64_t lease = r->ns < UNCOLLECTED ? r->ns : UNCOLLECTED;

	return r->flags & HISTORY_MANY || !r->leave || r->enter + lease <= r->leave || may_have_been_ended(m, r);
}

static void fill_attempt(const struct model *m, struct attempt *a, const struct history_record *r)
{
	const struct hold *hold = model_hold(m, history_number(m->h, r));

	a->acquire = r;
	a->hold = hold ? (uint32_t)(hold - m->holds) : NO_HOLD;
	a->token = hold ? r->token : 0;
	a->may_requeue = is_loop_wait(r) && model_grant_may_have_ended(m, r);
	a->queued = !hold ? NEVER : is_loop_wait(r) && !a->may_requeue ? r->pending : r->leave;
	a->lo = r->enter;
	a->hi = hold			  ? hold->gone
		: r->leave		  ? r->leave
		: r->flags & HISTORY_LOOP ? m->image_death[r->track].hi
					  : m->track_death[r->track].hi;
	a->exclusive = r->mode == LOCKSHM_EXCLUSIVE || (hold && hold->ever_exclusive);
	a->leaves_trace = hold || !(r->flags & HISTORY_TRY) || !r->leave || (r->flags & HISTORY_MANY);
}

static struct attempt *attempt_of(const struct model *m, uint32_t record)
{
	uint32_t lo = 0, hi = m->n_attempts;

	/* Not sorted by key yet: in the order of the records. */
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2, number = history_number(m->h, m->attempts[mid].acquire);

		if (number == record)
			return &m->attempts[mid];
		if (number < record)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static bool was_ended(const struct model *m, const struct attempt *a)
{
	uint32_t i;

	for (i = 0; i < m->end_holds.n; i++) {
		const struct history_record *e = m->end_holds.list[i];

		if (e->token == a->token && e->key == a->acquire->key && e->realm == a->acquire->realm &&
		    e->outcome != LOCKSHM_NOT_HELD)
			return true;
	}
	return false;
}

/*
 * A waiter whose grant is overrun, or ended by an operator, before it wakes requests again with another token: then the
 * token that was seen proves nothing about the rest of the wait.
 */
static bool may_have_asked_again(const struct model *m, const struct attempt *a)
{
	const struct history_record *r = a->acquire;

	if (is_loop_wait(r))
		return a->may_requeue;
	return was_ended(m, a) || (r->ns != LOCKSHM_FOREVER && (!r->leave || r->enter + r->ns <= r->leave));
}

/* Of a loop: if it has still that token in the end, it never went back. */
static void note_first_token(struct attempt *a, const struct history_record *s)
{
	const struct history_record *r = a->acquire;
	int64_t lease = r->ns < UNCOLLECTED ? r->ns : UNCOLLECTED;

	if (!is_loop_wait(r) || r->flags & HISTORY_MANY || s->leave - r->enter >= lease)
		return;
	a->first_token = s->token;
	if (a->hold != NO_HOLD && a->token == s->token)
		a->may_requeue = false;
}

/* A waiter that was seen with its token: known even if it never got further. */
static void use_sightings(struct model *m)
{
	uint32_t i;

	for (i = 0; i < m->seen.n; i++) {
		const struct history_record *s = m->seen.list[i];
		struct attempt *a = attempt_of(m, s->subject);

		if (!a)
			continue;
		note_first_token(a, s);
		if (a->hold == NO_HOLD && a->token && a->token != s->token)
			a->asked_again = true;
		if (a->hold == NO_HOLD && !a->token)
			a->token = s->token;
		if (a->token == s->token)
			a->queued = earlier(a->queued, s->leave);
	}
	for (i = 0; i < m->n_attempts; i++) {
		struct attempt *a = &m->attempts[i];

		if (a->hold != NO_HOLD || !a->token || !(a->asked_again || may_have_asked_again(m, a)))
			continue;
		a->token = 0;
		a->queued = NEVER;
	}
}

static void find_attempts(struct model *m)
{
	uint32_t i, n = 0;

	for (i = 0; i < m->n_records; i++) {
		const struct history_record *r = model_record(m, i);

		n += r && r->op == HISTORY_ACQUIRE && !(r->flags & HISTORY_DUPLICATE);
	}
	m->attempts = model_room(n, sizeof(*m->attempts));
	for (i = 0; i < m->n_records; i++) {
		const struct history_record *r = model_record(m, i);

		if (r && r->op == HISTORY_ACQUIRE && !(r->flags & HISTORY_DUPLICATE))
			fill_attempt(m, &m->attempts[m->n_attempts++], r);
	}
	use_sightings(m);
	qsort(m->attempts, m->n_attempts, sizeof(*m->attempts), by_key);
}

static void fill_busy(struct key *key)
{
	int64_t high[2] = { 0, 0 };
	uint32_t i, k;

	for (k = 0; k < 2; k++)
		key->busy_until[k] = model_room(key->n_attempts, sizeof(int64_t));
	for (i = 0; i < key->n_attempts; i++) {
		const struct attempt *a = &key->attempts[i];

		for (k = 0; k < 2; k++) {
			if (a->leaves_trace && (k == 0 || a->exclusive) && a->hi > high[k])
				high[k] = a->hi;
			key->busy_until[k][i] = high[k];
		}
	}
}

static void build_keys(struct model *m)
{
	uint32_t i;

	find_attempts(m);
	m->keys = model_room(m->n_attempts, sizeof(*m->keys));
	for (i = 0; i < m->n_attempts; i++) {
		const struct history_record *r = m->attempts[i].acquire;
		struct key *last = m->n_keys ? &m->keys[m->n_keys - 1] : NULL;

		if (last && last->key == r->key && last->realm == r->realm) {
			last->n_attempts++;
			continue;
		}
		m->keys[m->n_keys++] =
			(struct key){ .key = r->key, .realm = r->realm, .attempts = &m->attempts[i], .n_attempts = 1 };
	}
	for (i = 0; i < m->n_keys; i++)
		fill_busy(&m->keys[i]);
}

void model_build(struct model *m, const struct history *h)
{
	uint32_t blocks = h->header->next_block < h->header->blocks ? h->header->next_block : h->header->blocks;

	memset(m, 0, sizeof(*m));
	m->h = h;
	m->n_records = blocks * HISTORY_BLOCK;
	m->n_tracks = h->header->next_track < HISTORY_TRACKS ? h->header->next_track : HISTORY_TRACKS;
	m->n_processes = h->header->next_process;
	m->track_death = model_room(m->n_tracks, sizeof(*m->track_death));
	m->image_death = model_room(m->n_tracks, sizeof(*m->image_death));
	m->track_execs = model_room(m->n_tracks, sizeof(*m->track_execs));
	m->process_death = model_room(m->n_processes, sizeof(*m->process_death));
	m->hold_of = model_room(m->n_records, sizeof(*m->hold_of));
	model_build_lives(m);
	build_holds(m);
	build_keys(m);
}

void model_free(struct model *m)
{
	uint32_t i, k;

	for (i = 0; i < m->n_keys; i++)
		for (k = 0; k < 2; k++)
			free(m->keys[i].busy_until[k]);
	free(m->track_death);
	free(m->image_death);
	free(m->track_execs);
	free(m->tokens);
	free(m->process_death);
	free(m->hold_of);
	free(m->stops.list);
	free(m->starved.list);
	free(m->calm.list);
	free(m->closes.list);
	free(m->end_holds.list);
	free(m->ack_marks.list);
	free(m->cancels.list);
	free(m->seen.list);
	free(m->reaps.list);
	free(m->destroys.list);
	free(m->execs.list);
	free(m->nexts.list);
	free(m->withdrawals.list);
	free(m->holds);
	free(m->ops);
	free(m->spans);
	free(m->attempts);
	free(m->keys);
}
