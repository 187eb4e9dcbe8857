/* SPDX-License-Identifier: MIT */
/*
 * litmus.h - what litmus.c and litmus-futex.c share: two threads on two processors that meet
 */
#ifndef LOCKSHM_TEST_LITMUS_H
#define LOCKSHM_TEST_LITMUS_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/words.h"
#include "lockshm.h"

#define PATIENCE LOCKSHM_SECONDS(30) /* how long a broken shape may take to show itself on a busy machine */
#define ENOUGH 20		     /* then it has */

#define GEN 7
#define WAITING word_make(GEN, true, REQUEST_WAITING, 0)
#define GRANTED word_make(GEN, true, REQUEST_GRANTED, 0)
#define ENTERED word_make(GEN, true, REQUEST_ENTERED, 0)
#define RELEASED word_make(GEN, true, REQUEST_RELEASED, 0)
#define EXPIRED word_make(GEN, true, REQUEST_EXPIRED, 0)

int64_t now_ns(void);

/* Both threads, 0 and 1, have come here as often. */
void meet(int me);
/* Runs @play as thread 0 and as thread 1, each on its own processor, until both have ended. */
void run_pair(void *(*play)(void *me));

/* Counts and prints a failure. */
void report(bool failed, const char *what);

/* A machine that others use may run two threads at once too rarely to show what is looked for: the test is skipped. */
void skip_if(bool not_shown);

/* The kernel as the partner: K1. */
void check_futex(int64_t ns);

#endif
