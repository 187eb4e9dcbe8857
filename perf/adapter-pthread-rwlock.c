/* SPDX-License-Identifier: MIT */
/*
 * adapter-pthread-rwlock.c - process-shared pthread rwlocks, stuck when any holder dies
 *
 * The default kind lets readers overtake writers, PREFER_WRITER_NONRECURSIVE lets writers overtake readers.  An array
 * replaces keys.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "bench-loop.h"

#include <errno.h>
#include <pthread.h>

static pthread_rwlock_t *locks;
static size_t size;

static int create(uint32_t keys, int kind)
{
	pthread_rwlockattr_t attr;

	size = keys * sizeof(*locks);
	locks = bench_share(size);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
#ifdef __GLIBC__
	pthread_rwlockattr_setkind_np(&attr, kind);
#endif
	for (uint32_t i = 0; i < keys; i++)
		pthread_rwlock_init(&locks[i], &attr);
	pthread_rwlockattr_destroy(&attr);
	return 0;
}

#ifdef __GLIBC__
static int rwlock_create(const struct bench_need *need)
{
	return create(need->keys, PTHREAD_RWLOCK_PREFER_READER_NP);
}

static int rwlock_writer_create(const struct bench_need *need)
{
	return create(need->keys, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
}
#else
static int rwlock_create(const struct bench_need *need)
{
	return create(need->keys, 0);
}

static int rwlock_writer_create(const struct bench_need *need)
{
	(void)need;
	bench_why("this C library has no rwlock that prefers writers");
	return -1;
}
#endif

static void rwlock_none(void)
{
}

static void rwlock_lock(uint32_t key, enum bench_mode mode)
{
	int rc = mode == BENCH_SHARED ? pthread_rwlock_rdlock(&locks[key]) : pthread_rwlock_wrlock(&locks[key]);

	if (rc) {
		errno = rc;
		bench_fail("pthread_rwlock");
	}
}

static void rwlock_unlock(uint32_t key, enum bench_mode mode)
{
	(void)mode;
	pthread_rwlock_unlock(&locks[key]);
}

static double rwlock_bytes(void)
{
	return (double)size;
}

static void rwlock_destroy(void)
{
	bench_unshare(locks, size);
}

BENCH_PAIRS(rwlock_pairs, bench_nothing_to_make, rwlock_lock, rwlock_unlock)

static void rwlock_hold(uint32_t slot)
{
	(void)slot;
	rwlock_lock(0, BENCH_SHARED);
}

static void rwlock_drop(uint32_t slot)
{
	(void)slot;
	rwlock_unlock(0, BENCH_SHARED);
}

static bool rwlock_try(void)
{
	return pthread_rwlock_trywrlock(&locks[0]) == 0;
}

BENCH_SWAPS(rwlock_swaps, bench_nothing_to_make, rwlock_hold, rwlock_drop)
BENCH_TRIES(rwlock_tries, bench_nothing_to_make, rwlock_try)

const struct lock_adapter adapter_pthread_rwlock = {
	.name = "pthread-rwlock",
	.can = LOCK_MANY | LOCK_SHARED,
	.create = rwlock_create,
	.attach = rwlock_none,
	.lock = rwlock_lock,
	.unlock = rwlock_unlock,
	.detach = rwlock_none,
	.destroy = rwlock_destroy,
	.bytes = rwlock_bytes,
	.pairs = rwlock_pairs,
	.hold = rwlock_swaps_hold,
	.swaps = rwlock_swaps,
	.tries = rwlock_tries,
};

const struct lock_adapter adapter_pthread_rwlock_writer = {
	.name = "pthread-rwlock-writer",
	.can = LOCK_MANY | LOCK_SHARED,
	.create = rwlock_writer_create,
	.attach = rwlock_none,
	.lock = rwlock_lock,
	.unlock = rwlock_unlock,
	.detach = rwlock_none,
	.destroy = rwlock_destroy,
	.bytes = rwlock_bytes,
	.pairs = rwlock_pairs,
	.hold = rwlock_swaps_hold,
	.swaps = rwlock_swaps,
	.tries = rwlock_tries,
};
