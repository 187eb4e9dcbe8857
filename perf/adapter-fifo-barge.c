/* SPDX-License-Identifier: MIT */
/*
 * adapter-fifo-barge.c - fifo-barge, a floor: the least code that is first in first out and yet lets the releaser
 * barge until the next waiter runs
 *
 * Tickets; a waiter watches the record of the ticket before its own.  A released record is bargeable: its process may
 * resume it, or the next waiter may end it, whichever swaps the word first.  Half a millisecond after the first release
 * of a streak it is not bargeable any more.  The same rule as LOCKSHM_BARGE, without keys, owners and leases; stuck
 * when a process dies.
 */
#include "bench-loop.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 1024u /* more than can wait at once */
#define STREAK_NS 500000 /* as long as a streak with LOCKSHM_BARGE */
#define SPIN 200u /* loads: longer than the 1 us for which a benchmark holds the lock */

enum { TAKEN = 1, BARGES = 2, DONE = 3 };
#define STATE_BITS 2
#define HOLD 4u /* added at each hold of a streak: a waiter about to sleep must see a release and resume in between */
#define TICKET_SHIFT 10

struct fifo_barge {
	uint32_t last; /* ticket of the latest arrival */
	struct {
		uint32_t word; /* [ticket:22 | number of the hold in its streak:8 | state:2] */
		uint32_t asleep; /* number of the sleep of the next waiter; 0 = awake */
	} slot[SLOTS] __attribute__((aligned(64)));
};

static struct fifo_barge *l;
static uint32_t ticket, mine, sleeps, called; /* mine: the word at the last release */
static int64_t row;

static int barge_create(const struct bench_need *need)
{
	(void)need;
	l = bench_share(sizeof(*l));
	l->slot[0].word = DONE;
	return 0;
}

static void barge_attach(void)
{
	ticket = mine = 0;
}

static void barge_nothing(void)
{
}

static void barge_destroy(void)
{
	bench_unshare(l, sizeof(*l));
}

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static bool swap(uint32_t t, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&l->slot[t % SLOTS].word, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static uint32_t with_state(uint32_t word, uint32_t state)
{
	return word >> STATE_BITS << STATE_BITS | state;
}

static bool is(uint32_t word, uint32_t t, uint32_t state)
{
	return word >> TICKET_SHIFT == t << TICKET_SHIFT >> TICKET_SHIFT && word % (1u << STATE_BITS) == state;
}

/* Does the record of ticket @t allow the next one to run? */
static bool over(uint32_t t)
{
	uint32_t word = __atomic_load_n(&l->slot[t % SLOTS].word, __ATOMIC_SEQ_CST);

	return is(word, t, DONE) || (is(word, t, BARGES) && swap(t, word, with_state(word, DONE)));
}

static bool over_soon(uint32_t t)
{
	for (uint32_t i = 0; i < SPIN; i++) {
		if (over(t))
			return true;
		bench_pause();
	}
	return false;
}

static void barge_lock(uint32_t key, enum bench_mode mode)
{
	uint32_t before, again = with_state(mine + HOLD, TAKEN);

	(void)key;
	(void)mode;
	if (mine % (1u << STATE_BITS) == BARGES && swap(ticket, mine, again)) {
		mine = again;
		return;
	}
	ticket = __atomic_add_fetch(&l->last, 1, __ATOMIC_SEQ_CST);
	mine = ticket << TICKET_SHIFT | TAKEN;
	__atomic_store_n(&l->slot[ticket % SLOTS].word, mine, __ATOMIC_SEQ_CST);
	row = 0;
	before = (ticket - 1) % SLOTS;
	while (!over_soon(ticket - 1)) {
		uint32_t seen = __atomic_load_n(&l->slot[before].word, __ATOMIC_SEQ_CST);

		/* Stored before the load, here and in the kernel: a thread that changes the word sees it. */
		__atomic_store_n(&l->slot[before].asleep, ++sleeps ? sleeps : ++sleeps, __ATOMIC_SEQ_CST);
		if (!is(seen, ticket - 1, DONE) && !is(seen, ticket - 1, BARGES))
			syscall(SYS_futex, &l->slot[before].word, FUTEX_WAIT, seen, NULL, NULL, 0);
		__atomic_store_n(&l->slot[before].asleep, 0, __ATOMIC_SEQ_CST);
	}
}

/* A sleep is ended once, not by each release of a streak. */
static void barge_unlock(uint32_t key, enum bench_mode mode)
{
	uint32_t *word = &l->slot[ticket % SLOTS].word, asleep;
	int64_t t = now();
	bool first = row == 0;

	(void)key;
	(void)mode;
	if (first)
		row = t;
	/* A streak ends at its highest number: the next would change the ticket. */
	mine = with_state(mine, t - row < STREAK_NS && (mine + HOLD) >> TICKET_SHIFT == mine >> TICKET_SHIFT ? BARGES : DONE);
	__atomic_store_n(word, mine, __ATOMIC_SEQ_CST);
	asleep = __atomic_load_n(&l->slot[ticket % SLOTS].asleep, __ATOMIC_SEQ_CST);
	if (asleep == 0 || (!first && asleep == called && t - row < STREAK_NS))
		return;
	called = asleep;
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

BENCH_PAIRS(barge_pairs, bench_nothing_to_make, barge_lock, barge_unlock)

const struct lock_adapter adapter_fifo_barge = {
	.name = "fifo-barge",
	.can = LOCK_FLOOR,
	.create = barge_create,
	.attach = barge_attach,
	.lock = barge_lock,
	.unlock = barge_unlock,
	.detach = barge_nothing,
	.destroy = barge_destroy,
	.pairs = barge_pairs,
};
