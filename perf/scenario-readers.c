/* SPDX-License-Identifier: MIT */
/*
 * scenario-readers.c - readers beside readers: what a shared hold costs among n others of the same key
 *
 *   readers-newest, readers-oldest, readers-churn   one process has all holds; it releases the newest one, the oldest
 *                                                   one, or any one, and takes it again
 *   spread-newest, spread-oldest, spread-churn      the holds are those of up to 101 processes, which take turns
 *   try-readers                                     an exclusive try, which n readers of up to 100 processes refuse
 *   reading                                         processes that only read, nothing inside: their rate together
 *
 * The number of a point is that of the other readers, of "reading" that of the processes.  A lock that a process can
 * have once takes part where a process has one hold.  ns is the median over bursts; where processes take turns a burst is as
 * many pairs as a process has holds, and begins after a sleep: the key's own lines are far then.
 */
#include "bench-loop.h"

#include <stdlib.h>
#include <string.h>

#define SPREAD_MAX 100
#define BURST 64u
#define SAMPLES_MAX 8192
#define START_MS 120000

enum { NEWEST, OLDEST, CHURN, TRY, POLICY = 3, SPREAD = 4 };

static const int figure_ms[BENCH_EFFORTS] = { 2, 20, 60 };
static const uint32_t turns[BENCH_EFFORTS] = { 5, 150, 600 };
static const uint32_t first_turns[BENCH_EFFORTS] = { 0, 20, 40 }; /* of each process, not measured */

struct party {
	const struct lock_adapter *lock;
	int policy;
	uint32_t procs, slots; /* processes that hold; holds of each */
	uint32_t next; /* number of the process made next */
	uint32_t holding, turn_over, over;
	bool uncounted; /* turns do not count yet */
	uint32_t turn[SPREAD_MAX + 2] __attribute__((aligned(64))); /* of each process: the turn it has */
	uint32_t samples;
	double ns[SAMPLES_MAX];
};

static bool takes_turns(const struct party *t)
{
	return t->procs > 1 && t->policy != NEWEST && t->policy != TRY;
}

static void add(struct party *t, double ns)
{
	if (!t->uncounted && t->samples < SAMPLES_MAX)
		t->ns[t->samples++] = ns;
}

static void swap_slots(const struct lock_adapter *lock, const uint32_t *slots, uint32_t n)
{
	if (lock->swaps) {
		lock->swaps(slots, n);
		return;
	}
	while (n--) {
		lock->unlock(0, BENCH_SHARED);
		lock->lock(0, BENCH_SHARED);
	}
}

static void burst(struct party *t, uint32_t *ring, uint64_t *random)
{
	uint32_t slots[BURST], n = takes_turns(t) ? t->slots : BURST;
	uint64_t from;

	for (uint32_t i = 0; i < n; i++) {
		if (t->policy == NEWEST)
			slots[i] = t->slots - 1;
		else if (t->policy == OLDEST)
			slots[i] = (*ring)++ % t->slots;
		else
			slots[i] = bench_next_key(random, t->slots);
	}
	from = bench_ticks();
	swap_slots(t->lock, slots, n);
	add(t, (double)(bench_ticks() - from) * bench_ns_per_tick / n);
}

static void try_burst(struct party *t)
{
	uint64_t from = bench_ticks();

	if (t->lock->tries(BURST))
		bench_fail("an exclusive lock was granted beside readers");
	add(t, (double)(bench_ticks() - from) * bench_ns_per_tick / BURST);
}

/* After a sleep, so that the code and the process' own data are near again; by another key, so that the order stays. */
static void warm_up(const struct party *t)
{
	for (int i = 0; i < 2 && takes_turns(t) && t->lock->can & LOCK_MANY; i++) {
		t->lock->lock(1, BENCH_SHARED);
		t->lock->unlock(1, BENCH_SHARED);
	}
}

/* The turns of one process: a burst each, or, if it alone is measured, bursts for the time of a figure. */
static void take_turns(struct party *t, uint32_t me)
{
	uint32_t ring = 0, turn = 0;
	uint64_t random = me + 1, from;

	while (!__atomic_load_n(&t->over, __ATOMIC_ACQUIRE)) {
		if (!bench_wait(&t->turn[me], turn + 1, START_MS))
			bench_fail("a process gets no turn");
		turn = __atomic_load_n(&t->turn[me], __ATOMIC_ACQUIRE);
		warm_up(t);
		from = bench_ticks();
		do {
			if (t->policy == TRY)
				try_burst(t);
			else
				burst(t, &ring, &random);
		} while (!takes_turns(t) && bench_ticks() - from < bench_ticks_of_ns(figure_ms[bench_effort] * 1e6));
		bench_add(&t->turn_over);
	}
}

static void member(void *arg)
{
	struct party *t = arg;
	uint32_t me = t->next;

	t->lock->attach();
	for (uint32_t slot = 0; slot < t->slots && me < t->procs; slot++) {
		if (t->lock->hold)
			t->lock->hold(slot);
		else
			t->lock->lock(0, BENCH_SHARED);
	}
	bench_add(&t->holding);
	take_turns(t, me);
}

static uint32_t whose_turn(const struct party *t, uint32_t turn, uint64_t *random)
{
	if (t->policy == TRY)
		return t->procs;
	if (t->policy == NEWEST)
		return t->procs - 1;
	return t->policy == OLDEST ? turn % t->procs : bench_next_key(random, t->procs);
}

static void measure(struct party *t)
{
	uint32_t members = t->procs + (t->policy == TRY), all_turns = 1, before = 0;
	pid_t pid[SPREAD_MAX + 2];
	uint64_t random = 7;

	for (t->next = 0; t->next < members; t->next++) {
		int cpu = t->next == members - 1 ? bench_cpus - 1 : (int)t->next;

		pid[t->next] = bench_spawn(bench_cpu(cpu), member, t);
		if (!bench_wait(&t->holding, t->next + 1, START_MS))
			bench_fail("a reader does not get its holds");
	}
	if (takes_turns(t)) {
		before = t->procs * first_turns[bench_effort];
		all_turns = before + turns[bench_effort];
	}
	for (uint32_t turn = 0; turn < all_turns; turn++) {
		t->uncounted = turn < before; /* before the word that ends a wait, which publishes it */
		bench_set(&t->turn[whose_turn(t, turn, &random)], turn + 1);
		if (!bench_wait(&t->turn_over, turn + 1, START_MS))
			bench_fail("a turn does not end");
	}
	for (uint32_t i = 0; i < members; i++)
		bench_kill(pid[i]);
}

static void shape(struct party *t, const struct point *p, const struct lock_adapter *lock)
{
	uint32_t n = (uint32_t)p->procs, others = n < SPREAD_MAX ? n : SPREAD_MAX;

	memset(t, 0, sizeof(*t));
	t->lock = lock;
	t->policy = p->scenario->arg & POLICY;
	t->procs = p->scenario->arg & SPREAD ? others + (t->policy != TRY) : 1;
	t->slots = p->scenario->arg & SPREAD ? n / others : n + 1;
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	static struct party *t;
	struct bench_need need = { .keys = 2 };

	if (!t)
		t = bench_share(sizeof(*t));
	shape(t, p, lock);
	need.procs = t->procs + t->slots / 32 + 1;
	if (bench_create(lock, &need))
		return;
	measure(t);
	bench_destroy(lock);
	result_add(p, lock->name, NS, median_of(t->ns, t->samples), 0);
}

static bool fits(const struct point *p, const struct lock_adapter *lock)
{
	static struct party t;

	if (!(lock->can & LOCK_SHARED) || lock->can & (LOCK_NONE | LOCK_REMOTE | LOCK_SOLO | LOCK_SERVER))
		return false;
	shape(&t, p, lock);
	return (lock->hold || t.slots == 1) && (lock->tries || t.policy != TRY);
}

/* ---------------------------------------------------------------- reading */

struct readers {
	const struct lock_adapter *lock;
	uint32_t next, ready, go;
	uint64_t end;
	struct {
		uint64_t pairs __attribute__((aligned(64)));
	} reader[64];
};

static void read_only(void *arg)
{
	struct readers *r = arg;
	uint32_t me = r->next;
	uint64_t random = 1;

	r->lock->attach();
	r->lock->pairs(&random, 1, BENCH_SHARED, BURST);
	bench_add(&r->ready);
	if (!bench_wait(&r->go, 1, START_MS))
		bench_fail("the others do not come");
	for (; bench_ticks() < r->end; r->reader[me].pairs += BURST)
		r->lock->pairs(&random, 1, BENCH_SHARED, BURST);
	r->lock->detach();
}

static void run_reading(const struct point *p, const struct lock_adapter *lock)
{
	const struct bench_need need = { .keys = 1, .procs = (uint32_t)p->procs };
	struct neighbours neighbours;
	static struct readers *r;
	uint64_t pairs = 0;
	pid_t pid[64];

	if (!r)
		r = bench_share(sizeof(*r));
	memset(r, 0, sizeof(*r));
	r->lock = lock;
	if (bench_create(lock, &need))
		return;
	for (int i = 0; i < p->procs; i++) {
		r->next = (uint32_t)i;
		pid[i] = bench_spawn(bench_cpu(i), read_only, r);
		if (!bench_wait(&r->ready, (uint32_t)i + 1, START_MS))
			bench_fail("a reader does not come");
	}
	neighbours_begin(&neighbours);
	r->end = bench_ticks() + bench_ticks_of_ns(5e6 * figure_ms[bench_effort]);
	bench_set(&r->go, 1);
	for (int i = 0; i < p->procs; i++) {
		bench_reap(pid[i], lock->name);
		pairs += r->reader[i].pairs;
	}
	result_add(p, lock->name, OPS_PER_S, (double)pairs * 1e3 / (5 * figure_ms[bench_effort]),
		   neighbours_end(&neighbours));
	bench_destroy(lock);
}

static bool fits_reading(const struct point *p, const struct lock_adapter *lock)
{
	return (lock->can & LOCK_SHARED) && !(lock->can & (LOCK_NONE | LOCK_REMOTE | LOCK_SOLO | LOCK_SERVER)) &&
	       !(lock->can & LOCK_SPINS && p->procs > bench_cpus);
}

/* ---------------------------------------------------------------- */

/* clang-format off */
#define POINTS { { 1, 10 }, { 1, 10, 100, 1000 }, { 1, 10, 100, 1000 } }
#define READERS(id, text, policy, description) \
	const struct scenario scenario_##id = { .name = text, .what = description, .first = NS, .fits = fits, .run = run, \
						.arg = policy, .procs = POINTS, .many = "other readers" }
/* clang-format on */

READERS(readers_newest, "readers-newest", NEWEST, "release the newest shared hold beside n others, and take it again");
READERS(readers_oldest, "readers-oldest", OLDEST, "the same of the oldest one");
READERS(readers_churn, "readers-churn", CHURN, "the same of any one");
READERS(spread_newest, "spread-newest", NEWEST | SPREAD, "the same beside others of up to 100 processes");
READERS(spread_oldest, "spread-oldest", OLDEST | SPREAD, "the same of the oldest one, by the process that has it");
READERS(spread_churn, "spread-churn", CHURN | SPREAD, "the same of any one");
READERS(try_readers, "try-readers", TRY | SPREAD, "an exclusive try while n readers of up to 100 processes hold");

const struct scenario scenario_reading = {
	.name = "reading",
	.what = "one key, all read, nothing inside",
	.first = OPS_PER_S,
	.fits = fits_reading,
	.run = run_reading,
	.procs = { { 2 }, { 1, 2 }, { 1, 2, 4 } },
};
