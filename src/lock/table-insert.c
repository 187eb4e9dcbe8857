/* SPDX-License-Identifier: MIT */
/*
 * table-insert.c - adding a key without a latch, and one key never in two slots
 *
 * The bucket word serialises the insertions of keys of one bucket; it announces the slot of the newest one:
 *
 *   (a) read the bucket word; open the slot it announces if that is still claimed; scan for the key: found = done
 *   (b) pick an empty slot, else an idle one; for an idle one first raise the high-water mark of its old key's
 *       bucket to its last ticket
 *   (c) claim the slot: CAS its tail to name a request of mine in state CLAIM, with the next ticket; appends fail now
 *   (d) write identity, tag, shown key
 *   (e) read the bucket word again, open what it announces, scan again: found = give the claim back
 *       only after this: read the high-water mark, and set the slot's first ticket to at least that
 *   (f) CAS the bucket word to announce my slot: from here the key exists; lost = give back, start over
 *   (g) open the slot: CAS its tail to the first ticket and index 0; any thread may
 *
 * Why no key is in two slots: (f) succeeds only if no key of this bucket was announced since (e), and everything
 * announced before was opened before the scan of (e), which therefore saw it.  Why tickets do not go back: (b) raises
 * the high-water mark before the old key loses the slot, and an insertion of that key reads the mark after a read of
 * the bucket word that (f) proves unchanged, so the key was not announced in between.
 *
 * Crash points: after (c) the dead claimer's slot is neither empty nor open.  After (f) the next insertion in this
 * bucket, or the sweep, opens it.  Before (f) the next thread that needs the slot takes the claim over, by CAS of the
 * tail to a claim of its own, and so becomes the only writer of the identity.  A stopped claimer keeps one slot out of
 * use and no key.
 */
#include "lock/chunks.h"
#include "lock/table.h"

#include <string.h>

#include "sys/error.h"
#include "lock/damage.h"
#include "lock/queue.h"
#include "lock/request.h"

struct claim {
	uint32_t slot;
	uint32_t record;
	uint64_t tail; /* [claim ticket | record] */
};

/* (g), by any thread: @tail of @slot is a claim that the word of @bucket announces. */
static bool open_if_announced(struct lockshm *s, uint32_t slot, uint64_t tail, uint32_t bucket, uint64_t word)
{
	struct shm_entry *e = &s->entries[slot];
	const struct shm_request *r = request_at(s, tail_index(tail));
	uint64_t first;

	if (word == 0 || bucket_slot(word) != slot || bucket_claim(word) != (tail_ticket(tail) & CLAIM_MASK))
		return false;
	if (!r || !table_is_claimed(s, e, tail) || load_relaxed32(&r->bucket) != bucket)
		return false;
	first = load_acquire(&e->first_ticket);
	/* The bucket word again, after the claim: an old announcement may match the low bits of a later claim. */
	if (load_acquire(&s->buckets[bucket].word) != word)
		return false;
	(void)cas_from(&e->tail, tail, tail_make(first & TICKET_MAX, 0));
	return true;
}

static void open_announced(struct lockshm *s, uint32_t bucket, uint64_t word)
{
	uint32_t slot = bucket_slot(word);

	if (word != 0 && slot < s->n_locks)
		(void)open_if_announced(s, slot, load_acquire(&s->entries[slot].tail), bucket, word);
}

static void raise_high_water(struct shm_bucket *bucket, uint64_t ticket)
{
	uint64_t high_water = load_acquire(&bucket->high_water);

	while (high_water < ticket && !cas(&bucket->high_water, &high_water, ticket))
		;
}

/* A record of mine as a claim for @slot; unreachable until the CAS in claim_slot(). */
static void fill_claim(struct participant *self, uint32_t record, uint32_t slot, uint32_t bucket)
{
	struct shm_request *r = &self->segment->requests[record];
	uint64_t gen = (word_gen(load_relaxed(&r->word)) + 1) & GEN_MASK;

	request_begin_use(r, self->ref, slot);
	store_relaxed32(&r->bucket, bucket);
	store_relaxed(&r->ticket, ticket_make(gen, 0));
	store_relaxed(&r->deadline, deadline_unset(gen));
	store_release(&r->word, word_make(gen, true, REQUEST_CLAIM, 0));
}

/* (b) and (c) for a slot whose tail was @tail: idle, or a dead owner's claim. */
static bool claim_slot(struct participant *self, struct claim *c, uint32_t slot, uint64_t tail, uint32_t bucket)
{
	struct lockshm *s = self->segment;
	struct shm_entry *e = &s->entries[slot];
	uint64_t ticket = tail_ticket(tail) + 1, announced = load_acquire(&s->buckets[bucket].word);
	uint64_t old_id[2] = { load_relaxed(&e->id[0]), load_relaxed(&e->id[1]) };

	/* An old announcement of this slot must not match this claim. */
	if (announced != 0 && bucket_slot(announced) == slot && bucket_claim(announced) == (ticket & CLAIM_MASK))
		ticket++;
	if (ticket >= TICKET_MAX)
		return false;
	if (tail_index(tail) == 0 && load_relaxed(&e->key_len) != 0)
		raise_high_water(&s->buckets[table_bucket(s, old_id)], tail_ticket(tail));
	c->slot = slot;
	c->tail = tail_make(ticket, c->record);
	fill_claim(self, c->record, slot, bucket);
	if (cas_from(&e->tail, tail, c->tail))
		return true;
	request_drop(self, c->record);
	return false;
}

static void set_tag(struct lockshm *s, uint32_t slot, uint16_t tag)
{
	__atomic_store_n(&s->tags[slot], tag, __ATOMIC_RELEASE);
}

/* (d): while claimed, only the claimer writes here. */
static void write_identity(struct lockshm *s, uint32_t slot, const struct identity *id, const void *key)
{
	struct shm_entry *e = &s->entries[slot];
	uint64_t shown[KEY_SHOWN_WORDS] = { 0 };
	int i;

	memcpy(shown, key, id->len < sizeof(shown) ? id->len : sizeof(shown));
	/* The high-water mark of the old key before the new identity.  Pairs with fence_acquire() in publish(). */
	fence_release();
	store_relaxed(&e->id[0], id->id[0]);
	store_relaxed(&e->id[1], id->id[1]);
	store_relaxed(&e->key_len, id->len);
	for (i = 0; i < KEY_SHOWN_WORDS; i++)
		store_relaxed(&entry_detail(s, e)->key[i], shown[i]);
	set_tag(s, slot, table_tag(id->id));
}

/* Give a claim back: the slot becomes empty. */
static void give_back(struct participant *self, const struct claim *c)
{
	struct lockshm *s = self->segment;
	struct shm_entry *e = &s->entries[c->slot];

	set_tag(s, c->slot, 0);
	store_release(&e->key_len, 0);
	(void)cas_from(&e->tail, c->tail, tail_make(tail_ticket(c->tail), 0));
	request_drop(self, c->record);
}

/* Its queue is empty, and no damage waits to be acknowledged. */
static bool idle(const struct shm_entry *e, uint64_t tail)
{
	return tail_index(tail) == 0 && !damage_pending(e);
}

/* A claim of a dead owner that was not announced. */
static bool orphaned(struct lockshm *s, uint32_t slot, uint64_t tail)
{
	const struct shm_request *r = request_at(s, tail_index(tail));
	uint32_t bucket;

	if (!r || !table_is_claimed(s, &s->entries[slot], tail) || !owner_is_dead(s, load_relaxed(&r->owner)))
		return false;
	bucket = load_relaxed32(&r->bucket);
	/* The owner is dead before the bucket word is read, so the claim cannot be announced later. */
	return bucket >= s->n_buckets ||
	       !open_if_announced(s, slot, tail, bucket, load_acquire(&s->buckets[bucket].word));
}

/* One pass over a window.  @how 0: empty slots; 1: idle ones; 2: those that are idle after their queue is advanced. */
static bool claim_in_window(struct participant *self, struct claim *c, uint32_t window, uint32_t bucket, int how,
			    uint32_t start)
{
	struct lockshm *s = self->segment;
	uint32_t i;

	for (i = 0; i < WINDOW; i++) {
		uint32_t slot = window_slot(s, window, (start + i) % WINDOW);
		struct shm_entry *e = &s->entries[slot];
		uint64_t tail = load_acquire(&e->tail);

		if (how == 0 && (tail_index(tail) != 0 || load_relaxed(&e->key_len) != 0))
			continue;
		if (how == 2 && tail_index(tail) != 0 && !orphaned(s, slot, tail)) {
			(void)queue_advance_tail(s, e);
			tail = load_acquire(&e->tail);
		}
		if (!idle(e, tail) && !(how == 2 && orphaned(s, slot, tail)))
			continue;
		if (claim_slot(self, c, slot, tail, bucket))
			return true;
	}
	return false;
}

/* How many slots of a window a new key may take without advancing a queue. */
static uint32_t count_idle(const struct lockshm *s, uint32_t window)
{
	uint32_t i, n = 0;

	for (i = 0; i < WINDOW; i++) {
		const struct shm_entry *e = &s->entries[window_slot(s, window, i)];

		n += idle(e, load_acquire(&e->tail));
	}
	return n;
}

/* A look-up scans the first window first.  Once half of that is in use the second one is taken if it has more room:
 * without that choice a table must be twice as large to have a place for every key. */
static bool prefers_second(const struct lockshm *s, const uint32_t windows[2])
{
	uint32_t n = count_idle(s, windows[0]);

	return n < WINDOW / 2 && count_idle(s, windows[1]) > n;
}

/* (b): one window's empty, idle, clearable slots, then the other's.  Empty ones are tried from the preferred slot on,
 * where a look-up starts. */
static bool claim_any(struct participant *self, struct claim *c, const struct identity *id)
{
	struct lockshm *s = self->segment;
	uint32_t bucket = table_bucket(s, id->id), windows[2] = { bucket, table_second_bucket(s, id->id) };
	uint32_t start = (uint32_t)(id->id[1] >> 32), other = prefers_second(s, windows);
	int tries, how;
	uint32_t w;

	/* Again, because other insertions may have won the slots: only passes over unchanged slots mean full. */
	for (tries = 0; tries < 3; tries++)
		for (w = 0; w < 2; w++)
			for (how = 0; how < 3; how++)
				if (claim_in_window(self, c, windows[w ^ other], bucket, how, how == 0 ? table_preferred(id->id) : start))
					return true;
	return false;
}

/* (e) to (g).  1 = the key is in *out, 0 = start over, negative = error. */
static int publish(struct participant *self, const struct claim *c, const struct identity *id, uint32_t *out,
		   struct lockshm_error *error)
{
	struct lockshm *s = self->segment;
	struct shm_entry *e = &s->entries[c->slot];
	uint32_t bucket = table_bucket(s, id->id);
	uint64_t word = load_acquire(&s->buckets[bucket].word), first;

	open_announced(s, bucket, word);
	*out = table_lookup(s, id); /* skips claimed slots, mine among them */
	if (*out != ENTRY_NONE) {
		give_back(self, c);
		return 1;
	}
	/* Load the slots before the high-water mark: a claimer that overwrote this key's entry raised the mark first.
	 * Pairs with fence_release() in write_identity(). */
	fence_acquire();
	first = load_acquire(&s->buckets[bucket].high_water);
	if (first < tail_ticket(c->tail))
		first = tail_ticket(c->tail);
	if (first >= TICKET_MAX - 1) {
		give_back(self, c);
		return segment_full(s, LOCKSHM_TABLE_TICKETS, error);
	}
	store_relaxed(&e->first_ticket, first);
	/* The old key has no pending damage; a late helper of its queue sees a larger ticket and changes nothing. */
	store_relaxed(&e->damage_word, damage_fresh(first));
	if (!cas_from(&s->buckets[bucket].word, word, bucket_make(bucket_version(word) + 1, c->slot, tail_ticket(c->tail)))) {
		give_back(self, c);
		return 0;
	}
	(void)cas_from(&e->tail, c->tail, tail_make(first, 0));
	request_drop(self, c->record);
	*out = c->slot;
	return 1;
}

/* The entries of a window that only a damage mark keeps. */
static unsigned marks_in_window(const struct lockshm *s, uint32_t window)
{
	unsigned n = 0;
	uint32_t i;

	for (i = 0; i < WINDOW; i++) {
		const struct shm_entry *e = &s->entries[window_slot(s, window, i)];

		n += tail_index(load_relaxed(&e->tail)) == 0 && damage_pending(e);
	}
	return n;
}

static int full(struct lockshm *s, const struct identity *id, struct lockshm_error *error)
{
	unsigned marks = marks_in_window(s, table_bucket(s, id->id)) + marks_in_window(s, table_second_bucket(s, id->id));
	int err = segment_full(s, LOCKSHM_TABLE_KEYS, error);

	if (!marks || !error)
		return err;
	error_set(error, err,
		  "no lock entry for this key: %u of %u are kept by damage marks alone: acknowledge them (lockctl ack %s --all), "
		  "or create the segment with more keys",
		  marks, 2 * WINDOW, s->name[0] == '/' ? s->name + 1 : s->name);
	error->table = LOCKSHM_TABLE_KEYS;
	return err;
}

int table_insert(struct participant *self, const struct identity *id, const void *key, uint32_t *out,
		 struct lockshm_error *error)
{
	struct lockshm *s = self->segment;
	uint32_t bucket = table_bucket(s, id->id), tries;
	struct claim c;
	int done;

	for (tries = 0; tries < 100000; tries++) {
		open_announced(s, bucket, load_acquire(&s->buckets[bucket].word));
		*out = table_lookup(s, id);
		if (*out != ENTRY_NONE)
			return 0;
		c.record = request_take_fast(self);
		if (!c.record)
			return segment_full(s, LOCKSHM_TABLE_REQUESTS, error);
		if (!claim_any(self, &c, id))
			return full(s, id, error);
		write_identity(s, c.slot, id, key);
		done = publish(self, &c, id, out, error);
		if (done != 0)
			return done < 0 ? done : 0;
	}
	return error_set(error, LOCKSHM_BAD_SEGMENT, "the lock table keeps changing: damaged?");
}

bool table_end_claim(struct lockshm *s, struct participant *self, uint32_t index, uint64_t claim)
{
	const struct shm_request *r = &s->requests[index];
	uint32_t slot = load_relaxed32(&r->entry), bucket = load_relaxed32(&r->bucket);
	struct shm_entry *e = entry_at(s, slot);
	uint64_t tail = e ? load_acquire(&e->tail) : 0;
	struct claim c;

	if (load_acquire(&r->word) != claim)
		return false;
	if (!e || bucket >= s->n_buckets || tail_index(tail) != index)
		return true;
	if (!orphaned(s, slot, tail))
		return tail_index(load_acquire(&e->tail)) != index;
	if (!self)
		return false;
	c.record = request_take_fast(self);
	if (!c.record || !claim_slot(self, &c, slot, tail, bucket))
		return false;
	give_back(self, &c);
	return true;
}
