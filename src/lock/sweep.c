/* SPDX-License-Identifier: MIT */
/*
 * sweep.c - everything a dead thread left: requests, records, chunks, its slot
 *
 * Never needed to let others proceed: waiters after the dead request do that.  Needed to use the records and the slot
 * again.  Any number of sweepers may work on one slot, be killed, or be stopped: every step is a CAS that carries the
 * generation it decided on.  Crash points: after each step the next sweeper continues from there.
 */
#include "lock/sweep.h"

#include "lock/deadline.h"
#include "lock/participant.h"
#include "lock/queue.h"
#include "lock/table.h"

/* May the sweep touch record @index, with word @w?  Only what a dead owner left, and what cools down: the chunk may be
 * another thread's by now, and a live owner's record may be between fill and append.  Read the owner after the word:
 * the CAS on that word then makes sure that it is the owner's. */
static bool is_leftover(const struct lockshm *s, uint32_t index, uint64_t w)
{
	return word_is(w, REQUEST_COOLING) || owner_is_dead(s, load_acquire(&s->requests[index].owner));
}

/* A live request of a dead owner dies; one that cools down stays until its time. */
static uint64_t end_live(struct lockshm *s, uint32_t index, uint64_t w)
{
	struct shm_request *r = &s->requests[index];
	struct shm_entry *e = entry_at(s, load_relaxed32(&r->entry));

	if (queue_expire_or_reap(s, index, &w) && word_dead(w) && e)
		(void)queue_advance_tail(s, e);
	return load_acquire(&r->word);
}

/* True = the record is FREE, or cools down: then it has no owner, and the thread that takes it off its queue
 * frees it. */
static bool reclaim_record(struct lockshm *s, uint32_t index)
{
	struct shm_request *r = &s->requests[index];
	uint64_t w = load_acquire(&r->word);

	if ((word_live(w) || word_is(w, REQUEST_CLAIM)) && !is_leftover(s, index, w))
		return false;
	if (word_live(w))
		w = end_live(s, index, w);
	if (word_is(w, REQUEST_CLAIM) && table_end_claim(s, participant_find(s), index, w)) {
		(void)cas_from(&r->word, w, word_make(word_gen(w), false, REQUEST_FREE, 0));
		w = load_acquire(&r->word);
	}
	if (word_dead(w))
		return queue_reclaim(s, index);
	return word_is(w, REQUEST_FREE) || word_is(w, REQUEST_COOLING);
}

/* True = the chunk has no owner, or another. */
static bool reclaim_chunk(struct lockshm *s, uint32_t chunk, uint64_t ref)
{
	uint32_t i, first = chunk * s->chunk_size + 1;
	bool all_free = true;

	if (load_acquire(chunk_word(s, chunk)) != ref)
		return true;
	for (i = first; i < first + s->chunk_size; i++)
		if (!reclaim_record(s, i))
			all_free = false;
	if (all_free)
		(void)cas_from(chunk_word(s, chunk), ref, 0);
	return all_free;
}

/* ---------------------------------------------------------------- several owners at once */

/* A dead owner, and what the sweep has found out about it. */
struct leaver {
	uint64_t control; /* as it was when the owner was found dead; the last CAS compares it */
	uint32_t slot;
	uint32_t reach; /* so many chunks, from the slot's number on, may be its own */
	bool empty;	/* none of them is its own any more */
};

/* Dead owners that one look at each chunk serves, in the order of their slots from @from on and round.  On the stack, as
 * nothing is allocated while locks of others are recovered. */
#define CROWD 128

struct crowd {
	struct leaver left[CROWD];
	uint32_t n;
	uint32_t from;
};

static uint64_t ref_of(const struct leaver *l)
{
	return owner_ref(control_gen(l->control), l->slot);
}

static uint32_t nth(const struct lockshm *s, const struct crowd *c, uint32_t slot)
{
	return (slot + s->n_owners - c->from) % s->n_owners;
}

/* The one with that reference, or NULL. */
static struct leaver *find(const struct lockshm *s, struct crowd *c, uint64_t ref)
{
	uint32_t low = 0, high = c->n, wanted = nth(s, c, owner_ref_slot(ref));

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (nth(s, c, c->left[middle].slot) < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c->n && ref_of(&c->left[low]) == ref ? &c->left[low] : NULL;
}

/* Requests that were moved to a dead owner lie in other threads' chunks: end them while the slot still has its
 * identity. */
static void reclaim_adopted(struct lockshm *s, struct crowd *c)
{
	uint32_t i;

	for (i = 1; i <= s->n_requests; i++) {
		uint64_t w = load_acquire(&s->requests[i].word);
		int tries;

		/* Again if a bypass changed the word meanwhile. */
		for (tries = 0; tries < 100 && word_live(w) && find(s, c, load_acquire(&s->requests[i].owner)); tries++)
			w = end_live(s, i, w);
	}
}

/* @chunk, if it is of an owner in @c.  A dead owner takes no more chunks, so one look at each finds all. */
static void reclaim_of(struct lockshm *s, struct crowd *c, uint32_t chunk)
{
	uint64_t ref = load_acquire(chunk_word(s, chunk));
	struct leaver *l = ref ? find(s, c, ref) : NULL;

	if (l && !reclaim_chunk(s, chunk, ref))
		l->empty = false;
}

/* Each owner's reach, or every chunk once where that is less. */
static void reclaim_chunks(struct lockshm *s, struct crowd *c)
{
	uint64_t looks = 0;
	uint32_t i, k;

	for (k = 0; k < c->n; k++)
		looks += c->left[k].reach;
	if (looks > s->n_chunks) {
		for (i = 0; i < s->n_chunks; i++)
			reclaim_of(s, c, i);
		return;
	}
	for (k = 0; k < c->n; k++)
		for (i = 0; i < c->left[k].reach; i++)
			reclaim_of(s, c, (c->left[k].slot + i) % s->n_chunks);
}

static void keep_counts(struct lockshm *s, const uint64_t counts[OWNER_COUNTERS])
{
	int i;

	for (i = 0; i < OWNER_COUNTERS; i++)
		if (counts[i])
			(void)fetch_add_relaxed(&s->header->retired[i], counts[i]);
}

/* Dead: the slot as of its control word @c, which the last CAS compares, so a new owner of the slot keeps it. */
static bool is_left(const struct lockshm *s, uint32_t slot, uint64_t c)
{
	return control_state(c) != OWNER_FREE && owner_slot_is_dead(s, slot, c);
}

static struct leaver leaver_of(const struct lockshm *s, uint32_t slot, uint64_t c)
{
	/* The last word of a dead thread: it was seen dead before this load. */
	return (struct leaver){ c, slot, owner_reach(load_acquire32(&s->owners[slot].flags), s->n_chunks), true };
}

/* Its chunks are given back: the slot, too. */
static bool free_slot(struct lockshm *s, const struct leaver *l)
{
	uint64_t counts[OWNER_COUNTERS], c = l->control;
	int i;

	if (!l->empty || !owner_slot_is_retired(s, l->slot, c))
		return false;
	for (i = 0; i < OWNER_COUNTERS; i++)
		counts[i] = control_state(c) >= OWNER_ACTIVE ? owner_count(s, l->slot, (enum owner_count)i) : 0;
	if (!cas_from(&s->owners[l->slot].control, c,
		      control_make((control_gen(c) + 1) & OWNER_GEN_MASK, 0, 0, OWNER_FREE)))
		return false;
	keep_counts(s, counts);
	return true;
}

/* What was moved to them, and their slots.  Returns the number of slots freed. */
static int finish(struct lockshm *s, struct crowd *c)
{
	bool adopted = false;
	uint32_t k;
	int freed = 0;

	for (k = 0; k < c->n; k++)
		adopted |= (load_relaxed32(&s->owners[c->left[k].slot].flags) & OWNER_ADOPTED) != 0;
	if (adopted)
		reclaim_adopted(s, c);
	for (k = 0; k < c->n; k++)
		freed += free_slot(s, &c->left[k]);
	return freed;
}

static void begin(struct crowd *c, uint32_t from)
{
	c->n = 0;
	c->from = from;
}

static void add(struct lockshm *s, struct crowd *c, uint32_t slot, uint64_t control)
{
	c->left[c->n++] = leaver_of(s, slot, control);
}

bool sweep_slot(struct lockshm *s, uint32_t slot)
{
	uint64_t control = load_acquire(&s->owners[slot].control);
	struct crowd c;

	begin(&c, slot);
	if (!is_left(s, slot, control))
		return false;
	add(s, &c, slot, control);
	reclaim_chunks(s, &c);
	return finish(s, &c) > 0;
}

void sweep_left(struct lockshm *s, uint32_t slot, uint64_t ref, const uint32_t *chunks, uint32_t n)
{
	uint64_t control = load_acquire(&s->owners[slot].control);
	struct crowd c;
	uint32_t i;

	begin(&c, slot);
	/* Swept by another thread already, the slot may have a new owner, with other chunks. */
	if (owner_ref(control_gen(control), slot) != ref || !is_left(s, slot, control))
		return;
	add(s, &c, slot, control);
	for (i = 0; i < n; i++)
		reclaim_of(s, &c, chunks[i]);
	(void)finish(s, &c);
}

/*
 * A walk over the slots.  A look at an owner that lives is a look at a page of its own, so where only some slots have to be
 * cleared no more than @patience of such looks are made in a row; each dead owner found is a reason for as many again.
 */
struct round {
	uint32_t patience; /* UINT32_MAX = all slots */
	uint32_t living;   /* owners seen alive since the last dead one */
	uint32_t most;	   /* slots to free */
	uint32_t freed;
	uint32_t at; /* slots looked at */
};

static bool has_more(const struct lockshm *s, const struct round *r)
{
	return r->at < s->n_owners && r->freed < r->most && r->living < r->patience;
}

/* As many dead owners as are wanted, from the next slot on. */
static void gather(struct lockshm *s, struct round *r, struct crowd *c)
{
	uint32_t wanted = r->most - r->freed < CROWD ? r->most - r->freed : CROWD;

	for (c->n = 0; c->n < wanted && has_more(s, r); r->at++) {
		uint32_t slot = c->from + r->at < s->n_owners ? c->from + r->at : c->from + r->at - s->n_owners;
		uint64_t control = load_acquire(&s->owners[slot].control);

		if (control_state(control) == OWNER_FREE)
			continue;
		if (is_left(s, slot, control)) {
			add(s, c, slot, control);
			r->living = 0;
		} else if (r->patience != UINT32_MAX) {
			r->living++;
		}
	}
}

static int sweep_round(struct lockshm *s, uint32_t from, struct round *r)
{
	struct crowd c;

	begin(&c, from);
	while (has_more(s, r)) {
		gather(s, r, &c);
		reclaim_chunks(s, &c);
		r->freed += (uint32_t)finish(s, &c);
	}
	return (int)r->freed;
}

#define PATIENCE 32

/* Crash point: before the store, the next one begins at the same slot. */
int sweep_some(struct lockshm *s, uint32_t most)
{
	struct round r = { .patience = PATIENCE, .most = most };
	uint32_t *next = &s->header->sweep_next, from = load_relaxed32(next) % s->n_owners;
	int freed = sweep_round(s, from, &r);

	store_relaxed32(next, (from + r.at) % s->n_owners);
	return freed;
}

int sweep_all(struct lockshm *s)
{
	struct round r = { .patience = UINT32_MAX, .most = UINT32_MAX };

	return sweep_round(s, 0, &r);
}

/* A cooldown has no owner that would clear it away. */
static void end_cooldowns(struct lockshm *s)
{
	uint32_t i;

	for (i = 1; i <= s->n_requests; i++) {
		uint64_t w = load_acquire(&s->requests[i].word);
		struct shm_entry *e = entry_at(s, load_relaxed32(&s->requests[i].entry));

		if (e && cooldown_is_over(s, w, load_acquire(&s->requests[i].deadline)))
			(void)queue_advance_tail(s, e);
	}
}

int sweep_probing(struct lockshm *s)
{
	uint32_t slot;

	end_cooldowns(s);
	for (slot = 0; slot < s->n_owners; slot++) {
		uint64_t c = load_acquire(&s->owners[slot].control);

		if (control_state(c) == OWNER_ACTIVE)
			owner_probe(s, owner_ref(control_gen(c), slot));
	}
	return sweep_all(s);
}
