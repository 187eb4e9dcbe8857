/* SPDX-License-Identifier: MIT */
/*
 * damage.c - the holder that died or overran its lease, until its damage is acknowledged
 *
 * Damage is one word that decides, and details that belong to it: pid and thread id in one word, the label in five.
 * Each detail word carries low bits of its ticket; a reader takes a detail only if these bits match the damage word's.
 * A helper reads word and details, makes sure that the dead request is still linked, and then replaces each by one CAS
 * from the value it read.  So a helper that was stopped in between can neither mix two deaths nor restore an old one:
 * by then other helpers have recorded this death, or a later one, and its CAS fails.  No lock is needed.
 *
 * The word (in the entry's first cache line, since every acquire reads it) is never cleared.  Acknowledging sets a bit
 * and leaves the ticket, which shows a late helper that its death was recorded: no exclusive request with a larger
 * ticket could have been granted before that.
 *
 * Crash points of damage_write(): (1) some details stored: the next helper repeats it; (2) the word stored: recorded.
 * At either point the request is still linked, so a later walk comes to it.
 */
#include "lock/damage.h"

#include <string.h>

#include "lock/participant.h"
#include "lock/request.h"

#define HOLDER_BITS 20
#define TAG_BITS 16
#define CHARS_PER_WORD 6

static uint64_t damage_make(uint64_t ticket, bool exclusive, enum damage_rank rank)
{
	return ticket << 18 | (uint64_t)exclusive << 4 | (uint64_t)rank << 1;
}

static uint64_t damage_ticket(uint64_t word)
{
	return word >> 18;
}

static bool damage_exclusive(uint64_t word)
{
	return word >> 4 & 1;
}

static enum damage_rank rank_of(uint64_t dead)
{
	if (word_is(dead, REQUEST_DEAD))
		return word_exclusive(dead) ? DAMAGE_EXCLUSIVE_DIED : DAMAGE_SHARED_DIED;
	return word_exclusive(dead) ? DAMAGE_EXCLUSIVE_EXPIRED : DAMAGE_SHARED_EXPIRED;
}

/* Does damage of (@ticket, @rank) replace @old? */
static bool outranks(uint64_t old, uint64_t ticket, enum damage_rank rank)
{
	if (old == 0)
		return true;
	if (damage_ticket(old) == ticket)
		return false; /* recorded already */
	if (damage_ticket(old) > ticket && damage_exclusive(old))
		return false; /* a late helper: that exclusive grant followed the unlinking of its request */
	if (old & DAMAGE_ACKNOWLEDGED)
		return true;
	return rank > damage_rank(old) || (rank == damage_rank(old) && ticket > damage_ticket(old));
}

static uint64_t holder_word(uint64_t ticket, int32_t pid, int32_t tid)
{
	return ticket << (64 - HOLDER_BITS) | ((uint64_t)tid & 0x3fffff) << 22 | ((uint64_t)pid & 0x3fffff);
}

static uint64_t tag_word(uint64_t ticket, const char *six)
{
	uint64_t chars = 0;

	memcpy(&chars, six, CHARS_PER_WORD);
	return ticket << (64 - TAG_BITS) | chars;
}

struct dead_holder {
	uint64_t ticket;
	int32_t pid, tid;
	enum damage_rank rank;
	bool exclusive;
	char tag[LOCKSHM_TAG_MAX + 2];
};

static void read_dead_holder(const struct lockshm *s, uint32_t index, uint64_t dead, struct dead_holder *o)
{
	const struct shm_request *r = &s->requests[index];

	o->ticket = ticket_of(load_relaxed(&r->ticket));
	owner_identity(s, load_relaxed(&r->owner), &o->pid, &o->tid);
	request_tag(r, o->tag);
	o->rank = rank_of(dead);
	o->exclusive = word_exclusive(dead);
}

/* Replace each detail, but only from @seen, its value before the anchor was checked. */
static bool put_details(struct shm_damage *damage, const struct shm_damage *seen, const struct dead_holder *o)
{
	int i;

	if (!cas_from(&damage->holder, seen->holder, holder_word(o->ticket, o->pid, o->tid)))
		return false;
	for (i = 0; i < DAMAGE_TAG_WORDS; i++)
		if (!cas_from(&damage->tag[i], seen->tag[i], tag_word(o->ticket, o->tag + i * CHARS_PER_WORD)))
			return false;
	return true;
}

static void read_details(const struct shm_damage *damage, struct shm_damage *seen)
{
	int i;

	seen->holder = load_acquire(&damage->holder);
	for (i = 0; i < DAMAGE_TAG_WORDS; i++)
		seen->tag[i] = load_acquire(&damage->tag[i]);
}

/*
 * The damage word is @word, this helper's.  A helper of another death, which lost, may have stored its details between
 * ours and the CAS on the word: while the word is @word, replace the details that do not belong to it.  Later damage
 * changes the details first, so the CAS of a late repairer fails.
 */
static void repair_details(const struct shm_entry *e, struct shm_damage *damage, const struct dead_holder *o, uint64_t word)
{
	uint64_t holder = holder_word(o->ticket, o->pid, o->tid), seen, want;
	int i;

	for (i = -1; i < DAMAGE_TAG_WORDS; i++) {
		uint64_t *detail = i < 0 ? &damage->holder : &damage->tag[i];

		want = i < 0 ? holder : tag_word(o->ticket, o->tag + i * CHARS_PER_WORD);
		do {
			seen = load_acquire(detail);
			if (seen == want)
				break;
			/* The detail before the word; pairs with the CAS on the word after new details. */
			fence_acquire();
			if (load_relaxed(&e->damage_word) != word)
				return;
		} while (!cas_from(detail, seen, want));
	}
}

void damage_write(struct lockshm *s, struct shm_entry *e, uint32_t index, uint64_t dead, struct anchor anchor)
{
	struct shm_damage *damage = &entry_detail(s, e)->damage, seen;
	struct dead_holder o;
	uint64_t old;

	if (!word_is(dead, REQUEST_EXPIRED) && !word_is(dead, REQUEST_DEAD))
		return;
	do {
		old = load_acquire(&e->damage_word);
		read_details(damage, &seen);
		read_dead_holder(s, index, dead, &o);
		/* Word, details and fields before the anchor: the request is still linked, so the fields are its own,
		 * and its damage has not been recorded and acknowledged since.  Pairs with the CAS that unlinks. */
		fence_acquire();
		if (load_relaxed(anchor.word) != anchor.value || !outranks(old, o.ticket, o.rank))
			return;
	} while (!put_details(damage, &seen, &o) ||
		 !cas_from(&e->damage_word, old, damage_make(o.ticket, o.exclusive, o.rank)));
	repair_details(e, damage, &o, damage_make(o.ticket, o.exclusive, o.rank));
}

uint64_t damage_read(const struct lockshm *s, const struct shm_entry *e, struct lockshm_previous *out)
{
	const struct shm_damage *damage = &entry_detail(s, e)->damage;
	uint64_t holder, word = load_acquire(&e->damage_word), ticket = damage_ticket(word);
	int i;

	memset(out, 0, sizeof(*out));
	if (word == 0 || (word & DAMAGE_ACKNOWLEDGED))
		return word;
	out->status = damage_rank(word) >= DAMAGE_SHARED_DIED ? LOCKSHM_OWNER_DIED : LOCKSHM_TOOK_OVER_EXPIRED;
	out->mode = damage_exclusive(word) ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
	out->token = segment_token(s, ticket);
	holder = load_relaxed(&damage->holder);
	if (holder >> (64 - HOLDER_BITS) == (ticket & ((1u << HOLDER_BITS) - 1))) {
		out->pid = (int32_t)(holder & 0x3fffff);
		out->tid = (int32_t)(holder >> 22 & 0x3fffff);
	}
	for (i = 0; i < DAMAGE_TAG_WORDS; i++) {
		uint64_t part = load_relaxed(&damage->tag[i]);

		if (part >> (64 - TAG_BITS) == (ticket & ((1u << TAG_BITS) - 1)))
			memcpy(out->tag + i * CHARS_PER_WORD, &part, CHARS_PER_WORD);
	}
	return word;
}

int damage_acknowledge(struct shm_entry *e, uint64_t seen)
{
	uint64_t expected = seen;

	if (seen == 0 || (seen & DAMAGE_ACKNOWLEDGED) || cas(&e->damage_word, &expected, seen | DAMAGE_ACKNOWLEDGED))
		return 0;
	return expected == (seen | DAMAGE_ACKNOWLEDGED) ? 0 : LOCKSHM_BUSY;
}
