/* SPDX-License-Identifier: MIT */
/*
 * adapter-fifo-linger.c - fifo-linger, a floor: the least code that keeps the order of those who wait and yet lets the
 * process that released go on until the next one runs
 *
 * Tickets; a waiter looks at the record of the ticket before its own.  A record that lingers may be taken up again by
 * its process or ended by the waiter behind it, whichever swaps the word first; half a millisecond after the first
 * release of a row it may not linger any more.  The same rule as LOCKSHM_BARGE, without keys, owners and leases;
 * stuck when somebody dies.
 */
#include "bench.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 1024u /* more than can wait at once */
#define STREAK_NS 500000 /* as long as LOCKSHM_BARGE lets a row last */
#define SPIN 200u /* looks: longer than the 1 us that a benchmark holds the lock */

enum { TAKEN = 1, LINGERS = 2, DONE = 3 };
#define STATE_BITS 2
#define HOLD 4u /* one more: who is about to sleep must see that it was released and taken up meanwhile */
#define TICKET_SHIFT 10

struct fifo_linger {
	uint32_t last; /* ticket of the latest comer */
	struct {
		uint32_t word; /* [ticket:22 | number of the hold in its row:8 | what became of it:2] */
		uint32_t asleep; /* number of the sleep of who waits behind it; 0 = nobody sleeps */
	} slot[SLOTS] __attribute__((aligned(64)));
};

static struct fifo_linger *l;
static uint32_t ticket, mine, sleeps, called; /* mine: the word as I left it */
static int64_t row;

static int linger_create(const struct bench_need *need)
{
	(void)need;
	l = bench_share(sizeof(*l));
	l->slot[0].word = DONE;
	return 0;
}

static void linger_attach(void)
{
	ticket = mine = 0;
}

static void linger_nothing(void)
{
}

static void linger_destroy(void)
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

/* Is the record of ticket @t out of the way? */
static bool over(uint32_t t)
{
	uint32_t word = __atomic_load_n(&l->slot[t % SLOTS].word, __ATOMIC_SEQ_CST);

	return is(word, t, DONE) || (is(word, t, LINGERS) && swap(t, word, with_state(word, DONE)));
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

static void linger_lock(uint32_t key, enum bench_mode mode)
{
	uint32_t before, again = with_state(mine + HOLD, TAKEN);

	(void)key;
	(void)mode;
	if (mine % (1u << STATE_BITS) == LINGERS && swap(ticket, mine, again)) {
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

		/* Said first, then looked, here and in the kernel: whoever changes the word sees it. */
		__atomic_store_n(&l->slot[before].asleep, ++sleeps ? sleeps : ++sleeps, __ATOMIC_SEQ_CST);
		if (!is(seen, ticket - 1, DONE) && !is(seen, ticket - 1, LINGERS))
			syscall(SYS_futex, &l->slot[before].word, FUTEX_WAIT, seen, NULL, NULL, 0);
		__atomic_store_n(&l->slot[before].asleep, 0, __ATOMIC_SEQ_CST);
	}
}

/* Each sleep is ended once, not by each release of a row. */
static void linger_unlock(uint32_t key, enum bench_mode mode)
{
	uint32_t *word = &l->slot[ticket % SLOTS].word, asleep;
	int64_t t = now();
	bool first = row == 0;

	(void)key;
	(void)mode;
	if (first)
		row = t;
	/* The last number of a row is not gone beyond: it would be that of another ticket. */
	mine = with_state(mine, t - row < STREAK_NS && (mine + HOLD) >> TICKET_SHIFT == mine >> TICKET_SHIFT ? LINGERS : DONE);
	__atomic_store_n(word, mine, __ATOMIC_SEQ_CST);
	asleep = __atomic_load_n(&l->slot[ticket % SLOTS].asleep, __ATOMIC_SEQ_CST);
	if (asleep == 0 || (!first && asleep == called && t - row < STREAK_NS))
		return;
	called = asleep;
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

const struct lock_adapter adapter_fifo_linger = {
	.name = "fifo-linger",
	.can = LOCK_FLOOR,
	.create = linger_create,
	.attach = linger_attach,
	.lock = linger_lock,
	.unlock = linger_unlock,
	.detach = linger_nothing,
	.destroy = linger_destroy,
};
