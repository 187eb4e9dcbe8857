/* SPDX-License-Identifier: MIT */
/*
 * verify.c - the invariants I1-I7 of doc/internals/local-locks.md, on a segment in use or at rest
 *
 * Everything is checked on stable snapshots.  A check that fails is repeated some times, because other threads may be
 * between two steps, and counts only if it keeps failing.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock/damage.h"
#include "lock/participant.h"
#include "lock/snapshot.h"
#include "lock/table.h"

#define REPEATS 50
#define PAUSE_BUDGET_NS 3000000000 /* for all repeats together: a ruined segment is reported at once */

struct verifier {
	struct lockshm *s;
	lockshm_problem_fn fn;
	void *arg;
	struct snapshot snap;
	unsigned char *limbo; /* per owner slot: a record between fill and append, or between pop and FREE */
	size_t problems;
	bool no_memory; /* some queue was not checked */
	int64_t paused_ns;
	/* The last problem found by the check under way. */
	const char *invariant;
	char text[256];
};

/* Store a problem; the repeats decide whether it counts. */
static bool wrong(struct verifier *v, const char *invariant, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool wrong(struct verifier *v, const char *invariant, const char *format, ...)
{
	va_list args;

	v->invariant = invariant;
	va_start(args, format);
	vsnprintf(v->text, sizeof(v->text), format, args);
	va_end(args);
	return false;
}

static void pause_briefly(struct verifier *v, int round)
{
	struct timespec ts = { 0, round < 10 ? 20000 : 2000000 };

	v->paused_ns += ts.tv_nsec;
	nanosleep(&ts, NULL);
}

/* Run a check until it passes or has failed too often. */
static void check_repeatedly(struct verifier *v, bool (*check)(struct verifier *v, uint32_t i), uint32_t i)
{
	int round;

	for (round = 0; round < REPEATS; round++) {
		if (check(v, i))
			return;
		if (v->paused_ns > PAUSE_BUDGET_NS && round > 2)
			break;
		pause_briefly(v, round);
	}
	v->problems++;
	if (v->fn)
		v->fn(v->invariant, v->text, v->arg);
}

/* ---------------------------------------------------------------- one entry */

static bool check_requests(struct verifier *v, uint32_t i)
{
	const struct snapshot *snap = &v->snap;
	uint64_t newer = tail_ticket(snap->tail) + 1;
	uint32_t k;

	for (k = 0; k < snap->n; k++) {
		const struct snapshot_request *r = &snap->requests[k];

		if (r->entry != i)
			return wrong(v, "I2", "request %u in the queue of entry %u says it is for entry %u", r->index,
				     i, r->entry);
		if (k == 0 && r->ticket > tail_ticket(snap->tail))
			return wrong(v, "I6", "entry %u: ticket %llu of request %u is above the tail's", i,
				     (unsigned long long)r->ticket, r->index);
		if (r->ticket >= newer)
			return wrong(v, "I2", "entry %u: ticket %llu of request %u is not below its successor's", i,
				     (unsigned long long)r->ticket, r->index);
		newer = r->ticket;
	}
	return true;
}

/* I3: oldest to newest without the dead, granted ones come first, and are one exclusive or all shared. */
static bool check_prefix(struct verifier *v, uint32_t i)
{
	bool waiting = false, exclusive = false;
	uint32_t k, held = 0;

	for (k = v->snap.n; k-- > 0;) {
		uint64_t w = v->snap.requests[k].word;

		if (!word_live(w))
			continue;
		if (word_is(w, REQUEST_WAITING)) {
			waiting = true;
			continue;
		}
		if (waiting)
			return wrong(v, "I3", "entry %u: request %u is granted after a waiting one", i,
				     v->snap.requests[k].index);
		if (held > 0 && (exclusive || word_exclusive(w)))
			return wrong(v, "I3", "entry %u: an exclusive hold in addition to another", i);
		exclusive = word_exclusive(w);
		held++;
	}
	return true;
}

static bool check_identity(struct verifier *v, uint32_t i)
{
	const struct lockshm *s = v->s;
	const struct shm_entry *e = &s->entries[i];
	uint64_t id[2] = { load_relaxed(&e->id[0]), load_relaxed(&e->id[1]) }, len = load_relaxed(&e->key_len);
	uint32_t w, k, slot, buckets[2] = { table_bucket(s, id), table_second_bucket(s, id) };
	bool inside = false;

	if (len > LOCKSHM_KEY_MAX)
		return wrong(v, "I5", "entry %u: key of %llu bytes", i, (unsigned long long)len);
	for (w = 0; w < 2; w++)
		for (k = 0; k < WINDOW; k++) {
			slot = window_slot(s, buckets[w], k);
			inside = inside || slot == i;
			if (slot != i && entry_is(&s->entries[slot], id, len) &&
			    !table_is_claimed(s, &s->entries[slot], load_acquire(&s->entries[slot].tail)))
				return wrong(v, "I5", "entries %u and %u are for the same key", i, slot);
		}
	if (!inside)
		return wrong(v, "I5", "entry %u is outside the windows of its key", i);
	if (__atomic_load_n(&s->tags[i], __ATOMIC_RELAXED) != table_tag(id))
		return wrong(v, "I5", "entry %u: tag does not fit its key", i);
	return true;
}

/* The stored prefix of a short key is the whole key: then the identity can be computed again. */
static bool check_prefix_bytes(struct verifier *v, uint32_t i)
{
	const struct shm_entry *e = &v->s->entries[i];
	uint64_t words[KEY_SHOWN_WORDS], len = load_relaxed(&e->key_len);
	struct identity id;
	int k;

	if (len == 0 || len > sizeof(words))
		return true;
	for (k = 0; k < KEY_SHOWN_WORDS; k++)
		words[k] = load_relaxed(&entry_detail(v->s, e)->key[k]);
	hash_key(&id, v->s->hash_secret, words, len);
	return entry_is(e, id.id, len) || wrong(v, "I5", "entry %u: the shown key does not fit the identity", i);
}

static bool check_claim(struct verifier *v, uint32_t i)
{
	uint64_t tail = load_acquire(&v->s->entries[i].tail);
	const struct shm_request *r = request_at(v->s, tail_index(tail));

	/* A claim may be between two steps, stopped there, or left by a dead thread for the next requester to end. */
	return !r || load_relaxed32(&r->entry) == i ||
	       wrong(v, "I5", "entry %u is claimed by a request for another", i);
}

static bool check_entry(struct verifier *v, uint32_t i)
{
	const struct shm_entry *e = &v->s->entries[i];
	uint64_t tail = load_acquire(&e->tail);
	bool ok;

	if (tail_index(tail) > v->s->n_requests)
		return wrong(v, "I7", "entry %u: tail names request %u of %u", i, tail_index(tail), v->s->n_requests);
	if (table_is_claimed(v->s, e, tail))
		return check_claim(v, i);
	if (load_relaxed(&e->key_len) == 0)
		return tail_index(tail) == 0 || load_acquire(&e->tail) != tail ||
		       wrong(v, "I5", "entry %u has a queue but no key", i);
	if (!snapshot_take(v->s, e, &v->snap))
		return v->no_memory = true;
	if (!v->snap.stable)
		return true; /* too busy to be seen at one instant; nothing wrong was seen */
	if (v->snap.broken)
		return wrong(v, "I1", "entry %u: the queue does not end, or runs through a free record", i);
	ok = check_requests(v, i) && check_prefix(v, i) && check_identity(v, i) && check_prefix_bytes(v, i);
	return load_acquire(&e->tail) != v->snap.tail ? (ok || true) : ok;
}

/* ---------------------------------------------------------------- one request, one owner */

/* Its owner may be stopped between fill and append, or between pop and FREE: with one record at a time, and not with
 * the one that it published as waiting, which was appended before. */
static bool in_limbo(struct verifier *v, uint32_t i, uint64_t w, uint64_t owner)
{
	uint32_t slot = owner_ref_slot(owner);

	return load_acquire(&v->s->owners[slot].waiting) != ref_pack(i, word_gen(w)) && !v->limbo[slot]++;
}

/* I4: live requests are reachable from their entry, or their owner is between fill and CAS, or dead. */
static bool check_request(struct verifier *v, uint32_t i)
{
	const struct lockshm *s = v->s;
	const struct shm_request *r = &s->requests[i];
	uint64_t w = load_acquire(&r->word), owner = load_relaxed(&r->owner);
	uint32_t entry = load_relaxed32(&r->entry), k;

	if (word_state(w) > REQUEST_CLAIM && word_state(w) < REQUEST_RELEASED)
		return wrong(v, "I7", "request %u: impossible state %d", i, (int)word_state(w));
	if (word_state(w) > REQUEST_DEAD)
		return wrong(v, "I7", "request %u: impossible state %d", i, (int)word_state(w));
	if (word_prev(w) > s->n_requests)
		return wrong(v, "I7", "request %u: prev %u is out of range", i, word_prev(w));
	if (!word_live(w))
		return true;
	if (!entry_at(s, entry))
		return wrong(v, "I7", "request %u: entry %u is out of range", i, entry);
	if (owner_ref_slot(owner) >= s->n_owners)
		return wrong(v, "I7", "request %u: owner slot %u is out of range", i, owner_ref_slot(owner));
	if (owner_is_dead(s, owner))
		return true;
	if (!word_is(w, REQUEST_COOLING) && load_acquire(chunk_word(s, (i - 1) / s->chunk_size)) == 0 &&
	    load_acquire(&r->word) == w)
		return wrong(v, "I7", "request %u is live in a chunk without an owner", i);
	if (!snapshot_take(s, &s->entries[entry], &v->snap))
		return v->no_memory = true;
	if (!v->snap.stable)
		return true;
	for (k = 0; k < v->snap.n; k++)
		if (v->snap.requests[k].index == i)
			return true;
	return load_acquire(&r->word) != w || in_limbo(v, i, w, owner) ||
	       wrong(v, "I4", "request %u is live but in no queue", i);
}

static bool check_owner(struct verifier *v, uint32_t i)
{
	const struct shm_owner *o = &v->s->owners[i];
	uint64_t c = load_acquire(&o->control);

	if (control_state(c) == OWNER_FREE && control_pid(c) != 0)
		return wrong(v, "I7", "owner slot %u is free and has a pid", i);
	if (control_state(c) == OWNER_ACTIVE && load_relaxed32(&o->life_off) > LIFE_BYTES - 4)
		return wrong(v, "I7", "owner slot %u: life word at %u", i, load_relaxed32(&o->life_off));
	return true;
}

/* Beyond it no sweep would find the chunk. */
static bool in_reach(const struct lockshm *s, uint32_t slot, uint32_t chunk)
{
	uint32_t way = (chunk + s->n_chunks - slot % s->n_chunks) % s->n_chunks;

	return way < owner_reach(load_acquire32(&s->owners[slot].flags), s->n_chunks);
}

static bool check_chunk(struct verifier *v, uint32_t i)
{
	uint64_t ref = load_acquire(chunk_word(v->s, i)), c;
	const struct shm_owner *o;

	if (ref == 0)
		return true;
	o = owner_at(v->s, owner_ref_slot(ref));
	if (!o)
		return wrong(v, "I7", "chunk %u: owner slot out of range", i);
	c = load_acquire(&o->control);
	/* The sweep frees a chunk before its owner's slot, never the other way round. */
	if (control_gen(c) != owner_ref_gen(ref) || control_state(c) == OWNER_FREE)
		return load_acquire(chunk_word(v->s, i)) != ref ||
		       wrong(v, "I7", "chunk %u belongs to a slot generation that is gone", i);
	return in_reach(v->s, owner_ref_slot(ref), i) || load_acquire(chunk_word(v->s, i)) != ref ||
	       wrong(v, "I7", "chunk %u is beyond the reach of its owner, slot %u", i, owner_ref_slot(ref));
}

LOCKSHM_EXPORT int lockshm_verify(lockshm_t *segment, lockshm_problem_fn fn, void *arg, size_t *problems)
{
	struct verifier v = { .s = segment, .fn = fn, .arg = arg };
	uint32_t i;

	if (problems)
		*problems = 0;
	if (!segment_valid(segment))
		return LOCKSHM_INVALID;
	v.limbo = calloc(segment->n_owners, 1);
	if (!snapshot_init(&v.snap) || !v.limbo) {
		snapshot_free(&v.snap);
		free(v.limbo);
		return LOCKSHM_NO_MEMORY;
	}
	for (i = 0; i < segment->n_owners; i++)
		check_repeatedly(&v, check_owner, i);
	for (i = 0; i < segment->n_chunks; i++)
		check_repeatedly(&v, check_chunk, i);
	for (i = 0; i < segment->n_locks; i++)
		check_repeatedly(&v, check_entry, i);
	for (i = 1; i <= segment->n_requests; i++)
		check_repeatedly(&v, check_request, i);
	snapshot_free(&v.snap);
	free(v.limbo);
	if (problems)
		*problems = v.problems;
	if (v.problems)
		return LOCKSHM_BAD_SEGMENT;
	return v.no_memory ? LOCKSHM_NO_MEMORY : 0;
}
