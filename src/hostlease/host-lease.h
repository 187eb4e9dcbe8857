/* SPDX-License-Identifier: MIT */
/*
 * host-lease.h - host leases: what this host has in Redis, kept in the segment so that no process owns it
 *
 *   NONE -> ACQUIRING -> HELD -> CLOSING -> RELEASING -> NONE        NONE -> CLAIM -> NONE (another key's record)
 *              |           |-------|-> LOST -----^
 *              |-> RELEASING (nobody wants it any more, or no answer), NONE (refused)
 *
 * Each transition is one CAS on one word, and an epoch, the number of an acquisition, never comes back.  The token in
 * Redis is made of host and epoch, so that whoever is the bridge can renew or release it: a late command of a stopped
 * bridge carries the token of an epoch that nobody holds under any more, or does what its successor did too.
 *
 * Holding under a lease (global/acquire.c) and closing it (bridge/serve.c) are the two sides of a Dekker pair: a holder writes
 * the epoch into its request and then finds the word HELD; the bridge makes the word CLOSING and then looks for
 * requests with that epoch.  From CLOSING there is no way back, so what the second look finds absent stays absent, also
 * for a bridge that was stopped in between.
 *
 * Who asks for an epoch that another bridge began notes that in the word first (QUEUED).  So who gives up an epoch, and
 * knows of nothing in Redis that is to be taken back, does that by a CAS from a word without the note, and need not
 * look for others.  Who asked before that CAS and is heard later takes back what it obtains, see lease_apply_reply().
 *
 * Exclusive is set in HELD only by what Redis said, and stays until a downgrade or the end of the epoch.  UPGRADE asks
 * for it: set by whoever holds under the lease, or did, taken back by the bridge with its answer, or, with a new turn
 * and a wish for a downgrade, by who is tired of waiting.  Left there by the dead it is answered for nobody.
 *
 * DOWNGRADE asks for the opposite, and stays until Redis has done it: set by whoever has become a reader under an
 * exclusive lease, or by the bridge for those elsewhere if only readers use it.  Nobody takes the wish back.  First the
 * bridge takes EXCLUSIVE back, with which a new turn begins; then it looks for those who write under the lease.
 * That is a Dekker pair like the one above, with enter() and with whoever becomes a writer again
 * (lease_is_exclusive() in hold/upgrade.c).  Who writes from then on has come in by an upgrade, with which Redis was
 * told the new turn.  So when nobody is found there is nobody, which is noted as LOOKED before anything is sent, and
 * true for a bridge that was stopped behind the look, too: its downgrade comes late, and is refused by its turn.
 * When the turns are used up the lease stays exclusive.
 *
 * From this one rule: where a lease is neither EXCLUSIVE nor between that and LOOKED (host_lease_undrained()), nobody writes
 * under it, and nobody will but by an answer to an upgrade of this turn.  So UPGRADE never stands beside DOWNGRADE; who
 * asks may be late, and need not be one who holds; what Redis has as a writer's and the word does not is taken back.
 * The state between is expected by renewals to be a writer's, comes once in a turn, and nothing leads out of it but the
 * look. model/lease.pml goes through it.
 *
 * valid_until and fence only rise.  Whoever finds the time over makes a lease LOST; from then on it is, for everybody.
 */
#ifndef LOCKSHM_HOSTLEASE_HOST_LEASE_H
#define LOCKSHM_HOSTLEASE_HOST_LEASE_H

#include "segment/segment.h"

/* Everything in a lease that is about time is host time. */
#define HOST_LEASE_SUPPRESS_MS 2      /* a lease that is passed on quickly is looked at twice in that time, not when a hold ends */
#define HOST_LEASE_LOCAL_GRANTS 64       /* holds under one lease once another host waits */
#define HOST_LEASE_COHORT_MS 200   /* and how long they may go on in all */
#define HOST_LEASE_GRANT_MIN_MS 10 /* nobody is given a hold under a lease that ends sooner */

/* Why the bridge got no lease: said of a question, which may have been asked before somebody changed that.  So whoever
 * waits heeds only what was asked since it began to. */
enum last_result {
	RESULT_BUSY = 1, /* others have it, and whoever asked did not want to wait */
	RESULT_PASSES,	  /* Redis is out of reach, or not able now */
	RESULT_LASTS	  /* it refuses, until somebody changes that */
};

static inline int64_t host_now(const struct lockshm *s)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec + s->boot_offset;
}

static inline struct shm_host_lease *host_lease_at(const struct lockshm *s, uint32_t index)
{
	return likely(index < s->n_host_leases) ? &s->host_leases[index] : NULL;
}

/* The lease of a key, made if need be.  LOCKSHM_FULL. */
MUST_CHECK int host_lease_find(struct lockshm *s, uint64_t owner, const struct identity *id, const void *key, uint32_t *out,
			   struct lockshm_error *error);
/* Its index if there is one, else n_host_leases. */
uint32_t host_lease_look(const struct lockshm *s, const struct identity *id);
/* Is it that key's?  Good as long as its word does not change. */
bool host_lease_is(const struct shm_host_lease *r, const struct identity *id);

/* An end later than that of a lease which was asked for just now is damage, and believed no
 * more than one that is over. */
static inline bool host_lease_end_is_possible(const struct lockshm *s, uint64_t valid_until, int64_t now)
{
	return valid_until <= (uint64_t)now + s->redis.ttl_ms * 1000000;
}

/* Somebody may write under it, though it is exclusive no more: nobody has looked yet. */
static inline bool host_lease_undrained(uint64_t w)
{
	return (w & (HOST_LEASE_EXCLUSIVE | HOST_LEASE_DOWNGRADE | HOST_LEASE_DRAINED)) == HOST_LEASE_DOWNGRADE;
}

/* The word of a lease that somebody asked to make exclusive and gave up, or that Redis has as a writer's and nobody
 * knows why: in a new turn it is told that nobody writes under it.  That is so where @w is neither exclusive nor
 * unlooked.  The last turn is left as it is. */
static inline uint64_t host_lease_withdrawn(uint64_t w)
{
	uint64_t none = w & ~HOST_LEASE_UPGRADE;

	return host_lease_mode_gen(w) < HOST_LEASE_MODE_GEN_MAX ?
		       (none | HOST_LEASE_DOWNGRADE | HOST_LEASE_DRAINED) + (UINT64_C(1) << HOST_LEASE_MODE_GEN_SHIFT) : none;
}

/* May holds under the lease go on as far as @now is concerned?  Word and time; not whose request. */
static inline bool host_lease_good(const struct lockshm *s, uint64_t word, uint64_t valid_until, int64_t now)
{
	return (host_lease_state(word) == HOST_LEASE_HELD || host_lease_state(word) == HOST_LEASE_CLOSING) &&
	       now < (int64_t)valid_until && host_lease_end_is_possible(s, valid_until, now);
}

/* Is the epoch of @word, seen HELD once, still good?  If only its time is over, it is lost from now on. */
bool host_lease_holds(struct lockshm *s, uint32_t index, uint64_t word);

/* How long the hold may go on at most, by the lease; 0 if it is over. */
int64_t host_lease_left(const struct lockshm *s, uint32_t index, uint64_t word);

/* Must the next hold wait because other hosts do? */
bool host_lease_exhausted(const struct lockshm *s, const struct shm_host_lease *r, int64_t now);

/*
 * Numbers are reserved in Redis by the range: a small one with each lease, so that hosts which take turns quickly do
 * not run ahead of the server's clock, which is what numbers go on from should the server forget them; large ones for
 * those that stay.  A small one is low when half of it is used, a large one when three quarters are.
 */
#define STRIDE_FIRST 128
#define STRIDE_MORE 2047 /* what fits into the fence word */

static inline bool fence_low(uint64_t left)
{
	return left < STRIDE_FIRST / 2 || (left > STRIDE_FIRST && left < STRIDE_MORE / 4);
}

/* The next number of the range, and how many are left behind it; 0 = used up. */
uint64_t host_lease_take_fence(struct shm_host_lease *r, uint64_t *left);
/* A new range for the lease of that epoch; false = it begins below what was given out, or the lease is over. */
bool host_lease_give_fence(struct shm_host_lease *r, uint64_t epoch, uint64_t first, uint64_t n);
uint64_t host_lease_fence_next(const struct shm_host_lease *r);
/* The same, if the record is still that of the key whose identity begins with @key_check; else 0. */
uint64_t host_lease_fence_of(const struct shm_host_lease *r, uint64_t key_check);

/* Before anything is sent that may put the token into Redis, or keep it there: note when.  Only upwards: of two
 * bridges, one of which was stopped, the later counts. */
void host_lease_store_asked(const struct lockshm *s, struct shm_host_lease *r);

/* Only upwards, but for an end that cannot be right. */
void host_lease_extend(const struct lockshm *s, struct shm_host_lease *r, int64_t valid_until);

/* The hold that was seen with @word reads from now on: the lease is to follow. */
void host_lease_request_downgrade(struct lockshm *s, uint32_t index, uint64_t word);

/* host-lease-mode.c: does the host lease that was seen as @word go on, so that its streak may? */
bool host_lease_goes_on(const struct lockshm *s, uint32_t lease, uint64_t word);
/* The lease of the hold that was seen with @word, made exclusive if this host has it alone: 0, LOCKSHM_BUSY,
 * LOCKSHM_LOST.  Waits for the bridge's reply. */
int host_lease_upgrade(struct lockshm *s, uint32_t lease, uint64_t word);

/* Tell the bridge to look at this lease. */
void host_lease_ring(struct lockshm *s, uint32_t index);
/* The same where a hold under it has ended, which the bridge need not know at once where it looks soon in any case. */
void host_lease_ring_of_end(struct lockshm *s, uint32_t index);
/* Tell whoever waits for this lease to look again. */
void host_lease_signal(struct shm_host_lease *r);

/* Store why there is no lease, unless the answer to a later question is there, and wake who waits for it.
 * @asked is when the question was put, host time: before its first byte.  @until is how long what is in the way
 * may last; 0 = not known. */
void host_lease_store_result(const struct lockshm *s, struct shm_host_lease *r, int code, int64_t asked, int64_t until, const char *why);
static inline int64_t result_asked(uint64_t v)
{
	return (int64_t)(v >> 2);
}

static inline int result_code(uint64_t v)
{
	return (int)(v & 3);
}
#define HOST_LEASE_REASON_BYTES (HOST_LEASE_REASON_WORDS * 8)
/* The words of @verdict; false, and "" = what is there is of another question. */
bool host_lease_reason(const struct shm_host_lease *r, uint64_t last_result, char out[HOST_LEASE_REASON_BYTES]);
/* Until when what was in the way then may last, host time; 0 = not known, INT64_MAX = it has no end. */
int64_t host_lease_blocked_until(const struct shm_host_lease *r, uint64_t last_result);

/* The value in Redis: the host's name and a number made of lease and epoch under the segment's secret. */
#define HOST_LEASE_VALUE_BYTES 33
void host_lease_value(const struct lockshm *s, uint32_t index, uint64_t epoch, char out[HOST_LEASE_VALUE_BYTES]);

/* A copy of the key; its length, or 0 if the record changed meanwhile. */
size_t host_lease_key(const struct shm_host_lease *r, unsigned char out[LOCKSHM_GLOBAL_KEY_MAX]);

static inline void bridge_count_add(const struct lockshm *s, enum bridge_count what, uint64_t n)
{
	(void)fetch_add_relaxed(&s->bridge->counts[what], n);
}

#endif
