/* SPDX-License-Identifier: MIT */
/*
 * adapter-boost-sharable.cc - interprocess_sharable_mutex of Boost: no owner, stuck when a holder dies
 *
 * An array stands in place of keys.
 */
#include "bench-loop.h"

#include <boost/interprocess/sync/interprocess_sharable_mutex.hpp>
#include <new>

namespace
{

using mutex = boost::interprocess::interprocess_sharable_mutex;

mutex *locks;
size_t size;

int create(const struct bench_need *need)
{
	size = need->keys * sizeof(mutex);
	locks = static_cast<mutex *>(bench_share(size));
	for (uint32_t i = 0; i < need->keys; i++)
		new (&locks[i]) mutex;
	return 0;
}

void nothing()
{
}

void lock(uint32_t key, enum bench_mode mode)
{
	if (mode == BENCH_SHARED)
		locks[key].lock_sharable();
	else
		locks[key].lock();
}

void unlock(uint32_t key, enum bench_mode mode)
{
	if (mode == BENCH_SHARED)
		locks[key].unlock_sharable();
	else
		locks[key].unlock();
}

double bytes()
{
	return static_cast<double>(size);
}

/* No destructors: some may be held by the dead. */
void destroy()
{
	bench_unshare(locks, size);
}

void hold(uint32_t)
{
	locks[0].lock_sharable();
}

void drop(uint32_t)
{
	locks[0].unlock_sharable();
}

bool try_lock()
{
	return locks[0].try_lock();
}

BENCH_PAIRS(pairs, bench_nothing_to_make, lock, unlock)
BENCH_SWAPS(swaps, bench_nothing_to_make, hold, drop)
BENCH_TRIES(tries, bench_nothing_to_make, try_lock)

} // namespace

extern "C" {
extern const struct lock_adapter adapter_boost_sharable = {
	"boost-sharable", LOCK_MANY | LOCK_SHARED | LOCK_STALLS, create, nothing, lock, unlock, nothing, destroy, nullptr, bytes, nullptr,
	pairs, swaps_hold, swaps, tries,
};
}
