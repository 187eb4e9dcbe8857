/* SPDX-License-Identifier: MIT */
/*
 * stalls.h - the time that a machine has not run
 *
 * A process beside the suite sleeps for short times.  Where it wakes late, the machine has stalled, or is so busy that what
 * is tested may have waited as long.  So a bound on how long something takes leaves this time out.
 */
#ifndef LOCKSHM_TEST_STALLS_H
#define LOCKSHM_TEST_STALLS_H

#include <stdint.h>

/* In the runner, before the first test; ends with it. */
void stalls_watch(void);
/* Since then; 0 = it does not watch. */
int64_t stalled_ns(void);
/* As now_ns() and redis_now(), without that. */
int64_t ran_ns(void);

#endif
