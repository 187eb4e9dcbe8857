/* SPDX-License-Identifier: MIT */
/* global-holds.c - the holds of a history of global keys, from its records; see history/global.h */
#include "global-internal.h"

#include <inttypes.h>

const struct history_record *global_record(const struct global *c, uint32_t i)
{
	const struct history_record *r = &c->h->records[i];

	return __atomic_load_n(&r->op, __ATOMIC_ACQUIRE) == HISTORY_NONE ? NULL : r;
}

uint32_t global_process_of(const struct global *c, const struct history_record *r)
{
	return c->h->header->tracks[r->track].process;
}

static void take_acquire(struct global *c, const struct history_record *r)
{
	c->summary->acquires++;
	if (!r->leave || r->outcome < 0)
		return;
	c->good_of[history_number(c->h, r)] = c->n;
	c->goods[c->n++] = (struct good){ .acquire = r,
					  .asked = r->enter,
					  .token = r->token,
					  .exclusive = r->mode == LOCKSHM_EXCLUSIVE,
					  .start = r->leave,
					  .end = r->leave,
					  .said = r->leave };
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

/*
 * A writer from the grant of its upgrade until the call of its downgrade, and a reader at all other times.
 */
static void change_mode(struct global *c, struct good *before, const struct history_record *r)
{
	bool up = r->op == HISTORY_UPGRADE;
	struct good *g = &c->goods[c->n];

	if (before->over || before->exclusive == up)
		return;
	*g = *before;
	g->exclusive = up;
	g->asked = up ? r->enter : before->asked;
	g->token = r->token;
	g->start = g->end = g->said = up ? r->leave : r->enter;
	c->good_of[r->subject] = c->n++;
	c->summary->changes++;
	end_at(before, r->enter);
}

/* One call on a hold, in order. */
static void take_step(struct global *c, struct good *g, const struct history_record *r)
{
	bool good = r->outcome == LOCKSHM_OK || r->outcome == LOCKSHM_LATE;
	/* Under a shared lease it is invalid. */
	bool refused = r->op == HISTORY_UPGRADE && (r->outcome == LOCKSHM_BUSY || r->outcome == LOCKSHM_INVALID);

	/* From the start of that call on the holder does not rely on it. */
	if (r->op == HISTORY_RELEASE && !r->leave)
		end_at(g, r->enter);
	if (!r->leave) {
		g->midway = r->op != HISTORY_CHECK;
		return;
	}
	if (good && g->lost)
		global_found(c, "regained", g->lost, r, "the hold with token %" PRIu64 " is good again",
			     g->acquire->token);
	if (good && r->enter > g->said)
		g->said = r->enter;
	if (good && r->op == HISTORY_CHECK && r->ns > 0 && r->ns != LOCKSHM_FOREVER)
		g->known = r->enter + r->ns;
	if (r->op == HISTORY_RELEASE)
		end_at(g, r->enter);
	if (r->outcome == LOCKSHM_LOST) {
		end_at(g, r->enter);
		g->lost = g->lost ? g->lost : r;
	} else if (!good && !refused) {
		global_found(c, "code", g->acquire, r, "a call on a hold says %s", lockshm_code_name(r->outcome));
	}
	if (good && (r->op == HISTORY_UPGRADE || r->op == HISTORY_DOWNGRADE))
		change_mode(c, g, r);
}

bool global_is_on_hold(const struct history_record *r)
{
	return r->op == HISTORY_CHECK || r->op == HISTORY_RELEASE || r->op == HISTORY_UPGRADE ||
	       r->op == HISTORY_DOWNGRADE;
}

/* Acquires first: those of a track come before the calls on them; the order between tracks does not matter. */
void global_read(struct global *c)
{
	uint32_t i;

	for (i = 0; i < c->n_records; i++) {
		const struct history_record *r = global_record(c, i);

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
		const struct history_record *r = global_record(c, i);

		if (r && global_is_on_hold(r) && c->good_of[r->subject] != NO_HOLD)
			take_step(c, &c->goods[c->good_of[r->subject]], r);
	}
}

void global_end_killed(struct global *c, struct good *g)
{
	uint32_t i;

	for (i = 0; i < c->n_kills && !g->over; i++)
		if (c->kills[i]->subject == global_process_of(c, g->acquire)) {
			c->summary->killed++;
			g->killed = true;
			end_at(g, c->kills[i]->enter);
		}
	end_at(g, NEVER);
}

void global_cut(struct global *c, struct good *g)
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

static bool between(const struct history_record *r, int64_t from, int64_t to)
{
	return r->enter < to && (!r->leave || r->leave > from);
}

bool global_forgot(const struct global *c, int64_t from, int64_t to)
{
	uint32_t i;

	for (i = 0; i < c->n_faults; i++)
		if (c->faults[i]->mode == FAULT_FORGETS && between(c->faults[i], from, to))
			return true;
	return false;
}

bool global_failed(const struct global *c, int64_t from, int64_t to)
{
	uint32_t i;

	for (i = 0; i < c->n_faults; i++)
		if (between(c->faults[i], from, to))
			return true;
	for (i = 0; i < c->n_disturbed; i++) {
		const struct history_record *d = c->disturbed[i];

		if ((d->op == HISTORY_STARVED || d->subject == HISTORY_A_BRIDGE) && between(d, from, to))
			return true;
	}
	return false;
}
