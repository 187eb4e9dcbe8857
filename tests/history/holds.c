/* SPDX-License-Identifier: MIT */
/* holds.c - what the operations on one hold prove, see history/model.h */
#include "model.h"

#include <stdlib.h>

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t after(int64_t t, int64_t ns)
{
	return t == NEVER || ns == LOCKSHM_FOREVER ? NEVER : t + ns;
}

/* ---------------------------------------------------------------- step by step */

static bool auto_renews(const struct hold *s)
{
	return s->acquire->flags & HISTORY_AUTO_RENEW && s->deadline.lo != NEVER;
}

/* The lease was set to end @ns after some moment between the two times. */
static void set_lease(struct hold *s, int64_t enter, int64_t leave, int64_t ns)
{
	s->deadline.lo = after(enter, ns);
	s->deadline.hi = after(after(leave, ns), LEASE_SLACK);
	if (auto_renews(s))
		s->deadline.hi = NEVER;
}

/* Of a loop it counts from the call that collected the grant; of several keys not of all. */
static int64_t lease_from(const struct history_record *r)
{
	return r->flags & HISTORY_LOOP && r->collect && !(r->flags & HISTORY_MANY) ? r->collect : r->enter;
}

void hold_begin(const struct model *m, struct hold *state, const struct hold *hold)
{
	const struct history_record *r = hold->acquire;

	(void)m;
	*state = (struct hold){
		.acquire = r,
		.ops = hold->ops,
		.n_ops = hold->n_ops,
		.track = r->track,
		.token = r->token,
		.start = r->leave,
		.given_up = NEVER,
		.cooled = { NEVER, NEVER },
		.ended = { NEVER, NEVER },
		.death = { NEVER, NEVER },
		.gone = NEVER,
		.exclusive = r->mode == LOCKSHM_EXCLUSIVE,
		.ever_exclusive = r->mode == LOCKSHM_EXCLUSIVE,
		.maybe_exclusive = r->mode == LOCKSHM_EXCLUSIVE,
		.exclusive_from = r->mode == LOCKSHM_EXCLUSIVE ? r->leave : 0,
	};
	/* A hold of a loop is one of the process. */
	if (r->flags & HISTORY_LOOP) {
		state->moved = true;
		state->track = HISTORY_NO_TRACK;
	}
	set_lease(state, lease_from(r), r->leave, r->ns);
}

/* It never came back: anything from nothing to all of it may have happened. */
static void step_unfinished(struct hold *s, const struct history_record *op)
{
	switch (op->op) {
	case HISTORY_RELEASE:
		s->given_up = earlier(s->given_up, op->enter);
		break;
	case HISTORY_RENEW:
		s->deadline.lo = earlier(s->deadline.lo, after(op->enter, op->ns));
		s->deadline.hi = NEVER;
		break;
	case HISTORY_UPGRADE:
		s->ever_exclusive = s->maybe_exclusive = true;
		break;
	case HISTORY_DOWNGRADE:
		s->exclusive = false;
		break;
	case HISTORY_MOVE:
		s->unsure_life = true;
		break;
	default:
		break;
	}
}

static void step_renewed(struct hold *s, const struct history_record *op)
{
	if (!op->mode) {
		set_lease(s, op->enter, op->leave, op->ns);
		return;
	}
	s->deadline.lo = after(s->deadline.lo, op->ns);
	s->deadline.hi = after(s->deadline.hi, op->ns);
}

/* The remaining time, read at some moment of the call, bounds the end of the lease. */
static void step_checked(struct hold *s, const struct history_record *op)
{
	if (op->ns <= 0 || op->ns == LOCKSHM_FOREVER)
		return;
	s->deadline.lo = later(s->deadline.lo, op->enter + op->ns);
	if (!auto_renews(s))
		s->deadline.hi = earlier(s->deadline.hi, op->leave + op->ns);
}

static void step_done(struct hold *s, const struct history_record *op)
{
	switch (op->op) {
	case HISTORY_RELEASE:
		s->released = true;
		s->given_up = op->enter;
		s->gone = after(op->leave, op->ns);
		if (op->ns)
			s->cooled = (struct bounds){ op->enter + op->ns, op->leave + op->ns };
		break;
	case HISTORY_RENEW:
		step_renewed(s, op);
		break;
	case HISTORY_CHECK:
		step_checked(s, op);
		break;
	case HISTORY_UPGRADE:
		s->token = op->token;
		if (!s->exclusive)
			s->exclusive_from = op->leave;
		s->exclusive = s->ever_exclusive = s->maybe_exclusive = true;
		break;
	case HISTORY_DOWNGRADE:
		s->exclusive = s->maybe_exclusive = false;
		break;
	case HISTORY_MOVE:
		s->moved = true;
		s->track = op->mode == LOCKSHM_TO_PROCESS ? HISTORY_NO_TRACK : op->track;
		break;
	default:
		break;
	}
}

/* A move returns FULL before it checks the hold. */
static bool says_held(const struct history_record *op)
{
	return op->outcome == LOCKSHM_OK || op->outcome == LOCKSHM_LATE || op->outcome == LOCKSHM_BUSY;
}

void hold_step(struct hold *s, const struct history_record *op)
{
	if (!op->leave || op->flags & HISTORY_WORST) {
		step_unfinished(s, op);
		if (op->leave)
			s->gone = earlier(s->gone, op->leave);
		return;
	}
	/* Ended in the midst of an upgrade, when it may have been exclusive already. */
	if (op->outcome == LOCKSHM_LOST && op->op == HISTORY_UPGRADE)
		s->maybe_exclusive = true;
	/* Ended in the midst of a move: it may have had the new owner already. */
	if (op->outcome == LOCKSHM_LOST && op->op == HISTORY_MOVE)
		s->moved = true;
	if (op->outcome == LOCKSHM_LOST && !s->lost) {
		s->lost = op;
		s->gone = earlier(s->gone, op->leave);
	}
	if (!says_held(op))
		return;
	s->kept = later(s->kept, op->enter);
	if (op->outcome == LOCKSHM_OK || op->outcome == LOCKSHM_LATE)
		step_done(s, op);
	else if (op->op == HISTORY_UPGRADE)
		s->ever_exclusive = true; /* for a moment, between its two steps */
}

/* ---------------------------------------------------------------- the whole */

/* Closing a handle ends the thread's part.  The service thread, which stands for the process, ends with the last one. */
static void consider_closes(const struct model *m, const struct hold *s, struct bounds *death)
{
	const struct history_track *tracks = m->h->header->tracks, *mine = &tracks[s->acquire->track];
	uint32_t i;

	for (i = 0; i < m->closes.n; i++) {
		const struct history_record *r = m->closes.list[i];
		bool same = s->track == r->track;

		if (s->track == HISTORY_NO_TRACK)
			same = tracks[r->track].process == mine->process && tracks[r->track].image == mine->image;
		if (!same || r->realm != s->acquire->realm || r->enter < s->acquire->enter)
			continue;
		death->lo = earlier(death->lo, r->enter);
		if (s->track != HISTORY_NO_TRACK)
			death->hi = earlier(death->hi, r->leave ? r->leave : NEVER);
	}
}

static void consider_death(const struct model *m, struct hold *s)
{
	const struct bounds *image = &m->image_death[s->acquire->track];
	struct bounds death = s->track == HISTORY_NO_TRACK ? *image : m->track_death[s->track];

	/* Any thread of the process, or the process: the first of them, or the last. */
	if (s->unsure_life)
		death = (struct bounds){ earlier(death.lo, m->track_death[s->acquire->track].lo), image->hi };
	consider_closes(m, s, &death);
	if (!s->released && !s->lost)
		s->death = death;
	/* An owner replaced by exec is found by the self-check of a waiter, but not by every try. */
	if (s->cooled.hi == NEVER && !(s->track != HISTORY_NO_TRACK && m->track_execs[s->track]))
		s->gone = earlier(s->gone, death.hi);
}

static void add_span(struct model *m, struct hold *s, int64_t from, int64_t to, uint64_t token, bool exclusive)
{
	if (to < from)
		return;
	if (m->n_spans == m->cap_spans) {
		m->cap_spans = m->cap_spans ? m->cap_spans * 2 : 1024;
		m->spans = model_must(realloc(m->spans, m->cap_spans * sizeof(*m->spans)));
	}
	m->spans[m->n_spans++] = (struct span){ from, to, token, (uint32_t)(s - m->holds), exclusive };
}

void model_evaluate_hold(struct model *m, struct hold *hold)
{
	struct bounds ended = hold->ended;
	struct hold s;
	uint32_t i;

	hold_begin(m, &s, hold);
	s.ended = ended;
	for (i = 0; i < s.n_ops; i++) {
		bool exclusive = s.exclusive;

		hold_step(&s, s.ops[i]);
		if (exclusive && !s.exclusive)
			add_span(m, hold, s.exclusive_from, s.ops[i]->enter, s.token, true);
	}
	consider_death(m, &s);
	s.end = earlier(earlier(s.deadline.lo, s.given_up), earlier(s.death.lo, s.ended.lo));
	s.end = later(s.end, s.kept);
	if (s.cooled.lo != NEVER)
		s.end = later(s.end, earlier(s.cooled.lo, s.ended.lo));
	else
		s.gone = earlier(s.gone, s.deadline.hi);
	s.gone = earlier(s.gone, s.ended.hi);
	*hold = s;
	if (s.exclusive)
		add_span(m, hold, s.exclusive_from, s.end, s.token, true);
	add_span(m, hold, s.start, s.end, s.acquire->token, false);
}

/* ---------------------------------------------------------------- tokens */

static int by_token(const void *a, const void *b)
{
	const struct token *x = a, *y = b;

	if (x->token != y->token)
		return x->token < y->token ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->realm > y->realm) - (x->realm < y->realm);
}

struct hold *model_find_token(const struct model *m, uint16_t realm, uint32_t key, uint64_t token)
{
	struct token wanted = { .token = token, .key = key, .realm = realm };
	struct token *found = bsearch(&wanted, m->tokens, m->n_tokens, sizeof(wanted), by_token);

	return found ? &m->holds[found->hold] : NULL;
}

static void add_token(struct model *m, uint32_t hold, uint64_t token)
{
	const struct history_record *r = m->holds[hold].acquire;

	m->tokens[m->n_tokens++] = (struct token){ token, r->key, r->realm, hold };
}

static bool gave_token(const struct history_record *op)
{
	return op->op == HISTORY_UPGRADE && op->leave && (op->outcome == LOCKSHM_OK || op->outcome == LOCKSHM_LATE);
}

/* A lockshm_end_hold() that worked, or may have. */
static void note_ended(struct model *m, const struct history_record *r)
{
	struct hold *hold = model_find_token(m, r->realm, r->key, r->token);

	if (!hold || (r->leave && r->outcome != LOCKSHM_OK))
		return;
	hold->ended.lo = earlier(hold->ended.lo, r->enter);
	if (r->leave)
		hold->ended.hi = earlier(hold->ended.hi, r->leave);
}

void model_build_tokens(struct model *m)
{
	uint32_t i, k, n = m->n_holds;

	for (i = 0; i < m->n_holds; i++)
		n += m->holds[i].n_ops;
	m->tokens = model_must(calloc(n ? n : 1, sizeof(*m->tokens)));
	for (i = 0; i < m->n_holds; i++) {
		struct hold *hold = &m->holds[i];

		hold->ended = (struct bounds){ NEVER, NEVER };
		add_token(m, i, hold->acquire->token);
		for (k = 0; k < hold->n_ops; k++)
			if (gave_token(hold->ops[k]) && hold->ops[k]->token != hold->acquire->token)
				add_token(m, i, hold->ops[k]->token);
	}
	qsort(m->tokens, m->n_tokens, sizeof(*m->tokens), by_token);
	for (i = 0; i < m->end_holds.n; i++)
		note_ended(m, m->end_holds.list[i]);
}
