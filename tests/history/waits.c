/* SPDX-License-Identifier: MIT */
/* waits.c - is every wait bounded and justified?  See history/check.h */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAL LOCKSHM_MS(300) /* after a kill or stop self-checks may still have something to do */
#define LATE LOCKSHM_MS(60) /* a self-check comes after 100 ms */
#define LONG_LEASE LOCKSHM_MS(400) /* or after a quarter of the lease */
#define LOOK_BACK 4096 /* attempts on one key that are looked through for one waiter */

/* ---------------------------------------------------------------- holders and waiters */

/* Index after the last attempt that began by @t. */
static uint32_t begun_by(const struct key *key, int64_t t)
{
	uint32_t lo = 0, hi = key->n_attempts;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (key->attempts[mid].lo <= t)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool waits_during(const struct attempt *a, int64_t from)
{
	return !a->acquire->leave || a->acquire->leave >= from - SKEW;
}

bool anybody_there(const struct check *c, const struct key *key, int64_t from, int64_t to, bool exclusive,
		   const struct history_record *self)
{
	uint32_t i;

	(void)c;
	for (i = begun_by(key, to + SKEW); i-- > 0 && key->busy_until[0][i] >= from - SKEW;) {
		const struct attempt *a = &key->attempts[i];

		if (a->acquire == self || !a->leaves_trace || a->hi < from - SKEW)
			continue;
		/* A shared request that arrives may wait behind one that has left since. */
		if (exclusive || a->exclusive || waits_during(a, from))
			return true;
	}
	return false;
}

/* ---------------------------------------------------------------- ready, and then? */

static bool is_before(const struct attempt *a, const struct attempt *w)
{
	/* All its tokens are larger. */
	if (a->first_token && w->token && a->first_token > w->token)
		return false;
	/* A request at the end of the queue again was before @w as long as its first grant lasted. */
	if (a->token && w->token && !a->may_requeue)
		return a->token < w->token;
	return a->lo <= w->queued;
}

/*
 * From when on certainly no conflicting request was queued before @w; NEVER = unknown.  @last: the hold that ended
 * last, NULL if it was not a hold.
 */
static int64_t ready_from(const struct check *c, const struct key *key, const struct attempt *w,
			  const struct hold **last)
{
	int64_t leave = w->acquire->leave, ready = w->lo;
	uint32_t i, end = begun_by(key, leave), n = 0;

	*last = NULL;
	for (i = end; i-- > 0 && key->busy_until[w->exclusive ? 0 : 1][i] > ready; n++) {
		const struct attempt *a = &key->attempts[i];

		if (n == LOOK_BACK)
			return NEVER;
		if (a == w || !a->leaves_trace || a->hi <= ready || !is_before(a, w) || !(w->exclusive || a->exclusive))
			continue;
		if (a->hi >= leave)
			return NEVER;
		ready = a->hi;
		*last = a->hold == NO_HOLD ? NULL : &c->m.holds[a->hold];
	}
	return ready;
}

/* Until @t or later a loop's thread did something else than to wait for outcomes. */
static int64_t not_before_polled(const struct history_record *r, int64_t t)
{
	if (!is_loop_wait(r) || t == NEVER)
		return t;
	if (!r->other)
		return r->leave ? r->leave : NEVER;
	return (int64_t)r->other > t ? (int64_t)r->other : t;
}

static int64_t excused(const struct check *c, const struct history_record *r, int64_t from, int64_t to)
{
	int64_t starved = model_starved(&c->m, from, to);

	return model_stopped(&c->m, model_process(&c->m, r), from, to) +
	       (starved > r->run_delay_ns ? starved : r->run_delay_ns);
}

/* Released in good order, and nothing else: then the release has woken the next waiter. */
static bool ended_by_release(const struct hold *last)
{
	return last && last->released && last->cooled.hi == NEVER && last->gone == last->ops[last->n_ops - 1]->leave;
}

static void look_at_wake(struct check *c, const struct history_record *r, int64_t ready, int64_t late)
{
	if (r->outcome < 0 || r->slept_ns == 0 || r->ns < LONG_LEASE || !model_is_calm(&c->m, ready, r->leave, HEAL) ||
	    model_starved(&c->m, ready, r->leave) > 0)
		return;
	c->summary->calm_waits++;
	c->summary->calm_late += late > LATE;
}

static void check_stuck(struct check *c, const struct key *key, const struct attempt *w)
{
	const struct history_record *r = w->acquire;
	const struct hold *last;
	int64_t ready, late;

	if (!r->leave || r->flags & (HISTORY_TRY | HISTORY_MANY | HISTORY_BOOKED) ||
	    (r->outcome < 0 && r->outcome != LOCKSHM_TIMEOUT))
		return;
	ready = ready_from(c, key, w, &last);
	if (ready == NEVER)
		return;
	ready = not_before_polled(r, ready);
	late = r->leave - ready;
	if (late > LATE / 2)
		late -= excused(c, r, ready, r->leave);
	if (late > c->summary->worst_wait_ns)
		c->summary->worst_wait_ns = late;
	if (late > HISTORY_PATIENCE)
		problem(c, "stuck", last ? last->acquire : NULL, r, "key %u: %.3f ms after the last conflicting hold",
			key->key, (double)late / 1e6);
	if (ended_by_release(last))
		look_at_wake(c, r, ready, late);
}

/* ---------------------------------------------------------------- in time */

/* The first cancel of it. */
static const struct history_record *cancel_of(const struct check *c, const struct history_record *r)
{
	const struct history_record *first = NULL;
	uint32_t i;

	for (i = 0; i < c->m.cancels.n; i++) {
		const struct history_record *cancel = c->m.cancels.list[i];

		/* Of several keys it names the first. */
		if ((cancel->subject == history_number(c->m.h, r) ||
		     (r->flags & HISTORY_MANY && cancel->subject == r->group)) &&
		    (!first || cancel->enter < first->enter))
			first = cancel;
	}
	return first;
}

static void check_end_of_wait(struct check *c, const struct history_record *r)
{
	const struct history_record *cancel;

	if (r->outcome == LOCKSHM_TIMEOUT && r->leave + SKEW < r->deadline)
		problem(c, "early", r, NULL, "%.3f ms before its time", (double)(r->deadline - r->leave) / 1e6);
	if (r->outcome != LOCKSHM_CANCELLED)
		return;
	cancel = cancel_of(c, r);
	if (!cancel || cancel->enter > r->leave + SKEW)
		problem(c, "cancel", r, cancel, "no cancel was called");
}

/* When the call should be over: its deadline, or once it was cancelled. */
static int64_t due(const struct check *c, const struct history_record *r)
{
	int64_t t = r->enter;

	if (r->op != HISTORY_ACQUIRE || r->flags & HISTORY_TRY)
		return t;
	if (r->deadline > t)
		t = r->deadline;
	if (r->outcome == LOCKSHM_CANCELLED) {
		const struct history_record *cancel = cancel_of(c, r);

		if (cancel && cancel->leave && cancel->leave < t)
			t = cancel->leave > r->enter ? cancel->leave : r->enter;
	}
	return t;
}

static void check_overdue(struct check *c, const struct history_record *r)
{
	int64_t from = r->op == HISTORY_ACQUIRE ? not_before_polled(r, due(c, r)) : due(c, r);
	int64_t to = r->leave ? r->leave : c->m.track_death[r->track].lo;

	if (from == NEVER || to == NEVER || to - from <= HISTORY_PATIENCE)
		return;
	if (to - from - excused(c, r, from, to) > HISTORY_PATIENCE)
		problem(c, "overdue", r, NULL, "%s %.3f ms after its time", r->leave ? "came back" : "still not back",
			(double)(to - from) / 1e6);
}

/* ---------------------------------------------------------------- busy */

static void check_busy(struct check *c, const struct key *key, const struct history_record *r)
{
	if (r->outcome == LOCKSHM_BUSY && !(r->flags & HISTORY_MANY) &&
	    !anybody_there(c, key, r->enter, r->leave, r->mode == LOCKSHM_EXCLUSIVE, r))
		problem(c, "busy", r, NULL, "key %u: BUSY though free", key->key);
}

/* ---------------------------------------------------------------- deadlock */

/* Attempts that may have waited, by track; made when the first DEADLOCK is looked at. */
struct waiting {
	const struct history_record **list;
	uint32_t n;
};

static int by_track(const void *x, const void *y)
{
	const struct history_record *a = *(const struct history_record *const *)x;
	const struct history_record *b = *(const struct history_record *const *)y;

	if (a->track != b->track)
		return a->track < b->track ? -1 : 1;
	return a->enter != b->enter ? (a->enter > b->enter) - (a->enter < b->enter) : (a > b) - (a < b);
}

static void list_waiting(const struct check *c, struct waiting *w)
{
	uint32_t i;

	w->n = 0;
	w->list = calloc(c->m.n_attempts + 1, sizeof(*w->list));
	if (!w->list)
		exit(99);
	for (i = 0; i < c->m.n_attempts; i++)
		if (c->m.attempts[i].leaves_trace)
			w->list[w->n++] = c->m.attempts[i].acquire;
	qsort(w->list, w->n, sizeof(*w->list), by_track);
}

static uint32_t first_of_track(const struct waiting *w, uint32_t track)
{
	uint32_t lo = 0, hi = w->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (w->list[mid]->track < track)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct cycle {
	const struct check *c;
	const struct waiting *w;
	uint32_t me;
	int64_t from, to;
	uint8_t *seen; /* tracks */
};

static bool leads_back(struct cycle *y, const struct history_record *r);

/* Does that track own what the search is for, or wait for it? */
static bool track_leads_back(struct cycle *y, uint32_t track)
{
	uint32_t i;

	if (track == y->me)
		return true;
	if (y->seen[track])
		return false;
	y->seen[track] = 1;
	for (i = first_of_track(y->w, track); i < y->w->n && y->w->list[i]->track == track; i++) {
		const struct history_record *r = y->w->list[i];

		if (r->enter <= y->to && (!r->leave || r->leave >= y->from) && leads_back(y, r))
			return true;
	}
	return false;
}

/* The tracks that took the hold over, at any time. */
static bool mover_leads_back(struct cycle *y, const struct hold *hold)
{
	uint32_t i;

	for (i = 0; i < hold->n_ops; i++)
		if (hold->ops[i]->op == HISTORY_MOVE && track_leads_back(y, hold->ops[i]->track))
			return true;
	return false;
}

/* The requests that a waiter may have waited for, and so on. */
static bool leads_back(struct cycle *y, const struct history_record *r)
{
	const struct key *key = find_key(y->c, r->realm, r->key);
	uint32_t i;

	for (i = begun_by(key, y->to); i-- > 0 && key->busy_until[0][i] >= y->from;) {
		const struct attempt *a = &key->attempts[i];
		const struct hold *hold = a->hold == NO_HOLD ? NULL : &y->c->m.holds[a->hold];

		if (a->acquire == r || !a->leaves_trace || a->hi < y->from ||
		    !(a->exclusive || r->mode == LOCKSHM_EXCLUSIVE))
			continue;
		if (track_leads_back(y, a->acquire->track) || (hold && mover_leads_back(y, hold)))
			return true;
	}
	return false;
}

/* For many keys: any of them may be the one that closed it; they are neighbours in the list. */
static bool is_in_cycle(const struct check *c, const struct waiting *w, const struct history_record *r)
{
	struct cycle y = { c, w, r->track, r->enter, r->leave, calloc(c->m.n_tracks + 1, 1) };
	uint32_t i;
	bool found = false;

	if (!y.seen)
		exit(99);
	for (i = first_of_track(w, r->track); i < w->n && w->list[i]->track == r->track; i++)
		if (w->list[i] == r || ((r->flags & HISTORY_MANY) && w->list[i]->group == r->group))
			found = found || leads_back(&y, w->list[i]);
	free(y.seen);
	return found;
}

static void check_deadlock(struct check *c, struct waiting *w, const struct history_record *r)
{
	if (r->outcome != LOCKSHM_DEADLOCK)
		return;
	if (!w->list)
		list_waiting(c, w);
	if (!is_in_cycle(c, w, r))
		problem(c, "deadlock", r, NULL, "key %u: DEADLOCK, but no cycle can have been there", r->key);
}

/* ---------------------------------------------------------------- all */

void check_waits(struct check *c)
{
	struct history_summary *s = c->summary;
	struct waiting waiting = { NULL, 0 };
	uint32_t i, k;

	for (i = 0; i < c->m.n_keys; i++)
		for (k = 0; k < c->m.keys[i].n_attempts; k++) {
			const struct attempt *a = &c->m.keys[i].attempts[k];

			check_stuck(c, &c->m.keys[i], a);
			if (!a->acquire->leave)
				continue;
			check_end_of_wait(c, a->acquire);
			check_busy(c, &c->m.keys[i], a->acquire);
			check_deadlock(c, &waiting, a->acquire);
		}
	for (i = 0; i < c->m.n_records; i++) {
		const struct history_record *r = model_record(&c->m, i);

		if (r && (r->op <= HISTORY_CANCEL || r->op == HISTORY_NEXT || r->op == HISTORY_WITHDRAW))
			check_overdue(c, r);
	}
	if (s->calm_late > 3 && s->calm_late * 200 > s->calm_waits)
		problem(c, "wake", NULL, NULL, "%" PRIu64 " of %" PRIu64 " waiters in calm times woke up late",
			s->calm_late, s->calm_waits);
	free(waiting.list);
}
