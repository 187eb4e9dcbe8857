/* SPDX-License-Identifier: MIT */
/*
 * soak.h - what the driver (soak.c) and its workers (soak-worker.c) agree on
 *
 * Everything random comes from the seed and the round, so that both sides derive the same, and a run can be repeated:
 * the same decisions, though not the same interleaving.
 */
#ifndef LOCKSHM_TEST_SOAK_H
#define LOCKSHM_TEST_SOAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history/history.h"
#include "lockshm.h"

/* What one round is like. */
struct soak_config {
	unsigned workers;
	unsigned threads; /* at most, in each worker */
	uint32_t keys, hot; /* of all keys, these are used most */
	uint32_t locks, requests, owners; /* capacities */
	bool roomy; /* nothing may be FULL */
	bool patient; /* no short time-outs: every wait ends by a grant or a deadlock */
	bool recreate; /* the segment is removed and made anew */
	bool gentle; /* no kills and stops: only what the workers do to themselves */
};

void soak_config(struct soak_config *out, uint64_t seed, unsigned round);
/* How every process makes the segment. */
void soak_options(struct lockshm_create_options *out, const struct soak_config *config);

#define SOAK_KEY_MAX 400
/* The bytes of key number @n; some are long, some not printable.  Return: length. */
size_t soak_key(unsigned char out[SOAK_KEY_MAX], uint32_t n);

/* What an acquire or lockshm_damage() showed of a damage mark; tags are "track N". */
void soak_note_previous(struct history_record *r, const struct lockshm_damage *p);

/* Small, fast, and the same everywhere. */
struct soak_random {
	uint64_t state;
};
void soak_seed(struct soak_random *r, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
uint64_t soak_next(struct soak_random *r);
/* 0 .. n - 1 */
static inline uint32_t soak_below(struct soak_random *r, uint32_t n)
{
	return (uint32_t)(soak_next(r) >> 11) % n;
}
static inline bool soak_one_in(struct soak_random *r, uint32_t n)
{
	return soak_below(r, n) == 0;
}
static inline int64_t soak_between(struct soak_random *r, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(soak_next(r) % (uint64_t)(hi - lo + 1));
}

#endif
