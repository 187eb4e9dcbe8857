/* SPDX-License-Identifier: MIT */
/*
 * scenario-contended.c - processes that want one key all the time
 *
 *   contended      all exclusively
 *   mixed-95-5     95 % of the acquires shared
 *   mixed-50-50    half of them
 *
 * Each takes the lock, works 1 us inside, releases, works 1 us outside, so that two processes can just keep one lock
 * busy.  Counting begins after every process has had the lock once: else the few that wake first would have it to
 * themselves.  A plain counter and a writer's number check exclusion all the time: a violation ends the run with status
 * 1.
 * jain measures how evenly the processes were granted: 1 = all the same, 1/n = one got all.
 */
#include "bench.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCS_MAX 1000
#define INSIDE_NS 1000
#define OUTSIDE_NS 1000
#define ATTACH_MS 60000

static const int figure_ms[BENCH_EFFORTS] = { 20, 150, 400 };

struct worker {
	uint64_t ops[BENCH_MODES]; /* counted ones */
	uint64_t exclusive; /* all of them */
	uint64_t violations;
	struct hist wait[BENCH_MODES];
};

struct arena {
	const struct lock_adapter *lock;
	unsigned shared_percent;
	int procs;
	uint32_t next; /* number of the worker made next */
	uint32_t ready __attribute__((aligned(64)));
	uint32_t go;
	uint32_t started; /* how many have had the lock */
	uint64_t begin __attribute__((aligned(64))); /* ticks; 0 = not all have started */
	uint64_t end;
	uint64_t counter __attribute__((aligned(64))); /* plain: only the lock keeps it right */
	uint32_t writer; /* number of the exclusive holder, from 1 */
	struct worker worker[PROCS_MAX];
};

static uint32_t who_writes(const struct arena *a)
{
	return __atomic_load_n(&a->writer, __ATOMIC_RELAXED);
}

static void inside(struct arena *a, struct worker *w, uint32_t me, enum bench_mode mode, uint64_t ticks)
{
	w->violations += who_writes(a) != 0;
	if (mode == BENCH_EXCLUSIVE) {
		__atomic_store_n(&a->writer, me, __ATOMIC_RELAXED);
		a->counter++;
	}
	bench_spin(bench_ticks(), ticks);
	w->violations += who_writes(a) != (mode == BENCH_EXCLUSIVE ? me : 0);
	if (mode == BENCH_EXCLUSIVE)
		__atomic_store_n(&a->writer, 0, __ATOMIC_RELAXED);
}

/* The last one to start sets the time from which operations count. */
static void start(struct arena *a)
{
	uint64_t now;

	if (__atomic_add_fetch(&a->started, 1, __ATOMIC_SEQ_CST) != (uint32_t)a->procs)
		return;
	now = bench_ticks();
	__atomic_store_n(&a->end, now + bench_ticks_of_ns(figure_ms[bench_effort] * 1e6), __ATOMIC_RELAXED);
	__atomic_store_n(&a->begin, now, __ATOMIC_RELEASE);
}

static void turns(struct arena *a, struct worker *w, uint32_t me)
{
	uint64_t in = bench_ticks_of_ns(INSIDE_NS), out = bench_ticks_of_ns(OUTSIDE_NS);
	uint64_t random = me, turn = 0;

	for (;;) {
		enum bench_mode mode = bench_random(&random) % 100 < a->shared_percent ? BENCH_SHARED : BENCH_EXCLUSIVE;
		uint64_t asked = bench_ticks(), got, begin;

		a->lock->lock(0, mode);
		got = bench_ticks();
		inside(a, w, me, mode, in);
		a->lock->unlock(0, mode);
		w->exclusive += mode == BENCH_EXCLUSIVE;
		if (!turn++)
			start(a);
		begin = __atomic_load_n(&a->begin, __ATOMIC_ACQUIRE);
		if (begin && got >= a->end)
			return;
		if (begin && got >= begin) {
			w->ops[mode]++;
			hist_add(&w->wait[mode], got - asked);
		}
		bench_spin(bench_ticks(), out);
	}
}

static void work(void *arg)
{
	struct arena *a = arg;
	uint32_t me = a->next;

	a->lock->attach();
	bench_add(&a->ready);
	if (!bench_wait(&a->go, 1, ATTACH_MS))
		bench_fail("the others did not come");
	turns(a, &a->worker[me - 1], me);
	a->lock->detach();
}

static double jain(const struct arena *a, enum bench_mode mode)
{
	double sum = 0, squares = 0;

	for (int p = 0; p < a->procs; p++) {
		double x = (double)a->worker[p].ops[mode];

		sum += x;
		squares += x * x;
	}
	return squares > 0 ? sum * sum / (a->procs * squares) : 0;
}

static void collect_mode(struct point p, const struct arena *a, enum bench_mode mode, double others)
{
	static struct hist all;
	uint64_t ops = 0;

	memset(&all, 0, sizeof(all));
	for (int i = 0; i < a->procs; i++) {
		ops += a->worker[i].ops[mode];
		hist_merge(&all, &a->worker[i].wait[mode]);
	}
	if (!ops)
		return;
	p.mode = mode;
	result_add(&p, a->lock->name, OPS_PER_S, (double)ops * 1e3 / figure_ms[bench_effort], others);
	result_add(&p, a->lock->name, JAIN, jain(a, mode), others);
	result_add_hist(&p, a->lock->name, &all, others);
}

static void check(const struct arena *a)
{
	uint64_t exclusive = 0, violations = 0;

	for (int i = 0; i < a->procs; i++) {
		exclusive += a->worker[i].exclusive;
		violations += a->worker[i].violations;
	}
	if (!violations && a->counter == exclusive)
		return;
	fprintf(stderr, "lockshm-bench: %s does not exclude: %llu violations seen, %lld of %llu updates lost\n",
		a->lock->name, (unsigned long long)violations, (long long)(exclusive - a->counter),
		(unsigned long long)exclusive);
	exit(1);
}

static void measure(struct arena *a, const struct point *p)
{
	struct neighbours neighbours;
	pid_t pid[PROCS_MAX];
	double others;

	for (int i = 0; i < a->procs; i++) {
		a->next = (uint32_t)i + 1; /* the child reads it before it reports ready */
		pid[i] = bench_spawn(bench_cpu(i), work, a);
		if (!bench_wait(&a->ready, (uint32_t)i + 1, ATTACH_MS))
			bench_fail("a process did not come");
	}
	neighbours_begin(&neighbours);
	bench_set(&a->go, 1);
	for (int i = 0; i < a->procs; i++)
		bench_reap(pid[i], a->lock->name);
	others = a->lock->can & LOCK_SERVER ? 0 : neighbours_end(&neighbours); /* a server counts among the others */
	check(a);
	collect_mode(*p, a, BENCH_EXCLUSIVE, others);
	collect_mode(*p, a, BENCH_SHARED, others);
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 1, .procs = (uint32_t)p->procs };
	static struct arena *a;

	if (!a)
		a = bench_share(sizeof(*a));
	memset(a, 0, offsetof(struct arena, worker) + (size_t)p->procs * sizeof(a->worker[0]));
	a->lock = lock;
	a->shared_percent = (unsigned)p->scenario->arg;
	a->procs = p->procs;
	if (bench_create(lock, &need))
		return;
	measure(a, p);
	bench_destroy(lock);
}

/* A lock that never sleeps needs seconds for a figure with a few processes more than processors. */
static bool fits(const struct point *p, const struct lock_adapter *lock)
{
	if (lock->can & (LOCK_REMOTE | LOCK_SOLO))
		return false;
	if (lock->can & LOCK_SPINS && p->procs > 2 * bench_cpus)
		return false;
	if (p->procs > 256 && lock->can & LOCK_STALLS)
		return false;
	if (p->procs > 64 && (lock->can & LOCK_FEW || (bench_effort != BENCH_FULL && result_tried(p, lock->name))))
		return false; /* hundreds of processes take long to make: once */
	return p->procs <= 16 || !(lock->can & LOCK_SERVER);
}

static bool fits_mixed(const struct point *p, const struct lock_adapter *lock)
{
	return (lock->can & LOCK_SHARED) && !(lock->can & LOCK_NONE) && fits(p, lock);
}

const struct scenario scenario_contended = {
	.name = "contended",
	.what = "all want one key exclusively; 1 us inside, 1 us outside",
	.first = OPS_PER_S,
	.fits = fits,
	.run = run,
	.arg = 0,
	.procs = { { 2 }, { 2, 4, 16, 64, 256, 1000 }, { 2, 4, 16, 64, 256, 1000 } },
};

const struct scenario scenario_mixed_95_5 = {
	.name = "mixed-95-5",
	.what = "95 % of the acquires shared; 1 us inside, 1 us outside",
	.first = OPS_PER_S,
	.fits = fits_mixed,
	.run = run,
	.arg = 95,
	.procs = { { 2 }, { 2, 16 }, { 2, 4, 16, 64 } },
};

const struct scenario scenario_mixed_50_50 = {
	.name = "mixed-50-50",
	.what = "half of the acquires shared; 1 us inside, 1 us outside",
	.first = OPS_PER_S,
	.fits = fits_mixed,
	.run = run,
	.arg = 50,
	.procs = { { 2 }, { 2, 16 }, { 2, 4, 16, 64 } },
};
