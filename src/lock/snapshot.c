/* SPDX-License-Identifier: MIT */
/*
 * snapshot.c - walking a queue without writing to it
 *
 * R7: facts that hold at one instant need two walks with every word and the tail equal.  A busy queue may change
 * between any two walks; after some tries the last walk is returned as not stable, and callers report that or retry.
 */
#include "lock/snapshot.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 200

bool snapshot_init(struct snapshot *snap)
{
	memset(snap, 0, sizeof(*snap));
	snap->cap = 64;
	snap->requests = malloc(snap->cap * sizeof(*snap->requests));
	snap->second = malloc(snap->cap * sizeof(*snap->second));
	return snap->requests && snap->second;
}

void snapshot_free(struct snapshot *snap)
{
	free(snap->requests);
	free(snap->second);
}

static bool grow(struct snapshot *snap)
{
	uint32_t cap = snap->cap * 2;
	struct snapshot_request *a = realloc(snap->requests, cap * sizeof(*a)), *b;

	if (!a)
		return false;
	snap->requests = a;
	b = realloc(snap->second, cap * sizeof(*b));
	if (!b)
		return false;
	snap->second = b;
	snap->cap = cap;
	return true;
}

static void read_request(const struct shm_request *r, uint32_t index, struct snapshot_request *out)
{
	out->index = index;
	out->word = load_acquire(&r->word);
	out->ticket = ticket_of(load_relaxed(&r->ticket));
	out->owner = load_relaxed(&r->owner);
	out->deadline = load_relaxed(&r->deadline);
	out->since_ns = (int64_t)load_relaxed((const uint64_t *)&r->since_ns);
	out->granted_ns = (int64_t)load_relaxed((const uint64_t *)&r->granted_ns);
	out->entry = load_relaxed32(&r->entry);
	out->flags = load_relaxed32(&r->flags);
	out->host_grant = load_relaxed(&r->host_grant);
}

enum walked { WALKED, WALKED_OFF, NO_ROOM };

static enum walked walk(const struct lockshm *s, uint32_t from, struct snapshot_request *out, uint32_t cap, uint32_t *n)
{
	uint32_t i = from;

	for (*n = 0; i != 0; (*n)++) {
		const struct shm_request *r = request_at(s, i);

		if (!r || *n > s->n_requests)
			return WALKED_OFF;
		if (*n == cap)
			return NO_ROOM;
		read_request(r, i, &out[*n]);
		if (word_is(out[*n].word, REQUEST_FREE) || word_is(out[*n].word, REQUEST_CLAIM))
			return WALKED_OFF;
		i = word_prev(out[*n].word);
	}
	return WALKED;
}

static bool same(const struct snapshot *snap, uint32_t n)
{
	uint32_t i;

	if (n != snap->n)
		return false;
	for (i = 0; i < n; i++)
		if (snap->requests[i].index != snap->second[i].index || snap->requests[i].word != snap->second[i].word)
			return false;
	return true;
}

bool snapshot_take(const struct lockshm *s, const struct shm_entry *e, struct snapshot *snap)
{
	uint32_t tries, n;
	enum walked first, second;

	snap->stable = false;
	for (tries = 0; tries < TRIES && !snap->stable; tries++) {
		snap->tail = load_acquire(&e->tail);
		first = walk(s, tail_index(snap->tail), snap->requests, snap->cap, &snap->n);
		/* The fields of the first walk before the words of the second.  Pairs with fence_release() in
		 * request_begin_use(). */
		fence_acquire();
		second = walk(s, tail_index(snap->tail), snap->second, snap->cap, &n);
		if (first == NO_ROOM || second == NO_ROOM) {
			if (!grow(snap))
				return false;
			continue;
		}
		fence_acquire(); /* both walks before this look at the tail; pairs with the CAS of append and pop */
		snap->broken = first != WALKED;
		snap->stable = first == second && same(snap, n) && load_relaxed(&e->tail) == snap->tail;
	}
	return true;
}

bool snapshot_one(const struct lockshm *s, struct qpos at, struct snapshot_request *out, char tag[LOCKSHM_TAG_MAX + 2])
{
	const struct shm_request *r = request_at(s, at.index);

	if (!r || !word_live(at.word))
		return false;
	read_request(r, at.index, out);
	request_tag(r, tag);
	/* The fields before the second load of the word.  Pairs with fence_release() in request_begin_use(). */
	fence_acquire();
	return out->word == at.word && load_relaxed(&r->word) == at.word;
}

int snapshot_state(const struct snapshot_request *r)
{
	switch (word_state(r->word)) {
	case REQUEST_WAITING:
		return LOCKSHM_WAITING;
	case REQUEST_COOLING:
		return LOCKSHM_COOLING;
	case REQUEST_BARGEABLE:
		return LOCKSHM_BARGEABLE;
	default:
		return LOCKSHM_HOLDING;
	}
}

int64_t snapshot_age(const struct lockshm *s, const struct snapshot_request *r)
{
	bool waited = !word_is(r->word, REQUEST_WAITING) && r->granted_ns >= r->since_ns;
	int64_t begun = waited ? r->granted_ns : r->since_ns, now = segment_now(s);

	/* From the coarse clock plus a tick, so it may be slightly ahead; or damaged. */
	return begun < 0 || begun > now ? 0 : now - begun;
}

int64_t snapshot_expires_in(const struct lockshm *s, const struct snapshot_request *r)
{
	if (word_is(r->word, REQUEST_WAITING) || r->deadline >= DEADLINE_NEVER)
		return LOCKSHM_FOREVER;
	return (int64_t)r->deadline - segment_now(s);
}
