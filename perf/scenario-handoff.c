/* SPDX-License-Identifier: MIT */
/*
 * scenario-handoff.c - how long after the release does the waiter run?
 *
 *   handoff        the holder waits 0.2 to 1.2 ms after the waiter's request, so the waiter sleeps and its processor
 *                  is idle; "futex-wake" is the cost of a bare wake-up on this machine, the unit for the others
 *   handoff-spin   the holder releases 2 us after the request: a lock that spins before it sleeps still spins
 *
 * Holder and waiter are pinned to two processors.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>

#define TURN_MS 60000

enum { ASLEEP, SPIN };
static const struct {
	double from_ns, spread_ns;
} delays[] = {
	[ASLEEP] = { 200e3, 1000e3 },
	[SPIN] = { 2e3, 0 },
};
static const uint32_t turns[BENCH_EFFORTS] = { 20, 300, 2000 };

struct table {
	const struct lock_adapter *lock;
	int delay;
	uint32_t turns;
	uint32_t ready;
	uint32_t held __attribute__((aligned(64))); /* the holder is inside for the n-th time */
	uint32_t asked __attribute__((aligned(64))); /* the waiter's n-th request */
	uint32_t got __attribute__((aligned(64))); /* its n-th grant */
	uint64_t released_at __attribute__((aligned(64)));
	struct hist wake;
};

/* No system call between request and wait: both sides spin for these words. */
static void tell(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

/* Without yielding the processor, so that it reacts at once. */
static void spin_for(const uint32_t *word, uint32_t value)
{
	uint64_t from = bench_ticks(), limit = bench_ticks_of_ns(TURN_MS * 1e6);

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
		if (bench_ticks() - from > limit)
			bench_fail("the other process does not answer");
}

static void meet(struct table *t)
{
	t->lock->attach();
	__atomic_add_fetch(&t->ready, 1, __ATOMIC_SEQ_CST);
	spin_for(&t->ready, 2);
}

static void hold(void *arg)
{
	struct table *t = arg;
	uint64_t random = 99;

	meet(t);
	for (uint32_t i = 1; i <= t->turns; i++) {
		double delay =
			delays[t->delay].from_ns + delays[t->delay].spread_ns * bench_random(&random) / 4294967296.0;

		t->lock->lock(0, BENCH_EXCLUSIVE);
		tell(&t->held, i);
		spin_for(&t->asked, i);
		bench_spin(bench_ticks(), bench_ticks_of_ns(delay));
		t->released_at = bench_ticks();
		t->lock->unlock(0, BENCH_EXCLUSIVE);
		spin_for(&t->got, i);
	}
	t->lock->detach();
}

static void want(void *arg)
{
	struct table *t = arg;

	meet(t);
	for (uint32_t i = 1; i <= t->turns; i++) {
		uint64_t got;

		spin_for(&t->held, i);
		tell(&t->asked, i);
		t->lock->lock(0, BENCH_EXCLUSIVE);
		got = bench_ticks();
		hist_add(&t->wake, got > t->released_at ? got - t->released_at : 0);
		t->lock->unlock(0, BENCH_EXCLUSIVE);
		tell(&t->got, i);
	}
	t->lock->detach();
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 1, .procs = 2 };
	static struct table *t;
	struct neighbours neighbours;
	pid_t holder, waiter;
	double others;

	if (!t)
		t = bench_share(sizeof(*t));
	memset(t, 0, sizeof(*t));
	t->lock = lock;
	t->delay = p->scenario->arg;
	t->turns = turns[bench_effort];
	if (bench_create(lock, &need))
		return;
	neighbours_begin(&neighbours);
	holder = bench_spawn(bench_cpu(1), hold, t);
	waiter = bench_spawn(bench_cpu(0), want, t);
	bench_reap(holder, lock->name);
	bench_reap(waiter, lock->name);
	others = lock->can & LOCK_SERVER ? 0 : neighbours_end(&neighbours);
	bench_destroy(lock);
	result_add_hist(p, lock->name, &t->wake, others);
}

static bool fits(const struct point *p, const struct lock_adapter *lock)
{
	(void)p;
	return bench_cpus > 1 && !(lock->can & (LOCK_NONE | LOCK_REMOTE | LOCK_SOLO));
}

const struct scenario scenario_handoff = {
	.name = "handoff",
	.what = "from the release until a waiter that slept owns the lock",
	.first = US_P50,
	.fits = fits,
	.run = run,
	.arg = ASLEEP,
	.procs = { { 2 }, { 2 }, { 2 } },
};

const struct scenario scenario_handoff_spin = {
	.name = "handoff-spin",
	.what = "from the release until a waiter owns the lock that asked 2 us before",
	.first = US_P50,
	.fits = fits,
	.run = run,
	.arg = SPIN,
	.procs = { { 2 }, { 2 }, { 2 } },
};
