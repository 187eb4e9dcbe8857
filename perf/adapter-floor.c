/* SPDX-License-Identifier: MIT */
/*
 * adapter-floor.c - floors, no peers: the least code that excludes (cas), is fair (fifo-park), or sleeps (futex-wake)
 *
 * None has a key, an owner or a lease, and each is stuck when its holder dies.  "none" excludes nobody: it shows what
 * the body of a benchmark costs by itself, and that a violation of exclusion would be found.
 */
#include "bench.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 1024u /* more than can wait at once */

struct floor {
	uint32_t word;
	uint32_t next __attribute__((aligned(64))); /* ticket of the next comer */
	uint32_t serving __attribute__((aligned(64))); /* ticket of the holder; the holder's to write */
	uint32_t slot[SLOTS] __attribute__((aligned(64))); /* ticket that is served now, in the slot of that ticket */
};

static struct floor *l;
static uint32_t ticket;

static int floor_create(const struct bench_need *need)
{
	(void)need;
	l = bench_share(sizeof(*l));
	return 0;
}

static void floor_nothing(void)
{
}

static void floor_destroy(void)
{
	bench_unshare(l, sizeof(*l));
}

static void futex_wait(uint32_t *word, uint32_t seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* One word, 0 or 1: compare and swap until it works. */
static void cas_lock(uint32_t key, enum bench_mode mode)
{
	uint32_t seen = 0;

	(void)key;
	(void)mode;
	while (!__atomic_compare_exchange_n(&l->word, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		seen = 0;
		bench_pause();
	}
}

static void cas_unlock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
	__atomic_store_n(&l->word, 0, __ATOMIC_RELEASE);
}

/* Tickets; a waiter sleeps on a word of its own until its ticket stands there. */
static void fifo_lock(uint32_t key, enum bench_mode mode)
{
	uint32_t *mine, seen;

	(void)key;
	(void)mode;
	ticket = __atomic_fetch_add(&l->next, 1, __ATOMIC_SEQ_CST);
	mine = &l->slot[ticket % SLOTS];
	if (__atomic_load_n(&l->serving, __ATOMIC_ACQUIRE) == ticket)
		return;
	while ((seen = __atomic_load_n(mine, __ATOMIC_ACQUIRE)) != ticket)
		futex_wait(mine, seen);
}

/* Serving first, then who waits: a comer either sees that he is served or is seen to have come. */
static void fifo_unlock(uint32_t key, enum bench_mode mode)
{
	uint32_t then = ticket + 1, *his = &l->slot[then % SLOTS];

	(void)key;
	(void)mode;
	__atomic_store_n(his, then, __ATOMIC_RELEASE);
	__atomic_store_n(&l->serving, then, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&l->next, __ATOMIC_SEQ_CST) != then)
		futex_wake(his);
}

/* One word: 0 free, 1 held, 2 held and somebody sleeps.  Its hand-over to a sleeper is what a bare wake-up costs. */
static void futex_lock(uint32_t key, enum bench_mode mode)
{
	uint32_t seen = 0;

	(void)key;
	(void)mode;
	if (__atomic_compare_exchange_n(&l->word, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&l->word, 2, __ATOMIC_ACQUIRE))
		futex_wait(&l->word, 2);
}

static void futex_unlock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
	if (__atomic_exchange_n(&l->word, 0, __ATOMIC_RELEASE) == 2)
		futex_wake(&l->word);
}

static void none_lock(uint32_t key, enum bench_mode mode)
{
	char name[BENCH_KEY_LEN];

	(void)mode;
	bench_key(key, name);
	__asm__ volatile("" : : "r"(name) : "memory"); /* the key counts as used */
}

static void none_unlock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
}

const struct lock_adapter adapter_cas = {
	.name = "cas",
	.can = LOCK_FLOOR | LOCK_SPINS,
	.create = floor_create,
	.attach = floor_nothing,
	.lock = cas_lock,
	.unlock = cas_unlock,
	.detach = floor_nothing,
	.destroy = floor_destroy,
};

const struct lock_adapter adapter_fifo_park = {
	.name = "fifo-park",
	.can = LOCK_FLOOR,
	.create = floor_create,
	.attach = floor_nothing,
	.lock = fifo_lock,
	.unlock = fifo_unlock,
	.detach = floor_nothing,
	.destroy = floor_destroy,
};

const struct lock_adapter adapter_futex_wake = {
	.name = "futex-wake",
	.can = LOCK_FLOOR | LOCK_LEASE, /* no lease, but the kernel's time-out as the floor of one */
	.create = floor_create,
	.attach = floor_nothing,
	.lock = futex_lock,
	.unlock = futex_unlock,
	.detach = floor_nothing,
	.destroy = floor_destroy,
};

const struct lock_adapter adapter_none = {
	.name = "none",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_NONE,
	.create = floor_create,
	.attach = floor_nothing,
	.lock = none_lock,
	.unlock = none_unlock,
	.detach = floor_nothing,
	.destroy = floor_destroy,
};
