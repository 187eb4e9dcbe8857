/* SPDX-License-Identifier: MIT */
/*
 * adapter-pthread-mutex.c - process-shared pthread mutexes: plain (stuck for ever when its holder dies) and robust
 *
 * The speed of lockshm is measured against the robust one.  An array replaces keys.
 */
#include "bench-loop.h"

#include <errno.h>
#include <pthread.h>

static pthread_mutex_t *locks;
static size_t size;

static int create(uint32_t keys, int robust)
{
	pthread_mutexattr_t attr;

	size = keys * sizeof(*locks);
	locks = bench_share(size);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, robust);
	for (uint32_t i = 0; i < keys; i++)
		pthread_mutex_init(&locks[i], &attr);
	pthread_mutexattr_destroy(&attr);
	return 0;
}

static int mutex_create(const struct bench_need *need)
{
	return create(need->keys, PTHREAD_MUTEX_STALLED);
}

static int robust_create(const struct bench_need *need)
{
	return create(need->keys, PTHREAD_MUTEX_ROBUST);
}

static void mutex_none(void)
{
}

static void mutex_lock(uint32_t key, enum bench_mode mode)
{
	int rc = pthread_mutex_lock(&locks[key]);

	(void)mode;
	if (rc == EOWNERDEAD)
		rc = pthread_mutex_consistent(&locks[key]);
	if (rc) {
		errno = rc;
		bench_fail("pthread_mutex_lock");
	}
}

static void mutex_unlock(uint32_t key, enum bench_mode mode)
{
	(void)mode;
	pthread_mutex_unlock(&locks[key]);
}

static double mutex_bytes(void)
{
	return (double)size;
}

static void mutex_destroy(void)
{
	bench_unshare(locks, size);
}

BENCH_PAIRS(mutex_pairs, bench_nothing_to_make, mutex_lock, mutex_unlock)

const struct lock_adapter adapter_pthread_mutex = {
	.name = "pthread-mutex",
	.can = LOCK_MANY,
	.create = mutex_create,
	.attach = mutex_none,
	.lock = mutex_lock,
	.unlock = mutex_unlock,
	.detach = mutex_none,
	.destroy = mutex_destroy,
	.bytes = mutex_bytes,
	.pairs = mutex_pairs,
};

const struct lock_adapter adapter_pthread_robust = {
	.name = "pthread-robust",
	.can = LOCK_MANY,
	.create = robust_create,
	.attach = mutex_none,
	.lock = mutex_lock,
	.unlock = mutex_unlock,
	.detach = mutex_none,
	.destroy = mutex_destroy,
	.bytes = mutex_bytes,
	.pairs = mutex_pairs,
};
