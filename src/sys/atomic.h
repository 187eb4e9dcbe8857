/* SPDX-License-Identifier: MIT */
/*
 * atomic.h - every access to a word that several threads may access
 *
 * The order is part of every name, also where it is relaxed.  Shared words are plain fixed-width integers in the
 * layout structs, so that the segment's bytes do not depend on what a compiler makes of _Atomic.
 *
 *   load_acquire     all stores before the store it reads from are visible afterwards
 *   store_release    a thread that reads it with acquire sees all earlier stores of this one
 *   cas              sequentially consistent on success; on failure *expected is the current value, acquired
 *   fence_full       earlier stores before later loads: one side of a Dekker pair
 *   fence_after_rmw  the same, directly after a successful cas or add: free on x86, where a locked instruction is a
 *                    full fence; a real fence on arm64, where a later load may pass the store half of a swap that is
 *                    made of LDAXR and STLXR
 *   fence_acquire    earlier loads before all later accesses
 *   fence_release    all earlier accesses before later stores
 */
#ifndef LOCKSHM_SYS_ATOMIC_H
#define LOCKSHM_SYS_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include <urcu/arch.h>

#include "sys/compiler.h"

static inline uint64_t load_acquire(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline uint64_t load_relaxed(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline uint32_t load_acquire32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline uint32_t load_relaxed32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline void store_release(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static inline void store_relaxed(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

static inline void store_release32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static inline void store_relaxed32(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/*
 * Store to a word that most likely has that value already, and then only load.  A locked instruction waits for all
 * earlier stores, one a cycle, so a store saved is worth more than a load and a branch.
 */
static inline void store_changed(uint64_t *p, uint64_t v)
{
	if (unlikely(load_relaxed(p) != v))
		store_relaxed(p, v);
}

static inline void store_changed32(uint32_t *p, uint32_t v)
{
	if (unlikely(load_relaxed32(p) != v))
		store_relaxed32(p, v);
}

static inline bool cas(uint64_t *p, uint64_t *expected, uint64_t desired)
{
	return __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}

/* For callers that start over when it fails. */
static inline bool cas_from(uint64_t *p, uint64_t expected, uint64_t desired)
{
	return cas(p, &expected, desired);
}

static inline bool cas32_from(uint32_t *p, uint32_t expected, uint32_t desired)
{
	return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}

static inline uint64_t fetch_add_relaxed(uint64_t *p, uint64_t n)
{
	return __atomic_fetch_add(p, n, __ATOMIC_RELAXED);
}

static inline uint32_t fetch_add32(uint32_t *p, uint32_t n)
{
	return __atomic_fetch_add(p, n, __ATOMIC_SEQ_CST);
}

static inline uint64_t fetch_or(uint64_t *p, uint64_t bits)
{
	return __atomic_fetch_or(p, bits, __ATOMIC_SEQ_CST);
}

/* Clear all bits; returns them. */
static inline uint64_t exchange_zero(uint64_t *p)
{
	return __atomic_exchange_n(p, 0, __ATOMIC_SEQ_CST);
}

static inline uint32_t fetch_and32(uint32_t *p, uint32_t bits)
{
	return __atomic_fetch_and(p, bits, __ATOMIC_SEQ_CST);
}

static inline uint32_t fetch_or32(uint32_t *p, uint32_t bits)
{
	return __atomic_fetch_or(p, bits, __ATOMIC_SEQ_CST);
}

static inline void fence_full(void)
{
	/* One primitive for every Dekker pair; each use names its partner. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void fence_after_rmw(void)
{
#if defined(__x86_64__)
	/* The locked instruction was the full fence; only the compiler must not move loads up. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
	/* The store half may still be pending (STLXR; not CASAL): a real fence, see the table above. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline void fence_acquire(void)
{
	/* Earlier loads before later ones: the second half of every "read, then check again". */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static inline void fence_release(void)
{
	/* Earlier accesses, stores too, before later stores: the end of a record's last use before its next one. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void cpu_relax(void)
{
	caa_cpu_relax();
}

#endif
