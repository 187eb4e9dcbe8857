/* SPDX-License-Identifier: MIT */
/*
 * scenario-loop.c - waiting in an event loop against waiting in a thread
 *
 *   loop-solo      acquire + release of a free key: on a loop, by a thread ("thread"), and by a thread that gives the hold
 *                  to its process in between ("thread-moved"), which is what a loop's hold is
 *   loop-handoff   release in one process until code of another one runs: in epoll, and in a blocked thread ("thread")
 *   loop-pass      release by the thread of a loop until it has collected the next wait of that loop, through epoll;
 *                  "eventfd" is what write(), epoll_wait() and read() take
 *
 * All through the public interface.  There is one lock with loops, so each scenario has rows of its own, which are
 * measured in turn, slice by slice or turn by turn; the ratio to compare by is that of the rows.
 */
#include "bench-side.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* ---------------------------------------------------------------- loop-solo */

#define SLICES_MAX 2048
#define SLICE_PAIRS 1000

enum { ON_LOOP, BY_THREAD, MOVED, KINDS };
static const char *const kind_names[KINDS] = { "lockshm", "thread", "thread-moved" };
static const int slices[BENCH_EFFORTS] = { 5, 300, 1500 };

struct solo {
	enum bench_mode mode;
	double ns[KINDS];
};

static void pair(const struct side *me, const struct lockshm_request *q, lockshm_hold_t *hold, int kind)
{
	if (kind == ON_LOOP)
		must(lockshm_loop_acquire(me->loop, q, hold, NULL), "lockshm_loop_acquire");
	else
		must(lockshm_acquire(me->segment, q, hold), "lockshm_acquire");
	if (kind == MOVED)
		must(lockshm_move(hold, LOCKSHM_TO_PROCESS), "lockshm_move");
	must(lockshm_release(hold, 0), "lockshm_release");
}

static double slice_ns(const struct side *me, const struct lockshm_request *q, int kind)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	uint64_t from = bench_ticks();

	for (int i = 0; i < SLICE_PAIRS; i++)
		pair(me, q, &hold, kind);
	return (double)(bench_ticks() - from) * bench_ns_per_tick / SLICE_PAIRS;
}

static void solo_measure(void *arg)
{
	static double ns[KINDS][SLICES_MAX];
	struct solo *s = arg;
	struct lockshm_request q = request_for(s->mode);
	size_t n = 0, tries = 0;
	struct side me;

	attach(&me);
	/* Slices of a slow processor count only if there are no others, see bench_is_slow(). */
	while (n < (size_t)slices[bench_effort] && tries++ < 4 * (size_t)slices[bench_effort]) {
		for (int kind = 0; kind < KINDS; kind++)
			ns[kind][n] = slice_ns(&me, &q, kind);
		n += !bench_is_slow();
	}
	for (int kind = 0; kind < KINDS; kind++)
		s->ns[kind] = median_of(ns[kind], n ? n : 1);
	detach(&me);
}

static void run_solo(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 1, .procs = 2 };
	static struct solo *s;

	if (!s)
		s = bench_share(sizeof(*s));
	s->mode = p->mode;
	if (bench_create(lock, &need))
		return;
	bench_reap(bench_spawn(bench_cpu(bench_cpus - 1), solo_measure, s), lock->name);
	bench_destroy(lock);
	for (int kind = 0; kind < KINDS; kind++)
		result_add(p, kind_names[kind], NS, s->ns[kind], 0);
}

/* ---------------------------------------------------------------- loop-handoff */

#define WAYS 2 /* ON_LOOP, BY_THREAD */
static const uint32_t turns[BENCH_EFFORTS] = { 20, 300, 2000 };

struct table {
	uint32_t turns;
	uint32_t ready;
	uint32_t held __attribute__((aligned(64))); /* the holder is inside for the n-th time */
	uint32_t asked __attribute__((aligned(64)));
	uint32_t got __attribute__((aligned(64)));
	uint64_t released_at __attribute__((aligned(64)));
	struct hist wake[WAYS];
};

static void tell(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

/* Without yielding the processor, so that it reacts at once. */
static void spin_for(const uint32_t *word, uint32_t value)
{
	uint64_t from = bench_ticks(), limit = bench_ticks_of_ns(WAIT_MS * 1e6);

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
		if (bench_ticks() - from > limit)
			bench_fail("the other process does not answer");
}

static void meet(struct table *t, struct side *me)
{
	attach(me);
	__atomic_add_fetch(&t->ready, 1, __ATOMIC_SEQ_CST);
	spin_for(&t->ready, 2);
}

/* Releases 0.2 to 1.2 ms after the request, so that the waiter sleeps. */
static void hold(void *arg)
{
	struct table *t = arg;
	struct lockshm_request q = request_for(BENCH_EXCLUSIVE);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	uint64_t random = 99;
	struct side me;

	meet(t, &me);
	for (uint32_t i = 1; i <= t->turns; i++) {
		double delay = 200e3 + 1000e3 * bench_random(&random) / 4294967296.0;

		must(lockshm_acquire(me.segment, &q, &hold), "lockshm_acquire");
		tell(&t->held, i);
		spin_for(&t->asked, i);
		bench_spin(bench_ticks(), bench_ticks_of_ns(delay));
		t->released_at = bench_ticks();
		must(lockshm_release(&hold, 0), "lockshm_release");
		spin_for(&t->got, i);
	}
	detach(&me);
}

static uint64_t want_on_loop(const struct side *me, const struct lockshm_request *q, lockshm_hold_t *hold)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	if (lockshm_loop_acquire(me->loop, q, hold, NULL) != LOCKSHM_PENDING)
		bench_fail("a held lock was granted");
	collect(me, &outcome);
	return bench_ticks();
}

static void want(void *arg)
{
	struct table *t = arg;
	struct lockshm_request q = request_for(BENCH_EXCLUSIVE);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct side me;

	meet(t, &me);
	for (uint32_t i = 1; i <= t->turns; i++) {
		uint64_t got;

		spin_for(&t->held, i);
		tell(&t->asked, i);
		if (i % WAYS == ON_LOOP) {
			got = want_on_loop(&me, &q, &hold);
		} else {
			must(lockshm_acquire(me.segment, &q, &hold), "lockshm_acquire");
			got = bench_ticks();
		}
		hist_add(&t->wake[i % WAYS], got > t->released_at ? got - t->released_at : 0);
		must(lockshm_release(&hold, 0), "lockshm_release");
		collect_none(&me);
		tell(&t->got, i);
	}
	detach(&me);
}

static void run_handoff(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 1, .procs = 2 };
	static struct table *t;
	struct neighbours neighbours;
	pid_t holder, waiter;
	double others;

	if (!t)
		t = bench_share(sizeof(*t));
	memset(t, 0, sizeof(*t));
	t->turns = WAYS * turns[bench_effort];
	if (bench_create(lock, &need))
		return;
	neighbours_begin(&neighbours);
	holder = bench_spawn(bench_cpu(1), hold, t);
	waiter = bench_spawn(bench_cpu(0), want, t);
	bench_reap(holder, lock->name);
	bench_reap(waiter, lock->name);
	others = neighbours_end(&neighbours);
	bench_destroy(lock);
	for (int way = 0; way < WAYS; way++)
		result_add_hist(p, kind_names[way], &t->wake[way], others);
}

/* ---------------------------------------------------------------- loop-pass */

struct passes {
	struct hist pass, floor;
};

static uint64_t bare_event(const struct side *me, int fd)
{
	uint64_t from = bench_ticks(), n = 1;

	if (write(fd, &n, sizeof(n)) != sizeof(n))
		bench_fail("eventfd");
	epoll_once(me);
	if (read(fd, &n, sizeof(n)) != sizeof(n))
		bench_fail("eventfd");
	return bench_ticks() - from;
}

static void pass(void *arg)
{
	struct passes *s = arg;
	struct lockshm_request q = request_for(BENCH_EXCLUSIVE);
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	lockshm_hold_t holds[2] = { LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT };
	struct side me, bare = { .epoll = epoll_create1(EPOLL_CLOEXEC) };
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	watch(&bare, fd);
	attach(&me);
	must(lockshm_loop_acquire(me.loop, &q, &holds[0], NULL), "lockshm_loop_acquire");
	for (uint32_t i = 0; i < 10 * turns[bench_effort]; i++) {
		uint64_t from;

		if (lockshm_loop_acquire(me.loop, &q, &holds[(i + 1) % 2], NULL) != LOCKSHM_PENDING)
			bench_fail("a held lock was granted");
		from = bench_ticks();
		must(lockshm_release(&holds[i % 2], 0), "lockshm_release");
		epoll_once(&me);
		collect(&me, &outcome);
		hist_add(&s->pass, bench_ticks() - from);
		if (outcome.hold != &holds[(i + 1) % 2])
			bench_fail("the outcome of another wait");
		collect_none(&me);
		hist_add(&s->floor, bare_event(&bare, fd));
	}
	must(lockshm_release(outcome.hold, 0), "lockshm_release");
	detach(&me);
}

static void run_pass(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 1, .procs = 2 };
	static struct passes *s;

	if (!s)
		s = bench_share(sizeof(*s));
	memset(s, 0, sizeof(*s));
	if (bench_create(lock, &need))
		return;
	bench_reap(bench_spawn(bench_cpu(0), pass, s), lock->name);
	bench_destroy(lock);
	result_add_hist(p, lock->name, &s->pass, 0);
	result_add_hist(p, "eventfd", &s->floor, 0);
}

/* ---------------------------------------------------------------- */

const struct scenario scenario_loop_solo = {
	.name = "loop-solo",
	.what = "acquire + release of a free key on an event loop, and by a thread",
	.first = NS,
	.fits = fits_loops,
	.run = run_solo,
	.procs = { { 1 }, { 1 }, { 1 } },
	.shared = true,
};

const struct scenario scenario_loop_handoff = {
	.name = "loop-handoff",
	.what = "from the release until a waiter of another process runs: in epoll, and in a blocked thread",
	.first = US_P50,
	.fits = fits_loops,
	.run = run_handoff,
	.procs = { { 2 }, { 2 }, { 2 } },
};

const struct scenario scenario_loop_pass = {
	.name = "loop-pass",
	.what = "from the release until the same loop has collected its next wait, through epoll",
	.first = US_P50,
	.fits = fits_loops,
	.run = run_pass,
	.procs = { { 1 }, { 1 }, { 1 } },
};
