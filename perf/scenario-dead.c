/* SPDX-License-Identifier: MIT */
/*
 * scenario-dead.c - a new process, and an acquire, after or beside many others
 *
 *   live-open         a process attaches and detaches, while n others hold a key each
 *   dead-open         n holders of a key each were killed: the next process attaches; fresh-open is without any
 *   dead-open-large   the same in a table of the largest size; fresh-open-large
 *   dead-waiters      n waiters of one key and its holder were killed: a process that is there already acquires it
 *
 * What the dead leave is cleared away once, so a figure has one sample.  "never" is: not within a second and a half.
 */
#include "bench.h"

#include <string.h>
#include <unistd.h>

#define CROWD_MAX 1000
#define START_MS 120000
#define LARGE_KEYS 262143u
#define OPENS 9

static const int limit_ms[BENCH_EFFORTS] = { 100, 1500, 1500 };

enum { LIVE, DEAD, WAITERS, WHAT = 3, NONE = 4, LARGE = 8 };

struct scene {
	const struct lock_adapter *lock;
	uint32_t own_keys; /* each holds its own */
	uint32_t there, next;
	uint32_t ready, go, done;
	double us[OPENS];
};

static double us_since(uint64_t from)
{
	return (double)(bench_ticks() - from) * bench_ns_per_tick / 1000;
}

static void stay(void *arg)
{
	struct scene *s = arg;
	uint32_t me = s->next;

	s->lock->attach();
	if (!s->own_keys)
		bench_add(&s->there); /* the first one holds, the others wait: see bench_wait_asleep() */
	s->lock->lock(s->own_keys ? me + 1 : 0, BENCH_EXCLUSIVE);
	if (s->own_keys)
		bench_add(&s->there);
	for (;;)
		pause();
}

static void open_and_close(void *arg)
{
	struct scene *s = arg;

	for (int i = 0; i < OPENS; i++) {
		uint64_t from = bench_ticks();

		s->lock->attach();
		s->lock->detach();
		s->us[i] = us_since(from);
	}
}

static void open_once(void *arg)
{
	struct scene *s = arg;
	uint64_t from = bench_ticks();

	s->lock->attach();
	s->us[0] = us_since(from);
	s->lock->detach();
}

/* Attached, and with a lock of its own taken once, before the others die. */
static void acquire_once(void *arg)
{
	struct scene *s = arg;
	uint64_t from;

	s->lock->attach();
	s->lock->lock(1, BENCH_EXCLUSIVE);
	s->lock->unlock(1, BENCH_EXCLUSIVE);
	bench_set(&s->ready, 1);
	if (!bench_wait(&s->go, 1, START_MS))
		bench_fail("the others do not die");
	from = bench_ticks();
	s->lock->lock(0, BENCH_EXCLUSIVE);
	s->us[0] = us_since(from);
	bench_set(&s->done, 1);
	s->lock->unlock(0, BENCH_EXCLUSIVE);
	s->lock->detach();
}

static void gather(struct scene *s, pid_t *pid, int n)
{
	for (s->next = 0; s->next < (uint32_t)n; s->next++) {
		pid[s->next] = bench_spawn(bench_cpu((int)s->next), stay, s);
		if (!bench_wait(&s->there, s->next + 1, START_MS) || !bench_wait_asleep(pid[s->next], START_MS))
			bench_fail("a process does not come");
	}
}

/* The newest first: a waiter that sees the request before its own die would clear it away. */
static void kill_all(const pid_t *pid, int n)
{
	while (n--)
		bench_kill(pid[n]);
}

static void measure_open(struct scene *s, const struct point *p)
{
	bool live = (p->scenario->arg & WHAT) == LIVE;
	int n = p->scenario->arg & NONE ? 0 : p->procs;
	pid_t pid[CROWD_MAX];

	s->own_keys = 1;
	gather(s, pid, n);
	if (!live)
		kill_all(pid, n);
	bench_reap(bench_spawn(bench_cpu(bench_cpus - 1), live ? open_and_close : open_once, s), s->lock->name);
	if (live)
		kill_all(pid, n);
	result_add(p, s->lock->name, US_P50, live ? median_of(s->us, OPENS) : s->us[0], 0);
}

static void measure_acquire(struct scene *s, const struct point *p)
{
	pid_t pid[CROWD_MAX + 1], next = bench_spawn(bench_cpu(bench_cpus - 1), acquire_once, s);
	bool owned;

	if (!bench_wait(&s->ready, 1, START_MS))
		bench_fail("a process does not come");
	gather(s, pid, p->procs + 1); /* the holder, then the waiters */
	kill_all(pid, p->procs + 1);
	bench_set(&s->go, 1);
	owned = bench_wait(&s->done, 1, limit_ms[bench_effort]);
	if (owned) {
		bench_reap(next, s->lock->name);
		result_add(p, s->lock->name, US_P50, s->us[0], 0);
	} else {
		bench_kill(next);
		result_never(p, s->lock->name);
	}
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	uint32_t n = (uint32_t)p->procs;
	struct bench_need need = { .keys = n + 2, .procs = n + 3, .lease_ns = 60000000000 };
	static struct scene *s;

	if (p->scenario->arg & LARGE)
		need.keys = LARGE_KEYS;
	if (!s)
		s = bench_share(sizeof(*s));
	memset(s, 0, sizeof(*s));
	s->lock = lock;
	if (bench_create(lock, &need))
		return;
	if ((p->scenario->arg & WHAT) == WAITERS)
		measure_acquire(s, p);
	else
		measure_open(s, p);
	bench_destroy(lock);
}

static bool once(const struct point *p, const struct lock_adapter *lock)
{
	return p->procs > 100 && bench_effort != BENCH_FULL && result_tried(p, lock->name);
}

/*
 * A lock that children inherit has nothing to attach to, a lock without keys nothing that each could hold; chains of a
 * hash table (LOCK_FEW) would make the holders wait for each other.
 */
static bool fits_open(const struct point *p, const struct lock_adapter *lock)
{
	if (once(p, lock) || !(lock->can & LOCK_MANY) || !lock->keep)
		return false;
	return !(lock->can & (LOCK_NONE | LOCK_REMOTE | LOCK_SOLO | LOCK_SERVER | LOCK_FLOOR | LOCK_FEW));
}

/* Not tried again after "never". */
static bool fits_waiters(const struct point *p, const struct lock_adapter *lock)
{
	if (once(p, lock) || (result_tried(p, lock->name) && !result_has(p, lock->name, US_P50)))
		return false;
	return !(lock->can &
		 (LOCK_NONE | LOCK_REMOTE | LOCK_SOLO | LOCK_SERVER | LOCK_SPINS | LOCK_TRIES | LOCK_FLOOR));
}

/* clang-format off */
#define CROWDS { { 10 }, { 1, 10, 100, 1000 }, { 1, 10, 100, 1000 } }
#define OPENING(id, text, kind, points, count, description) \
	const struct scenario scenario_##id = { .name = text, .what = description, .first = US_P50, .fits = fits_open, \
						.run = run, .arg = kind, .procs = points, .many = count }
#define NO_CROWD { { 1 }, { 1 }, { 1 } }
/* clang-format on */

OPENING(live_open, "live-open", LIVE, CROWDS, "live holders", "attach and detach, while so many processes hold a key each");
OPENING(fresh_open, "fresh-open", DEAD | NONE, NO_CROWD, NULL, "attach, when no other process holds or held anything");
OPENING(dead_open, "dead-open", DEAD, CROWDS, "dead holders", "attach, after so many processes that held a key each were killed");
OPENING(fresh_open_large, "fresh-open-large", DEAD | NONE | LARGE, NO_CROWD, NULL, "fresh-open in a table for 262,143 keys");
OPENING(dead_open_large, "dead-open-large", DEAD | LARGE, CROWDS, "dead holders", "dead-open in a table for 262,143 keys");

const struct scenario scenario_dead_waiters = {
	.name = "dead-waiters",
	.what = "the first acquire after a holder and so many waiters of the key were killed",
	.first = US_P50,
	.fits = fits_waiters,
	.run = run,
	.arg = WAITERS,
	.procs = CROWDS,
	.many = "dead waiters",
};
