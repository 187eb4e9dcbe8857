/* SPDX-License-Identifier: MIT */
/* order.c - exclusion, order and tokens, see history/check.h */
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The two spans of different holds that reach furthest. */
struct furthest {
	const struct span *best[2];
};

static void reach(struct furthest *f, const struct span *s)
{
	if (!f->best[0] || s->to > f->best[0]->to) {
		if (f->best[0] && f->best[0]->hold != s->hold)
			f->best[1] = f->best[0];
		f->best[0] = s;
	} else if (f->best[0]->hold != s->hold && (!f->best[1] || s->to > f->best[1]->to)) {
		f->best[1] = s;
	}
}

static const struct span *furthest_but(const struct furthest *f, uint32_t hold)
{
	return f->best[0] && f->best[0]->hold == hold ? f->best[1] : f->best[0];
}

/* Exclusive spans conflict with all others; under each lies a shared one, so exclusive against shared is enough. */
struct conflicts {
	struct furthest all, exclusive;
};

static const struct span *conflicting(const struct conflicts *f, const struct span *s)
{
	return furthest_but(s->exclusive ? &f->all : &f->exclusive, s->hold);
}

static void note_span(struct conflicts *f, const struct span *s)
{
	reach(s->exclusive ? &f->exclusive : &f->all, s);
}

static const struct history_record *acquire_of(const struct check *c, uint32_t hold)
{
	return c->m.holds[hold].acquire;
}

/* ---------------------------------------------------------------- exclusion, fifo */

static const struct model *sorting; /* qsort() has no argument for it */

static int by_lock(const struct span *x, const struct span *y)
{
	const struct history_record *a = sorting->holds[x->hold].acquire, *b = sorting->holds[y->hold].acquire;

	if (a->realm != b->realm)
		return a->realm < b->realm ? -1 : 1;
	return (a->key > b->key) - (a->key < b->key);
}

static int by_from(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	int d = by_lock(x, y);

	return d ? d : (x->from > y->from) - (x->from < y->from);
}

static int by_token(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	int d = by_lock(x, y);

	return d ? d : (x->token > y->token) - (x->token < y->token);
}

static void check_exclusion(struct check *c, const struct span *spans, uint32_t n)
{
	struct conflicts seen = { { { NULL } }, { { NULL } } };
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct span *s = &spans[i], *other = conflicting(&seen, s);

		if (other && other->to - s->from > SKEW)
			problem(c, "exclusion", acquire_of(c, other->hold), acquire_of(c, s->hold),
				"key %u: both held %s for %.3f ms (tokens %" PRIu64 ", %" PRIu64 ")",
				acquire_of(c, s->hold)->key, "at one time",
				(double)((other->to < s->to ? other->to : s->to) - s->from) / 1e6, other->token,
				s->token);
		note_span(&seen, s);
	}
}

/* In the order of tokens each hold ends before a later conflicting one begins. */
static void check_fifo(struct check *c, const struct span *spans, uint32_t n)
{
	struct conflicts earlier = { { { NULL } }, { { NULL } } };
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct span *s = &spans[i], *other = conflicting(&earlier, s);

		/* check_exclusion() finds those that overlap. */
		if (other && other->token < s->token && other->from >= s->to && other->to - s->from > SKEW)
			problem(c, "fifo", acquire_of(c, other->hold), acquire_of(c, s->hold),
				"key %u: token %" PRIu64 " was held before token %" PRIu64, acquire_of(c, s->hold)->key,
				s->token, other->token);
		note_span(&earlier, s);
	}
}

static int64_t until_removed(const struct check *c, const struct history_record *r)
{
	int64_t until = r->deadline;
	uint32_t i;

	for (i = 0; i < c->m.destroys.n; i++)
		if (c->m.destroys.list[i]->realm == r->realm && c->m.destroys.list[i]->enter < until)
			until = c->m.destroys.list[i]->enter;
	return until;
}

/* Until when a wait without a grant certainly was queued; 0 = not certain. */
static int64_t waited_until(const struct check *c, const struct attempt *a)
{
	const struct history_record *r = a->acquire;
	int64_t until = 0;
	uint32_t i;

	if (a->hold != NO_HOLD || a->token == 0 || (r->flags & (HISTORY_MANY | HISTORY_TRY)))
		return 0;
	/* One that never came back may have been about to. */
	if (r->leave && r->outcome == LOCKSHM_TIMEOUT)
		until = r->deadline;
	/* What was withdrawn may have been decided before, and not collected. */
	if (r->leave && r->outcome == LOCKSHM_CANCELLED && is_loop_wait(r))
		until = until_removed(c, r);
	for (i = 0; r->leave && r->outcome == LOCKSHM_CANCELLED && i < c->m.cancels.n; i++)
		if (c->m.cancels.list[i]->subject == history_number(c->m.h, r))
			until = until && until < c->m.cancels.list[i]->enter ? until : c->m.cancels.list[i]->enter;
	return until == NEVER ? 0 : until;
}

/* The span with a larger token that begins first. */
static const struct span *first_behind(const struct span *spans, uint32_t n, uint64_t token, bool conflicts_with_all)
{
	const struct span *first = NULL;
	uint32_t i;

	for (i = n; i-- > 0 && spans[i].token > token;)
		if ((conflicts_with_all || spans[i].exclusive) && (!first || spans[i].from < first->from))
			first = &spans[i];
	return first;
}

static void check_passed(struct check *c, const struct span *spans, uint32_t n, const struct key *key)
{
	uint32_t i;

	for (i = 0; i < key->n_attempts; i++) {
		const struct attempt *a = &key->attempts[i];
		int64_t until = waited_until(c, a);
		const struct span *s;

		if (until <= a->queued)
			continue;
		s = first_behind(spans, n, a->token, a->acquire->mode == LOCKSHM_EXCLUSIVE);
		if (s && s->from + SKEW < until)
			problem(c, "fifo", a->acquire, acquire_of(c, s->hold),
				"key %u: token %" PRIu64 " was granted while token %" PRIu64 " still waited", key->key,
				s->token, a->token);
	}
}

static void check_spans(struct check *c)
{
	struct model *m = &c->m;
	uint32_t i, n;
	int pass;

	if (m->n_spans == 0)
		return;
	sorting = m;
	for (pass = 0; pass < 2; pass++) {
		qsort(m->spans, m->n_spans, sizeof(*m->spans), pass == 0 ? by_from : by_token);
		for (i = 0; i < m->n_spans; i += n) {
			const struct span *spans = &m->spans[i];
			const struct history_record *r = acquire_of(c, spans->hold);

			for (n = 1; i + n < m->n_spans && by_lock(spans, &spans[n]) == 0; n++)
				;
			if (pass == 0) {
				check_exclusion(c, spans, n);
			} else {
				check_fifo(c, spans, n);
				check_passed(c, spans, n, find_key(c, r->realm, r->key));
			}
		}
	}
}

/* ---------------------------------------------------------------- arrival */

/* @token was given between the two times. */
struct arrival {
	int64_t lo, hi;
	uint64_t token;
	const struct history_record *r;
};

static int by_lo(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

static int by_hi(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;

	return (x->hi > y->hi) - (x->hi < y->hi);
}

static bool upgraded(const struct history_record *op)
{
	return op->op == HISTORY_UPGRADE && op->leave && (op->outcome == LOCKSHM_OK || op->outcome == LOCKSHM_LATE);
}

static uint32_t arrivals_of(const struct check *c, const struct key *key, struct arrival *out)
{
	uint32_t i, k, n = 0;

	for (i = 0; i < key->n_attempts; i++) {
		const struct attempt *a = &key->attempts[i];
		const struct hold *hold = a->hold == NO_HOLD ? NULL : &c->m.holds[a->hold];
		uint64_t token = a->token;

		if (!token || a->queued == NEVER)
			continue;
		if (out)
			out[n] = (struct arrival){ a->lo, a->queued, token, a->acquire };
		n++;
		for (k = 0; hold && k < hold->n_ops; k++) {
			const struct history_record *op = hold->ops[k];

			/* An exclusive hold stays as it is. */
			if (!upgraded(op) || op->token == token)
				continue;
			token = op->token;
			if (out)
				out[n] = (struct arrival){ op->enter, op->leave, token, op };
			n++;
		}
	}
	return n;
}

static void check_arrival(struct check *c, const struct key *key)
{
	uint32_t i, k = 0, n = arrivals_of(c, key, NULL);
	struct arrival *begun = model_room(n, sizeof(*begun)), *done = model_room(n, sizeof(*done));
	const struct arrival *largest = NULL;

	arrivals_of(c, key, begun);
	memcpy(done, begun, n * sizeof(*done));
	qsort(begun, n, sizeof(*begun), by_lo);
	qsort(done, n, sizeof(*done), by_hi);
	for (i = 0; i < n; i++) {
		for (; k < n && done[k].hi + SKEW < begun[i].lo; k++)
			if (!largest || done[k].token > largest->token)
				largest = &done[k];
		if (largest && begun[i].token < largest->token)
			problem(c, "arrival", largest->r, begun[i].r,
				"key %u: came later and has the smaller token %" PRIu64 " < %" PRIu64, key->key,
				begun[i].token, largest->token);
	}
	free(begun);
	free(done);
}

/* ---------------------------------------------------------------- tokens */

static void check_unique(struct check *c)
{
	uint32_t i;

	for (i = 1; i < c->m.n_tokens; i++) {
		const struct token *a = &c->m.tokens[i - 1], *b = &c->m.tokens[i];

		if (a->token == b->token && a->key == b->key && a->realm == b->realm && a->hold != b->hold)
			problem(c, "tokens", acquire_of(c, a->hold), acquire_of(c, b->hold),
				"key %u: token %" PRIu64 " was given twice", a->key, a->token);
	}
}

static void check_realm(struct check *c, const struct token *t)
{
	const struct history_realm *realms = c->m.h->header->realms;
	uint64_t base = realms[t->realm].token_base;
	uint32_t i;

	if (t->token <= base)
		problem(c, "tokens", acquire_of(c, t->hold), NULL,
			"token %" PRIu64 " is not above the segment's base %" PRIu64, t->token, base);
	for (i = 0; i < HISTORY_REALMS && realms[i].token_base; i++)
		if (realms[i].token_base > base && t->token > realms[i].token_base)
			problem(c, "tokens", acquire_of(c, t->hold), NULL,
				"token %" PRIu64 " is above the base %" PRIu64 " of a newer segment", t->token,
				realms[i].token_base);
}

void check_order(struct check *c)
{
	uint32_t i;

	check_spans(c);
	for (i = 0; i < c->m.n_keys; i++)
		check_arrival(c, &c->m.keys[i]);
	check_unique(c);
	for (i = 0; i < c->m.n_tokens; i++)
		check_realm(c, &c->m.tokens[i]);
}
