/* SPDX-License-Identifier: MIT */
/*
 * litmus.c - the pairs of fences of doc/internals/memory-model.md on a real machine
 *
 *   litmus [SECONDS]       3 seconds if not given, shared among the shapes
 *
 * Two threads on two processors meet, and each does its side of a shape once: the library's own loads, stores, swaps
 * and fences, on the library's own structures.  Each side reports whether it missed the other.  Both missing each other
 * is what the fences forbid: no waiter may be left asleep, no cycle overlooked.
 *
 * Each shape runs twice.  As the code is, the outcome must never be seen.  Broken, that is without the waiter's fence
 * or with two steps exchanged, it must be seen on x86, or this machine and this program could not have seen it anyway.
 * Other machines may be stronger than they have to be, or emulated, so there it is only counted.
 *
 * tests/memory/shapes.c asks the memory models what this program asks the machine.
 */
#define _GNU_SOURCE
#include "litmus.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sys/atomic.h"

#define CELLS 256

/* One use of each structure a shape needs; fresh for each meeting. */
struct cell {
	struct shm_request request;
	struct shm_owner owners[2];
	struct shm_entry entry;
	lockshm_canceller_t canceller __attribute__((aligned(64)));
} __attribute__((aligned(128)));

enum { FLAG, REQUEST }; /* words of a canceller, as in cancel.c */

typedef bool side_fn(struct cell *c);

struct shape {
	const char *name;
	const char *sides;
	const char *broken_how;
	enum request_state state; /* the request's at first */
	side_fn *first, *broken, *second;
};

/* ---------------------------------------------------------------- the sides; true = I have missed the other */

/* wait_announce() */
static inline bool announce(struct cell *c, bool broken)
{
	store_relaxed(&c->request.next, ref_pack(1, GEN));
	if (!broken)
		fence_full();
	return load_acquire(&c->request.word) == ENTERED;
}

/* die() and queue_grant_next() */
static bool release_and_look(struct cell *c)
{
	(void)cas_from(&c->request.word, ENTERED, RELEASED);
	fence_after_rmw();
	return load_acquire(&c->request.next) == 0;
}

/* wait_asleep() */
static inline bool fall_asleep(struct cell *c, bool broken)
{
	store_relaxed32(&c->request.sleeping, 1);
	if (!broken)
		fence_full();
	return load_acquire(&c->request.word) == WAITING;
}

/* queue_grant() and queue_wake() */
static bool grant_and_look(struct cell *c)
{
	(void)cas_from(&c->request.word, WAITING, GRANTED);
	fence_after_rmw();
	return load_relaxed32(&c->request.sleeping) == 0;
}

/* wait_for_grant() and wait_rounds(), then add_node() */
static inline bool wait_and_search(struct cell *c, int me, bool broken)
{
	store_release(&c->owners[me].waiting, ref_pack(1, GEN));
	if (!broken)
		fence_full();
	return load_acquire(&c->owners[!me].waiting) == 0;
}

/* canceller_begin(), then reason_to_stop() */
static inline bool wait_cancellably(struct cell *c, bool broken)
{
	store_release(&c->canceller.opaque[REQUEST], ref_pack(1, GEN));
	if (!broken)
		fence_full();
	return load_acquire(&c->canceller.opaque[FLAG]) == 0;
}

/* lockshm_cancel() */
static bool cancel(struct cell *c)
{
	store_release(&c->canceller.opaque[FLAG], 1);
	fence_full();
	return load_acquire(&c->canceller.opaque[REQUEST]) == 0;
}

/* queue_pop_owned(): true = it released a request that had been expired */
static inline bool pop(struct cell *c, bool broken)
{
	uint64_t tail, word;

	if (broken) {
		word = load_acquire(&c->request.word);
		tail = load_acquire(&c->entry.tail);
	} else {
		tail = load_acquire(&c->entry.tail);
		word = load_acquire(&c->request.word);
	}
	return tail == tail_make(2, 1) && word == ENTERED;
}

/* A helper expires the request, then the one behind leaves and the tail comes back. */
static bool expire_and_leave(struct cell *c)
{
	(void)cas_from(&c->request.word, ENTERED, EXPIRED);
	(void)cas_from(&c->entry.tail, 0, tail_make(2, 1));
	return true;
}

#define BOTH_WAYS(name, call_as_is, call_broken)  \
	static bool name##_as_is(struct cell *c)  \
	{                                         \
		return call_as_is;                \
	}                                         \
	static bool name##_broken(struct cell *c) \
	{                                         \
		return call_broken;               \
	}
BOTH_WAYS(announce, announce(c, false), announce(c, true))
BOTH_WAYS(fall_asleep, fall_asleep(c, false), fall_asleep(c, true))
BOTH_WAYS(search, wait_and_search(c, 0, false), wait_and_search(c, 0, true))
BOTH_WAYS(cancellable, wait_cancellably(c, false), wait_cancellably(c, true))
BOTH_WAYS(pop, pop(c, false), pop(c, true))

static bool other_search(struct cell *c)
{
	return wait_and_search(c, 1, false);
}

static const struct shape shapes[] = {
	{ "M1", "hint, predecessor's word | release, hint", "no fence after the hint", REQUEST_ENTERED,
	  announce_as_is, announce_broken, release_and_look },
	{ "M2", "sleep flag, own word | grant, sleep flag", "no fence after the flag", REQUEST_WAITING,
	  fall_asleep_as_is, fall_asleep_broken, grant_and_look },
	{ "M3", "own waiting word, other's | the same", "no fence on one side", REQUEST_WAITING,
	  search_as_is, search_broken, other_search },
	{ "M4", "request, cancel flag | cancel flag, request", "no fence after the request", REQUEST_WAITING,
	  cancellable_as_is, cancellable_broken, cancel },
	{ "R2", "tail, own word | expiry, tail", "own word, then tail", REQUEST_ENTERED,
	  pop_as_is, pop_broken, expire_and_leave },
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* ---------------------------------------------------------------- meeting */

static struct cell cells[CELLS];
static uint8_t missed[2][CELLS];
static struct {
	uint64_t meetings;
} __attribute__((aligned(128))) place[2];

/* What the running pair of threads does. */
static struct {
	side_fn *sides[2];
	uint64_t word;
	int64_t end_ns;
	uint64_t enough; /* stop when the outcome was seen that often; 0 = go on to the end */
	uint64_t seen[2][2];
	uint64_t stop;
} game;
static int processors[2];

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void meet(int me)
{
	uint64_t mine = load_relaxed(&place[me].meetings) + 1;
	unsigned spins = 0;

	store_release(&place[me].meetings, mine);
	while (load_acquire(&place[!me].meetings) < mine)
		if (++spins % 4096 == 0)
			sched_yield(); /* the other one is not running */
}

static void reset_cells(void)
{
	int i;

	memset(cells, 0, sizeof(cells));
	for (i = 0; i < CELLS; i++)
		store_relaxed(&cells[i].request.word, game.word);
}

static void count_outcomes(void)
{
	int i;

	for (i = 0; i < CELLS; i++)
		game.seen[missed[0][i]][missed[1][i]]++;
	if (now_ns() >= game.end_ns || (game.enough && game.seen[1][1] >= game.enough))
		game.stop = 1;
}

/* All lines of a cell into this processor's cache, so that a load need not wait. */
static void warm(const struct cell *c)
{
	(void)load_relaxed(&c->request.word);
	(void)load_relaxed(&c->owners[0].waiting);
	(void)load_relaxed(&c->owners[1].waiting);
	(void)load_relaxed(&c->entry.tail);
	(void)load_relaxed(&c->canceller.opaque[FLAG]);
}

struct player {
	void *(*play)(void *me);
	int me;
};

static void *start_player(void *arg)
{
	const struct player *p = arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processors[p->me], &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		perror("litmus: sched_setaffinity");
	return p->play((void *)(intptr_t)p->me);
}

void run_pair(void *(*play)(void *me))
{
	struct player players[2] = { { play, 0 }, { play, 1 } };
	pthread_t threads[2];
	int i;

	for (i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, start_player, &players[i]) != 0)
			exit(99);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void *play(void *arg)
{
	int i, me = (int)(intptr_t)arg;
	uint32_t random = 12345 + 54321 * (uint32_t)me;
	volatile uint32_t delay;

	for (;;) {
		if (me == 0)
			reset_cells();
		meet(me);
		for (i = 0; i < CELLS; i++) {
			warm(&cells[i]);
			meet(me);
			random = random * 1664525 + 1013904223;
			for (delay = random >> 28; delay > 0; delay--)
				;
			missed[me][i] = game.sides[me](&cells[i]);
		}
		meet(me);
		if (me == 0)
			count_outcomes();
		meet(me);
		if (game.stop)
			return NULL;
	}
}

static void run(const struct shape *s, side_fn *first, int64_t ns, uint64_t enough)
{
	memset(&game, 0, sizeof(game));
	game.sides[0] = first;
	game.sides[1] = s->second;
	game.word = word_make(GEN, true, s->state, 0);
	game.end_ns = now_ns() + ns;
	game.enough = enough;
	run_pair(play);
}

/* ---------------------------------------------------------------- reports */

#if defined(__x86_64__)
#define MUST_SHOW 1
#else
#define MUST_SHOW 0
#endif
static int failures;

void report(bool failed, const char *what)
{
	if (failed) {
		failures++;
		printf("     FAILED: %s\n", what);
	}
	fflush(stdout);
}

static bool shows_little;

void skip_if(bool not_shown)
{
	shows_little |= not_shown;
}

static uint64_t meetings(void)
{
	return game.seen[0][0] + game.seen[0][1] + game.seen[1][0] + game.seen[1][1];
}

static void print_game(const struct shape *s, const char *name, const char *how)
{
	printf("%-4s %-28s %10" PRIu64 " meetings", name, how, meetings());
	/* Only the first one checks in R2. */
	if (s->second != expire_and_leave)
		printf(", missed by the first %" PRIu64 ", by the second %" PRIu64, game.seen[1][0], game.seen[0][1]);
	printf(", seen %" PRIu64 "\n", game.seen[1][1]);
}

#define TELLING 10000000u

static void check_shown(void)
{
	if (MUST_SHOW && game.seen[1][1] == 0 && meetings() >= TELLING)
		report(true, "this machine does not show the outcome of a broken shape either");
	else if (MUST_SHOW)
		skip_if(game.seen[1][1] == 0);
}

static void check_shape(const struct shape *s, int64_t ns)
{
	printf("     %s\n", s->sides);
	run(s, s->first, ns, 0);
	print_game(s, s->name, "as it is");
	report(game.seen[1][1] != 0, "what must never be seen");
	run(s, s->broken, PATIENCE, ENOUGH);
	print_game(s, "", s->broken_how);
	check_shown();
}

/* Two processors we may use. */
static bool find_processors(void)
{
	cpu_set_t set;
	int i, n = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return false;
	for (i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &set))
			processors[n++] = i;
	return n == 2;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 3;
	int64_t ns = (int64_t)(seconds * 1e9 / (SHAPES + 1));
	size_t i;

	if (!find_processors()) {
		printf("skipped: this needs two processors\n");
		return 77;
	}
	printf("litmus: processors %d and %d, %g s\n", processors[0], processors[1], seconds);
	for (i = 0; i < SHAPES; i++)
		check_shape(&shapes[i], ns);
	check_futex(ns);
	printf("litmus: %d failed\n", failures);
	if (!failures && shows_little) {
		printf("skipped: nothing seen, but a broken shape was not shown either: two processors must be free\n");
		return 77;
	}
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
