/* SPDX-License-Identifier: MIT */
/*
 * adapter-fifo-rw.c - floors: the least code that keeps the order of arrival between readers and writers
 * (fifo-rw-park), and the same where a sleeper would notice a death and the end of a lease (fifo-rw-watch)
 *
 * Tickets and two counters: a reader runs when all before it have begun or ended, a writer when all before it have
 * ended.  A waiter sleeps on a word of its own, and the process that moves a counter wakes only those that can run;
 * consecutive readers are granted, and woken, together.  No key, no owner, no lease; stuck when a process dies.  No
 * lock with this order can be faster.
 *
 * fifo-rw-watch does nothing with a death or a lease, but pays for it: it sleeps on two words and until a time, and
 * reads the clock at the request, after a sleep, and at the release.
 */
#include "bench-loop.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 1024u /* more than can wait at once */
#define SLEEP_NS 100000000
#define FUTEX_OF_32_BITS 2

struct fifo_rw {
	uint32_t next __attribute__((aligned(64))); /* ticket of the next arrival */
	uint32_t begun __attribute__((aligned(64))); /* tickets below it have begun */
	/* number of tickets that have ended: n = all below n have, for writer n */
	uint32_t ended __attribute__((aligned(64)));
	struct {
		uint64_t asleep; /* ticket and mode of the sleeper, plus one; 0 = none yet */
		uint32_t doorbell; /* changes with each wake */
	} slot[SLOTS] __attribute__((aligned(64)));
	uint32_t life; /* would change with the death of the process before */
};

/* As in the kernel; older headers lack it. */
struct watch {
	uint64_t value, word;
	uint32_t flags, reserved;
};

static struct fifo_rw *l;
static uint32_t ticket;
static bool watches;
static volatile int64_t asked, over; /* a lease would be compared with these */

static int fifo_rw_create(const struct bench_need *need)
{
	(void)need;
	l = bench_share(sizeof(*l));
	return 0;
}

static void fifo_rw_nothing(void)
{
}

static void fifo_rw_watch(void)
{
	watches = true;
}

static void fifo_rw_destroy(void)
{
	bench_unshare(l, sizeof(*l));
}

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void sleep_on(uint32_t *doorbell, uint32_t seen)
{
	struct watch w[2] = { { seen, (uintptr_t)doorbell, FUTEX_OF_32_BITS, 0 }, { 0, (uintptr_t)&l->life, FUTEX_OF_32_BITS, 0 } };
	int64_t until;
	struct timespec ts;

	if (!watches) {
		syscall(SYS_futex, doorbell, FUTEX_WAIT, seen, NULL, NULL, 0);
		return;
	}
	until = asked + SLEEP_NS;
	ts = (struct timespec){ until / 1000000000, until % 1000000000 };
#ifdef SYS_futex_waitv
	syscall(SYS_futex_waitv, w, 2, 0, &ts, CLOCK_MONOTONIC);
#else
	(void)w;
	syscall(SYS_futex, doorbell, FUTEX_WAIT_BITSET, seen, &ts, NULL, FUTEX_BITSET_MATCH_ANY);
#endif
	asked = now();
}

static uint64_t sleeper(uint32_t t, enum bench_mode mode)
{
	return ((uint64_t)t << 1 | (mode == BENCH_SHARED)) + 1;
}

static bool sleeps(uint32_t t, enum bench_mode mode)
{
	return __atomic_load_n(&l->slot[t % SLOTS].asleep, __ATOMIC_SEQ_CST) == sleeper(t, mode);
}

static void call(uint32_t t)
{
	uint32_t *doorbell = &l->slot[t % SLOTS].doorbell;

	__atomic_fetch_add(doorbell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Grants ticket @t if it is that of a sleeping reader; the counter moves first, so that it is not granted twice. */
static bool grant_reader(uint32_t t)
{
	uint32_t seen = t;

	if (!sleeps(t, BENCH_SHARED) ||
	    !__atomic_compare_exchange_n(&l->begun, &seen, t + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	call(t);
	return true;
}

/* Ticket @t is the first that has not begun. */
static void move_on(uint32_t t)
{
	while (grant_reader(t))
		t++;
}

/* May ticket @t run?  A reader that may moves the counter. */
static bool my_turn(uint32_t t, enum bench_mode mode)
{
	uint32_t seen = t;

	if (mode == BENCH_EXCLUSIVE)
		return __atomic_load_n(&l->ended, __ATOMIC_SEQ_CST) == t;
	if ((int32_t)(__atomic_load_n(&l->begun, __ATOMIC_SEQ_CST) - t) > 0)
		return true;
	if (!__atomic_compare_exchange_n(&l->begun, &seen, t + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return (int32_t)(seen - t) > 0;
	move_on(t + 1);
	return true;
}

static void fifo_rw_lock(uint32_t key, enum bench_mode mode)
{
	uint32_t t;

	(void)key;
	if (watches)
		asked = now();
	t = ticket = __atomic_fetch_add(&l->next, 1, __ATOMIC_SEQ_CST);
	if (my_turn(t, mode))
		return;
	for (;;) {
		uint32_t seen = __atomic_load_n(&l->slot[t % SLOTS].doorbell, __ATOMIC_SEQ_CST);

		/* Stored before the load: a process that moves a counter after that load sees it. */
		__atomic_store_n(&l->slot[t % SLOTS].asleep, sleeper(t, mode), __ATOMIC_SEQ_CST);
		if (my_turn(t, mode))
			return;
		sleep_on(&l->slot[t % SLOTS].doorbell, seen);
	}
}

static void fifo_rw_unlock(uint32_t key, enum bench_mode mode)
{
	uint32_t ended;

	(void)key;
	if (watches)
		over = now();
	/* A writer is alone inside: no other process moves this counter. */
	if (mode == BENCH_EXCLUSIVE)
		__atomic_store_n(&l->begun, ticket + 1, __ATOMIC_SEQ_CST);
	ended = __atomic_add_fetch(&l->ended, 1, __ATOMIC_SEQ_CST);
	if (sleeps(ended, BENCH_EXCLUSIVE))
		call(ended);
	if (mode == BENCH_EXCLUSIVE)
		move_on(ticket + 1);
}

BENCH_PAIRS(fifo_rw_pairs, bench_nothing_to_make, fifo_rw_lock, fifo_rw_unlock)

static void fifo_rw_hold(uint32_t slot)
{
	(void)slot;
	fifo_rw_lock(0, BENCH_SHARED);
}

static void fifo_rw_drop(uint32_t slot)
{
	(void)slot;
	fifo_rw_unlock(0, BENCH_SHARED);
}

BENCH_SWAPS(fifo_rw_swaps, bench_nothing_to_make, fifo_rw_hold, fifo_rw_drop)

const struct lock_adapter adapter_fifo_rw_park = {
	.name = "fifo-rw-park",
	.can = LOCK_FLOOR | LOCK_SHARED,
	.create = fifo_rw_create,
	.attach = fifo_rw_nothing,
	.lock = fifo_rw_lock,
	.unlock = fifo_rw_unlock,
	.detach = fifo_rw_nothing,
	.destroy = fifo_rw_destroy,
	.pairs = fifo_rw_pairs,
	.hold = fifo_rw_swaps_hold,
	.swaps = fifo_rw_swaps,
};

const struct lock_adapter adapter_fifo_rw_watch = {
	.name = "fifo-rw-watch",
	.can = LOCK_FLOOR | LOCK_SHARED,
	.create = fifo_rw_create,
	.attach = fifo_rw_watch,
	.lock = fifo_rw_lock,
	.unlock = fifo_rw_unlock,
	.detach = fifo_rw_nothing,
	.destroy = fifo_rw_destroy,
	.pairs = fifo_rw_pairs,
	.hold = fifo_rw_swaps_hold,
	.swaps = fifo_rw_swaps,
};
