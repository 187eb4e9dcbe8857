/* SPDX-License-Identifier: MIT */
/*
 * adapter-list.c - a floor: the least code that keeps the holders in a queue, so that one which died can be found there
 *
 * A list under a latch.  As a request of lockshm does, a node takes two cache lines, a process has eight of them side by
 * side, and a process that joins looks at the newest holder's deadline and whether its owner lives: a word in a page of
 * that owner's own.  Readers join at the end and leave from anywhere.  A writer spins until the list is empty.  It leaves
 * out keys, waiting, fencing numbers, and what happens after a death; stuck when a process dies while it has the latch.
 */
#include "bench-loop.h"

#include <string.h>

#define NODES_MAX 65536u
#define PROCS_MAX 1200u
#define SIDE_BY_SIDE 8u
#define PAGE_BYTES 4096u
#define LEASE_NS INT64_C(30000000000)

struct node {
	int64_t deadline;
	uint32_t owner, prev, next; /* 0 = none */
} __attribute__((aligned(128)));

struct owner {
	uint32_t here;
} __attribute__((aligned(128)));

struct life {
	uint32_t alive;
} __attribute__((aligned(PAGE_BYTES)));

struct list {
	uint32_t latch, newest;
	uint32_t last_node __attribute__((aligned(64)));
	uint32_t last_owner;
	struct owner owner[PROCS_MAX];
	struct life life[PROCS_MAX];
	struct node node[NODES_MAX];
};

static struct list *l;
static uint32_t me, next_own, left; /* of this process: its owner, its next new node, how many of them */
static volatile uint32_t late;
static uint32_t slot_nodes[BENCH_SLOTS_MAX];

static int list_create(const struct bench_need *need)
{
	if (need->procs >= PROCS_MAX) {
		bench_why("%u processes are too many", need->procs);
		return -1;
	}
	l = bench_share(sizeof(*l));
	return 0;
}

static void list_destroy(void)
{
	bench_unshare(l, sizeof(*l));
}

static uint32_t new_node(void)
{
	if (left == 0) {
		next_own = __atomic_add_fetch(&l->last_node, SIDE_BY_SIDE, __ATOMIC_RELAXED); /* from 8 on: 0 is none */
		left = SIDE_BY_SIDE;
		if (next_own + SIDE_BY_SIDE > NODES_MAX)
			bench_fail("too many nodes");
	}
	left--;
	return next_own++;
}

static void list_attach(void)
{
	me = __atomic_add_fetch(&l->last_owner, 1, __ATOMIC_RELAXED);
	l->owner[me].here = 1;
	l->life[me].alive = 1;
	memset(slot_nodes, 0, sizeof(slot_nodes));
	left = 0;
}

static void list_detach(void)
{
}

static int64_t clock_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void latch(void)
{
	uint32_t seen = 0;

	while (!__atomic_compare_exchange_n(&l->latch, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		seen = 0;
		bench_pause();
	}
}

static void unlatch(void)
{
	__atomic_store_n(&l->latch, 0, __ATOMIC_RELEASE);
}

/* Is the newest holder overdue or dead? */
static bool is_lost(const struct node *n, int64_t now)
{
	return n->deadline < now || !l->owner[n->owner].here || !l->life[n->owner].alive;
}

static void join(uint32_t i)
{
	int64_t now = clock_of(CLOCK_MONOTONIC_COARSE);
	struct node *n = &l->node[i];

	latch();
	n->deadline = now + LEASE_NS;
	n->owner = me;
	n->next = 0;
	n->prev = l->newest;
	if (n->prev) {
		late += is_lost(&l->node[n->prev], now);
		l->node[n->prev].next = i;
	}
	l->newest = i;
	unlatch();
}

static void leave(uint32_t i)
{
	struct node *n = &l->node[i];

	latch();
	if (n->prev)
		l->node[n->prev].next = n->next;
	if (n->next)
		l->node[n->next].prev = n->prev;
	else
		l->newest = n->prev;
	unlatch();
	late += n->deadline < clock_of(CLOCK_MONOTONIC_COARSE);
}

static void list_hold(uint32_t slot)
{
	if (!slot_nodes[slot])
		slot_nodes[slot] = new_node();
	join(slot_nodes[slot]);
}

static void list_drop(uint32_t slot)
{
	leave(slot_nodes[slot]);
}

/* A writer keeps the latch. */
static void list_lock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	if (mode == BENCH_SHARED) {
		list_hold(0);
		return;
	}
	for (latch(); l->newest; latch()) {
		unlatch();
		bench_pause();
	}
}

static void list_unlock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	if (mode == BENCH_SHARED)
		list_drop(0);
	else
		unlatch();
}

BENCH_PAIRS(list_pairs, bench_nothing_to_make, list_lock, list_unlock)
BENCH_SWAPS(list_swaps, bench_nothing_to_make, list_hold, list_drop)

const struct lock_adapter adapter_list_watch = {
	.name = "list-watch",
	.can = LOCK_FLOOR | LOCK_SHARED | LOCK_SPINS,
	.create = list_create,
	.attach = list_attach,
	.lock = list_lock,
	.unlock = list_unlock,
	.detach = list_detach,
	.destroy = list_destroy,
	.pairs = list_pairs,
	.hold = list_swaps_hold,
	.swaps = list_swaps,
};
