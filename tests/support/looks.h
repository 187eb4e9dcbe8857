/* SPDX-License-Identifier: MIT */
/*
 * looks.h - counts the accesses to shared words, in files of the library that a suite compiles for itself with
 * -include support/looks.h.  The library has no counter.
 */
#ifndef LOCKSHM_TEST_LOOKS_H
#define LOCKSHM_TEST_LOOKS_H

#include "sys/atomic.h"

/* Of all threads; only one of them makes calls while it is read. */
extern unsigned long shared_looks;

#define LOOK_ __atomic_fetch_add(&shared_looks, 1, __ATOMIC_RELAXED)
#define load_acquire(p) (LOOK_, load_acquire(p))
#define load_acquire32(p) (LOOK_, load_acquire32(p))
#define load_relaxed(p) (LOOK_, load_relaxed(p))
#define load_relaxed32(p) (LOOK_, load_relaxed32(p))
#define cas(p, expected, desired) (LOOK_, cas(p, expected, desired))
#define cas_from(p, expected, desired) (LOOK_, cas_from(p, expected, desired))
#define cas32_from(p, expected, desired) (LOOK_, cas32_from(p, expected, desired))

#endif
