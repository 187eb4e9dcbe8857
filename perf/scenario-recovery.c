/* SPDX-License-Identifier: MIT */
/*
 * scenario-recovery.c - a process is killed; how long until the next one owns the lock, if ever?
 *
 *   recovery          a holder is killed, exclusive or shared, while a writer sleeps in the queue
 *   recovery-1g       the same; the killed process has 1 GiB of memory that the kernel must free
 *   recovery-waiter   the first of two sleepers in the queue is killed; then the holder releases
 *
 * The time runs from just before kill() or the release until the next owner runs.  "never" means not within the
 * scenario's limit; a lock that never recovered is not tried again.  Where only a lease frees the lock, it is 1 s long.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <signal.h>
#include <unistd.h>

#define START_MS 60000
#define GIB ((size_t)1 << 30)
#define LEASE_NS 1000000000
#define SLOW_US 100000 /* once a round is enough then */

enum { HOLDER, HOLDER_1G, WAITER };
static const int kills[BENCH_EFFORTS][3] = { { 1, 1, 1 }, { 6, 1, 4 }, { 12, 3, 8 } };
static const int limit_ms[BENCH_EFFORTS] = { 100, 1500, 1500 };

struct scene {
	const struct lock_adapter *lock;
	int what;
	enum bench_mode mode;
	uint32_t held, let_go; /* the holder has it; may release it */
	uint32_t asking[2];
	uint32_t owns; /* the waiter has it */
	uint64_t owned_at;
	uint64_t released_at;
};

static void holder(void *arg)
{
	struct scene *s = arg;

	if (s->what == HOLDER_1G &&
	    mmap(NULL, GIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
		bench_fail("1 GiB for the victim");
	s->lock->attach();
	s->lock->lock(0, s->mode);
	bench_set(&s->held, 1);
	while (s->what != WAITER)
		pause();
	if (!bench_wait(&s->let_go, 1, START_MS))
		bench_fail("nobody tells the holder to release");
	s->released_at = bench_ticks();
	s->lock->unlock(0, s->mode);
	s->lock->detach();
}

static void ask(struct scene *s, int n)
{
	s->lock->attach();
	bench_set(&s->asking[n], 1);
	s->lock->lock(0, BENCH_EXCLUSIVE);
	s->owned_at = bench_ticks();
	bench_set(&s->owns, 1);
	s->lock->unlock(0, BENCH_EXCLUSIVE);
	s->lock->detach();
}

static void first_waiter(void *arg)
{
	ask(arg, 0);
}

static void second_waiter(void *arg)
{
	ask(arg, 1);
}

static void wait_for(uint32_t *word, const char *what)
{
	if (!bench_wait(word, 1, START_MS))
		bench_fail(what);
}

/*
 * Requested, and asleep in the kernel: 1 ms of state S is longer than any spin.  A waiter that only spins gets that
 * time, too.
 */
static void wait_for_sleeper(struct scene *s, int n, pid_t pid)
{
	wait_for(&s->asking[n], "the waiter does not start");
	if (!(s->lock->can & LOCK_SPINS) && !bench_wait_asleep(pid, START_MS))
		bench_fail("the waiter does not sleep");
	usleep(1000);
}

/* One death; returns us until the next one owned the lock, or -1 for never. */
static double one_death(struct scene *s)
{
	pid_t hold = bench_spawn(bench_cpu(1), holder, s), first, last;
	uint64_t from;
	bool owned;

	wait_for(&s->held, "the holder does not get the lock");
	last = first = bench_spawn(bench_cpu(0), first_waiter, s);
	wait_for_sleeper(s, 0, first);
	if (s->what == WAITER) {
		last = bench_spawn(bench_cpu(0), second_waiter, s);
		wait_for_sleeper(s, 1, last);
		bench_kill(first);
	}
	from = bench_ticks();
	if (s->what == WAITER)
		bench_set(&s->let_go, 1);
	else
		kill(hold, SIGKILL);
	owned = bench_wait(&s->owns, 1, limit_ms[bench_effort]);
	if (s->what == WAITER)
		from = s->released_at;
	if (owned)
		bench_reap(last, s->lock->name);
	else
		bench_kill(last);
	bench_kill(hold);
	return owned ? (double)(s->owned_at - from) * bench_ns_per_tick / 1000 : -1;
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 1, .procs = 3, .lease_ns = LEASE_NS };
	static struct hist hist;
	static struct scene *s;
	double us = 0;

	if (!s)
		s = bench_share(sizeof(*s));
	memset(&hist, 0, sizeof(hist));
	for (int i = 0; i < kills[bench_effort][p->scenario->arg] && us >= 0 && us < SLOW_US; i++) {
		memset(s, 0, sizeof(*s));
		s->lock = lock;
		s->what = p->scenario->arg;
		s->mode = p->mode;
		if (bench_create(lock, &need))
			return;
		us = one_death(s);
		bench_destroy(lock);
		if (us < 0)
			result_never(p, lock->name);
		else
			hist_add(&hist, (uint64_t)(us * 1000 / bench_ns_per_tick));
	}
	result_add_hist(p, lock->name, &hist, 0);
}

/* Not tried again after "never". */
static bool fits(const struct point *p, const struct lock_adapter *lock)
{
	if (lock->can & (LOCK_NONE | LOCK_REMOTE | LOCK_SOLO))
		return false;
	if (p->mode == BENCH_SHARED && !(lock->can & LOCK_SHARED))
		return false;
	return result_has(p, lock->name, US_P50) || !result_tried(p, lock->name);
}

/* Only locks that recover from an ordinary death: the others are known to be stuck. */
static bool fits_1g(const struct point *p, const struct lock_adapter *lock)
{
	const struct point small = { &scenario_recovery, p->mode, p->procs };

	return fits(p, lock) && (!result_tried(&small, lock->name) || result_has(&small, lock->name, US_P50));
}

const struct scenario scenario_recovery = {
	.name = "recovery",
	.what = "from the SIGKILL of a holder until a sleeping writer owns the lock",
	.first = US_P50,
	.fits = fits,
	.run = run,
	.arg = HOLDER,
	.procs = { { 2 }, { 2 }, { 2 } },
	.shared = true,
};

const struct scenario scenario_recovery_1g = {
	.name = "recovery-1g",
	.what = "the same, and the killed holder had 1 GiB of memory",
	.first = US_P50,
	.fits = fits_1g,
	.run = run,
	.arg = HOLDER_1G,
	.procs = { { 0 }, { 2 }, { 2 } },
	.shared = true,
};

const struct scenario scenario_recovery_waiter = {
	.name = "recovery-waiter",
	.what = "the first in the queue was killed: from the holder's release until the second owns the lock",
	.first = US_P50,
	.fits = fits,
	.run = run,
	.arg = WAITER,
	.procs = { { 3 }, { 3 }, { 3 } },
};
