/* SPDX-License-Identifier: MIT */
/*
 * remote.c - records of host leases: finding and making them, the words that processes and bridge share
 *
 * Making one: CAS an idle record to CLAIM, write key and identity, CAS back.  Crash points: (1) claimed, half written: the
 * claimer's owner slot tells, and the next comer takes the claim over;  (2) open: a record like any other, idle until
 * somebody wants it.  Two processes may make one for the same key at once.  Both are good: each hold names the record
 * it is under, the second lease waits in Redis for the first, and later comers all find the first of the window.
 */
#include "remote.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "futex.h"
#include "owner.h"

#define REMOTE_WINDOW 64u

_Static_assert(REMOTE_KEY_WORDS * 8 == LOCKSHM_GLOBAL_KEY_MAX, "a record keeps the whole key");

static uint32_t window_at(const struct lockshm *s, const struct identity *id, uint32_t i)
{
	return (uint32_t)((id->id[0] + i) % s->n_remotes);
}

static uint32_t window_size(const struct lockshm *s)
{
	return s->n_remotes < REMOTE_WINDOW ? s->n_remotes : REMOTE_WINDOW;
}

bool remote_is(const struct shm_remote *r, const struct identity *id)
{
	uint64_t before, after;
	bool same;

	do {
		before = load_acquire(&r->word);
		same = load_relaxed(&r->id[0]) == id->id[0] && load_relaxed(&r->id[1]) == id->id[1] &&
		       load_relaxed(&r->key_len) == id->len;
		/* The identity before the second look: it is written in state CLAIM only, whose epoch is new.  Pairs with the
		 * swaps in claim(). */
		fence_acquire();
		after = load_relaxed(&r->word);
		if (remote_state(before) == REMOTE_CLAIM)
			return false;
	} while (remote_epoch(before) != remote_epoch(after));
	return same;
}

uint32_t remote_look(const struct lockshm *s, const struct identity *id)
{
	uint32_t i;

	for (i = 0; i < window_size(s); i++)
		if (remote_is(&s->remotes[window_at(s, id, i)], id))
			return window_at(s, id, i);
	return s->n_remotes;
}

/* May this record be given to another key?  Nothing of it is in Redis, and whoever claims it is dead. */
static bool idle(const struct lockshm *s, const struct shm_remote *r, uint64_t word)
{
	if (remote_state(word) == REMOTE_NONE)
		return true;
	return remote_state(word) == REMOTE_CLAIM && owner_is_dead(s, load_acquire(&r->claimer));
}

static void write_identity(struct shm_remote *r, const struct identity *id, const void *key)
{
	uint64_t words[REMOTE_KEY_WORDS] = { 0 };
	size_t i;

	memcpy(words, key, id->len);
	for (i = 0; i < (id->len + 7) / 8; i++)
		store_relaxed(&r->key[i], words[i]);
	store_relaxed(&r->id[0], id->id[0]);
	store_relaxed(&r->id[1], id->id[1]);
	store_relaxed(&r->key_len, id->len);
	store_relaxed(&r->demand, 0);
	store_relaxed(&r->passes, 0);
	store_relaxed(&r->obstacle, 0);
	store_release(&r->fence, 0);
}

/* valid_until may be of the last key's lease: it counts in HELD only, and is raised before that. */
static bool claim(struct lockshm *s, struct shm_remote *r, uint64_t owner, const struct identity *id, const void *key)
{
	uint64_t w = load_acquire(&r->word), mine;

	if (!idle(s, r, w))
		return false;
	mine = remote_make(remote_epoch(w) + 1, 0, REMOTE_CLAIM);
	if (!cas_from(&r->word, w, mine))
		return false;
	store_release(&r->claimer, owner);
	write_identity(r, id, key);
	return cas_from(&r->word, mine, remote_with_state(mine, REMOTE_NONE));
}

int remote_find(struct lockshm *s, uint64_t owner, const struct identity *id, const void *key, uint32_t *out,
		struct lockshm_error *error)
{
	uint32_t i, pass;

	*out = remote_look(s, id);
	if (*out < s->n_remotes)
		return 0;
	/* Those that never had a key first, so that keys that come again find their record. */
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < window_size(s); i++) {
			struct shm_remote *r = &s->remotes[window_at(s, id, i)];

			if ((pass == 0 && load_relaxed(&r->key_len) != 0) || !claim(s, r, owner, id, key))
				continue;
			*out = window_at(s, id, i);
			return 0;
		}
	return error_full(error, LOCKSHM_TABLE_LEASES);
}

size_t remote_key(const struct shm_remote *r, unsigned char out[LOCKSHM_GLOBAL_KEY_MAX])
{
	uint64_t before = load_acquire(&r->word), words[REMOTE_KEY_WORDS];
	size_t i, len = (size_t)load_relaxed(&r->key_len);

	if (remote_state(before) == REMOTE_CLAIM || len > LOCKSHM_GLOBAL_KEY_MAX)
		return 0;
	for (i = 0; i < REMOTE_KEY_WORDS; i++)
		words[i] = load_relaxed(&r->key[i]);
	/* All of the key before the second look; pairs with the CAS to CLAIM in claim(). */
	fence_acquire();
	if (remote_epoch(load_relaxed(&r->word)) != remote_epoch(before))
		return 0;
	memcpy(out, words, sizeof(words));
	return len;
}

/* ---------------------------------------------------------------- time */

bool remote_holds(struct lockshm *s, uint32_t index, uint64_t word)
{
	struct shm_remote *r = remote_at(s, index);
	uint64_t w;

	if (!r)
		return false;
	w = load_acquire(&r->word);
	while (remote_epoch(w) == remote_epoch(word) &&
	       (remote_state(w) == REMOTE_HELD || remote_state(w) == REMOTE_CLOSING)) {
		if (remote_good(w, load_acquire(&r->valid_until), host_now(s)))
			return true;
		if (!cas(&r->word, &w, remote_with_state(w, REMOTE_LOST)))
			continue;
		bridge_count_add(s, BRIDGE_COUNT_LOST, 1);
		remote_signal(r);
		remote_ring(s, index);
		return false;
	}
	return false;
}

int64_t remote_left(const struct lockshm *s, uint32_t index, uint64_t word)
{
	const struct shm_remote *r = remote_at(s, index);
	uint64_t w = r ? load_acquire(&r->word) : 0;
	int64_t now = host_now(s), until = r ? (int64_t)load_acquire(&r->valid_until) : 0;

	return remote_epoch(w) == remote_epoch(word) && remote_good(w, (uint64_t)until, now) ? until - now : 0;
}

bool remote_exhausted(const struct lockshm *s, const struct shm_remote *r, int64_t now)
{
	int64_t cohort_ms = (int64_t)s->redis.ttl_ms / 2;

	if (load_relaxed(&r->demand) == 0)
		return false;
	if (cohort_ms > REMOTE_COHORT_MS)
		cohort_ms = REMOTE_COHORT_MS;
	return load_relaxed(&r->passes) >= REMOTE_PASSES ||
	       now - (int64_t)load_relaxed(&r->acquired) >= LOCKSHM_MS(cohort_ms);
}

void remote_extend(struct shm_remote *r, int64_t valid_until)
{
	uint64_t old = load_acquire(&r->valid_until);

	while (old < (uint64_t)valid_until && !cas(&r->valid_until, &old, (uint64_t)valid_until))
		;
}

/* ---------------------------------------------------------------- fence */

uint64_t remote_fence_next(const struct shm_remote *r)
{
	return load_acquire(&r->fence) >> FENCE_LEFT_BITS;
}

uint64_t remote_take_fence(struct shm_remote *r, uint64_t *left)
{
	uint64_t f = load_acquire(&r->fence);

	while (f & FENCE_LEFT_MASK)
		if (cas(&r->fence, &f, f + (UINT64_C(1) << FENCE_LEFT_BITS) - 1)) {
			*left = (f & FENCE_LEFT_MASK) - 1;
			return f >> FENCE_LEFT_BITS;
		}
	return 0;
}

bool remote_give_fence(struct shm_remote *r, uint64_t epoch, uint64_t first, uint64_t n)
{
	uint64_t f = load_acquire(&r->fence);

	do {
		/* The fence before the epoch: if the record has gone to another key since, its fence has changed, too. */
		if (remote_epoch(load_acquire(&r->word)) != epoch || first < f >> FENCE_LEFT_BITS)
			return false;
	} while (!cas(&r->fence, &f, first << FENCE_LEFT_BITS | (n & FENCE_LEFT_MASK)));
	return true;
}

/* ---------------------------------------------------------------- telling */

void remote_ring(struct lockshm *s, uint32_t index)
{
	/* The bit before the bell: a bridge that sees the bell sees the bit.  Killed in between: it looks at everything
	 * from time to time. */
	(void)fetch_or(&s->bridge->dirty[index / 64], UINT64_C(1) << index % 64);
	(void)fetch_add32(&s->bridge->bell, 1);
	futex_wake(&s->bridge->bell, 1);
}

void remote_signal(struct shm_remote *r)
{
	(void)fetch_add32(&r->signal, 1);
	futex_wake(&r->signal, INT_MAX);
}

void remote_judge(struct shm_remote *r, int code, const char *why)
{
	uint64_t words[REMOTE_WHY_WORDS] = { 0 }, v = load_acquire(&r->verdict), i;

	strncpy((char *)words, why, sizeof(words) - 1);
	for (i = 0; i < REMOTE_WHY_WORDS; i++)
		store_relaxed(&r->why[i], words[i]);
	/* Release: whoever sees the count sees the words, but for those of a later verdict. */
	while (!cas(&r->verdict, &v, (verdict_count(v) + 1) << 16 | (uint64_t)(uint16_t)code))
		;
	remote_signal(r);
}

void remote_why(const struct shm_remote *r, char out[REMOTE_WHY_BYTES])
{
	uint64_t words[REMOTE_WHY_WORDS];
	size_t i;

	for (i = 0; i < REMOTE_WHY_WORDS; i++)
		words[i] = load_relaxed(&r->why[i]);
	memcpy(out, words, sizeof(words));
	out[REMOTE_WHY_BYTES - 1] = '\0';
}

void remote_value(const struct lockshm *s, uint32_t index, uint64_t epoch, char out[REMOTE_VALUE_BYTES])
{
	uint64_t what[3] = { UINT64_C(0x6e656b6f74), index, epoch };
	struct identity id;

	hash_key(&id, s->hash_secret, what, sizeof(what));
	memcpy(out, s->redis.host, REDIS_HOST_BYTES);
	snprintf(out + REDIS_HOST_BYTES, 17, "%016llx", (unsigned long long)id.id[0]);
}
