/* SPDX-License-Identifier: MIT */
/* clock.h - CLOCK_MONOTONIC in nanoseconds, cheap and precise */
#ifndef LOCKSHM_SYS_CLOCK_H
#define LOCKSHM_SYS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "sys/vdso.h"

/* The kernel's function itself, which saves two nested calls for a read of a few nanoseconds; or the C library's. */
extern vdso_clock_fn *clock_read;

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec ts = { 0, 0 };

	/* The kernel's function may support a clock by the system call only; the C library makes that. */
	if (__builtin_expect(__atomic_load_n(&clock_read, __ATOMIC_RELAXED)(clock, &ts) != 0, 0))
		(void)clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Read the precise clock (about 23 ns): needed to expire a hold. */
static inline int64_t clock_precise(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Read the coarse clock (about 4 ns): never ahead of the precise one, and behind by less than clock_tick(). */
static inline int64_t clock_coarse(void)
{
	return clock_ns(CLOCK_MONOTONIC_COARSE);
}

/* How far the coarse clock can lag, with a margin. */
int64_t clock_tick(void);

/* The time namespace of this process; 0 = unknown. */
uint64_t clock_namespace(void);

/* Is @ns the initial namespace, whose clocks have no offsets? */
bool clock_is_initial(uint64_t ns);

/* Clock outside all time namespaces = this process' clock + *@out.  @ns, if not NULL: its namespace, see
 * clock_namespace().  False = unknown. */
bool clock_namespace_offset(int64_t *out, uint64_t *ns);

/* The same for CLOCK_BOOTTIME, the clock of the start times in /proc. */
bool clock_boottime_offset(int64_t *out);

static inline struct timespec clock_timespec(int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	return ts;
}

#endif
