/* SPDX-License-Identifier: MIT */
/*
 * hold.h - the content of the caller's opaque lockshm_hold_t
 *
 * It is the caller's memory, so it is checked before use.  One word is a seal: a mixture of the address and of all
 * other words but one, which differs if any single word changes.  Memory that does not match its seal is no hold, and
 * no other word of it is used.  Memory that matches may be left over from an earlier use: so the segment is compared
 * with those the thread takes part in, or is a guest of, before it is followed (hold/hold-access.c), the record's
 * generation, entry, ticket and owner are compared with those of the hold, and a renewal is looked up before it is
 * followed (hold/renewal.c).
 */
#ifndef LOCKSHM_HOLD_HOLD_H
#define LOCKSHM_HOLD_HOLD_H

#include <string.h>

#include "lock/queue.h"

#define HOLD_MAGIC UINT64_C(0x646c6f68206c6f63)
#define HOLD_OPEN UINT64_C(0x6e65706f206c6f63)
#define HOLD_LOST UINT64_C(0x74736f6c206c6f63)

#define HOLD_TENDED 3 /* hold.moved; the generation in the hold is that in its place in lock/tend.h */

struct renewal;

/* Fields copied from the participant, and fields that start as zero, are adjacent: one store for two words. */
struct hold {
	struct grant grant; /* release compares its end with the clock */
	uint64_t magic; /* hold_seal(), or another state below; a copy is no hold */
	struct lockshm *segment;
	uint64_t epoch;	 /* of the process that took it */
	uint64_t owner;	 /* uid of the participant it depends on: its thread, or the service thread */
	struct renewal *renewal; /* hold/renewal.h; NULL = none */
	uint64_t moved;	 /* its record is, or was, another thread's; HOLD_TENDED: of a loop, and the service thread tends it */
	uint64_t lost_to; /* not sealed: reported to the caller and used for nothing else */
	uint64_t loop;	 /* of a LOCKSHM_BARGE hold of a loop: the number of that; else 0 */
	uint64_t token; /* base + ticket; of a global one its fencing number; 0 = held on this host only, by policy */
	uint64_t key_check; /* part of the key's identity: is the entry still this key's? */
	uint32_t entry;
	uint32_t streak;	 /* the streak that it continues, see hold/barge.c; 0 = none */
	uint32_t index;
	uint32_t host_lease; /* LOCKSHM_GLOBAL: its host lease, index + 1; 0 = none.  With one, grant.end is 0, which
			      * keeps the hold off the fast paths, and the record has the end. */
	uint64_t host_lease_word; /* word of that lease, seen HELD */
};
_Static_assert(sizeof(struct hold) == sizeof(lockshm_hold_t), "every word is one of these fields, and sealed");

static inline struct hold *hold_of(const lockshm_hold_t *h)
{
	return (struct hold *)(uintptr_t)h;
}

/*
 * The seal of @h, with these values for two of its words.  Sums and XORs alternate: each single word still decides the
 * result, and equal changes of two words do not cancel out, as they would with XORs only.
 */
static ALWAYS_INLINE uint64_t hold_seal_with(const struct hold *h, uint64_t renewal, uint64_t moved)
{
	uint64_t x = HOLD_MAGIC ^ (uint64_t)(uintptr_t)h, entry_and_streak, index_and_host_lease;

	memcpy(&entry_and_streak, &h->entry, sizeof(entry_and_streak));
	memcpy(&index_and_host_lease, &h->index, sizeof(index_and_host_lease));
	x = (x + h->grant.gen) ^ (uint64_t)(uintptr_t)h->segment;
	x = (x + h->epoch) ^ h->owner;
	x = (x + (uint64_t)h->grant.end) ^ h->token;
	x = (x + h->key_check) ^ entry_and_streak;
	x = (x + index_and_host_lease) ^ h->loop;
	x = (x + h->host_lease_word) ^ h->grant.ticket;
	return (x + renewal) ^ moved;
}

static inline uint64_t hold_seal(const struct hold *h)
{
	return hold_seal_with(h, (uint64_t)(uintptr_t)h->renewal, h->moved);
}

/* Is it a hold, unchanged since the library wrote it? */
static inline bool hold_sealed(const struct hold *h)
{
	return likely(h->magic == hold_seal(h));
}

/* hold_open() and hold_close() enclose each change.  Meanwhile only lockshm_token() may read it, from a signal
 * handler. */
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

/* The seal of a hold that was released after its loss: only lost_to is valid, for lockshm_lost_to(). */
static inline uint64_t hold_lost_seal(const struct hold *h)
{
	return (HOLD_LOST ^ (uint64_t)(uintptr_t)h) + h->lost_to;
}

/* @g was granted to @self by record @index, for @entry; @key_check is the first word of the key's identity. */
static inline void hold_fill(struct hold *h, const struct participant *self, uint32_t index, uint32_t entry,
			     const struct grant *g, uint64_t key_check)
{
	_Static_assert(offsetof(struct participant, epoch) == 8 &&
			       offsetof(struct hold, epoch) - offsetof(struct hold, segment) == 8,
		       "segment and epoch are copied as one");
	_Static_assert(offsetof(struct hold, loop) - offsetof(struct hold, renewal) == 24, "zeroed as one");

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

/*
 * Make what hold_fill() has filled for a participant of the process a hold of the process, which any thread may release
 * while the chunk's thread fills other records.  `moved` was 0 and enters the seal as its last XOR, so one more XOR
 * seals it again.
 */
static inline void hold_set_of_process(struct hold *h)
{
	h->moved = 1;
	h->magic ^= 1;
}

/* The same for one that the service thread tends. */
static inline void hold_set_tended(struct hold *h)
{
	h->moved = HOLD_TENDED;
	h->magic ^= HOLD_TENDED;
}

static inline bool hold_is_tended(const struct hold *h)
{
	return unlikely(h->moved == HOLD_TENDED);
}

#define HOLD_USE_BYTES 96

/* Is this memory a hold that is really held now?  Safe for any content.  Clears up after a lost one.  @text gets 'in use
 * for "KEY", by this thread'; or NULL. */
bool hold_in_use(struct hold *h, char text[HOLD_USE_BYTES]);

#endif
