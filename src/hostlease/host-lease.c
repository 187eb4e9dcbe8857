/* SPDX-License-Identifier: MIT */
/*
 * host-lease.c - records of host leases: find and claim them, tokens, wake-ups, results
 *
 * A claim gives a record to a key.  `claimer` is a lock with an owner, taken by CAS from 0 or from a dead owner.  Only
 * its owner changes the word of an idle record to CLAIM and writes key and identity, so a claimer that was stopped
 * anywhere is alone when it continues.
 *
 *   killed or stopped               what follows; in each case the next claimer takes `claimer` over, and CLAIM with it
 *   ------------------------------  -----------------------------------------------------------------------------------
 *   (1) claimer set, word NONE      the record of the last key, still good
 *   (2) CLAIM, half written         no key's record; the leader skips it
 *   (3) NONE again                  a record like any other
 *
 * Two processes may still claim two records for one key at once.  Both are good: each hold names its record, later
 * requests all find the first of the window, and the leader releases one lease as soon as a request waits for the
 * other.
 */
#include "hostlease/host-lease.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sys/error.h"
#include "sys/futex.h"
#include "sys/min.h"
#include "lock/participant.h"
#include "lock/table.h"

#define HOST_LEASE_WINDOW 64u
#define CLAIM_PAUSE_NS LOCKSHM_MS(1)
#define CLAIM_TRIES 100

_Static_assert(HOST_LEASE_KEY_WORDS * 8 == LOCKSHM_GLOBAL_KEY_MAX, "a record keeps the whole key");

static uint32_t window_at(const struct lockshm *s, const struct identity *id, uint32_t i)
{
	return (uint32_t)((id->id[0] + i) % s->n_host_leases);
}

static uint32_t window_size(const struct lockshm *s)
{
	return s->n_host_leases < HOST_LEASE_WINDOW ? s->n_host_leases : HOST_LEASE_WINDOW;
}

bool host_lease_is(const struct shm_host_lease *r, const struct identity *id)
{
	uint64_t before, after;
	bool same;

	do {
		before = load_acquire(&r->word);
		same = load_relaxed(&r->id[0]) == id->id[0] && load_relaxed(&r->id[1]) == id->id[1] &&
		       load_relaxed(&r->key_len) == id->len;
		/* The identity before the second load of the word: it is written in CLAIM only, whose epoch is new.
		 * Pairs with fence_release() in give_to(). */
		fence_acquire();
		after = load_relaxed(&r->word);
		if (host_lease_state(before) == HOST_LEASE_CLAIM)
			return false;
	} while (host_lease_epoch(before) != host_lease_epoch(after));
	return same;
}

/* Once a window was full, a key may have any record. */
static uint32_t reach(const struct lockshm *s)
{
	return load_acquire32(&s->bridge->overflowed) ? s->n_host_leases : window_size(s);
}

uint32_t host_lease_look(const struct lockshm *s, const struct identity *id)
{
	uint32_t i;

	for (i = 0; i < window_size(s) || i < reach(s); i++)
		if (host_lease_is(&s->host_leases[window_at(s, id, i)], id))
			return window_at(s, id, i);
	return s->n_host_leases;
}

/* The lock of claimers.  All stores of a dead owner have been done: it runs no more code. */
static bool claimer_lock(const struct lockshm *s, struct shm_host_lease *r, uint64_t owner)
{
	uint64_t c = load_acquire(&r->claimer);

	return (c == 0 || owner_is_dead(s, c)) && cas_from(&r->claimer, c, owner);
}

static void write_identity(struct shm_host_lease *r, const struct identity *id, const void *key)
{
	uint64_t words[HOST_LEASE_KEY_WORDS] = { 0 };
	size_t i;

	memcpy(words, key, id->len);
	for (i = 0; i < (id->len + 7) / 8; i++)
		store_relaxed(&r->key[i], words[i]);
	store_relaxed(&r->id[0], id->id[0]);
	store_relaxed(&r->id[1], id->id[1]);
	store_relaxed(&r->key_len, id->len);
	store_relaxed(&r->other_hosts_waiting, 0);
	store_relaxed(&r->local_grants, 0);
	store_relaxed(&r->blocked, 0);
	/* The result was the last key's.  A stopped leader may still store one for that key: its command is older than
	 * all waiters of the new key, see with_local(). */
	store_relaxed(&r->last_result, 0);
	for (i = 0; i < HOST_LEASE_REASON_WORDS; i++)
		store_relaxed(&r->reason[i], 0);
	store_release(&r->fence, 0);
}

/* With `claimer` held, so a word in CLAIM was left by a dead claimer.  valid_until may be the last key's: it counts in
 * HELD only, and is raised before that. */
static bool give_to(struct shm_host_lease *r, const struct identity *id, const void *key)
{
	uint64_t w = load_acquire(&r->word), mine = host_lease_make(host_lease_epoch(w) + 1, 0, HOST_LEASE_CLAIM);

	if ((host_lease_state(w) != HOST_LEASE_NONE && host_lease_state(w) != HOST_LEASE_CLAIM) ||
	    !cas_from(&r->word, w, mine))
		return false;
	/* CLAIM before the identity: a load that sees any of it is followed by one that sees the new word.  Pairs with
	 * fence_acquire() in host_lease_is() and host_lease_key(). */
	fence_release();
	write_identity(r, id, key);
	return cas_from(&r->word, mine, host_lease_with_state(mine, HOST_LEASE_NONE));
}

enum claim { CLAIMED, IN_USE, BEING_CLAIMED };

static enum claim claim(const struct lockshm *s, struct shm_host_lease *r, uint64_t owner, const struct identity *id,
			const void *key)
{
	enum host_lease_state state = host_lease_state(load_acquire(&r->word));
	bool given;

	if (state != HOST_LEASE_NONE && state != HOST_LEASE_CLAIM)
		return IN_USE;
	if (!claimer_lock(s, r, owner))
		return BEING_CLAIMED;
	given = give_to(r, id, key);
	(void)cas_from(&r->claimer, owner, 0);
	return given ? CLAIMED : IN_USE;
}

bool host_lease_has_queue(const struct lockshm *s, uint32_t index)
{
	const struct shm_host_lease *r = &s->host_leases[index];
	struct identity id = { { load_relaxed(&r->id[0]), load_relaxed(&r->id[1]) }, load_relaxed(&r->key_len) };
	uint32_t entry = id.len ? table_lookup(s, &id) : ENTRY_NONE;

	return entry != ENTRY_NONE && tail_index(load_acquire(&s->entries[entry].tail)) != 0;
}

#define WORD_BITS 64

/* The records that live requests name: of some the word is NONE until the bridge looks, or has room for a command. */
static void find_wanted(const struct lockshm *s, uint64_t wanted[HOST_LEASES_MAX / WORD_BITS])
{
	uint32_t i, flags;

	for (i = 1; i <= s->n_requests; i++) {
		flags = load_acquire32(&s->requests[i].flags);
		if (!(flags & REQUEST_GLOBAL) || !word_live(load_acquire(&s->requests[i].word)))
			continue;
		flags = request_host_lease(flags) - 1;
		if (flags < HOST_LEASES_MAX)
			wanted[flags / WORD_BITS] |= UINT64_C(1) << flags % WORD_BITS;
	}
}

/*
 * Records without a key first, so that returning keys find their old record; then those whose key has no request.
 * Keys that are only held or awaited without a lease come last: to see that they are not wanted takes a walk through
 * all requests.  A wanted one that is overlooked costs its waiters a ring, half a second at most: they find another record.
 */
enum { WITHOUT_KEY, WITHOUT_QUEUE, UNWANTED };

static enum claim claim_any(const struct lockshm *s, uint64_t owner, const struct identity *id, const void *key)
{
	uint64_t wanted[HOST_LEASES_MAX / WORD_BITS] = { 0 };
	uint32_t i, pass, n = reach(s), passes = n == s->n_host_leases ? UNWANTED : WITHOUT_QUEUE;
	enum claim result = IN_USE, one;

	for (pass = WITHOUT_KEY; pass <= passes; pass++) {
		if (pass == UNWANTED)
			find_wanted(s, wanted);
		for (i = 0; i < n; i++) {
			uint32_t at = window_at(s, id, i);

			if ((pass == WITHOUT_KEY && load_relaxed(&s->host_leases[at].key_len) != 0) ||
			    (pass == WITHOUT_QUEUE && host_lease_has_queue(s, at)) ||
			    (pass == UNWANTED && wanted[at / WORD_BITS] >> at % WORD_BITS & 1))
				continue;
			one = claim(s, &s->host_leases[at], owner, id, key);
			if (one == CLAIMED)
				return CLAIMED;
			if (one == BEING_CLAIMED)
				result = BEING_CLAIMED;
		}
	}
	return result;
}

/* Other claimers hold what may be the last free record. */
static void claim_pause(void)
{
	static const uint32_t never;
	struct futex_watch watch = { &never, 0 };

	futex_wait_any(&watch, 1, clock_precise() + CLAIM_PAUSE_NS);
}

int host_lease_find(struct lockshm *s, uint64_t owner, const struct identity *id, const void *key, uint32_t *out,
		    struct lockshm_error *error)
{
	enum claim result;
	int tries;

	for (tries = 0; tries < CLAIM_TRIES; tries++) {
		/* Also after a claim: a record that another process claimed for this key meanwhile may come first. */
		*out = host_lease_look(s, id);
		if (*out < s->n_host_leases)
			return 0;
		result = claim_any(s, owner, id, key);
		if (result == IN_USE && reach(s) == s->n_host_leases)
			break;
		/* Before any record outside a window is claimed: all look-ups are to find that. */
		if (result == IN_USE)
			store_release32(&s->bridge->overflowed, 1);
		if (result == BEING_CLAIMED)
			claim_pause();
	}
	return segment_full(s, LOCKSHM_TABLE_HOST_LEASES, error);
}

size_t host_lease_key(const struct shm_host_lease *r, unsigned char out[LOCKSHM_GLOBAL_KEY_MAX])
{
	uint64_t before = load_acquire(&r->word), words[HOST_LEASE_KEY_WORDS];
	size_t i, len = (size_t)load_relaxed(&r->key_len);

	if (host_lease_state(before) == HOST_LEASE_CLAIM || len > LOCKSHM_GLOBAL_KEY_MAX)
		return 0;
	for (i = 0; i < HOST_LEASE_KEY_WORDS; i++)
		words[i] = load_relaxed(&r->key[i]);
	/* All of the key before the second load of the word; pairs with fence_release() in give_to(). */
	fence_acquire();
	if (host_lease_epoch(load_relaxed(&r->word)) != host_lease_epoch(before))
		return 0;
	memcpy(out, words, sizeof(words));
	return len;
}

/* ---------------------------------------------------------------- time */

bool host_lease_holds(struct lockshm *s, uint32_t index, uint64_t word)
{
	struct shm_host_lease *r = host_lease_at(s, index);
	uint64_t w;

	if (!r)
		return false;
	w = load_acquire(&r->word);
	while (host_lease_epoch(w) == host_lease_epoch(word) &&
	       (host_lease_state(w) == HOST_LEASE_HELD || host_lease_state(w) == HOST_LEASE_CLOSING)) {
		if (host_lease_good(s, w, load_acquire(&r->valid_until), host_now(s)))
			return true;
		if (!cas(&r->word, &w, host_lease_with_state(w, HOST_LEASE_LOST)))
			continue;
		bridge_count_add(s, BRIDGE_COUNT_LOST, 1);
		host_lease_signal(r);
		host_lease_ring(s, index);
		return false;
	}
	return false;
}

int64_t host_lease_left(const struct lockshm *s, uint32_t index, uint64_t word)
{
	const struct shm_host_lease *r = host_lease_at(s, index);
	uint64_t w = r ? load_acquire(&r->word) : 0;
	int64_t now = host_now(s), until = r ? (int64_t)load_acquire(&r->valid_until) : 0;

	return host_lease_epoch(w) == host_lease_epoch(word) && host_lease_good(s, w, (uint64_t)until, now)
		       ? until - now
		       : 0;
}

bool host_lease_exhausted(const struct lockshm *s, const struct shm_host_lease *r, int64_t now)
{
	int64_t held = now - (int64_t)load_relaxed(&r->acquired), gap = LOCKSHM_MS((int64_t)s->redis.gap_ms);
	int64_t most = min64(LOCKSHM_MS((int64_t)s->redis.ttl_ms) / 2, max64(LOCKSHM_MS(HOST_LEASE_COHORT_MAX_MS), gap));
	uint64_t grants = load_relaxed(&r->local_grants);

	/* Programs that poll may wait at any time, and nothing shows it. */
	if (load_relaxed(&r->other_hosts_waiting) == 0 && !gap)
		return false;
	if (held >= most || (grants >= HOST_LEASE_GRANTS_MAX && held >= gap))
		return true;
	return grants >= HOST_LEASE_GRANTS_MIN && held >= max64(LOCKSHM_MS(HOST_LEASE_COHORT_MIN_MS), gap);
}

bool host_lease_goes_on(const struct lockshm *s, uint32_t lease, uint64_t word)
{
	const struct shm_host_lease *l = host_lease_at(s, lease);
	uint64_t now = l ? load_acquire(&l->word) : 0;

	return l && host_lease_state(now) == HOST_LEASE_HELD && host_lease_epoch(now) == host_lease_epoch(word) &&
	       !host_lease_exhausted(s, l, host_now(s));
}

/* Crash point after it: nothing was sent, and the value counts as possibly in Redis a moment longer than needed. */
void host_lease_store_asked(const struct lockshm *s, struct shm_host_lease *r)
{
	uint64_t now = (uint64_t)host_now(s), old = load_acquire(&r->sent);

	/* Far in the future is damage. */
	while ((old < now || old - now > (uint64_t)LOCKSHM_SECONDS(1)) && !cas(&r->sent, &old, now))
		;
}

void host_lease_extend(const struct lockshm *s, struct shm_host_lease *r, int64_t valid_until)
{
	uint64_t old = load_acquire(&r->valid_until);

	while ((old < (uint64_t)valid_until || !host_lease_end_is_possible(s, old, host_now(s))) &&
	       !cas(&r->valid_until, &old, (uint64_t)valid_until))
		;
}

/* ---------------------------------------------------------------- fence */

uint64_t host_lease_fence_next(const struct shm_host_lease *r)
{
	return load_acquire(&r->fence) >> FENCE_LEFT_BITS;
}

uint64_t host_lease_fence_of(const struct shm_host_lease *r, uint64_t key_check)
{
	uint64_t before, next;
	bool same;

	do {
		before = load_acquire(&r->word);
		next = host_lease_fence_next(r);
		same = host_lease_state(before) != HOST_LEASE_CLAIM && load_acquire(&r->id[0]) == key_check;
		/* Another key's token is reserved after its CLAIM: a load that saw the token is followed by one that
		 * sees that epoch. */
	} while (host_lease_epoch(load_relaxed(&r->word)) != host_lease_epoch(before));
	return same ? next : 0;
}

uint64_t host_lease_take_fence(struct shm_host_lease *r, uint64_t *left)
{
	uint64_t f = load_acquire(&r->fence);

	while (f & FENCE_LEFT_MASK)
		if (cas(&r->fence, &f, f + (UINT64_C(1) << FENCE_LEFT_BITS) - 1)) {
			*left = (f & FENCE_LEFT_MASK) - 1;
			return f >> FENCE_LEFT_BITS;
		}
	return 0;
}

bool host_lease_has_fence(const struct shm_host_lease *r)
{
	return (load_acquire(&r->fence) & FENCE_LEFT_MASK) != 0;
}

bool host_lease_give_fence(struct shm_host_lease *r, uint64_t epoch, uint64_t first, uint64_t n)
{
	uint64_t f = load_acquire(&r->fence);

	do {
		/* The fence before the epoch: a record given to another key meanwhile has another fence, too. */
		if (host_lease_epoch(load_acquire(&r->word)) != epoch || first < f >> FENCE_LEFT_BITS)
			return false;
	} while (!cas(&r->fence, &f, first << FENCE_LEFT_BITS | (n & FENCE_LEFT_MASK)));
	return true;
}

/* ---------------------------------------------------------------- wake-ups */

void host_lease_ring_leader(const struct lockshm *s)
{
	(void)fetch_add32(&s->bridge->doorbell, 1);
	/* All: a superseded leader may still sleep here, and would consume a single wake-up.  Standbys sleep
	 * elsewhere. */
	futex_wake(&s->bridge->doorbell, INT_MAX);
}

void host_lease_ring(struct lockshm *s, uint32_t index)
{
	if (index >= s->n_host_leases)
		return;
	/* The bit before the doorbell: a leader that sees the doorbell sees the bit.  Killed in between: the leader
	 * scans all leases from time to time. */
	(void)fetch_or(&s->bridge->pending[index / 64], UINT64_C(1) << index % 64);
	host_lease_ring_leader(s);
}

/* A key handed over a million times a second needs no look by the leader, which would need a processor. */
void host_lease_ring_of_end(struct lockshm *s, uint32_t index)
{
	const struct shm_host_lease *r = host_lease_at(s, index);
	uint64_t left;

	if (!r)
		return;
	/* The end of the hold before this load: the leader stores suppress_until before it scans for holders.  Pairs
	 * with the fence in look_at_holders(). */
	fence_full();
	left = load_relaxed(&r->suppress_until) - (uint64_t)host_now(s);
	/* A past time wraps; one far in the future is damage. */
	if (left > (uint64_t)LOCKSHM_MS(HOST_LEASE_SUPPRESS_MS))
		host_lease_ring(s, index);
}

void host_lease_signal(struct shm_host_lease *r)
{
	(void)fetch_add32(&r->waiters_seq, 1);
	futex_wake(&r->waiters_seq, INT_MAX);
}

/* Is the result @v of a later command?  A stopped leader may store a result that is older than others' commands.  A
 * time in the future is damage. */
static bool is_superseded(const struct lockshm *s, uint64_t v, int64_t asked)
{
	return result_asked(v) > asked && result_asked(v) <= host_now(s);
}

#define BLOCKED_ENDLESS UINT32_MAX

static uint64_t blocked_make(int64_t asked, int64_t until)
{
	int64_t ms = until <= asked ? 0 : (until - asked - 1) / 1000000 + 1;

	return (uint64_t)(ms < BLOCKED_ENDLESS ? ms : BLOCKED_ENDLESS) << 32 | (uint32_t)asked;
}

int64_t host_lease_blocked_until(const struct shm_host_lease *r, uint64_t last_result)
{
	uint64_t o = load_relaxed(&r->blocked), ms = o >> 32;

	if (ms == 0 || (uint32_t)o != (uint32_t)result_asked(last_result))
		return 0;
	return ms == BLOCKED_ENDLESS ? INT64_MAX : result_asked(last_result) + LOCKSHM_MS((int64_t)ms);
}

static uint64_t seal(const uint64_t words[HOST_LEASE_REASON_WORDS], int64_t asked)
{
	uint64_t all[HOST_LEASE_REASON_WORDS + 1];

	memcpy(all, words, HOST_LEASE_REASON_BYTES);
	all[HOST_LEASE_REASON_WORDS] = (uint64_t)asked;
	return hash_plain(all, sizeof(all));
}

/*
 * Two leaders may be here at once, one of them stopped before, and no word shows which is last.  So blocker and text
 * carry the time of their command: what a superseded leader stores over those of the last result does not count with
 * it.  Killed before the last store: the old result, with or without its text.
 */
void host_lease_store_result(const struct lockshm *s, struct shm_host_lease *r, int code, int64_t asked, int64_t until,
			     const char *why)
{
	uint64_t words[HOST_LEASE_REASON_WORDS] = { 0 }, v = load_acquire(&r->last_result), i;

	if (is_superseded(s, v, asked))
		return;
	strncpy((char *)words, why, sizeof(words) - 1);
	store_relaxed(&r->blocked, blocked_make(asked, until));
	for (i = 0; i < HOST_LEASE_REASON_WORDS; i++)
		store_relaxed(&r->reason[i], words[i]);
	store_relaxed(&r->reason_seal, seal(words, asked));
	/* Release: a load that sees the time sees blocker and text, or what was stored over them since. */
	while (!is_superseded(s, v, asked))
		if (cas(&r->last_result, &v, (uint64_t)asked << 2 | (uint64_t)code))
			break;
	host_lease_signal(r);
}

bool host_lease_reason(const struct shm_host_lease *r, uint64_t last_result, char out[HOST_LEASE_REASON_BYTES])
{
	uint64_t words[HOST_LEASE_REASON_WORDS];
	bool whole;
	size_t i;

	for (i = 0; i < HOST_LEASE_REASON_WORDS; i++)
		words[i] = load_relaxed(&r->reason[i]);
	/* In any order: text of another command has another seal. */
	whole = load_relaxed(&r->reason_seal) == seal(words, result_asked(last_result));
	memcpy(out, words, sizeof(words));
	out[whole ? HOST_LEASE_REASON_BYTES - 1 : 0] = '\0';
	error_clean(out);
	return whole;
}

void host_lease_value(const struct lockshm *s, uint32_t index, uint64_t epoch, char out[HOST_LEASE_VALUE_BYTES])
{
	uint64_t what[3] = { UINT64_C(0x6e656b6f74), index, epoch };
	struct identity id;

	hash_key(&id, s->hash_secret, what, sizeof(what));
	memcpy(out, s->redis.host, REDIS_HOST_BYTES);
	snprintf(out + REDIS_HOST_BYTES, 17, "%016llx", (unsigned long long)id.id[0]);
}
