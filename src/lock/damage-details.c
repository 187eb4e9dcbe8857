/* SPDX-License-Identifier: MIT */
/*
 * damage-details.c - process, thread and label of the holders that left damage marks
 *
 * A mark is in its entry and is never lost; the facts about its holder are here, and are left out where the pool is
 * full.  A mark may use one of WAYS records, found by the index of its entry.  The record names the mark it is about
 * (entry and ticket).  Acknowledging a mark frees nothing: a record whose mark is gone may be taken.
 *
 * Each helper of a death stores the same values, so several may at once.  A helper that was stopped and goes on when
 * the record is another mark's stores nothing in it: it replaces a word by a CAS from a value it read before it looked
 * whose record it is.  A reader may look between the two helpers: so each word carries check bits of its mark.
 *
 * Crash points: (1) record taken, words not stored: they do not fit, so the reader leaves them out, and the next helper
 * stores them, since the dead request is still linked;  (2) two helpers took a record each: both are about the mark,
 * and both may be taken when it is gone.
 */
#include "lock/damage-details.h"

#include <string.h>

#include "sys/atomic.h"

#define WAYS 8u
#define HOLDER_BITS 20
#define TAG_BITS 16
#define CHARS_PER_WORD 6

static struct shm_damage *record_of(const struct lockshm *s, uint32_t entry, uint32_t way)
{
	return &s->damages[(entry + way) % s->n_damages];
}

/* Well mixed: words of neighbouring entries and tickets must differ. */
static uint64_t check_of(uint64_t whose)
{
	return whose * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t holder_word(uint64_t whose, const struct dead_holder *o)
{
	return check_of(whose) >> (64 - HOLDER_BITS) << (64 - HOLDER_BITS) | ((uint64_t)o->tid & 0x3fffff) << 22 |
	       ((uint64_t)o->pid & 0x3fffff);
}

static uint64_t tag_word(uint64_t whose, const char *six)
{
	uint64_t chars = 0;

	memcpy(&chars, six, CHARS_PER_WORD);
	return check_of(whose) >> (64 - TAG_BITS) << (64 - TAG_BITS) | chars;
}

static bool fits(uint64_t word, uint64_t whose, int bits)
{
	return word >> (64 - bits) == check_of(whose) >> (64 - bits);
}

/* Is the mark that the record is about acknowledged, or replaced by another? */
static bool is_stale(const struct lockshm *s, uint64_t whose)
{
	const struct shm_entry *e = entry_at(s, whose_entry(whose));
	uint64_t word = e ? load_acquire(&e->damage_word) : 0;

	return !damage_is_mark(word) || damage_whose(whose_entry(whose), damage_ticket(word)) != whose;
}

static struct shm_damage *find(const struct lockshm *s, uint64_t whose)
{
	uint32_t way;

	for (way = 0; way < WAYS; way++) {
		struct shm_damage *d = record_of(s, whose_entry(whose), way);

		if (load_acquire(&d->whose) == whose)
			return d;
	}
	return NULL;
}

static struct shm_damage *take(const struct lockshm *s, uint64_t whose)
{
	uint32_t way;

	for (way = 0; way < WAYS; way++) {
		struct shm_damage *d = record_of(s, whose_entry(whose), way);
		uint64_t old = load_acquire(&d->whose);

		if (old == whose || ((old == 0 || is_stale(s, old)) && cas_from(&d->whose, old, whose)))
			return d;
	}
	return NULL;
}

/* Store @want, while the record is about @whose. */
static void put_word(const struct shm_damage *d, uint64_t whose, uint64_t *at, uint64_t want)
{
	uint64_t seen;

	do {
		seen = load_acquire(at);
		if (seen == want)
			return;
		/* The word before `whose`: if that is unchanged, so is the record.  Pairs with the CAS in take(). */
		fence_acquire();
		if (load_relaxed(&d->whose) != whose)
			return;
	} while (!cas_from(at, seen, want));
}

void damage_details_put(struct lockshm *s, const struct shm_entry *e, uint64_t word, const struct dead_holder *o)
{
	uint64_t whose = damage_whose(entry_index(s, e), damage_ticket(word));
	struct shm_damage *d = find(s, whose);
	int i;

	if (!d && load_acquire(&e->damage_word) == word)
		d = take(s, whose);
	if (!d)
		return;
	put_word(d, whose, &d->holder, holder_word(whose, o));
	for (i = 0; i < DAMAGE_TAG_WORDS; i++)
		put_word(d, whose, &d->tag[i], tag_word(whose, o->tag + i * CHARS_PER_WORD));
}

void damage_details_get(const struct lockshm *s, const struct shm_entry *e, uint64_t word, struct lockshm_damage *out)
{
	uint64_t whose = damage_whose(entry_index(s, e), damage_ticket(word)), part;
	const struct shm_damage *d = find(s, whose);
	int i;

	if (!d)
		return;
	part = load_relaxed(&d->holder);
	if (fits(part, whose, HOLDER_BITS)) {
		out->pid = (int32_t)(part & 0x3fffff);
		out->tid = (int32_t)(part >> 22 & 0x3fffff);
	}
	for (i = 0; i < DAMAGE_TAG_WORDS; i++) {
		part = load_relaxed(&d->tag[i]);
		if (fits(part, whose, TAG_BITS))
			memcpy(out->tag + i * CHARS_PER_WORD, &part, CHARS_PER_WORD);
	}
}
