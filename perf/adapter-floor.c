/* SPDX-License-Identifier: MIT */
/*
 * adapter-floor.c - floors, no peers: the least code that excludes (cas), that also compares a key and has a lease
 * (cas-lease), that is fair (fifo-park), or that sleeps (futex-wake)
 *
 * Each is stuck when its holder dies.  "none" does not exclude: it shows the cost of a benchmark's body by itself, and
 * that a violation of exclusion would be found.  The fair one with readers is in adapter-fifo-rw.c.
 */
#include "bench-loop.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 1024u /* more than can wait at once */

struct floor {
	uint32_t word;
	uint32_t next __attribute__((aligned(64))); /* ticket of the next arrival */
	uint32_t serving __attribute__((aligned(64))); /* ticket of the holder, which alone writes it */
	uint32_t slot[SLOTS] __attribute__((aligned(64))); /* the ticket served now, in the slot of that ticket */
};

struct keyed {
	uint32_t word;
	uint32_t owner;
	int64_t deadline;
	char key[BENCH_KEY_LEN]; /* first byte 0 = free */
} __attribute__((aligned(64)));

static struct floor *l;
static uint32_t ticket;
static struct keyed *table, *latest; /* of cas-lease */
static uint32_t places;
static char asked[BENCH_KEY_LEN], known[BENCH_KEY_LEN];

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

static int64_t clock_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/*
 * The same with what a caller of a keyed lock with leases needs: the key is found by its bytes, the holder's name and
 * the end of its lease are stored, and a release finds out whether it comes too late.  One cache line for each key, in
 * a table twice as large; the last key is not looked up again; the second clock is the kernel's coarse one.
 */
static struct keyed *keyed_find(const char name[BENCH_KEY_LEN])
{
	uint64_t ends[2], hash;
	struct keyed *e;
	uint32_t i;

	memcpy(ends, name, sizeof(ends));
	hash = (ends[0] ^ ends[1]) * UINT64_C(0x9e3779b97f4a7c15);
	for (i = (uint32_t)(hash >> 32);; i++) {
		e = &table[i % places];
		if (e->key[0] == '\0')
			memcpy(e->key, name, BENCH_KEY_LEN);
		if (memcmp(e->key, name, BENCH_KEY_LEN) == 0)
			return e;
	}
}

static int lease_create(const struct bench_need *need)
{
	places = 2 * need->keys;
	table = bench_share(places * sizeof(*table));
	return 0;
}

static void lease_destroy(void)
{
	bench_unshare(table, places * sizeof(*table));
}

static void lease_make_ready(uint32_t key, enum bench_mode mode)
{
	(void)mode;
	bench_key(key, asked);
}

static void lease_take(uint32_t key, enum bench_mode mode)
{
	uint32_t seen = 0;
	int64_t now;

	(void)key;
	(void)mode;
	if (!latest || memcmp(asked, known, sizeof(known)) != 0) {
		latest = keyed_find(asked);
		memcpy(known, asked, sizeof(known));
	}
	now = clock_of(CLOCK_MONOTONIC);
	while (!__atomic_compare_exchange_n(&latest->word, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		seen = 0;
		bench_pause();
	}
	__atomic_store_n(&latest->owner, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&latest->deadline, now + INT64_C(30000000000), __ATOMIC_RELAXED);
}

static void lease_lock(uint32_t key, enum bench_mode mode)
{
	lease_make_ready(key, mode);
	lease_take(key, mode);
}

/* By a swap, not a store: only a swap shows the holder that its lease was ended meanwhile. */
static void lease_unlock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
	if (clock_of(CLOCK_MONOTONIC_COARSE) > __atomic_load_n(&latest->deadline, __ATOMIC_RELAXED))
		bench_fail("a lease of 30 s is over");
	(void)__atomic_exchange_n(&latest->word, 0, __ATOMIC_RELEASE);
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

/* Stores serving first, then loads the waiters: an arrival either sees that it is served, or is seen. */
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

/* One word: 0 free, 1 held, 2 held with a sleeper.  Its hand-over to a sleeper is the cost of a bare wake-up. */
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
	__asm__ volatile("" : : "r"(name) : "memory"); /* keeps the key alive */
}

static void none_unlock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
}

BENCH_PAIRS(cas_pairs, bench_nothing_to_make, cas_lock, cas_unlock)
BENCH_PAIRS(lease_pairs, lease_make_ready, lease_take, lease_unlock)
BENCH_PAIRS(fifo_pairs, bench_nothing_to_make, fifo_lock, fifo_unlock)
BENCH_PAIRS(futex_pairs, bench_nothing_to_make, futex_lock, futex_unlock)
BENCH_PAIRS(none_pairs, bench_nothing_to_make, none_lock, none_unlock)

const struct lock_adapter adapter_cas = {
	.name = "cas",
	.can = LOCK_FLOOR | LOCK_SPINS,
	.create = floor_create,
	.attach = floor_nothing,
	.lock = cas_lock,
	.unlock = cas_unlock,
	.detach = floor_nothing,
	.destroy = floor_destroy,
	.pairs = cas_pairs,
};

const struct lock_adapter adapter_cas_lease = {
	.name = "cas-lease",
	.can = LOCK_FLOOR | LOCK_SPINS | LOCK_MANY,
	.create = lease_create,
	.attach = floor_nothing,
	.lock = lease_lock,
	.unlock = lease_unlock,
	.detach = floor_nothing,
	.destroy = lease_destroy,
	.pairs = lease_pairs,
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
	.pairs = fifo_pairs,
};

const struct lock_adapter adapter_futex_wake = {
	.name = "futex-wake",
	.can = LOCK_FLOOR | LOCK_LEASE, /* no lease: the kernel's time-out as the floor of one */
	.create = floor_create,
	.attach = floor_nothing,
	.lock = futex_lock,
	.unlock = futex_unlock,
	.detach = floor_nothing,
	.destroy = floor_destroy,
	.pairs = futex_pairs,
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
	.pairs = none_pairs,
};
