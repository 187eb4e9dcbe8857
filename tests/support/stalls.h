/* SPDX-License-Identifier: MIT */
/*
 * stalls.h - the time that a machine has not run
 *
 * A process beside the suite sleeps for short times.  Where it wakes late nothing else has run, either, and the tests
 * allow for that: a bound on how long something takes counts the time that the machine ran.
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
