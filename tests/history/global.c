/* SPDX-License-Identifier: MIT */
/* global.c - the checker of histories of global keys, see history/global.h */
#include "global-internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void global_found(struct global *c, const char *property, const struct history_record *a,
		  const struct history_record *b, const char *format, ...)
{
	const struct history_record *both[2] = { a, b };
	char text[2048];
	va_list args;
	size_t n, i;

	c->problems++;
	va_start(args, format);
	n = (size_t)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (i = 0; i < 2; i++) {
		if (!both[i] || n + 6 > sizeof(text))
			continue;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\n    ");
		n += history_print_record(c->h, both[i], c->origin, text + n, sizeof(text) - n);
	}
	if (c->fn)
		c->fn(property, text, c->arg);
}

/* ---------------------------------------------------------------- exclusion, tokens */

static int by_lock(const struct history_record *a, const struct history_record *b)
{
	return (a->key > b->key) - (a->key < b->key);
}

static int by_start(const void *a, const void *b)
{
	const struct good *x = a, *y = b;
	int d = by_lock(x->acquire, y->acquire);

	return d ? d : (x->start > y->start) - (x->start < y->start);
}

static int by_token(const void *a, const void *b)
{
	const struct good *x = *(const struct good *const *)a, *y = *(const struct good *const *)b;
	int d = by_lock(x->acquire, y->acquire);

	return d ? d : (x->token > y->token) - (x->token < y->token);
}

static int by_asked(const void *a, const void *b)
{
	const struct good *x = *(const struct good *const *)a, *y = *(const struct good *const *)b;

	return (x->asked > y->asked) - (x->asked < y->asked);
}

/* Holds of one key, in the order of their beginnings. */
static void check_exclusion(struct global *c, const struct good *goods, uint32_t n)
{
	const struct good *furthest[2] = { NULL, NULL }; /* of all, of the exclusive ones */
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct good *g = &goods[i], *other = furthest[!g->exclusive];

		if (g->unsure)
			continue;
		if (other && other->end > g->start + SKEW)
			global_found(c, "exclusion", other->acquire, g->acquire,
				     "key %u: hosts %u and %u had it together, for %.3f ms at least", g->acquire->key,
				     other->acquire->realm, g->acquire->realm,
				     (double)((other->end < g->end ? other->end : g->end) - g->start) / 1e6);
		if (!furthest[0] || g->end > furthest[0]->end)
			furthest[0] = g;
		if (g->exclusive && (!furthest[1] || g->end > furthest[1]->end))
			furthest[1] = g;
	}
}

static const struct good *larger(const struct good *a, const struct good *b)
{
	return a && a->token > b->token ? a : b;
}

/* Likewise; @asked is room for as many. */
static void check_tokens(struct global *c, const struct good *goods, uint32_t n, const struct good **asked)
{
	const struct good *largest[2] = { NULL, NULL };
	uint32_t i, k = 0;

	for (i = 0; i < n; i++)
		asked[i] = &goods[i];
	qsort(asked, n, sizeof(*asked), by_asked);
	for (i = 0; i < n; i++) {
		const struct good *g = asked[i], *other;

		for (; k < n && goods[k].start + SKEW < g->asked; k++) {
			if (goods[k].unsure)
				continue;
			largest[0] = larger(largest[0], &goods[k]);
			if (goods[k].exclusive)
				largest[1] = larger(largest[1], &goods[k]);
		}
		other = largest[!g->exclusive];
		if (!g->unsure && other && g->token < other->token)
			global_found(c, "tokens", other->acquire, g->acquire,
				     "key %u: the later hold has the smaller token, %" PRIu64 " after %" PRIu64, g->acquire->key,
				     g->token, other->token);
	}
	qsort(asked, n, sizeof(*asked), by_token);
	for (i = 1; i < n; i++)
		if (asked[i]->token == asked[i - 1]->token && asked[i]->acquire != asked[i - 1]->acquire)
			global_found(c, "tokens", asked[i - 1]->acquire, asked[i]->acquire, "key %u: a token was given twice",
				     asked[i]->acquire->key);
}

static void check_keys(struct global *c)
{
	const struct good **room = model_room(c->n, sizeof(*room));
	uint32_t i, n;

	qsort(c->goods, c->n, sizeof(*c->goods), by_start);
	for (i = 0; i < c->n; i += n) {
		for (n = 1; i + n < c->n && by_lock(c->goods[i].acquire, c->goods[i + n].acquire) == 0; n++)
			;
		check_exclusion(c, &c->goods[i], n);
		check_tokens(c, &c->goods[i], n, room);
		global_check_damage(c, &c->goods[i], n);
	}
	free(room);
}

/* ---------------------------------------------------------------- away, lost */

static bool concerns(const struct history_record *fault, uint32_t host)
{
	return fault->key >> host & 1;
}

static void check_away(struct global *c, const struct good *g)
{
	uint32_t i;

	for (i = 0; i < c->n_faults; i++) {
		const struct history_record *f = c->faults[i];
		int64_t from = f->deadline + c->terms->ttl_ns + SKEW, to = f->leave ? f->ns : c->last;

		if (f->mode != FAULT_AWAY || !concerns(f, g->acquire->realm) || to <= from)
			continue;
		/* Called before and granted afterwards: the return is later than the grant. */
		if ((g->start > from && g->start < to) || (g->said > from && g->said < to))
			global_found(c, "away", f, g->acquire, "good %.3f ms after the last lease must have ended",
				     (double)((g->said > g->start ? g->said : g->start) - from) / 1e6);
	}
}

/* Was anything wrong with Redis, or the machine, between the two times, or a lease's time before? */
static bool troubled(const struct global *c, uint32_t host, int64_t from, int64_t to)
{
	uint32_t i;

	for (i = 0; i < c->n_faults; i++) {
		const struct history_record *f = c->faults[i];

		if ((f->mode == FAULT_FORGETS || concerns(f, host)) && f->enter < to &&
		    (!f->leave || f->leave + c->terms->ttl_ns > from))
			return true;
	}
	for (i = 0; i < c->n_disturbed; i++) {
		const struct history_record *d = c->disturbed[i];

		if (d->op == HISTORY_STARVED && d->enter < to && d->leave + c->terms->ttl_ns > from)
			return true;
	}
	return false;
}

static void check_lost(struct global *c, const struct good *g)
{
	if (!g->lost)
		return;
	c->summary->lost++;
	if (!troubled(c, g->acquire->realm, g->acquire->enter, g->lost->leave))
		global_found(c, "lost", g->acquire, g->lost, "lost though nothing happened");
}

/* ---------------------------------------------------------------- waits */

static bool was_killed(const struct global *c, const struct history_record *r)
{
	uint32_t i;

	for (i = 0; i < c->n_kills; i++)
		if (c->kills[i]->subject == global_process_of(c, r))
			return true;
	return false;
}

static bool may_say(const struct history_record *r)
{
	return r->outcome >= 0 || r->outcome == LOCKSHM_TIMEOUT || r->outcome == LOCKSHM_BRIDGE ||
	       (r->outcome == LOCKSHM_BUSY && r->flags & HISTORY_TRY);
}

static bool disturbed(const struct global *c, int64_t from, int64_t to)
{
	uint32_t i;

	for (i = 0; i < c->n_disturbed; i++)
		if (c->disturbed[i]->enter < to && c->disturbed[i]->leave > from)
			return true;
	return false;
}

/* No fault, no stopped process. */
static bool all_well(const struct global *c, int64_t from, int64_t to)
{
	uint32_t i;

	for (i = 0; i < c->terms->hosts; i++)
		if (troubled(c, i, from, to))
			return false;
	return !disturbed(c, from, to);
}

/* A call on a hold returns soon, whatever Redis does. */
static void check_answered(struct global *c, const struct history_record *r)
{
	if (!r->leave && !was_killed(c, r))
		global_found(c, "overdue", r, NULL, "never came back");
	else if (r->leave && r->leave - r->enter > HISTORY_PATIENCE && !disturbed(c, r->enter, r->leave))
		global_found(c, "overdue", r, NULL, "took %.0f ms", (double)(r->leave - r->enter) / 1e6);
}

static void check_wait(struct global *c, const struct history_record *r)
{
	int64_t waited = r->leave - r->enter;

	if (!r->leave) {
		if (!was_killed(c, r))
			global_found(c, "overdue", r, NULL, "never came back");
		return;
	}
	if (!may_say(r))
		global_found(c, "code", r, NULL, "an acquire says %s", lockshm_code_name(r->outcome));
	if (r->leave - HISTORY_PATIENCE > r->deadline && !troubled(c, r->realm, r->deadline, r->leave))
		global_found(c, "overdue", r, NULL, "%.0f ms after its time", (double)(r->leave - r->deadline) / 1e6);
	if (waited <= c->summary->worst_wait_ns || !all_well(c, r->enter, r->leave))
		return;
	c->summary->worst_wait_ns = waited;
	if (waited > c->terms->wait_ns)
		global_found(c, "overdue", r, NULL, "waited %.0f ms though nothing was wrong", (double)waited / 1e6);
}

static bool granted_between(const struct global *c, uint32_t host, int64_t from, int64_t to)
{
	uint32_t i;

	for (i = 0; i < c->n; i++)
		if (c->goods[i].acquire->realm == host && c->goods[i].start > from && c->goods[i].start <= to)
			return true;
	return false;
}

/* After each fault that nothing else followed soon. */
static void check_closed(struct global *c)
{
	uint32_t i, k, host;

	for (i = 0; i < c->n_faults; i++) {
		int64_t from = c->faults[i]->leave, to = from + c->terms->closed_ns;
		bool followed = !from || to > c->last;

		for (k = 0; k < c->n_faults; k++)
			followed = followed || (k != i && c->faults[k]->enter < to &&
						(!c->faults[k]->leave || c->faults[k]->leave > from));
		for (host = 0; !followed && host < c->terms->hosts; host++)
			if (!granted_between(c, host, from, to))
				global_found(c, "closed", c->faults[i], NULL, "host %u had no hold for %.0f ms after that",
					     host, (double)c->terms->closed_ns / 1e6);
	}
}

/* ---------------------------------------------------------------- all of it */

static void check_holds(struct global *c)
{
	uint32_t i;

	for (i = 0; i < c->n; i++) {
		global_end_killed(c, &c->goods[i]);
		check_away(c, &c->goods[i]);
		check_lost(c, &c->goods[i]);
		global_cut(c, &c->goods[i]);
	}
	for (i = 0; i < c->n_records; i++) {
		const struct history_record *r = global_record(c, i);

		if (r && r->op == HISTORY_ACQUIRE)
			check_wait(c, r);
		else if (r && global_is_on_hold(r))
			check_answered(c, r);
	}
	for (i = 0; i < c->n_faults; i++)
		c->summary->faults[c->faults[i]->mode % 4]++;
}

int history_check_global(const struct history *h, const struct global_terms *terms, history_problem_fn fn, void *arg,
			 struct global_summary *summary)
{
	uint32_t blocks = h->header->next_block < h->header->blocks ? h->header->next_block : h->header->blocks;
	struct global_summary unused;
	struct global c = { .h = h, .terms = terms, .fn = fn, .arg = arg, .summary = summary ? summary : &unused };

	memset(c.summary, 0, sizeof(*c.summary));
	c.origin = history_origin(h);
	c.n_records = blocks * HISTORY_BLOCK;
	c.good_of = model_room(c.n_records, sizeof(*c.good_of));
	c.goods = model_room(c.n_records, sizeof(*c.goods));
	c.faults = model_room(c.n_records, sizeof(*c.faults));
	c.kills = model_room(c.n_records, sizeof(*c.kills));
	c.disturbed = model_room(c.n_records, sizeof(*c.disturbed));
	global_read(&c);
	check_holds(&c);
	check_keys(&c);
	check_closed(&c);
	free(c.good_of);
	free(c.goods);
	free(c.faults);
	free(c.kills);
	free(c.disturbed);
	return c.problems;
}
