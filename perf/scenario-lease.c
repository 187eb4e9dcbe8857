/* SPDX-License-Identifier: MIT */
/*
 * scenario-lease.c - the holder is stopped, not killed: how late after the end of its lease does the next waiter own
 * the lock?
 *
 * The floor is "futex-wake": how late the kernel ends a futex wait of that length.
 */
#include "bench.h"

#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define START_MS 60000
#define LIMIT_MS 2000
#define LEASE_NS 20000000

static const int leases[BENCH_EFFORTS] = { 1, 8, 20 };

struct scene {
	const struct lock_adapter *lock;
	uint32_t held, owns;
	uint64_t leased_at; /* when its acquire began: the lease cannot have begun earlier */
	uint64_t owned_at;
};

static void holder(void *arg)
{
	struct scene *s = arg;

	s->lock->attach();
	s->lock->lock(0, BENCH_EXCLUSIVE); /* warm-up, so that the second begins its lease at once */
	s->lock->unlock(0, BENCH_EXCLUSIVE);
	s->leased_at = bench_ticks();
	s->lock->lock(0, BENCH_EXCLUSIVE);
	bench_set(&s->held, 1);
	for (;;)
		pause();
}

static void waiter(void *arg)
{
	struct scene *s = arg;

	s->lock->attach();
	s->lock->lock(0, BENCH_EXCLUSIVE);
	s->owned_at = bench_ticks();
	bench_set(&s->owns, 1);
	s->lock->unlock(0, BENCH_EXCLUSIVE);
	s->lock->detach();
}

/* Waiter and processor as in the other rows; only the time-out wakes it. */
static void sleeper(void *arg)
{
	struct timespec lease = { 0, LEASE_NS };
	struct scene *s = arg;
	uint32_t word = 0;

	s->leased_at = bench_ticks();
	syscall(SYS_futex, &word, FUTEX_WAIT, 0, &lease, NULL, 0);
	s->owned_at = bench_ticks();
	bench_set(&s->owns, 1);
}

static bool one_lease(struct scene *s)
{
	const struct bench_need need = { .keys = 1, .procs = 2, .lease_ns = LEASE_NS };
	pid_t hold, next;
	bool owned;

	if (bench_create(s->lock, &need))
		return false;
	hold = bench_spawn(bench_cpu(1), holder, s);
	if (!bench_wait(&s->held, 1, START_MS))
		bench_fail("the holder does not get the lock");
	kill(hold, SIGSTOP);
	next = bench_spawn(bench_cpu(0), waiter, s);
	owned = bench_wait(&s->owns, 1, LIMIT_MS);
	if (owned)
		bench_reap(next, s->lock->name);
	else
		bench_kill(next);
	bench_kill(hold);
	bench_destroy(s->lock);
	return owned;
}

static bool one_sleep(struct scene *s)
{
	bench_reap(bench_spawn(bench_cpu(0), sleeper, s), "futex-wake");
	return true;
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	static struct hist hist;
	static struct scene *s;

	if (!s)
		s = bench_share(sizeof(*s));
	memset(&hist, 0, sizeof(hist));
	for (int i = 0; i < leases[bench_effort]; i++) {
		uint64_t lease = bench_ticks_of_ns(LEASE_NS), after;

		memset(s, 0, sizeof(*s));
		s->lock = lock;
		if (!(lock->can & LOCK_FLOOR ? one_sleep(s) : one_lease(s))) {
			result_never(p, lock->name);
			break;
		}
		after = s->owned_at - s->leased_at;
		hist_add(&hist, after > lease ? after - lease : 0);
	}
	result_add_hist(p, lock->name, &hist, 0);
}

static bool fits(const struct point *p, const struct lock_adapter *lock)
{
	(void)p;
	return (lock->can & LOCK_LEASE) && !(lock->can & (LOCK_REMOTE | LOCK_SOLO));
}

const struct scenario scenario_lease_expiry = {
	.name = "lease-expiry",
	.what = "a holder is stopped: from the end of its lease of 20 ms until a waiter owns the lock",
	.first = US_P50,
	.fits = fits,
	.run = run,
	.procs = { { 2 }, { 2 }, { 2 } },
};
