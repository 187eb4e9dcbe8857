/* SPDX-License-Identifier: MIT */
/*
 * damage.c - the mark of an exclusive holder that died inside or lost the lock, until it is acknowledged
 *
 * Marks are for robust keys, and robust is a bit of the word that has the mark.  A helper reads the word, makes sure
 * that the dead request is still linked, and then replaces the word by one CAS from the value it read.  So a helper
 * that was stopped in between can neither mix two deaths nor restore an old one: by then other helpers have recorded
 * this death, or a later one, and its CAS fails.  No lock is needed.
 *
 * The word (in the entry's first cache line) is never cleared.  Acknowledging sets a bit and leaves the ticket, which
 * shows a late helper that its death was recorded: no exclusive request with a larger ticket could have been granted
 * before that.
 *
 * Crash points of damage_write(): (1) the word stored, time or details not: the next helper stores them;  (2) all
 * stored: recorded.  At either point the request is still linked, so a later walk comes to it.
 */
#include "lock/damage.h"

#include <string.h>

#include "lock/damage-details.h"
#include "lock/owner.h"
#include "lock/request.h"

bool damage_make_robust(struct shm_entry *e, uint64_t tail)
{
	uint64_t word = load_acquire(&e->damage_word);

	/* The word before the tail: if that is unchanged, so was the key when the word was read. */
	if (load_relaxed(&e->tail) != tail)
		return false;
	return (word & DAMAGE_ROBUST) || cas_from(&e->damage_word, word, word | DAMAGE_ROBUST);
}

static bool leaves_mark(uint64_t dead)
{
	return word_exclusive(dead) && (word_is(dead, REQUEST_EXPIRED) || word_is(dead, REQUEST_DEAD));
}

/* Does the mark of a hold with @ticket, dead or overrun, replace @old?  A smaller ticket is a late helper's. */
static bool outranks(uint64_t old, uint64_t ticket, uint64_t died)
{
	return damage_ticket(old) < ticket && !(damage_is_mark(old) && (old & DAMAGE_DIED) && !died);
}

static void read_dead_holder(const struct lockshm *s, uint32_t index, struct dead_holder *o)
{
	const struct shm_request *r = &s->requests[index];
	struct owner_identity who = owner_identity(s, load_relaxed(&r->owner));

	o->ticket = ticket_of(load_relaxed(&r->ticket));
	o->pid = who.pid;
	o->tid = who.tid;
	request_tag(r, o->tag);
}

/* When the mark @word was left: stored once, while it is there. */
static void put_time(const struct lockshm *s, struct shm_entry *e, uint64_t word)
{
	uint64_t want = damage_time_make(damage_ticket(word), (uint64_t)segment_now(s) / 1000000), seen;

	do {
		seen = load_acquire(&e->damage_time);
		if (seen >> DAMAGE_MS_BITS == want >> DAMAGE_MS_BITS)
			return;
		/* The time before the word: if that is unchanged, so is the mark.  Pairs with the CAS on the word of
		 * another mark. */
		fence_acquire();
		if (load_relaxed(&e->damage_word) != word)
			return;
	} while (!cas_from(&e->damage_time, seen, want));
}

void damage_write(struct lockshm *s, struct shm_entry *e, uint32_t index, uint64_t dead, struct anchor anchor)
{
	uint64_t died = word_is(dead, REQUEST_DEAD) ? DAMAGE_DIED : 0, old, mark;
	struct dead_holder o;

	if (likely(!leaves_mark(dead)))
		return;
	do {
		old = load_acquire(&e->damage_word);
		read_dead_holder(s, index, &o);
		/* Word and fields before the anchor: the request is still linked, so the fields are its own, and its
		 * mark has not been left and acknowledged since.  Pairs with the CAS that unlinks. */
		fence_acquire();
		if (load_relaxed(anchor.word) != anchor.value || !(old & DAMAGE_ROBUST))
			return;
		mark = damage_make(o.ticket, DAMAGE_ROBUST | died);
		if (old == mark)
			break;
		if (!outranks(old, o.ticket, died))
			return;
	} while (!cas_from(&e->damage_word, old, mark));
	put_time(s, e, mark);
	damage_details_put(s, e, mark, &o);
}

/* 0 = not known: a time of another mark, or in a damaged segment, or the clock of this process is not known. */
static int64_t age_of(const struct lockshm *s, const struct shm_entry *e, uint64_t ticket)
{
	uint64_t time = load_acquire(&e->damage_time), ms = time & damage_time_make(0, UINT64_MAX);
	int64_t now = segment_now(s);

	if (time >> DAMAGE_MS_BITS != damage_time_make(ticket, 0) >> DAMAGE_MS_BITS || s->clock_lost || now < 0 ||
	    ms > (uint64_t)now / 1000000)
		return 0;
	return now - (int64_t)ms * 1000000;
}

uint64_t damage_read(const struct lockshm *s, const struct shm_entry *e, struct lockshm_damage *out)
{
	uint64_t word = load_acquire(&e->damage_word), ticket = damage_ticket(word);

	memset(out, 0, sizeof(*out));
	if (!damage_is_mark(word))
		return word;
	out->status = word & DAMAGE_DIED ? LOCKSHM_OWNER_DIED : LOCKSHM_TOOK_OVER_EXPIRED;
	out->token = segment_token(s, ticket);
	out->age_ns = age_of(s, e, ticket);
	damage_details_get(s, e, word, out);
	return word;
}

bool damage_acknowledge(struct shm_entry *e, uint64_t seen)
{
	return cas_from(&e->damage_word, seen, seen | DAMAGE_ACKNOWLEDGED);
}
