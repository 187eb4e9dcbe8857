/* SPDX-License-Identifier: MIT */
/*
 * words.h - the bits within the words of segment/layout.h, and the functions that pack and unpack them
 *
 * Each function works on a value; atomic loads and stores are the caller's.
 */
#ifndef LOCKSHM_SEGMENT_WORDS_H
#define LOCKSHM_SEGMENT_WORDS_H

#include "segment/layout.h"

#define INDEX_BITS 18
#define INDEX_MAX ((UINT64_C(1) << INDEX_BITS) - 1)
#define TICKET_MAX ((UINT64_C(1) << 46) - 1)
#define GEN_BITS 41
#define GEN_MASK ((UINT64_C(1) << GEN_BITS) - 1)

/* ---------------------------------------------------------------------------------------------------------------- *
 * Request word: [gen:41 | mode:1 | state:4 | prev:18].
 *
 * gen grows with every use of the record and every renewal.  41 bits at the most a core can do (40 million uses of one
 * record a second) wrap in 15 hours: a stale CAS succeeds only in a process that was stopped between load and CAS for
 * exactly that long, with everything else equal.
 */
static inline uint64_t word_make(uint64_t gen, bool exclusive, enum request_state state, uint32_t prev)
{
	return gen << 23 | (uint64_t)exclusive << 22 | (uint64_t)state << 18 | prev;
}

static inline uint32_t word_prev(uint64_t w)
{
	return (uint32_t)(w & INDEX_MAX);
}

static inline enum request_state word_state(uint64_t w)
{
	return (enum request_state)(w >> 18 & 15);
}

static inline bool word_exclusive(uint64_t w)
{
	return w >> 22 & 1;
}

static inline uint64_t word_gen(uint64_t w)
{
	return w >> 23;
}

static inline uint64_t word_with_state(uint64_t w, enum request_state state)
{
	return (w & ~(UINT64_C(15) << 18)) | (uint64_t)state << 18;
}

static inline uint64_t word_with_prev(uint64_t w, uint32_t prev)
{
	return (w & ~INDEX_MAX) | prev;
}

static inline uint64_t word_with_mode(uint64_t w, bool exclusive)
{
	return (w & ~(UINT64_C(1) << 22)) | (uint64_t)exclusive << 22;
}

/* Granted in that generation, in either mode, entered or not, without a predecessor. */
static inline bool word_is_head_hold(uint64_t w, uint64_t gen)
{
	const uint64_t either = UINT64_C(1) << 22 | UINT64_C(1) << 18;

	return (w & ~either) == word_make(gen, false, REQUEST_GRANTED, 0);
}

/* The same word in the next generation: what a renewal installs. */
static inline uint64_t word_renewed(uint64_t w)
{
	return w + (UINT64_C(1) << 23);
}

static inline bool word_live(uint64_t w)
{
	enum request_state s = word_state(w);

	return s >= REQUEST_WAITING && s <= REQUEST_BARGEABLE;
}

static inline bool word_dead(uint64_t w)
{
	return word_state(w) >= REQUEST_RELEASED;
}

static inline bool word_is(uint64_t w, enum request_state state)
{
	return word_state(w) == state;
}

/* Has the request the lock?  GRANTED or ENTERED. */
static inline bool word_holds(uint64_t w)
{
	return (word_state(w) | 1) == REQUEST_ENTERED;
}
_Static_assert((REQUEST_GRANTED | 1) == REQUEST_ENTERED, "one bit apart");

/* Two words of one use of a record, each GRANTED or ENTERED, that differ in nothing else. */
static inline bool word_is_same_hold(uint64_t a, uint64_t b)
{
	return word_holds(a) && ((a ^ b) & ~(UINT64_C(1) << 18)) == 0;
}

/* The next generation with mode, state and prev 0. */
static inline uint64_t word_next_gen(uint64_t w)
{
	return (w | ((UINT64_C(1) << 23) - 1)) + 1;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Request flags: [host lease index + 1:16 | REQUEST_...:16].
 *
 * REQUEST_GLOBAL and the host lease change in one store, so no reader sees one without the other.
 */
#define REQUEST_HOST_LEASE_SHIFT 16
_Static_assert(HOST_LEASES_MAX < UINT32_C(1) << (32 - REQUEST_HOST_LEASE_SHIFT), "a host lease must fit the flags");

/* Host lease index + 1; 0 = none. */
static inline uint32_t request_host_lease(uint32_t flags)
{
	return flags >> REQUEST_HOST_LEASE_SHIFT;
}

/* @flags of a request that needs host lease @index. */
static inline uint32_t request_make_global(uint32_t flags, uint32_t index)
{
	uint32_t rest = flags & ((UINT32_C(1) << REQUEST_HOST_LEASE_SHIFT) - 1);

	return (index + 1) << REQUEST_HOST_LEASE_SHIFT | rest | REQUEST_GLOBAL;
}

/* @flags of a request that needs no host lease. */
static inline uint32_t request_make_local(uint32_t flags)
{
	return flags & ((UINT32_C(1) << REQUEST_HOST_LEASE_SHIFT) - 1) & ~(REQUEST_GLOBAL | REQUEST_TRY);
}

static inline bool request_needs_lease(uint32_t flags, uint32_t index)
{
	return (flags & REQUEST_GLOBAL) && request_host_lease(flags) == index + 1;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Request reference: [gen | index:18], one use of a request record.
 */
struct request_ref {
	uint32_t index;
	uint64_t gen;
};

static inline uint64_t ref_pack(uint32_t index, uint64_t gen)
{
	return gen << INDEX_BITS | index;
}

static inline struct request_ref ref_unpack(uint64_t packed)
{
	struct request_ref ref = { (uint32_t)(packed & INDEX_MAX), packed >> INDEX_BITS };

	return ref;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Entry tail: [ticket:46 | index:18].  Every change except a pop raises the ticket, and a pop only moves towards the
 * head, so a value never recurs.
 */
static inline uint64_t tail_make(uint64_t ticket, uint32_t index)
{
	return ticket << INDEX_BITS | index;
}

static inline uint32_t tail_index(uint64_t tail)
{
	return (uint32_t)(tail & INDEX_MAX);
}

static inline uint64_t tail_ticket(uint64_t tail)
{
	return tail >> INDEX_BITS;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Request ticket: [low bits of the generation it was filled in:18 | ticket:46].
 *
 * An upgrade replaces the ticket by CAS.  The generation bits make that CAS fail on the next use of the record, which
 * for a moved hold is another thread's.
 */
static inline uint64_t ticket_make(uint64_t gen, uint64_t ticket)
{
	return gen << 46 | ticket;
}

/* @old with another ticket. */
static inline uint64_t ticket_replace(uint64_t old, uint64_t ticket)
{
	return (old & ~TICKET_MAX) | ticket;
}

static inline uint64_t ticket_of(uint64_t packed)
{
	return packed & TICKET_MAX;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Request deadline: absolute ns of the segment's clock; or "unset, gen" while the request waits; or "never, gen" of a
 * strict hold.  The generation makes a CAS for one use of a record fail on the next.
 */
#define DEADLINE_UNSET (UINT64_C(1) << 63)
#define DEADLINE_NEVER (UINT64_C(1) << 62)

static inline uint64_t deadline_unset(uint64_t gen)
{
	return DEADLINE_UNSET | gen;
}

static inline uint64_t deadline_never(uint64_t gen)
{
	return DEADLINE_NEVER | gen;
}

/* As a time; INT64_MAX = none (yet). */
static inline int64_t deadline_ns(uint64_t d)
{
	return d >= DEADLINE_NEVER ? INT64_MAX : (int64_t)d;
}

/* A time as a deadline of that generation. */
static inline uint64_t deadline_make(int64_t ns, uint64_t gen)
{
	return ns >= (int64_t)DEADLINE_NEVER || ns < 0 ? deadline_never(gen) : (uint64_t)ns;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Entry damage word: [ticket:46 | 0:15 | robust:1 | died:1 | acknowledged:1].
 *
 * The ticket is that of the exclusive hold that ended badly.  Acknowledged, or a new key: no mark, and no hold with that
 * ticket or a smaller one leaves one any more.
 */
#define DAMAGE_ACKNOWLEDGED UINT64_C(1)
#define DAMAGE_DIED UINT64_C(2)	  /* else overran its lease, or was ended */
#define DAMAGE_ROBUST UINT64_C(4) /* a request asked for marks of this key */
#define DAMAGE_TICKET_SHIFT 18

static inline uint64_t damage_make(uint64_t ticket, uint64_t bits)
{
	return ticket << DAMAGE_TICKET_SHIFT | bits;
}

static inline uint64_t damage_ticket(uint64_t word)
{
	return word >> DAMAGE_TICKET_SHIFT;
}

/* A mark that is not acknowledged. */
static inline bool damage_is_mark(uint64_t word)
{
	return damage_ticket(word) != 0 && !(word & DAMAGE_ACKNOWLEDGED);
}

/* Damage time: [low ticket bits:20 | ms:44]. */
#define DAMAGE_MS_BITS 44

static inline uint64_t damage_time_make(uint64_t ticket, uint64_t ms)
{
	return ticket << DAMAGE_MS_BITS | (ms & ((UINT64_C(1) << DAMAGE_MS_BITS) - 1));
}

/* The mark that a record of the pool is about: [entry + 1:25 | low ticket bits:39]. */
#define WHOSE_TICKET_BITS 39

static inline uint64_t damage_whose(uint32_t entry, uint64_t ticket)
{
	return ((uint64_t)entry + 1) << WHOSE_TICKET_BITS | (ticket & ((UINT64_C(1) << WHOSE_TICKET_BITS) - 1));
}

static inline uint32_t whose_entry(uint64_t whose)
{
	return (uint32_t)(whose >> WHOSE_TICKET_BITS) - 1;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Bucket word: [version:20 | slot:24 | low bits of the claim's ticket:20].
 */
#define CLAIM_BITS 20
#define CLAIM_MASK ((UINT64_C(1) << CLAIM_BITS) - 1)
#define SLOT_BITS 24
#define SLOT_MASK ((UINT64_C(1) << SLOT_BITS) - 1)

/* A key lives in one of few slots, so a table that has room for @keys has half as many slots again; see
 * tests/lock/test-capacity.c. */
#define LOCKS_MAX ((1u << SLOT_BITS) / 3 * 2)

static inline uint32_t locks_slots(uint32_t keys)
{
	return (keys + (keys + 1) / 2 + 63) / 64 * 64;
}

/* How many keys a table of that many slots has room for. */
static inline uint32_t locks_capacity(uint32_t slots)
{
	return slots * 2 / 3;
}

static inline uint64_t bucket_make(uint64_t version, uint32_t slot, uint64_t claim_ticket)
{
	return version << (SLOT_BITS + CLAIM_BITS) | (uint64_t)slot << CLAIM_BITS | (claim_ticket & CLAIM_MASK);
}

static inline uint64_t bucket_version(uint64_t bucket)
{
	return bucket >> (SLOT_BITS + CLAIM_BITS);
}

static inline uint32_t bucket_slot(uint64_t bucket)
{
	return (uint32_t)(bucket >> CLAIM_BITS & SLOT_MASK);
}

static inline uint64_t bucket_claim(uint64_t bucket)
{
	return bucket & CLAIM_MASK;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Owner control: [generation:24 | pid:22 | hash of the pid namespace:16 | state:2].
 *
 * In CLAIMED the pid bits hold the thread id: a joining thread has no life word yet, and one CAS must publish with the
 * claim what shows its death.
 */
static inline uint64_t control_make(uint64_t gen, uint32_t pid, uint32_t ns_hash, enum owner_state state)
{
	return gen << 40 | (uint64_t)(pid & 0x3fffff) << 18 | (uint64_t)(ns_hash & 0xffff) << 2 | (uint64_t)state;
}

static inline uint64_t control_gen(uint64_t c)
{
	return c >> 40;
}

static inline int32_t control_pid(uint64_t c)
{
	return (int32_t)(c >> 18 & 0x3fffff);
}

static inline uint32_t control_ns_hash(uint64_t c)
{
	return (uint32_t)(c >> 2 & 0xffff);
}

static inline enum owner_state control_state(uint64_t c)
{
	return (enum owner_state)(c & 3);
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Owner reference: [slot generation:24 | slot + 1:24]; 0 = none.  Also the chunk word of request records.
 */
#define OWNER_GEN_MASK UINT64_C(0xffffff)

static inline uint64_t owner_ref(uint64_t gen, uint32_t slot)
{
	return gen << 24 | (slot + 1);
}

static inline uint32_t owner_ref_slot(uint64_t ref)
{
	return (uint32_t)(ref & 0xffffff) - 1;
}

static inline uint64_t owner_ref_gen(uint64_t ref)
{
	return ref >> 24 & OWNER_GEN_MASK;
}

/*
 * Reach in the flags of an owner slot: the chunks of the owner are among so many, counted from the slot's number on and
 * round.  It only grows while the slot has that owner.  0 in its bits = not known: all.
 */
#define OWNER_REACH_SHIFT 8

static inline uint32_t owner_with_reach(uint32_t flags, uint32_t reach)
{
	return (flags & ((1u << OWNER_REACH_SHIFT) - 1)) | (reach + 1) << OWNER_REACH_SHIFT;
}

/* Of @n_chunks at most. */
static inline uint32_t owner_reach(uint32_t flags, uint32_t n_chunks)
{
	uint32_t reach = (flags >> OWNER_REACH_SHIFT) - 1;

	return reach < n_chunks ? reach : n_chunks;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Host lease word: [epoch:58 | queued:1 | exclusive:1 | state:4].
 *
 * An epoch is one acquisition: it makes one value in Redis, and has one mode.
 */
#define HOST_LEASE_EXCLUSIVE (UINT64_C(1) << 4)
/* Redis may have a queue position of the epoch, so its release leaves the queue, too.  In ACQUIRING a leader sets it
 * before its first command for an epoch that another leader began. */
#define HOST_LEASE_QUEUED (UINT64_C(1) << 5)
#define HOST_LEASE_EPOCH_SHIFT 6

static inline uint64_t host_lease_make(uint64_t epoch, uint64_t bits, enum host_lease_state state)
{
	return epoch << HOST_LEASE_EPOCH_SHIFT | bits | (uint64_t)state;
}

static inline enum host_lease_state host_lease_state(uint64_t w)
{
	return (enum host_lease_state)(w & 15);
}

static inline uint64_t host_lease_epoch(uint64_t w)
{
	return w >> HOST_LEASE_EPOCH_SHIFT;
}

static inline uint64_t host_lease_with_state(uint64_t w, enum host_lease_state state)
{
	return (w & ~UINT64_C(15)) | (uint64_t)state;
}

/* Fence of a host lease: [next:53 | left:11]: the next hold's number, and how many are reserved from there on. */
#define FENCE_LEFT_BITS 11
#define FENCE_LEFT_MASK ((UINT64_C(1) << FENCE_LEFT_BITS) - 1)

/* ---------------------------------------------------------------------------------------------------------------- *
 * Host grant of a request: [fence:53 | low bits of the epoch:11]; never 0.
 */
#define HOST_GRANT_EPOCH_MASK UINT64_C(0x7ff)

static inline uint64_t host_grant_make(uint64_t epoch, uint64_t fence)
{
	return fence << 11 | (epoch & HOST_GRANT_EPOCH_MASK);
}

static inline uint64_t host_grant_fence(uint64_t grant)
{
	return grant >> 11;
}

static inline bool host_grant_is(uint64_t grant, uint64_t epoch)
{
	return grant != 0 && (grant & HOST_GRANT_EPOCH_MASK) == (epoch & HOST_GRANT_EPOCH_MASK);
}

#endif
