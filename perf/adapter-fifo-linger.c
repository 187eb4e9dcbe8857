/* SPDX-License-Identifier: MIT */
/*
 * adapter-fifo-linger.c - fifo-linger, a floor: the least code that keeps the order of those who wait and yet lets the
 * process that released go on until the next one runs
 *
 * Tickets; a waiter looks at the record of the ticket before its own.  A record that lingers may be taken up again by its
 * process or ended by the waiter behind it, whichever swaps the word first; half a millisecond after the first release of a
 * row it may not linger any more.  The same rule as LOCKSHM_BARGE, without keys, owners and leases; stuck when somebody
 * dies.
 */
#include "bench.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 1024u /* more than can wait at once */
#define ROW_NS 500000 /* as long as LOCKSHM_BARGE lets a row last */
#define SPIN 200u /* looks: longer than the 1 us that a benchmark holds the lock */

enum { TAKEN = 1, LINGERS = 2, DONE = 3 };

struct fifo_linger {
	uint32_t last; /* ticket of the latest comer */
	struct {
		uint32_t word; /* ticket << 2 | what became of it */
		uint32_t asleep; /* number of the sleep of who waits behind it; 0 = nobody sleeps */
	} slot[SLOTS] __attribute__((aligned(64)));
};

static struct fifo_linger *l;
static uint32_t ticket, sleeps, called;
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
	ticket = 0;
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
	uint32_t seen = t << 2 | from;

	return __atomic_compare_exchange_n(&l->slot[t % SLOTS].word, &seen, t << 2 | to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

/* Is the record of ticket @t out of the way? */
static bool over(uint32_t t)
{
	uint32_t word = __atomic_load_n(&l->slot[t % SLOTS].word, __ATOMIC_SEQ_CST);

	return word == (t << 2 | DONE) || (word == (t << 2 | LINGERS) && swap(t, LINGERS, DONE));
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
	uint32_t before;

	(void)key;
	(void)mode;
	if (ticket != 0 && swap(ticket, LINGERS, TAKEN))
		return;
	ticket = __atomic_add_fetch(&l->last, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&l->slot[ticket % SLOTS].word, ticket << 2 | TAKEN, __ATOMIC_SEQ_CST);
	row = 0;
	before = (ticket - 1) % SLOTS;
	while (!over_soon(ticket - 1)) {
		uint32_t seen = __atomic_load_n(&l->slot[before].word, __ATOMIC_SEQ_CST);

		/* Said first, then looked, here and in the kernel: whoever changes the word sees it. */
		__atomic_store_n(&l->slot[before].asleep, ++sleeps ? sleeps : ++sleeps, __ATOMIC_SEQ_CST);
		if (seen != ((ticket - 1) << 2 | DONE) && seen != ((ticket - 1) << 2 | LINGERS))
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
	__atomic_store_n(word, ticket << 2 | (t - row < ROW_NS ? LINGERS : DONE), __ATOMIC_SEQ_CST);
	asleep = __atomic_load_n(&l->slot[ticket % SLOTS].asleep, __ATOMIC_SEQ_CST);
	if (asleep == 0 || (!first && asleep == called && t - row < ROW_NS))
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
