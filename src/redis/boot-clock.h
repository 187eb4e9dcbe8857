/* SPDX-License-Identifier: MIT */
/*
 * boot-clock.h - the clock of leases on other hosts: CLOCK_BOOTTIME, which runs while this host is suspended
 *
 * All deadlines of the bridge are absolute times of this clock, in nanoseconds.
 */
#ifndef LOCKSHM_REDIS_BOOT_CLOCK_H
#define LOCKSHM_REDIS_BOOT_CLOCK_H

#include <stdint.h>
#include <time.h>

#define REDIS_MS(n) ((int64_t)(n)*1000000)

static inline int64_t redis_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

#endif
