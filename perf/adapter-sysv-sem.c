/* SPDX-License-Identifier: MIT */
/*
 * adapter-sysv-sem.c - a System V semaphore with SEM_UNDO: first in, first out, freed by the
 * kernel when its holder dies
 */
#include "bench-loop.h"

#include <errno.h>
#include <sys/ipc.h>
#include <sys/sem.h>

static int id = -1;

union semun { /* the caller must declare it: semctl(2) */
	int val;
	struct semid_ds *buf;
	unsigned short *array;
};

static int sysv_create(const struct bench_need *need)
{
	union semun one = { .val = 1 };

	(void)need;
	id = semget(IPC_PRIVATE, 1, 0600);
	if (id < 0)
		return -1;
	return semctl(id, 0, SETVAL, one);
}

static void sysv_none(void)
{
}

static void sysv_do(short n)
{
	struct sembuf op = { .sem_num = 0, .sem_op = n, .sem_flg = SEM_UNDO };

	while (semop(id, &op, 1))
		if (errno != EINTR)
			bench_fail("semop");
}

static void sysv_lock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
	sysv_do(-1);
}

static void sysv_unlock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
	sysv_do(1);
}

static void sysv_destroy(void)
{
	semctl(id, 0, IPC_RMID);
}

BENCH_PAIRS(sysv_pairs, bench_nothing_to_make, sysv_lock, sysv_unlock)

const struct lock_adapter adapter_sysv_sem = {
	.name = "sysv-sem",
	.create = sysv_create,
	.attach = sysv_none,
	.lock = sysv_lock,
	.unlock = sysv_unlock,
	.detach = sysv_none,
	.destroy = sysv_destroy,
	.pairs = sysv_pairs,
};
