/* SPDX-License-Identifier: MIT */
/*
 * hold.h - what is behind the caller's opaque lockshm_hold_t
 *
 * It is the caller's memory, so it is checked and not believed.  The first word is a seal: a mixture of the address and
 * of all other words but one, in which no word can change alone without the result changing.  What does not fit
 * its seal is no hold, and no other word of it is used.  What fits may still be left over from an earlier use: so the
 * segment is compared with those the thread takes part in before it is looked into (hold/hold-access.c), the record's generation,
 * entry, ticket and owner with those of the hold, and a renewal is looked for before it is followed (service/service.c).
 */
#ifndef LOCKSHM_HOLD_HOLD_H
#define LOCKSHM_HOLD_HOLD_H

#include <string.h>

#include "lock/queue.h"

#define HOLD_MAGIC UINT64_C(0x646c6f68206c6f63)
#define HOLD_OPEN UINT64_C(0x6e65706f206c6f63)
#define HOLD_LOST UINT64_C(0x74736f6c206c6f63)

struct renewal;

/* Where the thread's participant has the same, and what starts as zero, lies together: two words make one store. */
struct hold {
	struct grant grant; /* its end is what release compares with the clock */
	uint64_t magic; /* hold_seal(), or what else is below; a copy is no hold */
	struct lockshm *segment;
	uint64_t epoch;	 /* process that took it */
	uint64_t owner;	 /* uid of the participant it depends on: its thread, or the service thread */
	struct renewal *renewal; /* service/service.c, or NULL */
	uint64_t moved;	 /* its record is, or was, another thread's */
	uint64_t lost_to; /* not sealed: an answer to the caller, which nothing goes by */
	uint64_t damage;	 /* mark word it was told of */
	uint64_t token; /* base + ticket; of a global one its fencing number; 0 = held on this host only, by policy */
	uint64_t key_check; /* part of the key's identity: is the entry still this key's? */
	uint32_t entry;
	uint32_t streak;	 /* of holds that it goes on with, see hold/barge.c; 0 = none */
	uint32_t index;
	uint32_t host_lease; /* LOCKSHM_GLOBAL: the host lease it is under, index + 1; 0 = none.  Then grant.end is 0, so that
			      * nothing takes the short ways, and the record has it. */
	uint64_t host_lease_word; /* of that lease, when it was seen held */
};
_Static_assert(sizeof(struct hold) == sizeof(lockshm_hold_t), "each word of it is one of these, and sealed");

static inline struct hold *hold_of(const lockshm_hold_t *h)
{
	return (struct hold *)(uintptr_t)h;
}

/*
 * The seal of @h as it is, but for two words that have these values.  Sums and XORs in turn: each word still decides
 * the result alone, and equal changes of two words do not cancel out, as they would with XORs only.
 */
static ALWAYS_INLINE uint64_t hold_seal_with(const struct hold *h, uint64_t renewal, uint64_t moved)
{
	uint64_t x = HOLD_MAGIC ^ (uint64_t)(uintptr_t)h, entry_row, index_remote;

	memcpy(&entry_row, &h->entry, sizeof(entry_row));
	memcpy(&index_remote, &h->index, sizeof(index_remote));
	x = (x + h->grant.gen) ^ (uint64_t)(uintptr_t)h->segment;
	x = (x + h->epoch) ^ h->owner;
	x = (x + (uint64_t)h->grant.end) ^ h->token;
	x = (x + h->key_check) ^ entry_row;
	x = (x + index_remote) ^ h->damage;
	x = (x + h->host_lease_word) ^ h->grant.ticket;
	return (x + renewal) ^ moved;
}

static inline uint64_t hold_seal(const struct hold *h)
{
	return hold_seal_with(h, (uint64_t)(uintptr_t)h->renewal, h->moved);
}

/* Is it a hold, as the library left it? */
static inline bool hold_sealed(const struct hold *h)
{
	return likely(h->magic == hold_seal(h));
}

/* Between these two its words change.  Only lockshm_token() may look meanwhile, from a signal handler. */
static inline void hold_open(struct hold *h)
{
	store_relaxed(&h->magic, HOLD_OPEN ^ (uint64_t)(uintptr_t)h);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline bool hold_is_open(const struct hold *h)
{
	return h->magic == (HOLD_OPEN ^ (uint64_t)(uintptr_t)h);
}

static inline void hold_close(struct hold *h)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	store_relaxed(&h->magic, hold_seal(h));
}

/* What is left of a hold that was released after it was lost: the number for lockshm_lost_to(). */
static inline uint64_t hold_lost_seal(const struct hold *h)
{
	return (HOLD_LOST ^ (uint64_t)(uintptr_t)h) + h->lost_to;
}

/* @g was granted to @self by record @index, for @entry; @key_check is the first word of the key's identity. */
static inline void hold_fill(struct hold *h, const struct participant *self, uint32_t index, uint32_t entry,
			     const struct grant *g, uint64_t key_check)
{
	_Static_assert(offsetof(struct participant, epoch) == 8 && offsetof(struct hold, epoch) - offsetof(struct hold, segment) == 8,
		       "segment and epoch are copied as one");
	_Static_assert(offsetof(struct hold, damage) - offsetof(struct hold, renewal) == 24, "zeroed as one");

	_Static_assert(offsetof(struct hold, host_lease) - offsetof(struct hold, index) == 4, "stored as one");
	_Static_assert(offsetof(struct hold, streak) - offsetof(struct hold, entry) == 4, "stored as one");
	uint64_t index_and_no_host_lease = index, entry_and_no_streak = entry;

	h->grant = *g;
	memcpy(&h->segment, &self->segment, 16);
	h->owner = self->uid;
	memset(&h->renewal, 0, 32);
	h->token = self->segment->token_base + g->ticket;
	h->key_check = key_check;
	memcpy(&h->entry, &entry_and_no_streak, sizeof(entry_and_no_streak));
	memcpy(&h->index, &index_and_no_host_lease, sizeof(index_and_no_host_lease));
	h->host_lease_word = 0;
	h->magic = hold_seal_with(h, 0, 0);
}

/* Is this memory a hold that is really held now?  Safe for any content.  Clears up behind one that was lost. */
bool hold_in_use(struct hold *h);

#endif
