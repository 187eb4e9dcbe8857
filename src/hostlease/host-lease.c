/* SPDX-License-Identifier: MIT */
/*
 * host-lease.c - records of host leases: finding and making them, the words that processes and bridge share
 *
 * Making one: its `claimer` is a lock with an owner, swapped from nobody, or from somebody dead, to me.  Only
 * who has it changes the word of an idle record to CLAIM and writes key and identity, so a claimer that was
 * stopped anywhere is alone when it goes on.  Crash points: (1) claimer is the dead, word NONE: the record of
 * the last key, as good as ever;
 * (2) CLAIM, half written: nobody's, the bridge leaves it alone;  (3) NONE again: a record like any other.  In each the next
 * comer takes the lock over from the dead, and a word in CLAIM with it.
 *
 * Two processes may still make one for the same key at once, in two records.  Both are good: each hold names the record
 * it is under, later comers all find the first of the window, and the bridge gives up the lease of one as soon as
 * somebody waits for the other.
 */
#include "hostlease/host-lease.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sys/error.h"
#include "sys/futex.h"
#include "lock/participant.h"

#define HOST_LEASE_WINDOW 64u
#define CLAIM_NAP_NS LOCKSHM_MS(1)
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
		/* The identity before the second look: it is written in state CLAIM only, whose epoch is new.  Pairs
		 * with fence_release() in give_to(). */
		fence_acquire();
		after = load_relaxed(&r->word);
		if (host_lease_state(before) == HOST_LEASE_CLAIM)
			return false;
	} while (host_lease_epoch(before) != host_lease_epoch(after));
	return same;
}

uint32_t host_lease_look(const struct lockshm *s, const struct identity *id)
{
	uint32_t i;

	for (i = 0; i < window_size(s); i++)
		if (host_lease_is(&s->host_leases[window_at(s, id, i)], id))
			return window_at(s, id, i);
	return s->n_host_leases;
}

/* The lock of those who give records to keys.  A dead owner's stores are all done: it can run no code any more. */
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
	/* What was said of the last key.  Another bridge that was stopped may still say something of it: that was asked
	 * before anybody waits here, see with_local(). */
	store_relaxed(&r->last_result, 0);
	for (i = 0; i < HOST_LEASE_REASON_WORDS; i++)
		store_relaxed(&r->reason[i], 0);
	store_release(&r->fence, 0);
}

/* The claimer's lock held.  A word in CLAIM is of one who died.  valid_until may be of the last key's lease: it counts
 * in HELD only, and is raised before that. */
static bool give_to(struct shm_host_lease *r, const struct identity *id, const void *key)
{
	uint64_t w = load_acquire(&r->word), mine = host_lease_make(host_lease_epoch(w) + 1, 0, HOST_LEASE_CLAIM);

	if ((host_lease_state(w) != HOST_LEASE_NONE && host_lease_state(w) != HOST_LEASE_CLAIM) || !cas_from(&r->word, w, mine))
		return false;
	/* CLAIM before the identity: whoever sees any of that sees the word changed, too.  Pairs with fence_acquire()
	 * in host_lease_is() and host_lease_key(). */
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

/* Those that never had a key first, so that keys that come again find their record. */
static enum claim claim_any(const struct lockshm *s, uint64_t owner, const struct identity *id, const void *key)
{
	enum claim result = IN_USE, one;
	uint32_t i, pass;

	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < window_size(s); i++) {
			struct shm_host_lease *r = &s->host_leases[window_at(s, id, i)];

			if (pass == 0 && load_relaxed(&r->key_len) != 0)
				continue;
			one = claim(s, r, owner, id, key);
			if (one == CLAIMED)
				return CLAIMED;
			if (one == BEING_CLAIMED)
				result = BEING_CLAIMED;
		}
	return result;
}

/* Others write what may be the last record for a moment, or for as long as they are stopped. */
static void nap(void)
{
	static const uint32_t never;
	struct futex_watch watch = { &never, 0 };

	futex_wait_any(&watch, 1, clock_precise() + CLAIM_NAP_NS);
}

int host_lease_find(struct lockshm *s, uint64_t owner, const struct identity *id, const void *key, uint32_t *out,
		struct lockshm_error *error)
{
	enum claim result;
	int tries;

	for (tries = 0; tries < CLAIM_TRIES; tries++) {
		/* Also after a claim: what another process made for this key meanwhile may come first. */
		*out = host_lease_look(s, id);
		if (*out < s->n_host_leases)
			return 0;
		result = claim_any(s, owner, id, key);
		if (result == IN_USE)
			break;
		if (result == BEING_CLAIMED)
			nap();
	}
	return error_full(error, LOCKSHM_TABLE_LEASES);
}

size_t host_lease_key(const struct shm_host_lease *r, unsigned char out[LOCKSHM_GLOBAL_KEY_MAX])
{
	uint64_t before = load_acquire(&r->word), words[HOST_LEASE_KEY_WORDS];
	size_t i, len = (size_t)load_relaxed(&r->key_len);

	if (host_lease_state(before) == HOST_LEASE_CLAIM || len > LOCKSHM_GLOBAL_KEY_MAX)
		return 0;
	for (i = 0; i < HOST_LEASE_KEY_WORDS; i++)
		words[i] = load_relaxed(&r->key[i]);
	/* All of the key before the second look; pairs with fence_release() in give_to(). */
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

	return host_lease_epoch(w) == host_lease_epoch(word) && host_lease_good(s, w, (uint64_t)until, now) ? until - now : 0;
}

bool host_lease_exhausted(const struct lockshm *s, const struct shm_host_lease *r, int64_t now)
{
	int64_t cohort_ms = (int64_t)s->redis.ttl_ms / 2;

	if (load_relaxed(&r->other_hosts_waiting) == 0)
		return false;
	if (cohort_ms > HOST_LEASE_COHORT_MS)
		cohort_ms = HOST_LEASE_COHORT_MS;
	return load_relaxed(&r->local_grants) >= HOST_LEASE_LOCAL_GRANTS ||
	       now - (int64_t)load_relaxed(&r->acquired) >= LOCKSHM_MS(cohort_ms);
}

/* Killed behind it: nothing was sent, and for a moment longer than need be it counts as if it had been. */
void host_lease_store_asked(const struct lockshm *s, struct shm_host_lease *r)
{
	uint64_t now = (uint64_t)host_now(s), old = load_acquire(&r->sent);

	/* Far ahead it is damage. */
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
		/* Another key's number was reserved after its CLAIM: who saw the number sees that epoch. */
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

bool host_lease_give_fence(struct shm_host_lease *r, uint64_t epoch, uint64_t first, uint64_t n)
{
	uint64_t f = load_acquire(&r->fence);

	do {
		/* The fence before the epoch: if the record has gone to another key since,
		 * its fence has changed, too. */
		if (host_lease_epoch(load_acquire(&r->word)) != epoch || first < f >> FENCE_LEFT_BITS)
			return false;
	} while (!cas(&r->fence, &f, first << FENCE_LEFT_BITS | (n & FENCE_LEFT_MASK)));
	return true;
}

/* ---------------------------------------------------------------- telling */

void host_lease_ring(struct lockshm *s, uint32_t index)
{
	if (index >= s->n_host_leases)
		return;
	/* The bit before the bell: a bridge that sees the bell sees the bit.  Killed in between: it looks at everything
	 * from time to time. */
	(void)fetch_or(&s->bridge->pending[index / 64], UINT64_C(1) << index % 64);
	(void)fetch_add32(&s->bridge->doorbell, 1);
	/* All: helpers that stand by sleep elsewhere, but a bridge that was replaced may still sleep here, and
	 * would take the one call. */
	futex_wake(&s->bridge->doorbell, INT_MAX);
}

/* Whoever passes a key on a million times a second needs no bridge for it, and has no processor for one. */
void host_lease_ring_of_end(struct lockshm *s, uint32_t index)
{
	const struct shm_host_lease *r = host_lease_at(s, index);
	uint64_t left;

	if (!r)
		return;
	/* The end of the hold before this look: a bridge that wants to hear of the next end says so, and then looks for
	 * holders.  Pairs with the fence in look_at_holders(). */
	fence_full();
	left = load_relaxed(&r->suppress_until) - (uint64_t)host_now(s);
	/* What is over wraps, what is far ahead is damage. */
	if (left > (uint64_t)LOCKSHM_MS(HOST_LEASE_SUPPRESS_MS))
		host_lease_ring(s, index);
}

void host_lease_signal(struct shm_host_lease *r)
{
	(void)fetch_add32(&r->waiters_seq, 1);
	futex_wake(&r->waiters_seq, INT_MAX);
}

/* Killed before it: whoever reads is dead, too, and the lease stays what it is until it is given back.  Killed
 * behind the bit: the bridge looks at everything from time to time.  Nobody takes it back, who might be late: who
 * writes again comes first. */
void host_lease_request_downgrade(struct lockshm *s, uint32_t index, uint64_t word)
{
	struct shm_host_lease *r = host_lease_at(s, index);
	uint64_t w = r ? load_acquire(&r->word) : 0;

	while (r && host_lease_epoch(w) == host_lease_epoch(word) && (w & HOST_LEASE_EXCLUSIVE) &&
	       (host_lease_state(w) == HOST_LEASE_HELD || host_lease_state(w) == HOST_LEASE_CLOSING) &&
	       !(w & HOST_LEASE_DOWNGRADE) && host_lease_mode_gen(w) < HOST_LEASE_MODE_GEN_MAX)
		if (cas(&r->word, &w, w | HOST_LEASE_DOWNGRADE))
			break;
	host_lease_ring(s, index);
}

/* A bridge that was stopped may say now what it heard before others asked.  A time that has not come is damage. */
static bool is_overtaken(const struct lockshm *s, uint64_t v, int64_t asked)
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
 * Two bridges may do this at once, one of which was stopped here, and no word tells who comes last.  So obstacle and
 * words say themselves of which question they are: what a bridge that was overtaken stores over those of the verdict
 * does not count with it.  Killed anywhere before the last store: the old verdict, with or without its words.
 */
void host_lease_store_result(const struct lockshm *s, struct shm_host_lease *r, int code, int64_t asked, int64_t until, const char *why)
{
	uint64_t words[HOST_LEASE_REASON_WORDS] = { 0 }, v = load_acquire(&r->last_result), i;

	if (is_overtaken(s, v, asked))
		return;
	strncpy((char *)words, why, sizeof(words) - 1);
	store_relaxed(&r->blocked, blocked_make(asked, until));
	for (i = 0; i < HOST_LEASE_REASON_WORDS; i++)
		store_relaxed(&r->reason[i], words[i]);
	store_relaxed(&r->reason_seal, seal(words, asked));
	/* Release: whoever sees the time sees obstacle and words, or what came over them since. */
	while (!is_overtaken(s, v, asked))
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
	/* In any order: what is not of one question has another seal. */
	whole = load_relaxed(&r->reason_seal) == seal(words, result_asked(last_result));
	memcpy(out, words, sizeof(words));
	out[whole ? HOST_LEASE_REASON_BYTES - 1 : 0] = '\0';
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
