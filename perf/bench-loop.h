/* SPDX-License-Identifier: MIT */
/*
 * bench-loop.h - the bare loops that every lock is measured by, in its own adapter
 *
 * A call through a table of functions costs some three nanoseconds, and added to each lock that shrinks the ratios
 * between them.  So an adapter has its loops made here, of its own functions, which are inlined into them: what remains is
 * what a program of that lock would have.  One hot key is made ready once, a random one each time.
 *
 *   make_ready(key, mode)   what an acquire needs besides the lock: the bytes of a key, an array's element
 *   take(key, mode)         the acquire
 *   give(key, mode)         the release
 */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include "bench.h"

#define BENCH_FLAT static __attribute__((flatten)) /* whatever is called in it is inlined */

static inline uint32_t bench_next_key(uint64_t *random, uint32_t keys)
{
	return (uint32_t)((uint64_t)bench_random(random) * keys >> 32);
}

/* Of locks that need nothing of that. */
static inline __attribute__((unused)) void bench_nothing_to_make(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
}

/* n pairs of key 0, or of random ones of 0 .. keys-1. */
#define BENCH_PAIRS(name, make_ready, take, give)                                                                      \
	BENCH_FLAT void name##_hot(enum bench_mode mode, uint32_t n)                                                   \
	{                                                                                                              \
		make_ready(0, mode);                                                                                   \
		if (mode == BENCH_SHARED) {                                                                            \
			while (n--) {                                                                                  \
				take(0, BENCH_SHARED);                                                                 \
				give(0, BENCH_SHARED);                                                                 \
			}                                                                                              \
		} else {                                                                                               \
			while (n--) {                                                                                  \
				take(0, BENCH_EXCLUSIVE);                                                              \
				give(0, BENCH_EXCLUSIVE);                                                              \
			}                                                                                              \
		}                                                                                                      \
	}                                                                                                              \
                                                                                                                       \
	BENCH_FLAT void name(uint64_t *random, uint32_t keys, enum bench_mode mode, uint32_t n)                        \
	{                                                                                                              \
		if (keys == 1) {                                                                                       \
			name##_hot(mode, n);                                                                           \
			return;                                                                                        \
		}                                                                                                      \
		while (n--) {                                                                                          \
			uint32_t key = bench_next_key(random, keys);                                                   \
                                                                                                                       \
			make_ready(key, mode);                                                                         \
			take(key, mode);                                                                               \
			give(key, mode);                                                                               \
		}                                                                                                      \
	}

/* name_hold() takes a shared hold of key 0; name() releases each of these, and takes it again before the next one. */
#define BENCH_SWAPS(name, make_ready, hold, drop)                                                                      \
	static void name##_hold(uint32_t slot)                                                                         \
	{                                                                                                              \
		make_ready(0, BENCH_SHARED);                                                                           \
		hold(slot);                                                                                            \
	}                                                                                                              \
                                                                                                                       \
	BENCH_FLAT void name(const uint32_t *slots, uint32_t n)                                                        \
	{                                                                                                              \
		make_ready(0, BENCH_SHARED);                                                                           \
		for (uint32_t i = 0; i < n; i++) {                                                                     \
			drop(slots[i]);                                                                                \
			hold(slots[i]);                                                                                \
		}                                                                                                      \
	}

/* Tries to take key 0 exclusively; returns how often that worked. */
#define BENCH_TRIES(name, make_ready, try_take)                                                                        \
	BENCH_FLAT uint32_t name(uint32_t n)                                                                           \
	{                                                                                                              \
		uint32_t granted = 0;                                                                                  \
                                                                                                                       \
		make_ready(0, BENCH_EXCLUSIVE);                                                                        \
		while (n--)                                                                                            \
			granted += try_take();                                                                         \
		return granted;                                                                                        \
	}

#endif
