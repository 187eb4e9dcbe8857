/* SPDX-License-Identifier: MIT */
/* waits.c - the tables of waits and lines, and the end of a wait; see waits.h */
#include "service/waits.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hold/barge.h"
#include "lock/deadline.h"
#include "sys/futex.h"

/* ---------------------------------------------------------------- the tables */

int waits_make(struct lockshm *s)
{
	struct waits *all = calloc(1, sizeof(*all) + s->n_owners * sizeof(all->owners[0]));
	struct barge_place *place = calloc(1, sizeof(*place));
	struct tends *tends = tends_make(s);
	size_t i;

	if (!all || !place || !tends) {
		free(all);
		free(place);
		free(tends);
		return LOCKSHM_NO_MEMORY;
	}
	pthread_mutex_init(&all->lock, NULL);
	all->s = s;
	CDS_INIT_LIST_HEAD(&all->to_view);
	CDS_INIT_LIST_HEAD(&all->to_write);
	CDS_INIT_LIST_HEAD(&all->watched);
	CDS_INIT_LIST_HEAD(&all->for_lease);
	CDS_INIT_LIST_HEAD(&all->dropped);
	CDS_INIT_LIST_HEAD(&all->loops);
	for (i = 0; i < WAITS_NEAR; i++) {
		CDS_INIT_LIST_HEAD(&all->near[i]);
		CDS_INIT_LIST_HEAD(&all->by_hold[i]);
	}
	for (i = 0; i < LINES_NEAR; i++)
		CDS_INIT_LIST_HEAD(&all->lines[i]);
	/* The owners' lists are made when they are used: most pages of this array stay untouched. */
	place->process.segment = s;
	__atomic_store_n(&s->barge_place, place, __ATOMIC_RELEASE);
	__atomic_store_n(&s->tends, tends, __ATOMIC_RELEASE);
	__atomic_store_n(&s->waits, all, __ATOMIC_RELEASE);
	__atomic_store_n(&s->look_at_wait, waits_look_at, __ATOMIC_RELEASE);
	return 0;
}

bool waits_are_of(struct waits *all, const struct participant *process)
{
	bool it;

	waits_lock(all);
	it = all->process == process;
	waits_unlock(all);
	return it;
}

void waits_end(struct lockshm *s)
{
	struct waits *all = __atomic_load_n(&s->waits, __ATOMIC_ACQUIRE);

	if (!all)
		return;
	waits_lock(all);
	all->process = NULL;
	waits_unlock(all);
}

/* A thread of the parent may have been changing the tables: the waits themselves stay in the memory of their loops. */
void waits_forget(struct lockshm *s, bool consistent)
{
	if (consistent) {
		free(s->waits);
		free(s->tends);
		free(s->barge_place);
	}
	s->waits = NULL;
	s->tends = NULL;
	s->barge_place = NULL;
	s->look_at_wait = NULL;
}

void waits_lock(struct waits *all)
{
	pthread_mutex_lock(&all->lock);
}

/* The doorbell of the slot: that of the renewals is gone if the service thread ends at this moment. */
static void wake_service(struct waits *all, uint32_t slot)
{
	uint32_t *doorbell = &all->s->owners[slot].doorbell;

	(void)fetch_add32(doorbell, 1);
	futex_wake(doorbell, 1);
}

void waits_unlock(struct waits *all)
{
	bool ring = all->ring && all->process;
	uint32_t slot = ring ? all->process->slot : 0;
	struct line *line, *next;
	CDS_LIST_HEAD(dropped);

	cds_list_splice(&all->dropped, &dropped);
	CDS_INIT_LIST_HEAD(&all->dropped);
	all->ring = false;
	pthread_mutex_unlock(&all->lock);
	cds_list_for_each_entry_safe(line, next, &dropped, near)
		free(line);
	if (ring)
		wake_service(all, slot);
}

struct wait *waits_find(struct waits *all, uint32_t index, uint64_t gen)
{
	struct wait *w;

	cds_list_for_each_entry(w, &all->near[index % WAITS_NEAR], near)
		if (w->index == index && w->grant.gen == gen)
			return w;
	return NULL;
}

struct wait *waits_find_awaited(struct waits *all, uint32_t index, const lockshm_hold_t *hold)
{
	struct wait *w;

	cds_list_for_each_entry(w, &all->near[index % WAITS_NEAR], near)
		if (w->index == index && hold >= w->hold && hold < w->hold + w->n_holds)
			return w;
	return NULL;
}

/* Make the service thread look again, after the lock is given back. */
static void waits_ring(struct waits *all)
{
	/* Awake: it looks before it sleeps. */
	if (all->until != 0)
		all->ring = true;
	all->until = 0;
}

static struct cds_list_head *holds_near(struct waits *all, const lockshm_hold_t *hold)
{
	return &all->by_hold[(uintptr_t)hold / sizeof(*hold) % WAITS_NEAR];
}

struct wait *waits_find_hold(struct waits *all, const lockshm_hold_t *hold)
{
	struct wait *w;

	cds_list_for_each_entry(w, holds_near(all, hold), by_hold)
		if (w->hold == hold)
			return w;
	return NULL;
}

/* ---------------------------------------------------------------- lines */

static struct line *find_line(struct waits *all, uint32_t entry)
{
	struct line *line;

	cds_list_for_each_entry(line, &all->lines[entry % LINES_NEAR], near)
		if (line->entry == entry)
			return line;
	return NULL;
}

struct wait *line_first(struct line *line)
{
	return cds_list_empty(&line->waits) ? NULL : cds_list_first_entry(&line->waits, struct wait, of_line);
}

void line_to_view(struct waits *all, struct line *line)
{
	if (cds_list_empty(&line->to_view))
		cds_list_add_tail(&line->to_view, &all->to_view);
}

static void watch_no_more(struct waits *all, struct line *line)
{
	struct watched *o;

	(void)all;
	if (cds_list_empty(&line->behind))
		return;
	/* The last one takes the owner off the list. */
	if (line->behind.next == line->behind.prev) {
		o = cds_list_entry(line->behind.next, struct watched, lines);
		o->ref = 0;
		cds_list_del(&o->node);
	}
	cds_list_del_init(&line->behind);
}

static void watch(struct waits *all, struct line *line, const struct wait_view *view)
{
	struct watched *o = &all->owners[owner_ref_slot(view->owner)];
	struct line *other;

	if (o->ref == 0) {
		CDS_INIT_LIST_HEAD(&o->lines);
		cds_list_add(&o->node, &all->watched);
	} else if (o->ref != view->owner) {
		/* The slot has a new owner, so the one before is dead. */
		cds_list_for_each_entry(other, &o->lines, behind)
			line_to_view(all, other);
	}
	o->ref = view->owner;
	o->control = load_relaxed(&all->s->owners[owner_ref_slot(view->owner)].control);
	o->life = view->life;
	cds_list_add(&line->behind, &o->lines);
}

void line_set_view(struct waits *all, struct line *line, const struct wait_view *view)
{
	bool blind = view->owner && !view->watched && view->owner != all->s->process_ref;
	int64_t until = view->until, soon = blind ? segment_now(all->s) + LOCKSHM_MS(10) : INT64_MAX;

	watch_no_more(all, line);
	/* This process: if it dies, so do its waits. */
	if (view->watched && view->owner != all->s->process_ref)
		watch(all, line, view);
	if (view->holds)
		line->qpos = 1;
	until = until < soon ? until : soon;
	timer_set(&all->of_lines, &line->timer, until < line->walk_at ? until : line->walk_at);
}

void line_set_walk(struct waits *all, struct line *line)
{
	int64_t every = wait_walk_every(line->qpos), shared = wait_walk_every(0) * (all->n_lines / LINES_A_TICK);

	line->walk_at = waits_tick(segment_now(all->s), every > shared ? every : shared);
}

static struct line *make_line(struct waits *all, struct wait *w)
{
	struct line *line = w->spare;
	int64_t now = segment_now(all->s);

	w->spare = NULL;
	line->entry = w->entry;
	CDS_INIT_LIST_HEAD(&line->waits);
	CDS_INIT_LIST_HEAD(&line->behind);
	CDS_INIT_LIST_HEAD(&line->to_view);
	line_set_walk(all, line);
	if (all->probe_at <= now)
		all->probe_at = waits_tick(now, wait_walk_every(0));
	cds_list_add(&line->near, &all->lines[w->entry % LINES_NEAR]);
	all->n_lines++;
	return line;
}

void line_drop_if_empty(struct waits *all, struct line *line)
{
	if (line->busy || !cds_list_empty(&line->waits))
		return;
	watch_no_more(all, line);
	timer_end(&all->of_lines, &line->timer);
	cds_list_del(&line->to_view);
	cds_list_del(&line->near);
	cds_list_add(&line->near, &all->dropped);
	all->n_lines--;
}

/* ---------------------------------------------------------------- waits */

/* By its ticket: loops of several threads append at the same time. */
static void insert_by_ticket(struct line *line, struct wait *w)
{
	struct cds_list_head *at = line->waits.prev;

	while (at != &line->waits && cds_list_entry(at, struct wait, of_line)->grant.ticket > w->grant.ticket)
		at = at->prev;
	cds_list_add(&w->of_line, at);
}

static bool has_changed(const struct lockshm *s, const struct wait_view *view)
{
	return load_acquire(&s->requests[view->me.index].word) != view->me.word ||
	       load_acquire(&s->requests[view->before.index].word) != view->before.word;
}

void waits_add(struct waits *all, struct wait *w, const struct wait_view *view)
{
	struct line *line = find_line(all, w->entry);

	if (!line)
		line = make_line(all, w);
	w->line = line;
	cds_list_add(&w->near, &all->near[w->index % WAITS_NEAR]);
	cds_list_add(&w->by_hold, holds_near(all, w->hold));
	cds_list_add_tail(&w->of_loop, &w->loop->waiting);
	insert_by_ticket(line, w);
	timer_set(&all->of_waits, &w->timer, w->deadline);
	if (line_first(line) == w)
		line_set_view(all, line, view);
	/* A ring that came before found no wait. */
	if (line_first(line) == w && has_changed(all->s, view)) {
		line_to_view(all, line);
		waits_ring(all);
	}
	/* Also if it is the only one behind that owner: then the service thread does not watch it yet. */
	if (all->until > line->timer.at || all->until > w->deadline ||
	    (line_first(line) == w && !cds_list_empty(&line->behind) && line->behind.next == line->behind.prev))
		waits_ring(all);
}

/*
 * The first wait of @line has changed.  Behind a request of this process the service thread may look at its next tick:
 * neither that request's death nor, for a while, its lease can be missed.
 */
static void next_to_view(struct waits *all, struct line *line)
{
	const struct lockshm *s = all->s;
	const struct shm_request *r = request_at(s, word_prev(load_acquire(&s->requests[line_first(line)->index].word)));

	line_to_view(all, line);
	if (!r || load_acquire(&r->owner) != load_relaxed(&s->process_ref) ||
	    (int64_t)load_relaxed((const uint64_t *)&r->ttl_ns) < 2 * wait_walk_every(0))
		waits_ring(all);
}

static void leave_line(struct waits *all, struct wait *w)
{
	struct line *line = w->line;
	bool first = line_first(line) == w;

	w->line = NULL;
	cds_list_del(&w->of_line);
	timer_end(&all->of_waits, &w->timer);
	if (cds_list_empty(&line->waits))
		line_drop_if_empty(all, line);
	else if (first)
		next_to_view(all, line);
}

/* ---------------------------------------------------------------- the second phase */

void waits_add_for_lease(struct waits *all, struct wait *w)
{
	cds_list_add(&w->near, &all->near[w->index % WAITS_NEAR]);
	cds_list_add(&w->by_hold, holds_near(all, w->hold));
	cds_list_add_tail(&w->of_loop, &w->loop->waiting);
	cds_list_add_tail(&w->lease->of_all, &all->for_lease);
	w->lease->waiting = true;
	timer_set(&all->of_waits, &w->timer, w->deadline);
	waits_ring(all);
}

static void leave_for_lease(struct waits *all, struct wait *w)
{
	w->lease->waiting = false;
	cds_list_del(&w->lease->of_all);
	timer_end(&all->of_waits, &w->timer);
}

/* R14: the local request lasts until it is collected, for a while. */
static void renew_until_collected(struct waits *all, struct wait *w)
{
	int64_t ns = acquire_uncollected_ttl(&w->request);

	(void)deadline_renew(all->s, w->index, &w->grant.gen, segment_now(all->s) + ns);
}

void waits_look_for_lease(struct waits *all, struct wait *w)
{
	int status = lease_wait_look(&w->lease->g);

	if (status == 0)
		return;
	if (status == LEASE_READY || status == LOCKSHM_LOCAL_ONLY)
		renew_until_collected(all, w);
	waits_decide(all, w, status == LEASE_READY ? 0 : status == LEASE_AGAIN ? WAIT_AGAIN : status);
}

/* ---------------------------------------------------------------- its end */

static void leave(struct waits *all, struct wait *w)
{
	if (w->line)
		leave_line(all, w);
	else if (w->lease && w->lease->waiting)
		leave_for_lease(all, w);
}

void waits_remove(struct waits *all, struct wait *w)
{
	leave(all, w);
	cds_list_del(&w->near);
	cds_list_del(&w->by_hold);
	cds_list_del(&w->of_loop);
}

static void to_be_told(struct waits *all, struct lockshm_loop *loop)
{
	if (!cds_list_empty(&loop->to_write))
		return;
	loop->refs++;
	cds_list_add_tail(&loop->to_write, &all->to_write);
}

void waits_decide(struct waits *all, struct wait *w, int status)
{
	struct lockshm_loop *loop = w->loop;

	leave(all, w);
	w->status = status;
	cds_list_del(&w->of_loop);
	if (!loop_has_outcome(loop))
		to_be_told(all, loop);
	cds_list_add_tail(&w->of_loop, &loop->decided);
}

void waits_list_loss(struct waits *all, uint32_t index)
{
	struct tend *t = tend_of(all->s, index);
	struct lockshm_loop *loop = __atomic_load_n(&t->loop, __ATOMIC_RELAXED);

	if (!loop || t->listed)
		return;
	if (!loop_has_outcome(loop))
		to_be_told(all, loop);
	t->listed = true;
	t->next = loop->lost;
	loop->lost = index;
}

void waits_tell_loss(struct lockshm *s, uint32_t index)
{
	struct waits *all = s->waits;

	waits_lock(all);
	waits_list_loss(all, index);
	/* The service thread has written for this turn. */
	if (!cds_list_empty(&all->to_write))
		waits_ring(all);
	waits_unlock(all);
}

void waits_end_losses(struct waits *all, struct lockshm_loop *loop)
{
	uint32_t i, index, n = load_acquire32(&all->s->tends->n_known);
	struct tend *t;

	for (; loop->lost; loop->lost = t->next) {
		t = tend_of(all->s, loop->lost);
		t->listed = false;
	}
	for (i = 0; i < n; i++) {
		index = load_acquire32(&all->s->tends->known[i]);
		t = index ? tend_of(all->s, index) : NULL;
		if (!t || __atomic_load_n(&t->loop, __ATOMIC_RELAXED) != loop)
			continue;
		__atomic_store_n(&t->loop, NULL, __ATOMIC_RELAXED);
		__atomic_store_n(&t->tells, false, __ATOMIC_RELAXED);
	}
}

void waits_tell_again(struct waits *all)
{
	struct lockshm_loop *loop;

	cds_list_for_each_entry(loop, &all->loops, of_all)
		if (loop_has_outcome(loop) && !__atomic_load_n(&loop->told, __ATOMIC_ACQUIRE))
			to_be_told(all, loop);
}

int waits_outcome(const struct lockshm *s, const struct wait *w)
{
	uint64_t word = load_acquire(&s->requests[w->index].word);

	if (word_gen(word) == w->grant.gen && word_is(word, REQUEST_WAITING))
		return LOCKSHM_PENDING;
	if (word_gen(word) == w->grant.gen && word_is(word, REQUEST_GRANTED))
		return 0;
	/* A granter may have unlinked what the canceller has abandoned: the word is free by now. */
	if (w->request.canceller && canceller_used(w->request.canceller))
		return LOCKSHM_CANCELLED;
	return WAIT_AGAIN;
}

bool waits_look(struct waits *all, struct wait *w)
{
	int status = waits_outcome(all->s, w);

	if (status == LOCKSHM_PENDING)
		return false;
	waits_decide(all, w, status);
	return true;
}

/* ---------------------------------------------------------------- descriptors */

void loop_write(struct lockshm_loop *loop)
{
	static const uint64_t one = 1;
	bool own = descriptor_is_own(&loop->file);
	ssize_t n = 0;

	/* Before the write, as its reader may empty the descriptor before this thread goes on; and after it, if the reader
	 * came in between. */
	__atomic_store_n(&loop->written, 1, __ATOMIC_RELEASE);
	if (own && loop->kind == DESCRIPTOR_SOCKET)
		n = send(loop->file.fd, &one, sizeof(one), MSG_NOSIGNAL | MSG_DONTWAIT);
	else if (own)
		n = write(loop->file.fd, &one, sizeof(one));
	/* Full: its reader has something to read already.  Without a reader there is nothing to do. */
	(void)n;
	if (!__atomic_load_n(&loop->written, __ATOMIC_RELAXED))
		__atomic_store_n(&loop->written, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&loop->told, 1, __ATOMIC_RELEASE);
}

static struct lockshm_loop *next_to_write(struct waits *all, bool any)
{
	struct lockshm_loop *loop;

	cds_list_for_each_entry(loop, &all->to_write, to_write)
		if (any || loop->kind != DESCRIPTOR_PIPE)
			return loop;
	return NULL;
}

void waits_write(struct waits *all, bool any)
{
	struct lockshm_loop *loop;
	int cancel;

	/* A thread that is cancelled in write() would leave an outcome without a notice. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	waits_lock(all);
	while ((loop = next_to_write(all, any)) != NULL) {
		cds_list_del_init(&loop->to_write);
		waits_unlock(all);
		loop_write(loop);
		waits_lock(all);
		if (!loop_put(loop))
			continue;
		waits_unlock(all);
		loop_free(loop);
		waits_lock(all);
	}
	if (!cds_list_empty(&all->to_write))
		waits_ring(all);
	waits_unlock(all);
	pthread_setcancelstate(cancel, NULL);
}

void waits_look_at(struct lockshm *s, uint32_t index)
{
	struct waits *all = s->waits;
	struct wait *w, *next;
	bool write;

	waits_lock(all);
	cds_list_for_each_entry_safe(w, next, &all->near[index % WAITS_NEAR], near) {
		if (w->index != index || !w->line || waits_look(all, w) || line_first(w->line) != w)
			continue;
		/* Its predecessor has changed.  If it has none any more, this thread grants it next; a thread that does not
		 * leaves it to the next self-check. */
		line_to_view(all, w->line);
		if (word_prev(load_acquire(&s->requests[index].word)) != 0)
			waits_ring(all);
	}
	write = !cds_list_empty(&all->to_write);
	waits_unlock(all);
	if (write)
		waits_write(all, false);
}

bool loop_put(struct lockshm_loop *loop)
{
	return --loop->refs == 0;
}

void loop_free(struct lockshm_loop *loop)
{
	descriptor_close(&loop->file);
	free(loop);
}
