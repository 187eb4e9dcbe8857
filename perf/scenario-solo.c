/* SPDX-License-Identifier: MIT */
/*
 * scenario-solo.c - the cost of acquire + release of a free lock
 *
 *   solo        one hot key
 *   solo-100k   random ones of 100,000 keys
 *   solo-1m     random ones of 1,000,000 keys
 *   held-20k    one hot key, while another process holds 20,000 others
 *   held-many   the same with as many others as the point says
 *
 * One pinned process takes and releases.  ns is the median over slices of about 100 us, so a slice in which another
 * process ran does not count; nor does one in which the processor was slow, see bench_is_slow().  The percentiles come
 * from pairs stamped one by one, in a second pass: they include the cost of two stamps.
 */
#include "bench-loop.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SLICES_MAX 8192
#define SLICES_MIN 5
#define PATIENCE 3 /* times the figure's time, if the processor is slow */
#define SLICE_NS 100e3
#define SLICE_PAIRS_MAX 4096
#define TAKE_MS 600000
#define SLOW_NS 100e3

/* ms of a figure, and of a server's; pairs stamped, and those of a server */
static const int figure_ms[BENCH_EFFORTS] = { 4, 40, 150 };
static const int server_ms[BENCH_EFFORTS] = { 8, 100, 400 };
static const uint32_t stamped_pairs[BENCH_EFFORTS] = { 1000, 40000, 100000 };
static const uint32_t stamped_server_pairs[BENCH_EFFORTS] = { 50, 1000, 4000 };

/* Reported by the measuring process to its parent. */
struct figure {
	const struct lock_adapter *lock;
	const struct point *point;
	uint32_t keys;
	uint32_t held; /* by the other process */
	uint32_t slice; /* pairs */
	uint32_t kept; /* the other process holds its keys */
	double ns;
	double others;
	double slice_ns[SLICES_MAX];
	struct hist hist;
};

static double slice_ns(const struct figure *f, uint64_t *random, uint32_t n)
{
	uint64_t from = bench_ticks();

	f->lock->pairs(random, f->keys, f->point->mode, n);
	return (double)(bench_ticks() - from) * bench_ns_per_tick / n;
}

/* Each key once, so that making its entry is not measured; a server keeps nothing of a released lock. */
static void warm_up(struct figure *f, uint64_t *random)
{
	double ns = 1e9;

	if (!(f->lock->can & LOCK_SERVER)) {
		for (uint32_t key = 0; key < f->keys; key++) {
			f->lock->lock(key, f->point->mode);
			f->lock->unlock(key, f->point->mode);
		}
	}
	for (int i = 0; i < 5; i++) {
		double now = slice_ns(f, random, 16);

		ns = now < ns ? now : ns;
	}
	f->slice = ns * 8 > SLICE_NS ? 8 : (uint32_t)(SLICE_NS / ns);
	if (f->slice > SLICE_PAIRS_MAX)
		f->slice = SLICE_PAIRS_MAX;
}

static void stamped(struct figure *f, uint64_t *random)
{
	const uint32_t *n = f->lock->can & LOCK_SERVER ? stamped_server_pairs : stamped_pairs;

	for (uint32_t i = 0; i < n[bench_effort]; i++) {
		uint32_t key = f->keys == 1 ? 0 : bench_next_key(random, f->keys);
		uint64_t from = bench_ticks();

		f->lock->lock(key, f->point->mode);
		f->lock->unlock(key, f->point->mode);
		hist_add(&f->hist, bench_ticks() - from);
	}
}

static double thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Slices of a processor at full speed; without any, all slices, and the round counts as disturbed. */
static void run_slices(struct figure *f, uint64_t *random, bool server)
{
	uint64_t limit = bench_ticks_of_ns((server ? server_ms : figure_ms)[bench_effort] * 1e6), begin = bench_ticks(), spent;
	double cpu = thread_cpu_ns(), wall;
	size_t n = 0, slow = 0;

	do {
		double ns = slice_ns(f, random, f->slice);

		if (server || !bench_is_slow())
			f->slice_ns[n++] = ns;
		else
			f->slice_ns[SLICES_MAX - ++slow] = ns;
		spent = bench_ticks() - begin;
	} while (n + slow < SLICES_MAX && (spent < limit || (n < SLICES_MIN && spent < PATIENCE * limit) || n + slow < SLICES_MIN));
	wall = (double)(bench_ticks() - begin) * bench_ns_per_tick;
	f->others = server ? 0 : 1 - (thread_cpu_ns() - cpu) / wall; /* the client of a server sleeps */
	if (n >= SLICES_MIN) {
		f->ns = median_of(f->slice_ns, n);
		return;
	}
	memmove(f->slice_ns + n, f->slice_ns + SLICES_MAX - slow, slow * sizeof(f->slice_ns[0]));
	f->ns = median_of(f->slice_ns, n + slow);
	f->others = 1;
}

static void measure(void *arg)
{
	struct figure *f = arg;
	uint64_t random = 12345;

	f->lock->attach();
	warm_up(f, &random);
	run_slices(f, &random, f->lock->can & LOCK_SERVER);
	stamped(f, &random);
	f->lock->detach();
}

/* Every second key above the hot one: adjacent ones would merge into one record lock. */
static void keep_others(void *arg)
{
	struct figure *f = arg;

	f->lock->attach();
	for (uint32_t i = 0; i < f->held; i++) {
		if (f->lock->keep)
			f->lock->keep(2 + 2 * i);
		else
			f->lock->lock(2 + 2 * i, BENCH_EXCLUSIVE);
	}
	bench_set(&f->kept, 1);
	for (;;)
		pause();
}

static void measure_beside(struct figure *f)
{
	pid_t service = bench_spawn(bench_cpu(0), keep_others, f);

	if (!bench_wait(&f->kept, 1, TAKE_MS))
		bench_fail("the holder of the other keys does not get them");
	bench_reap(bench_spawn(bench_cpu(bench_cpus - 1), measure, f), f->lock->name);
	bench_kill(service);
}

static uint32_t held_at(const struct point *p)
{
	if (p->scenario == &scenario_held_many)
		return (uint32_t)p->procs;
	return p->scenario == &scenario_held_20k ? 20000 : 0;
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	static struct figure *f;
	uint32_t held = held_at(p);
	struct bench_need need = { .keys = held ? 2 * held + 2 : (uint32_t)p->scenario->arg, .procs = 2 };

	if (!f)
		f = bench_share(sizeof(*f));
	if (bench_create(lock, &need))
		return;
	if (lock->can & LOCK_REMOTE) {
		result_add(p, lock->name, NS, lock->remote_ns(p->mode, server_ms[bench_effort]), 0);
		bench_destroy(lock);
		return;
	}
	memset(f, 0, sizeof(*f));
	f->lock = lock;
	f->point = p;
	f->keys = (uint32_t)p->scenario->arg;
	f->held = held;
	if (held)
		measure_beside(f);
	else
		bench_reap(bench_spawn(bench_cpu(bench_cpus - 1), measure, f), lock->name);
	bench_destroy(lock);
	result_add(p, lock->name, NS, f->ns, f->others);
	result_add_hist(p, lock->name, &f->hist, f->others);
}

static bool fits_mode(const struct point *p, const struct lock_adapter *lock)
{
	return p->mode == BENCH_EXCLUSIVE || (lock->can & LOCK_SHARED);
}

static bool fits_keys(const struct point *p, const struct lock_adapter *lock)
{
	return fits_mode(p, lock) && (lock->can & LOCK_MANY);
}

/* Where the held keys make a pair slow they took long to take, too: once, and only in a full run. */
static bool fits_held(const struct point *p, const struct lock_adapter *lock)
{
	double ns;

	if (result_median(p->scenario->name, lock->name, p->mode, p->procs, NS, &ns) && ns > SLOW_NS)
		return false;
	if (lock->can & (LOCK_SERVER | LOCK_FEW) && bench_effort != BENCH_FULL)
		return false;
	return fits_keys(p, lock) && !(lock->can & (LOCK_NONE | LOCK_REMOTE | LOCK_SOLO));
}

/* Those that find a key among many at once. */
static bool fits_held_many(const struct point *p, const struct lock_adapter *lock)
{
	return fits_held(p, lock) && !(lock->can & (LOCK_FEW | LOCK_SERVER));
}

const struct scenario scenario_solo = {
	.name = "solo",
	.what = "acquire + release of one hot key, nobody in the way",
	.first = NS,
	.fits = fits_mode,
	.run = run,
	.arg = 1,
	.procs = { { 1 }, { 1 }, { 1 } },
	.shared = true,
};

const struct scenario scenario_solo_100k = {
	.name = "solo-100k",
	.what = "acquire + release of random ones of 100,000 keys (or of an array of locks)",
	.first = NS,
	.fits = fits_keys,
	.run = run,
	.arg = 100000,
	.procs = { { 0 }, { 1 }, { 1 } },
	.shared = true,
};

const struct scenario scenario_solo_1m = {
	.name = "solo-1m",
	.what = "acquire + release of random ones of 1,000,000 keys (or of an array of locks)",
	.first = NS,
	.fits = fits_keys,
	.run = run,
	.arg = 1000000,
	.procs = { { 0 }, { 1 }, { 1 } },
};

const struct scenario scenario_held_20k = {
	.name = "held-20k",
	.what = "acquire + release of one hot key while another process holds 20,000 others",
	.first = NS,
	.fits = fits_held,
	.run = run,
	.arg = 1,
	.procs = { { 0 }, { 1 }, { 1 } },
};

const struct scenario scenario_held_many = {
	.name = "held-many",
	.what = "acquire + release of one hot key while another process holds so many others",
	.first = NS,
	.fits = fits_held_many,
	.run = run,
	.arg = 1,
	.procs = { { 100 }, { 100, 1000, 10000, 100000 }, { 100, 1000, 10000, 100000 } },
	.many = "keys held",
};
