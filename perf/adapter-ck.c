/* SPDX-License-Identifier: MIT */
/*
 * adapter-ck.c - two fair read-write spin locks of ConcurrencyKit: task-fair (tflock), phase-fair (pflock)
 *
 * They never sleep, so they are shown only while processes hardly outnumber processors.  An array replaces keys.
 */
#include "bench-loop.h"

#include <ck_pflock.h>
#include <ck_tflock.h>

static ck_tflock_ticket_t *tickets;
static ck_pflock_t *phases;
static size_t size;

static int tflock_create(const struct bench_need *need)
{
	size = need->keys * sizeof(*tickets);
	tickets = bench_share(size);
	for (uint32_t i = 0; i < need->keys; i++)
		ck_tflock_ticket_init(&tickets[i]);
	return 0;
}

static void tflock_lock(uint32_t key, enum bench_mode mode)
{
	if (mode == BENCH_SHARED)
		ck_tflock_ticket_read_lock(&tickets[key]);
	else
		ck_tflock_ticket_write_lock(&tickets[key]);
}

static void tflock_unlock(uint32_t key, enum bench_mode mode)
{
	if (mode == BENCH_SHARED)
		ck_tflock_ticket_read_unlock(&tickets[key]);
	else
		ck_tflock_ticket_write_unlock(&tickets[key]);
}

static void tflock_destroy(void)
{
	bench_unshare(tickets, size);
}

static int pflock_create(const struct bench_need *need)
{
	size = need->keys * sizeof(*phases);
	phases = bench_share(size);
	for (uint32_t i = 0; i < need->keys; i++)
		ck_pflock_init(&phases[i]);
	return 0;
}

static void pflock_lock(uint32_t key, enum bench_mode mode)
{
	if (mode == BENCH_SHARED)
		ck_pflock_read_lock(&phases[key]);
	else
		ck_pflock_write_lock(&phases[key]);
}

static void pflock_unlock(uint32_t key, enum bench_mode mode)
{
	if (mode == BENCH_SHARED)
		ck_pflock_read_unlock(&phases[key]);
	else
		ck_pflock_write_unlock(&phases[key]);
}

static void pflock_destroy(void)
{
	bench_unshare(phases, size);
}

static void ck_nothing(void)
{
}

static double ck_bytes(void)
{
	return (double)size;
}

BENCH_PAIRS(tflock_pairs, bench_nothing_to_make, tflock_lock, tflock_unlock)
BENCH_PAIRS(pflock_pairs, bench_nothing_to_make, pflock_lock, pflock_unlock)

static void tflock_hold(uint32_t slot)
{
	(void)slot;
	tflock_lock(0, BENCH_SHARED);
}

static void tflock_drop(uint32_t slot)
{
	(void)slot;
	tflock_unlock(0, BENCH_SHARED);
}

static void pflock_hold(uint32_t slot)
{
	(void)slot;
	pflock_lock(0, BENCH_SHARED);
}

static void pflock_drop(uint32_t slot)
{
	(void)slot;
	pflock_unlock(0, BENCH_SHARED);
}

BENCH_SWAPS(tflock_swaps, bench_nothing_to_make, tflock_hold, tflock_drop)
BENCH_SWAPS(pflock_swaps, bench_nothing_to_make, pflock_hold, pflock_drop)

const struct lock_adapter adapter_ck_tflock = {
	.name = "ck-tflock",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_SPINS,
	.create = tflock_create,
	.attach = ck_nothing,
	.lock = tflock_lock,
	.unlock = tflock_unlock,
	.detach = ck_nothing,
	.destroy = tflock_destroy,
	.bytes = ck_bytes,
	.pairs = tflock_pairs,
	.hold = tflock_swaps_hold,
	.swaps = tflock_swaps,
};

const struct lock_adapter adapter_ck_pflock = {
	.name = "ck-pflock",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_SPINS,
	.create = pflock_create,
	.attach = ck_nothing,
	.lock = pflock_lock,
	.unlock = pflock_unlock,
	.detach = ck_nothing,
	.destroy = pflock_destroy,
	.bytes = ck_bytes,
	.pairs = pflock_pairs,
	.hold = pflock_swaps_hold,
	.swaps = pflock_swaps,
};
