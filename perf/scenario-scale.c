/* SPDX-License-Identifier: MIT */
/*
 * scenario-scale.c - many processes sleep for one key
 *
 *   scale-procs    all want it exclusively: the cost of a hand-over in a long queue
 *   wake-readers   all want it shared, so one release grants it to all of them
 *
 * They request it one after the other, while the first process holds it and then releases.  Each waiter releases at
 * once.  ns is the time from the first release until the last one has had it, divided by their number; us_call that of
 * the first release itself, us_max that until the last one has had it.
 */
#include "bench.h"

#include <string.h>
#include <unistd.h>

#define PROCS_MAX 1000
#define START_MS 120000

struct crowd {
	const struct lock_adapter *lock;
	uint32_t held, go;
	uint32_t asking;
	uint32_t done; /* how many have had it */
	uint32_t procs;
	uint32_t over; /* all of them */
	uint64_t released_at, returned_at, last_at;
	enum bench_mode mode;
};

static void hold(void *arg)
{
	struct crowd *c = arg;

	c->lock->attach();
	c->lock->lock(0, BENCH_EXCLUSIVE);
	bench_set(&c->held, 1);
	if (!bench_wait(&c->go, 1, START_MS))
		bench_fail("the others do not come to wait");
	c->released_at = bench_ticks();
	c->lock->unlock(0, BENCH_EXCLUSIVE);
	c->returned_at = bench_ticks();
	(void)bench_wait(&c->over, 1, START_MS); /* ending now would disturb the others */
	c->lock->detach();
}

static void want(void *arg)
{
	struct crowd *c = arg;
	bool last;

	c->lock->attach();
	bench_add(&c->asking);
	c->lock->lock(0, c->mode);
	last = __atomic_add_fetch(&c->done, 1, __ATOMIC_SEQ_CST) == c->procs;
	if (last)
		c->last_at = bench_ticks();
	c->lock->unlock(0, c->mode);
	if (last)
		bench_set(&c->over, 1);
	(void)bench_wait(&c->over, 1, START_MS); /* ending now would disturb the others */
	c->lock->detach();
}

static void report(const struct crowd *c, const struct point *p)
{
	double all = (double)(c->last_at - c->released_at) * bench_ns_per_tick;

	result_add(p, c->lock->name, NS, all / p->procs, 0);
	if (c->mode == BENCH_EXCLUSIVE)
		return;
	result_add(p, c->lock->name, US_MAX, all / 1000, 0);
	result_add(p, c->lock->name, US_CALL, (double)(c->returned_at - c->released_at) * bench_ns_per_tick / 1000, 0);
}

/* Readers that are woken beside the releaser would run before its call returns. */
static int waiter_cpu(const struct crowd *c, int i)
{
	return bench_cpu(c->mode == BENCH_SHARED && bench_cpus > 1 ? 1 + i % (bench_cpus - 1) : i);
}

static void measure(struct crowd *c, const struct point *p)
{
	pid_t holder = bench_spawn(bench_cpu(0), hold, c), pid[PROCS_MAX];

	if (!bench_wait(&c->held, 1, START_MS))
		bench_fail("the holder does not get the lock");
	for (int i = 0; i < p->procs; i++) {
		pid[i] = bench_spawn(waiter_cpu(c, i), want, c);
		if (!bench_wait(&c->asking, (uint32_t)i + 1, START_MS) || !bench_wait_asleep(pid[i], START_MS))
			bench_fail("a process does not come to wait");
	}
	bench_set(&c->go, 1);
	if (!bench_wait(&c->over, 1, START_MS))
		bench_fail("not all got the lock");
	bench_reap(holder, c->lock->name);
	for (int i = 0; i < p->procs; i++)
		bench_reap(pid[i], c->lock->name);
	report(c, p);
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 1, .procs = (uint32_t)p->procs + 1 };
	static struct crowd *c;

	if (!c)
		c = bench_share(sizeof(*c));
	memset(c, 0, sizeof(*c));
	c->lock = lock;
	c->procs = (uint32_t)p->procs;
	c->mode = (enum bench_mode)p->scenario->arg;
	if (bench_create(lock, &need))
		return;
	measure(c, p);
	bench_destroy(lock);
}

/* Locks that retry, spin or use a server have no queue of their own to measure. */
static bool fits(const struct point *p, const struct lock_adapter *lock)
{
	if (p->procs > 100 && bench_effort != BENCH_FULL && result_tried(p, lock->name))
		return false; /* a thousand processes take seconds to make: once */
	if (p->scenario->arg == BENCH_SHARED && !(lock->can & LOCK_SHARED))
		return false;
	return !(lock->can & (LOCK_NONE | LOCK_REMOTE | LOCK_SOLO | LOCK_SERVER | LOCK_SPINS | LOCK_TRIES));
}

const struct scenario scenario_scale_procs = {
	.name = "scale-procs",
	.what = "one hand-over, when so many processes sleep for one key and all get it in turn",
	.first = NS,
	.fits = fits,
	.run = run,
	.arg = BENCH_EXCLUSIVE,
	.procs = { { 10 }, { 10, 100, 1000 }, { 10, 100, 1000 } },
};

const struct scenario scenario_wake_readers = {
	.name = "wake-readers",
	.what = "from a writer's release until each of so many readers that slept has had it",
	.first = NS,
	.fits = fits,
	.run = run,
	.arg = BENCH_SHARED,
	.procs = { { 10 }, { 1, 10, 100, 1000 }, { 1, 10, 100, 1000 } },
};
