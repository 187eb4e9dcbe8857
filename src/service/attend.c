/* SPDX-License-Identifier: MIT */
/*
 * attend.c - what the service thread does for the waits of loops between two sleeps
 *
 * It answers the doorbell, looks whether watched owners have died, ends waits whose time has come, and looks at the first
 * wait of each line that something has changed for.  Walks and system calls are made with the lock given back; what they
 * were about is looked for again afterwards.
 */
#include "service/tend.h"

#include "lock/blocker.h"
#include "sys/futex.h"
#include "sys/min.h"

#define BLIND_NS LOCKSHM_MS(10) /* where a death does not wake this thread */
#define IDLE_NS LOCKSHM_SECONDS(5) /* without waits */
#define PROBES 64		/* owners in one look at /proc */
#define ENDS_A_TURN 500		/* waits whose time has come */

struct seen_blocker {
	const struct shm_entry *entry;
	int64_t at;
	struct lockshm_blocker blocker;
};

static struct wait_terms terms_of(const struct waits *all, const struct wait *w)
{
	return (struct wait_terms){
		.entry = &all->s->entries[w->entry],
		.index = w->index,
		.gen = w->grant.gen,
		.canceller = w->request.canceller,
	};
}

/* ---------------------------------------------------------------- doorbells and deaths */

#define ENDED 16

/* Waits that another thread ended: a canceller, or the end of an uncollected lease. */
struct answer {
	struct waits *all;
	unsigned n;
	struct wait_terms ended[ENDED];
};

static void look_at(struct answer *a, struct wait *w)
{
	if (!waits_look(a->all, w)) {
		if (line_first(w->line) == w)
			line_to_view(a->all, w->line);
	} else if (w->status != 0 && a->n < ENDED) {
		a->ended[a->n++] = terms_of(a->all, w);
	}
}

/* Of tended holds those that may be lost. */
static void look_at_tended(struct waits *all, uint32_t class)
{
	struct lockshm *s = all->s;
	uint64_t use;
	uint32_t i;

	for (i = class ? class : DOORBELL_CLASSES; i <= s->n_requests; i += DOORBELL_CLASSES)
		if (load_relaxed(&tend_of(s, i)->use) != 0 && tend_is_lost(s, i, &use))
			waits_list_loss(all, i);
}

static void look_at_class(void *arg, uint32_t class)
{
	struct answer *a = arg;
	struct wait *w, *next;

	look_at_tended(a->all, class);

	cds_list_for_each_entry_safe(w, next, &a->all->near[class], near)
		if (w->line)
			look_at(a, w);
}

/* The requests behind those may be due.  More than fit are found by the self-checks of the waits behind them. */
static void grant_behind(struct lockshm *s, const struct answer *a)
{
	unsigned i;

	for (i = 0; i < a->n; i++) {
		wait_last_look(a->all->process, &a->ended[i]);
		(void)queue_advance_tail(s, a->ended[i].entry);
	}
}

static bool has_died(const struct waits *all, const struct watched *o)
{
	return load_acquire32(o->life.word) != o->life.value ||
	       load_acquire(&all->s->owners[owner_ref_slot(o->ref)].control) != o->control;
}

/* Lines behind owners that have died are to be looked at.  Up to @most of these owners go to @dead. */
static unsigned notice_deaths(struct waits *all, uint64_t *dead, unsigned most)
{
	struct watched *o;
	struct line *line;
	unsigned n = 0;

	cds_list_for_each_entry(o, &all->watched, node) {
		if (!has_died(all, o))
			continue;
		cds_list_for_each_entry(line, &o->lines, behind)
			line_to_view(all, line);
		if (n < most)
			dead[n++] = o->ref;
	}
	return n;
}

/* ---------------------------------------------------------------- the end of waits */

/* What is in the way of many waits that end at once is looked for once: a walk of the queue each would be quadratic. */
static void find_blocker(struct lockshm *s, const struct wait_terms *t, struct seen_blocker *seen)
{
	int64_t now = segment_now(s);

	if (seen->entry == t->entry && now - seen->at < LOCKSHM_MS(1) && seen->blocker.state != LOCKSHM_WAITING)
		return;
	seen->entry = t->entry;
	seen->at = now;
	blocker_find(s, (struct qpos){ t->index, load_acquire(&s->requests[t->index].word) }, t->index, &seen->blocker);
}

/* Take @w out of its queue and decide it; it may have been granted, or cancelled, at this moment. */
static void end_wait(struct waits *all, struct wait *w, int status, struct seen_blocker *seen)
{
	struct wait_terms t = terms_of(all, w);
	bool left, report = w->report && status == LOCKSHM_TIMEOUT;

	timer_end(&all->of_waits, &w->timer);
	waits_unlock(all);
	if (status == LOCKSHM_TIMEOUT)
		wait_last_look(all->process, &t);
	if (report)
		find_blocker(all->s, &t, seen);
	left = wait_abandon(all->s, &t);
	waits_lock(all);
	w = waits_find(all, t.index, t.gen);
	if (!w || !w->line)
		return;
	if (report)
		w->blocker = seen->blocker;
	if (left)
		waits_decide(all, w, status);
	else
		(void)waits_look(all, w);
}

/* Some of those whose time has come: renewals are due meanwhile.  False = there are more. */
static bool end_in_time(struct waits *all, int64_t now)
{
	struct seen_blocker seen = { 0 };
	struct timer *t;
	int n;

	for (n = 0; (t = all->of_waits.first) != NULL && t->at <= now; n++) {
		struct wait *w = caa_container_of(t, struct wait, timer);

		if (n == ENDS_A_TURN)
			return false;
		if (w->line)
			end_wait(all, w, LOCKSHM_TIMEOUT, &seen);
		else
			waits_look_for_lease(all, w);
	}
	return true;
}

/* Those whose lease has woken its waiters; @each: all of them, for what wakes none. */
static void look_for_leases(struct waits *all, bool each)
{
	struct wait_lease *l, *next;
	struct futex_watch watch;

	all->round.looked = false;
	cds_list_for_each_entry_safe(l, next, &all->for_lease, of_all) {
		watch = lease_wait_watch(&l->g);
		if (each || load_acquire32(watch.word) != watch.value)
			waits_look_for_lease(all, l->of);
	}
}

/* The segment was removed. */
static void end_all(struct waits *all)
{
	struct line *line, *next;
	struct wait *w;
	unsigned i;

	for (i = 0; i < LINES_NEAR; i++)
		while (!cds_list_empty(&all->lines[i])) {
			line = cds_list_first_entry(&all->lines[i], struct line, near);
			w = line_first(line);
			if (w)
				end_wait(all, w, LOCKSHM_NO_SEGMENT, NULL);
			else
				line_drop_if_empty(all, line);
		}
	cds_list_for_each_entry_safe(line, next, &all->to_view, to_view)
		cds_list_del_init(&line->to_view);
}

/* ---------------------------------------------------------------- lines */

static bool is_wait(const struct wait *w, const struct wait_terms *t)
{
	return w && w->index == t->index && w->grant.gen == t->gen;
}

/* Look at the first wait of @line. */
static void view(struct waits *all, struct line *line)
{
	struct wait *w = line_first(line);
	bool walk = segment_now(all->s) >= line->walk_at;
	uint32_t qpos = line->qpos;
	struct wait_view v;
	struct wait_terms t;
	int result;

	cds_list_del_init(&line->to_view);
	if (!w)
		return;
	t = terms_of(all, w);
	line->busy = true;
	waits_unlock(all);
	if (walk)
		wait_walk(all->s, &t, &qpos);
	result = wait_view(all->s, &t, &v);
	waits_lock(all);
	line->busy = false;
	line->qpos = qpos;
	if (walk)
		line_set_walk(all, line);
	w = line_first(line);
	if (!w)
		line_drop_if_empty(all, line);
	else if (!is_wait(w, &t) || (result == WAIT_OVER && !waits_look(all, w)))
		line_to_view(all, line);
	else if (result == 0)
		line_set_view(all, line, &v);
	else if (result < 0)
		end_wait(all, w, result, NULL);
}

static void view_all(struct waits *all, int64_t now)
{
	struct timer *t;

	while ((t = all->of_lines.first) != NULL && t->at <= now) {
		timer_end(&all->of_lines, t);
		line_to_view(all, caa_container_of(t, struct line, timer));
	}
	while (!cds_list_empty(&all->to_view))
		view(all, cds_list_first_entry(&all->to_view, struct line, to_view));
}

/* ---------------------------------------------------------------- self-check */

/* Owners whose death the kernel has not reported, and the file.  As each waiting thread does, for all waits at once. */
static void self_check(struct waits *all, int64_t now)
{
	uint64_t refs[PROBES];
	struct watched *o;
	unsigned i, n = 0;

	all->probe_at = waits_tick(now, wait_walk_every(0));
	cds_list_for_each_entry(o, &all->watched, node)
		if (n < PROBES)
			refs[n++] = o->ref;
	/* The next ones at the next time. */
	if (n == PROBES) {
		struct cds_list_head *first = all->watched.next;

		for (i = 0; i < PROBES; i++, first = all->watched.next) {
			cds_list_del(first);
			cds_list_add_tail(first, &all->watched);
		}
	}
	waits_unlock(all);
	for (i = 0; i < n; i++)
		owner_probe(all->s, refs[i]);
	(void)segment_is_gone(all->s);
	waits_lock(all);
}

/* ---------------------------------------------------------------- between two sleeps */

/*
 * Once more after the last wait has gone: the next one, which most likely comes soon, need not wake this thread.  Then
 * seldom: in a damaged segment the doorbell may get back the value that this thread sleeps on, and the ring of the next
 * wait is lost.
 */
static int64_t next_time(const struct waits *all)
{
	int64_t now = segment_now(all->s), at = waits_any(all) || all->probe_at > now ? all->probe_at : now + IDLE_NS;

	if (all->of_waits.first)
		at = min64(at, all->of_waits.first->at);
	if (all->of_lines.first)
		at = min64(at, all->of_lines.first->at);
	return at;
}

static bool is_watched(const struct futex_watch *watches, unsigned n, const uint32_t *word)
{
	while (n-- > 0)
		if (watches[n].word == word)
			return true;
	return false;
}

/* False = there is no room for all. */
static bool watch_leases(const struct waits *all, struct futex_watch *watches, unsigned *n)
{
	const struct wait_lease *l;
	unsigned first = *n;

	cds_list_for_each_entry(l, &all->for_lease, of_all) {
		struct futex_watch watch = lease_wait_watch(&l->g);

		if (is_watched(watches + first, *n - first, watch.word))
			continue;
		if (*n == FUTEX_WATCH_MOST || !futex_has_waitv())
			return false;
		watches[(*n)++] = watch;
	}
	return true;
}

static int64_t add_watches(struct waits *all, struct futex_watch *watches, unsigned *n)
{
	struct watched *o;

	cds_list_for_each_entry(o, &all->watched, node) {
		if (*n == FUTEX_WATCH_MOST || !futex_has_waitv())
			return min64(next_time(all), segment_now(all->s) + BLIND_NS);
		watches[(*n)++] = o->life;
	}
	return watch_leases(all, watches, n) ? next_time(all) : min64(next_time(all), segment_now(all->s) + BLIND_NS);
}

int64_t waits_attend(struct waits *all, struct futex_watch *watches, unsigned *n)
{
	struct lockshm *s = all->s;
	struct answer answer = { .all = all };
	uint64_t dead[PROBES];
	unsigned i, n_dead;
	int64_t next;
	bool ended, check;

	waits_lock(all);
	all->until = 0;
	/* Read the doorbell before everything it may be about. */
	watches[(*n)++] = doorbell_watch(s, all->process->slot);
	doorbell_answer(s, all->process->slot, look_at_class, &answer);
	n_dead = notice_deaths(all, dead, PROBES);
	if (segment_now(s) >= all->probe_at)
		waits_tell_again(all);
	check = waits_any(all) && segment_now(s) >= all->probe_at;
	if (check) {
		self_check(all, segment_now(s));
		n_dead = notice_deaths(all, dead, PROBES);
	}
	if (waits_any(all) && segment_retired(s)) {
		end_all(all);
		check = true;
	}
	look_for_leases(all, check);
	ended = end_in_time(all, segment_now(s));
	view_all(all, segment_now(s));
	next = add_watches(all, watches, n);
	if (ended && cds_list_empty(&all->to_view))
		all->until = next;
	else
		next = 0;
	waits_unlock(all);
	grant_behind(s, &answer);
	/* The kernel wakes only one watcher of a dead thread. */
	for (i = 0; i < n_dead; i++)
		owner_wake_watchers(s, dead[i]);
	waits_write(all, true);
	return next;
}
