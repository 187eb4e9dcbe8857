/* SPDX-License-Identifier: MIT */
/*
 * global-damage.c - was each robust request told of the writers that ended badly before it, and of no others?
 *
 * Of the damages of a key the last one is kept, until a robust request that was told of it acknowledges at once.
 */
#include "global-internal.h"

/* What is known of one key, up to a point of its history. */
struct damage {
	const struct good *sure; /* a writer that certainly was inside when it died, or lost the lock */
	bool possible; /* there may have been one */
	int64_t whole, before; /* the last two acknowledgements */
};

static bool robust(const struct good *g)
{
	return g->acquire->flags & HISTORY_ROBUST;
}

static bool told(const struct good *g)
{
	return g->acquire->outcome == LOCKSHM_OWNER_DIED || g->acquire->outcome == LOCKSHM_TOOK_OVER_EXPIRED;
}

/* A later call found the hold good, so it was not granted to another before its acquire returned. */
static bool certain(const struct good *g)
{
	return g->said > g->start;
}

static void ended(struct damage *d, const struct good *g)
{
	if (!g->exclusive || !(g->killed || g->lost))
		return;
	d->possible = true;
	if (robust(g) && certain(g) && !g->midway)
		d->sure = g;
}

static bool was_killed_after(const struct global *c, const struct history_record *r, int64_t from)
{
	uint32_t i;

	for (i = 0; i < c->n_kills; i++)
		if (c->kills[i]->subject == global_process_of(c, r))
			return c->kills[i]->leave > from;
	return true;
}

/* An acquire that never returned may have been inside for an instant, at its end. */
static bool one_may_have_entered(const struct global *c, const struct good *g, int64_t from)
{
	uint32_t i;

	for (i = 0; i < c->n_records; i++) {
		const struct history_record *r = global_record(c, i);

		if (r && r->op == HISTORY_ACQUIRE && !r->leave && r->key == g->acquire->key && r->enter < g->start &&
		    was_killed_after(c, r, from))
			return true;
	}
	return false;
}

static void check_told(struct global *c, const struct damage *d, const struct good *g)
{
	int64_t from = d->before - c->terms->ttl_ns;

	c->summary->told += told(g);
	if (d->sure && !told(g) && certain(g) && !global_forgot(c, d->sure->asked - c->terms->ttl_ns, g->start))
		global_found(c, "untold", d->sure->acquire, g->acquire, "key %u: the second was not told of the first",
			     g->acquire->key);
	if (told(g) && !d->possible && !one_may_have_entered(c, g, d->whole) && !global_failed(c, from, g->start))
		global_found(c, "false alarm", g->acquire, NULL, "key %u: no holder ended badly", g->acquire->key);
}

/* Holds of one key, in the order of their beginnings. */
void global_check_damage(struct global *c, const struct good *goods, uint32_t n)
{
	struct damage d = { .whole = c->origin, .before = c->origin };
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct good *g = &goods[i];

		if (robust(g) && g->start == g->acquire->leave) {
			check_told(c, &d, g);
			if (told(g) && g->acquire->flags & HISTORY_ACK_AT_ONCE)
				d = (struct damage){ .whole = g->start, .before = d.whole };
		}
		ended(&d, g);
	}
}
