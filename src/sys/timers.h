/* SPDX-License-Identifier: MIT */
/*
 * timers.h - the earliest of many times
 *
 * A pairing heap (Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap", Algorithmica 1986) of nodes that lie in what
 * they are about, so that setting a timer needs no memory.  The caller locks.
 */
#ifndef LOCKSHM_SYS_TIMERS_H
#define LOCKSHM_SYS_TIMERS_H

#include <stdint.h>

struct timer {
	int64_t at;
	struct timer *child; /* the first of those that are not before it */
	struct timer *next;  /* sibling */
	struct timer *prev;  /* sibling, or the parent of a first child; of the root and of one that is not set: NULL */
};

struct timers {
	struct timer *first; /* the earliest; NULL = none */
};

/* Set, or set anew; INT64_MAX = not at all. */
void timer_set(struct timers *all, struct timer *t, int64_t at);
void timer_end(struct timers *all, struct timer *t);

#endif
