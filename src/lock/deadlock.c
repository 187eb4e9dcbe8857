/* SPDX-License-Identifier: MIT */
/*
 * deadlock.c - searching the wait-for graph for a cycle
 *
 * A waiting request waits for the live conflicting requests before it, and through a waiting exclusive request for
 * every request before that one; their threads wait for those before the requests they wait with.  All of this is in
 * the segment, so no timer is needed: a thread that has holds searches when it starts to wait, after its request is in
 * the queue and published in its slot.  The last thread of a cycle to do so finds it; two at the same time may both
 * find it.  Moved holds can close a cycle later: so each self-check searches again, and a cycle that all of them have
 * found for half a second counts, which leaves the thread that closed it the time to step back.
 *
 * The search is breadth-first over threads that wait in another queue than the one they were met in: those of the same
 * queue add no edges, since the walk goes on to the requests before them.  So its depth counts locks, not waiters.
 * Each thread is visited once.  Its memory is allocated when the thread joins; a search that met SEARCH_NODES threads
 * ends without a cycle, and only the time-out ends that wait.  A cycle is confirmed by a second pass: its edges cannot
 * come and go, except by events that end a deadlock.
 */
#include "lock/deadlock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/error.h"
#include "lock/queue.h"
#include "lock/table.h"

/* A waiting thread, and how it was met. */
struct node {
	uint32_t slot;
	uint32_t index; /* the request it waits with */
	uint64_t gen;
	uint32_t parent;   /* the node that waits for it */
	uint32_t blocker;  /* its request in the parent's queue */
	uint64_t blocker_word;
	uint32_t through; /* a waiting exclusive request between the two that do not conflict themselves, or 0 */
};

struct search {
	uint32_t n_slots;
	uint32_t hops; /* left; bounds the search in a damaged queue */
	uint32_t n; /* nodes used; also the end of the breadth-first queue */
	struct node nodes[SEARCH_NODES];
	uint64_t visited[]; /* a bit per slot */
};

_Static_assert(sizeof(struct search) <= SEARCH_ROOM_BYTES(0), "the search must fit the room made for it at the join");

static bool visit(struct search *f, uint32_t slot)
{
	uint64_t bit = UINT64_C(1) << slot % 64;

	if (slot >= f->n_slots || (f->visited[slot / 64] & bit))
		return false;
	f->visited[slot / 64] |= bit;
	return true;
}

static bool waits(const struct lockshm *s, uint32_t index, uint64_t gen, uint64_t *word)
{
	const struct shm_request *r = request_at(s, index);

	*word = r ? load_acquire(&r->word) : 0;
	return word_gen(*word) == gen && word_is(*word, REQUEST_WAITING);
}

/* The thread in @slot blocks node @parent by request @at.  If it waits in another queue, its blockers are next. */
static void add_node(struct search *f, const struct lockshm *s, uint32_t slot, uint32_t parent,
		     struct qpos at, uint32_t through)
{
	struct request_ref ref = ref_unpack(load_acquire(&s->owners[slot].waiting));
	uint64_t w;

	if (ref.index == at.index || f->n == SEARCH_NODES || !waits(s, ref.index, ref.gen, &w) || !visit(f, slot))
		return;
	f->nodes[f->n++] = (struct node){ slot, ref.index, ref.gen, parent, at.index, at.word, through };
}

static bool overdue(const struct lockshm *s, struct qpos at)
{
	uint64_t d = load_acquire(&s->requests[at.index].deadline);

	return word_holds(at.word) && d < DEADLINE_NEVER && segment_now(s) > (int64_t)d;
}

/* Add the threads that node @i waits for.  True = it waits for @me: *@mine is the request that blocks it. */
static bool expand(struct search *f, const struct lockshm *s, uint32_t i, uint32_t me, struct qpos *mine,
		   uint32_t *through)
{
	struct qpos at = { f->nodes[i].index, 0 };
	uint32_t slot;
	uint64_t owner;
	bool exclusive;

	*through = 0;
	if (!waits(s, at.index, f->nodes[i].gen, &at.word))
		return false;
	exclusive = word_exclusive(at.word);
	while (queue_look_before(s, &at, &f->hops)) {
		/* After a waiting exclusive request, its predecessors block this one as well. */
		if (!exclusive && !word_exclusive(at.word) && !*through)
			continue;
		if (word_is(at.word, REQUEST_COOLING) || word_is(at.word, REQUEST_BARGEABLE))
			continue;
		owner = load_acquire(&s->requests[at.index].owner);
		if (owner_is_dead(s, owner) || overdue(s, at))
			continue; /* to be reaped or expired; a dead owner's slot may have a new owner */
		slot = owner_ref_slot(owner);
		*mine = at;
		if (slot == me)
			return true;
		if (owner_at(s, slot))
			add_node(f, s, slot, i, at, *through);
		if (!exclusive && word_exclusive(at.word) && word_is(at.word, REQUEST_WAITING))
			*through = at.index;
	}
	return false;
}

/* The node that waits for @me, or -1.  Node 0 is my own wait. */
static int find_cycle(struct search *f, const struct lockshm *s, uint32_t me, uint32_t index, uint64_t gen,
		      struct qpos *mine, uint32_t *through)
{
	uint32_t i;

	memset(f->visited, 0, (f->n_slots + 63) / 64 * sizeof(uint64_t));
	f->n = 0;
	f->hops = 4 * s->n_requests + 1000;
	(void)visit(f, me);
	f->nodes[f->n++] = (struct node){ me, index, gen, 0, 0, 0, 0 };
	for (i = 0; i < f->n; i++)
		if (expand(f, s, i, me, mine, through))
			return (int)i;
	return -1;
}

/* A thread that is waited for may be dead, though the kernel has not reported it: in no circle. */
static bool blocker_is_dead(const struct lockshm *s, uint32_t blocker)
{
	uint64_t owner = load_acquire(&s->requests[blocker].owner);

	owner_probe(s, owner);
	return owner_is_dead(s, owner);
}

/* Does every edge from node @last up to mine still exist? */
static bool confirm(const struct search *f, const struct lockshm *s, uint32_t last, struct qpos mine)
{
	uint64_t w;
	uint32_t i;

	if (load_acquire(&s->requests[mine.index].word) != mine.word)
		return false;
	for (i = last;; i = f->nodes[i].parent) {
		const struct node *n = &f->nodes[i];

		if (!waits(s, n->index, n->gen, &w))
			return false;
		if (i == 0)
			return true;
		if (blocker_is_dead(s, n->blocker) ||
		    load_acquire(&s->requests[n->blocker].word) != n->blocker_word)
			return false;
	}
}

struct text {
	char *at;
	size_t room;
};

static void append(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at, t->room, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= t->room)
		n = (int)t->room - 1;
	t->at += n;
	t->room -= (size_t)n;
}

/* One edge: the thread of @n waits for its key after request @by, perhaps through a waiting one between them. */
static void describe_edge(struct text *t, const struct lockshm *s, const struct node *n, struct qpos by, uint32_t through)
{
	const struct shm_entry *e = entry_at(s, load_relaxed32(&s->requests[n->index].entry));
	struct owner_identity who = owner_identity(s, load_relaxed(&s->requests[by.index].owner));
	char key[24] = "?";

	if (e)
		table_key_text(s, e, key, sizeof(key));
	if (through) {
		struct owner_identity via = owner_identity(s, load_relaxed(&s->requests[through].owner));

		append(t, " waits for \"%s\" behind pid %d/%d, which", key, via.pid, via.tid);
	}
	append(t, " waits for \"%s\" %s pid %d/%d", key, word_is(by.word, REQUEST_WAITING) ? "behind" : "held by",
	       who.pid, who.tid);
}

/* deadlock: pid 12/12 waits for "a" held by pid 13/13, which waits for "b" held by pid 12/12 */
static void describe(struct search *f, const struct lockshm *s, uint32_t last, struct qpos mine, uint32_t through,
		     char *out, size_t size)
{
	struct owner_identity me = owner_identity(s, load_relaxed(&s->requests[f->nodes[0].index].owner));
	struct text t = { out, size };
	uint32_t i, path[32], n = 0;

	for (i = last; n < 32; i = f->nodes[i].parent) {
		path[n++] = i;
		if (i == 0)
			break;
	}
	append(&t, "deadlock: pid %d/%d", me.pid, me.tid);
	while (n-- > 0) {
		const struct node *next = n > 0 ? &f->nodes[path[n - 1]] : NULL;
		struct qpos by = next ? (struct qpos){ next->blocker, next->blocker_word } : mine;

		describe_edge(&t, s, &f->nodes[path[n]], by, next ? next->through : through);
		if (n > 0)
			append(&t, ", which");
	}
}

int deadlock_check(struct participant *self, uint32_t index, uint64_t gen, struct lockshm_error *error)
{
	char text[sizeof(error->message)];
	struct search *f = self->search_room;
	struct qpos mine;
	uint32_t through;
	unsigned tries;
	int last;

	f->n_slots = self->segment->n_owners;
	for (tries = 0; tries < 3; tries++) {
		last = find_cycle(f, self->segment, self->slot, index, gen, &mine, &through);
		if (last < 0)
			return 0;
		if (!confirm(f, self->segment, (uint32_t)last, mine))
			continue;
		describe(f, self->segment, (uint32_t)last, mine, through, text, sizeof(text));
		return error_set(error, LOCKSHM_DEADLOCK, "%s", text);
	}
	return 0;
}
