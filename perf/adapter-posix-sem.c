/* SPDX-License-Identifier: MIT */
/*
 * adapter-posix-sem.c - process-shared POSIX semaphores: no owner, stuck when a holder dies; an array replaces keys
 */
#include "bench-loop.h"

#include <errno.h>
#include <semaphore.h>

static sem_t *locks;
static size_t size;

static int sem_create(const struct bench_need *need)
{
	size = need->keys * sizeof(*locks);
	locks = bench_share(size);
	for (uint32_t i = 0; i < need->keys; i++)
		if (sem_init(&locks[i], 1, 1))
			return -1;
	return 0;
}

static void sem_none(void)
{
}

static void sem_lock(uint32_t key, enum bench_mode mode)
{
	(void)mode;
	while (sem_wait(&locks[key]))
		if (errno != EINTR)
			bench_fail("sem_wait");
}

static void sem_unlock(uint32_t key, enum bench_mode mode)
{
	(void)mode;
	sem_post(&locks[key]);
}

static double sem_bytes(void)
{
	return (double)size;
}

static void sem_delete(void)
{
	bench_unshare(locks, size);
}

BENCH_PAIRS(sem_pairs, bench_nothing_to_make, sem_lock, sem_unlock)

const struct lock_adapter adapter_posix_sem = {
	.name = "posix-sem",
	.can = LOCK_MANY,
	.create = sem_create,
	.attach = sem_none,
	.lock = sem_lock,
	.unlock = sem_unlock,
	.detach = sem_none,
	.destroy = sem_delete,
	.bytes = sem_bytes,
	.pairs = sem_pairs,
};
