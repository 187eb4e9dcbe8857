/* SPDX-License-Identifier: MIT */
/*
 * host-lease.h - host leases: what this host has in Redis, kept in the segment, so that no process owns it
 *
 * NONE --> ACQUIRING --> HELD --> CLOSING --> RELEASING --> NONE
 *              |          |          |            ^
 *              |          +-> LOST <-+            |           ACQUIRING --> NONE        nothing in Redis
 *              |               |                  |           NONE --> CLAIM --> NONE   record of another key
 *              +---------------+------------------+
 *
 * Each transition is one CAS on one word.  An epoch is the number of one acquisition and never comes back.
 *
 * state      Redis may have    local holds       transition  actor: condition
 * ---------  ----------------  ----------------  ----------  -------------------------------------------------------
 * NONE       nothing           none              ACQUIRING   leader: a local request needs the lease; epoch + 1
 *                                                CLAIM       claimer: gives the record to another key; epoch + 1
 * CLAIM      nothing           none              NONE        claimer: key and identity are written
 * ACQUIRING  value,            none              HELD        leader: granted; valid_until and fence are stored before
 *            queue position                      RELEASING   leader: no demand, refused, granted late, no majority
 *                                                NONE        leader: the same, if Redis can have nothing of the epoch
 * HELD       value, until      yes, also new     CLOSING     leader: no demand, or other hosts' turn
 *            valid_until                         LOST        any process: valid_until has passed
 *                                                            leader: Redis does not have the value, or not in its mode
 * CLOSING    as HELD           yes, none new     RELEASING   leader: no holder found
 *                                                LOST        as from HELD
 * LOST       value             void, not ended   RELEASING   leader: holds ended, no holder found
 * RELEASING  value,            none              NONE        leader: released, or the value must have expired
 *            queue position
 *
 * LOST is final for every process: the first that finds valid_until passed stores it.  valid_until and fence only rise.
 *
 * The value in Redis is made of host and epoch, so any leader can renew or release it.  A late command of a stopped
 * leader carries the value of an epoch without holders, or repeats what its successor has done.
 *
 * bit        set by                               cleared by                           meaning
 * ---------  -----------------------------------  -----------------------------------  --------------------------------
 * EXCLUSIVE  leader: with ACQUIRING, for a writer leader: with NONE                    the mode of the epoch; writers
 *                                                                                      may hold
 * QUEUED     leader: before its first command in  leader: granted; end of the epoch    ACQUIRING: not only the leader
 *            another's epoch, on giving up, and                                        that began it has sent commands;
 *            for a position that came late                                             Redis may have a queue position
 *
 * An epoch has one mode, here and in Redis.  A writer that finds a shared lease waits for the next one.  A hold under
 * an exclusive lease changes its mode on this host alone, and the lease stays as it is.
 *
 * Dekker pairs: each side stores, has a full fence, then loads.  QUEUED needs none: a CAS decides.
 *
 * CLOSING            holder, enter(): epoch into its request | word HELD?
 *                    leader, look_at_holders(): CLOSING | requests with that epoch?
 * bargeable hold     releaser, forget_bargeable(): BARGEABLE | word HELD, and not exhausted?  else it rings
 *                    leader, look_at_holders(): CLOSING | requests with that epoch?
 * last hold          releaser, host_lease_ring_of_end(): end of the hold | suppress_until?
 *                    leader, look_at_holders(): suppress_until | requests?
 *
 * There is no way back from CLOSING, so a holder that the scan does not find cannot appear later, also for a leader
 * that was stopped in between.
 *
 * killed or stopped                          what follows
 * -----------------------------------------  -----------------------------------------------------------------------
 * leader, after any CAS                      the next leader continues from the word
 * leader, after its scan in CLOSING          the scan's result stays true
 * leader, giving up an epoch unsent          its CAS is from a word without QUEUED, so no other leader has sent; one
 *                                            that sent before and reads the reply late removes what it obtained, see
 *                                            bridge_lease_apply_reply()
 *
 * model/lease.pml explores modes, model/close.pml the end.
 */
#ifndef LOCKSHM_HOSTLEASE_HOST_LEASE_H
#define LOCKSHM_HOSTLEASE_HOST_LEASE_H

#include "segment/segment.h"

/* Times of a host lease are host time (host_now()). */
#define HOST_LEASE_SUPPRESS_MS 2 /* a lease handed over quickly is looked at twice in that time, not at each end */
/* Once another host waits: a cohort, the holds under one lease, ends after the least number and the least time, and at
 * one of the upper bounds.  Short holds thus use the lease long enough to be worth the round trips between two hosts.
 * With a gap between leases each cohort ends so, and lasts as long as the gap at least. */
#define HOST_LEASE_GRANTS_MIN 64
#define HOST_LEASE_GRANTS_MAX 1024
#define HOST_LEASE_COHORT_MIN_MS 5
#define HOST_LEASE_COHORT_MAX_MS 200
#define HOST_LEASE_GRANT_MIN_MS 10 /* a lease that ends sooner grants no hold */

/* Why the leader got no lease.  A result answers one command; a waiter ignores results of commands sent before it began
 * to wait. */
enum last_result {
	RESULT_NOT_YET = 0, /* as the next one, for a moment only: the words are for waiters whose time ends */
	RESULT_BUSY = 1, /* held elsewhere: ends a try */
	RESULT_PASSES, /* Redis is out of reach, or not able now */
	RESULT_LASTS /* Redis refuses, until an operator changes that */
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

/* Has the key of that record requests on this host?  Reads without the key's name what may change meanwhile: every new
 * waiter rings. */
bool host_lease_has_queue(const struct lockshm *s, uint32_t index);
/* Index of the key's lease; claims a record if there is none.  LOCKSHM_FULL. */
MUST_CHECK int host_lease_find(struct lockshm *s, uint64_t owner, const struct identity *id, const void *key,
			       uint32_t *out, struct lockshm_error *error);
/* Index of the key's lease, or n_host_leases. */
uint32_t host_lease_look(const struct lockshm *s, const struct identity *id);
/* Is the record that key's?  True as long as its word does not change. */
bool host_lease_is(const struct shm_host_lease *r, const struct identity *id);

/* A valid_until beyond a full ttl from now is damage, and counts as expired. */
static inline bool host_lease_end_is_possible(const struct lockshm *s, uint64_t valid_until, int64_t now)
{
	return valid_until <= (uint64_t)now + s->redis.ttl_ms * 1000000;
}

/* May holds under the lease continue at @now?  Checks word and time, not the request. */
static inline bool host_lease_good(const struct lockshm *s, uint64_t word, uint64_t valid_until, int64_t now)
{
	return (host_lease_state(word) == HOST_LEASE_HELD || host_lease_state(word) == HOST_LEASE_CLOSING) &&
	       now < (int64_t)valid_until && host_lease_end_is_possible(s, valid_until, now);
}

/* Is the epoch of @word, once seen HELD, still good?  Stores LOST if its time is over. */
bool host_lease_holds(struct lockshm *s, uint32_t index, uint64_t word);

/* Time left for a hold under the lease; 0 = over. */
int64_t host_lease_left(const struct lockshm *s, uint32_t index, uint64_t word);

/* Must the next hold wait because other hosts do? */
bool host_lease_exhausted(const struct lockshm *s, const struct shm_host_lease *r, int64_t now);

/*
 * Tokens are reserved in Redis by the range: a small one with each lease, large ones for leases that last.  A small range
 * is low at half of it, a large one at three quarters.  If the server forgets them, tokens continue from its clock, 16 in
 * each microsecond: ranges stay below that as long as a host begins no more than 12 holds in a microsecond, and leases
 * change no more often than each 8.
 */
#define STRIDE_FIRST 128
#define STRIDE_MORE 2047 /* the most that the fence word can count */

static inline bool fence_low(uint64_t left)
{
	return left < STRIDE_FIRST / 2 || (left > STRIDE_FIRST && left < STRIDE_MORE / 4);
}

/* The next token of the range, and how many are left after it; 0 = used up. */
uint64_t host_lease_take_fence(struct shm_host_lease *r, uint64_t *left);
bool host_lease_has_fence(const struct shm_host_lease *r);
/* A new range for that epoch; false = it begins below a token in use, or the epoch is over. */
bool host_lease_give_fence(struct shm_host_lease *r, uint64_t epoch, uint64_t first, uint64_t n);
uint64_t host_lease_fence_next(const struct shm_host_lease *r);
/* The same, if the record is still that of the key whose identity begins with @key_check; else 0. */
uint64_t host_lease_fence_of(const struct shm_host_lease *r, uint64_t key_check);

/* Before a command that may put the value into Redis, or keep it there: store the time.  Only rises: of two leaders,
 * one of them stopped, the later counts. */
void host_lease_store_asked(const struct lockshm *s, struct shm_host_lease *r);

/* Only rises, except from an impossible end. */
void host_lease_extend(const struct lockshm *s, struct shm_host_lease *r, int64_t valid_until);

/* Does the host lease that was seen as @word go on, so that its streak may? */
bool host_lease_goes_on(const struct lockshm *s, uint32_t lease, uint64_t word);

/* Have the leader look at this lease. */
void host_lease_ring(struct lockshm *s, uint32_t index);
/* Without one: the leader only wakes. */
void host_lease_ring_leader(const struct lockshm *s);
/* The same after the end of a hold, without a ring while the leader suppresses it and looks soon in any case. */
void host_lease_ring_of_end(struct lockshm *s, uint32_t index);
/* Wake the waiters of this lease. */
void host_lease_signal(struct shm_host_lease *r);

/* Store why there is no lease, unless the result of a later command is there, and wake the waiters.  @asked: host time
 * before the command's first byte.  @until: when the blocker may end; 0 = not known. */
void host_lease_store_result(const struct lockshm *s, struct shm_host_lease *r, int code, int64_t asked, int64_t until,
			     const char *why);
static inline int64_t result_asked(uint64_t v)
{
	return (int64_t)(v >> 2);
}

static inline int result_code(uint64_t v)
{
	return (int)(v & 3);
}
#define HOST_LEASE_REASON_BYTES (HOST_LEASE_REASON_WORDS * 8)
/* The text of @last_result; false, and "" = the stored text is of another command. */
bool host_lease_reason(const struct shm_host_lease *r, uint64_t last_result, char out[HOST_LEASE_REASON_BYTES]);
/* When that blocker may end, host time; 0 = not known, INT64_MAX = never. */
int64_t host_lease_blocked_until(const struct shm_host_lease *r, uint64_t last_result);

/* The value in Redis: the host's name, and a number made of record and epoch with the segment's secret. */
#define HOST_LEASE_VALUE_BYTES 33
void host_lease_value(const struct lockshm *s, uint32_t index, uint64_t epoch, char out[HOST_LEASE_VALUE_BYTES]);

/* A copy of the key; its length, or 0 if the record changed meanwhile. */
size_t host_lease_key(const struct shm_host_lease *r, unsigned char out[LOCKSHM_GLOBAL_KEY_MAX]);

static inline void bridge_count_add(const struct lockshm *s, enum bridge_count what, uint64_t n)
{
	(void)fetch_add_relaxed(&s->bridge->counts[what], n);
}

#endif
