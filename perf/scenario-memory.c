/* SPDX-License-Identifier: MIT */
/*
 * scenario-memory.c - bytes for each held key, with everything that belongs to holding it
 *
 * The lock is made for some keys and for four times as many, all of them are taken, and the difference in size is
 * divided by the difference in keys: constant parts cancel.
 */
#include "bench.h"

#include <string.h>
#include <unistd.h>

#define KEYS 8192u
#define KEYS_SERVER 4096u /* a request each */
#define TAKE_MS 120000

struct scene {
	const struct lock_adapter *lock;
	uint32_t keys;
	uint32_t taken;
};

static void take_all(void *arg)
{
	struct scene *s = arg;

	s->lock->attach();
	for (uint32_t key = 0; key < s->keys; key++) {
		if (s->lock->keep)
			s->lock->keep(key);
		else
			s->lock->lock(key, BENCH_EXCLUSIVE);
	}
	bench_set(&s->taken, 1);
	for (;;)
		pause();
}

static double bytes_held(struct scene *s, const struct lock_adapter *lock, uint32_t keys)
{
	const struct bench_need need = { .keys = keys, .procs = 2 };
	double bytes;
	pid_t pid;

	memset(s, 0, sizeof(*s));
	s->lock = lock;
	s->keys = keys;
	if (bench_create(lock, &need))
		return -1;
	pid = bench_spawn(bench_cpu(0), take_all, s);
	if (!bench_wait(&s->taken, 1, TAKE_MS))
		bench_fail("the keys are not taken");
	bytes = lock->bytes();
	bench_kill(pid);
	bench_destroy(lock);
	return bytes;
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	static struct scene *s;
	uint32_t keys = lock->can & LOCK_SERVER ? KEYS_SERVER : KEYS;
	double few, many;

	if (result_has(p, lock->name, BYTES))
		return; /* the same in every round */
	if (!s)
		s = bench_share(sizeof(*s));
	few = bytes_held(s, lock, keys);
	many = bytes_held(s, lock, 4 * keys);
	if (few >= 0 && many >= 0)
		result_add(p, lock->name, BYTES, (many - few) / (3 * keys), 0);
}

static bool fits(const struct point *p, const struct lock_adapter *lock)
{
	(void)p;
	if (bench_effort == BENCH_QUICK && lock->can & (LOCK_SERVER | LOCK_FEW))
		return false;
	return lock->bytes && !(lock->can & LOCK_SOLO);
}

const struct scenario scenario_memory = {
	.name = "memory",
	.what = "bytes for each key held, with all that belongs to holding it; short keys",
	.first = BYTES,
	.fits = fits,
	.run = run,
	.procs = { { 1 }, { 1 }, { 1 } },
};
