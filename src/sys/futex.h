/* SPDX-License-Identifier: MIT */
/* futex.h - sleeping and waking in the kernel, on words shared with other processes */
#ifndef LOCKSHM_SYS_FUTEX_H
#define LOCKSHM_SYS_FUTEX_H

#include <stdbool.h>
#include <stdint.h>

/* A word to sleep on while it has that value. */
struct futex_watch {
	const uint32_t *word;
	uint32_t value;
};

#define FUTEX_WATCH_MAX 3   /* of a waiter */
#define FUTEX_WATCH_MOST 64 /* of any caller */

/*
 * futex_wait_any - sleep until one of @n (1 to FUTEX_WATCH_MOST) words is woken or differs, or until @until
 * (CLOCK_MONOTONIC ns)
 *
 * Without futex_waitv (Linux 5.16, or a filter that forbids it) only the first word is watched.
 * Returns at once if a value differs.  May return early: the caller checks again in any case, so woken, spurious,
 * EAGAIN, EINTR and time-out are not distinguished.
 */
void futex_wait_any(const struct futex_watch *watch, unsigned n, int64_t until);

/* Can more than one word be watched?  Probed at the first call. */
bool futex_has_waitv(void);

/* Wake at most @n sleepers of @word. */
void futex_wake(const uint32_t *word, int n);

#endif
