/* SPDX-License-Identifier: MIT */
/* history-global.c - the checker of histories of global keys, see history-global.h */
#include "history-global.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One hold, as far as its holder knows. */
struct good {
	const struct history_record *acquire;
	int64_t start, end; /* end: it was good until here, and may have been longer */
	int64_t said; /* the last time a call said so */
	int64_t known; /* the end that was told last; 0 = none yet */
	const struct history_record *lost;
	bool over; /* given up, lost, killed */
	bool unsure;
};

struct global {
	const struct history *h;
	const struct global_terms *terms;
	history_problem_fn fn;
	void *arg;
	struct global_summary *summary;
	int64_t origin, last;
	uint32_t n_records;
	uint32_t *good_of; /* for each record of an acquire; NO_HOLD = not granted */
	struct good *goods;
	uint32_t n;
	const struct history_record **faults, **kills, **disturbed; /* the last: starved and stopped */
	uint32_t n_faults, n_kills, n_disturbed;
	int problems;
};

static bool exclusive(const struct good *g)
{
	return g->acquire->mode == LOCKSHM_EXCLUSIVE;
}

static void found(struct global *c, const char *property, const struct history_record *a,
		  const struct history_record *b, const char *format, ...) __attribute__((format(printf, 5, 6)));
static void found(struct global *c, const char *property, const struct history_record *a,
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

/* ---------------------------------------------------------------- reading */

static const struct history_record *record(const struct global *c, uint32_t i)
{
	const struct history_record *r = &c->h->records[i];

	return __atomic_load_n(&r->op, __ATOMIC_ACQUIRE) == HISTORY_NONE ? NULL : r;
}

static uint32_t process_of_lane(const struct global *c, const struct history_record *r)
{
	return c->h->header->lanes[r->lane].process;
}

static void take_acquire(struct global *c, const struct history_record *r)
{
	c->summary->acquires++;
	if (!r->leave || r->outcome < 0)
		return;
	c->good_of[history_number(c->h, r)] = c->n;
	c->goods[c->n++] = (struct good){ .acquire = r, .start = r->leave, .end = r->leave, .said = r->leave };
	c->summary->granted++;
	c->summary->shared += r->mode == LOCKSHM_SHARED;
	c->summary->by_host[r->realm % 32]++;
}

static void end_at(struct good *g, int64_t when)
{
	int64_t known = g->known < when ? g->known : when;

	if (g->over)
		return;
	g->over = true;
	g->end = known > g->said ? known : g->said;
}

/* One call on a hold, in order. */
static void take_step(struct global *c, struct good *g, const struct history_record *r)
{
	bool good = r->outcome == LOCKSHM_OK || r->outcome == LOCKSHM_LATE;

	/* From its beginning on the holder does not count on it. */
	if (r->op == HISTORY_RELEASE && !r->leave)
		end_at(g, r->enter);
	if (!r->leave)
		return;
	if (good && g->lost)
		found(c, "regained", g->lost, r, "the hold with token %" PRIu64 " is good again", g->acquire->token);
	if (good && r->enter > g->said)
		g->said = r->enter;
	if (good && r->op == HISTORY_CHECK && r->ns > 0 && r->ns != LOCKSHM_FOREVER)
		g->known = r->enter + r->ns;
	if (r->op == HISTORY_RELEASE)
		end_at(g, r->enter);
	if (r->outcome == LOCKSHM_LOST) {
		end_at(g, r->enter);
		g->lost = g->lost ? g->lost : r;
	} else if (!good) {
		found(c, "code", g->acquire, r, "a call on a hold says %s", lockshm_code_name(r->outcome));
	}
}

/* Acquires first: those of a lane stand before the calls on them, but others' do not matter. */
static void read_all(struct global *c)
{
	uint32_t i;

	for (i = 0; i < c->n_records; i++) {
		const struct history_record *r = record(c, i);

		c->good_of[i] = NO_HOLD;
		if (!r)
			continue;
		c->last = r->enter > c->last ? r->enter : c->last;
		if (r->op == HISTORY_ACQUIRE)
			take_acquire(c, r);
		else if (r->op == HISTORY_FAULT)
			c->faults[c->n_faults++] = r;
		else if (r->op == HISTORY_KILL)
			c->kills[c->n_kills++] = r;
		else if (r->op == HISTORY_STARVED || r->op == HISTORY_STOP)
			c->disturbed[c->n_disturbed++] = r;
	}
	for (i = 0; i < c->n_records; i++) {
		const struct history_record *r = record(c, i);

		if (r && (r->op == HISTORY_CHECK || r->op == HISTORY_RELEASE) && c->good_of[r->subject] != NO_HOLD)
			take_step(c, &c->goods[c->good_of[r->subject]], r);
	}
}

static void end_killed(struct global *c, struct good *g)
{
	uint32_t i;

	for (i = 0; i < c->n_kills && !g->over; i++)
		if (c->kills[i]->subject == process_of_lane(c, g->acquire)) {
			c->summary->killed++;
			end_at(g, c->kills[i]->enter);
		}
	end_at(g, NEVER);
}

/* What Redis forgot may be taken, and whoever had it learns that in a while: by his lease's end at the latest. */
static void cut(struct global *c, struct good *g)
{
	uint32_t i;

	for (i = 0; i < c->n_faults; i++) {
		const struct history_record *f = c->faults[i];

		if (f->mode != FAULT_FORGETS)
			continue;
		if (g->start >= f->enter && (!f->leave || g->start <= f->leave + c->terms->ttl_ns))
			g->unsure = true;
		if (g->start < f->enter && g->end > f->enter)
			g->end = f->enter;
	}
	c->summary->unsure += g->unsure;
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

	return d ? d : (x->acquire->token > y->acquire->token) - (x->acquire->token < y->acquire->token);
}

static int by_asked(const void *a, const void *b)
{
	const struct good *x = *(const struct good *const *)a, *y = *(const struct good *const *)b;

	return (x->acquire->enter > y->acquire->enter) - (x->acquire->enter < y->acquire->enter);
}

/* Holds of one key, in the order of their beginnings. */
static void check_exclusion(struct global *c, const struct good *goods, uint32_t n)
{
	const struct good *furthest[2] = { NULL, NULL }; /* of all, of the exclusive ones */
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct good *g = &goods[i], *other = furthest[!exclusive(g)];

		if (g->unsure)
			continue;
		if (other && other->end > g->start + SKEW)
			found(c, "exclusion", other->acquire, g->acquire,
			      "key %u: hosts %u and %u had it together, for %.3f ms at least", g->acquire->key,
			      other->acquire->realm, g->acquire->realm,
			      (double)((other->end < g->end ? other->end : g->end) - g->start) / 1e6);
		if (!furthest[0] || g->end > furthest[0]->end)
			furthest[0] = g;
		if (exclusive(g) && (!furthest[1] || g->end > furthest[1]->end))
			furthest[1] = g;
	}
}

static const struct good *larger(const struct good *a, const struct good *b)
{
	return a && a->acquire->token > b->acquire->token ? a : b;
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

		for (; k < n && goods[k].start + SKEW < g->acquire->enter; k++) {
			if (goods[k].unsure)
				continue;
			largest[0] = larger(largest[0], &goods[k]);
			if (exclusive(&goods[k]))
				largest[1] = larger(largest[1], &goods[k]);
		}
		other = largest[!exclusive(g)];
		if (!g->unsure && other && g->acquire->token < other->acquire->token)
			found(c, "tokens", other->acquire, g->acquire, "key %u: the later hold has the smaller token",
			      g->acquire->key);
	}
	qsort(asked, n, sizeof(*asked), by_token);
	for (i = 1; i < n; i++)
		if (asked[i]->acquire->token == asked[i - 1]->acquire->token)
			found(c, "tokens", asked[i - 1]->acquire, asked[i]->acquire, "key %u: a token was given twice",
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
		/* Begun before and given afterwards: the answer is later than what it was about. */
		if ((g->start > from && g->start < to) || (g->said > from && g->said < to))
			found(c, "away", f, g->acquire, "good %.3f ms after the last lease must have ended",
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
		found(c, "lost", g->acquire, g->lost, "lost though nothing happened");
}

/* ---------------------------------------------------------------- waits */

static bool was_killed(const struct global *c, const struct history_record *r)
{
	uint32_t i;

	for (i = 0; i < c->n_kills; i++)
		if (c->kills[i]->subject == process_of_lane(c, r))
			return true;
	return false;
}

static bool may_say(const struct history_record *r)
{
	return r->outcome >= 0 || r->outcome == LOCKSHM_TIMEOUT || r->outcome == LOCKSHM_BRIDGE ||
	       (r->outcome == LOCKSHM_BUSY && r->flags & HISTORY_TRY);
}

/* Nothing wrong anywhere, nobody stopped. */
static bool all_well(const struct global *c, int64_t from, int64_t to)
{
	uint32_t i;

	for (i = 0; i < c->terms->hosts; i++)
		if (troubled(c, i, from, to))
			return false;
	for (i = 0; i < c->n_disturbed; i++)
		if (c->disturbed[i]->enter < to && c->disturbed[i]->leave > from)
			return false;
	return true;
}

static void check_wait(struct global *c, const struct history_record *r)
{
	int64_t waited = r->leave - r->enter;

	if (!r->leave) {
		if (!was_killed(c, r))
			found(c, "overdue", r, NULL, "never came back");
		return;
	}
	if (!may_say(r))
		found(c, "code", r, NULL, "an acquire says %s", lockshm_code_name(r->outcome));
	if (r->leave - HISTORY_PATIENCE > r->deadline && !troubled(c, r->realm, r->deadline, r->leave))
		found(c, "overdue", r, NULL, "%.0f ms after its time", (double)(r->leave - r->deadline) / 1e6);
	if (waited <= c->summary->worst_wait_ns || !all_well(c, r->enter, r->leave))
		return;
	c->summary->worst_wait_ns = waited;
	if (waited > c->terms->wait_ns)
		found(c, "overdue", r, NULL, "waited %.0f ms though nothing was wrong", (double)waited / 1e6);
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
				found(c, "closed", c->faults[i], NULL, "host %u had no hold for %.0f ms after that",
				      host, (double)c->terms->closed_ns / 1e6);
	}
}

/* ---------------------------------------------------------------- all of it */

static void check_holds(struct global *c)
{
	uint32_t i;

	for (i = 0; i < c->n; i++) {
		end_killed(c, &c->goods[i]);
		check_away(c, &c->goods[i]);
		check_lost(c, &c->goods[i]);
		cut(c, &c->goods[i]);
	}
	for (i = 0; i < c->n_records; i++) {
		const struct history_record *r = record(c, i);

		if (r && r->op == HISTORY_ACQUIRE)
			check_wait(c, r);
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
	read_all(&c);
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
