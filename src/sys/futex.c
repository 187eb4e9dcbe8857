/* SPDX-License-Identifier: MIT */
/* futex.c - the futex system calls, and detection of futex_waitv */
#define _GNU_SOURCE
#include "sys/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sys/clock.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef FUTEX_32
#define FUTEX_32 2
#endif

/* Own copy of the kernel's struct futex_waitv: older headers lack it. */
struct waitv {
	uint64_t val;
	uint64_t uaddr;
	uint32_t flags;
	uint32_t reserved;
};

/* 0 = not probed yet, 1 = available, 2 = missing.  A race only probes twice. */
static int waitv_state;

bool futex_has_waitv(void)
{
	int state = __atomic_load_n(&waitv_state, __ATOMIC_RELAXED);

	if (state == 0) {
		/* No words is EINVAL where the call exists; a filter or an old kernel fails with another errno. */
		long r = syscall(SYS_futex_waitv, NULL, 0, 0, NULL, CLOCK_MONOTONIC);

		state = r < 0 && errno == EINVAL ? 1 : 2;
		__atomic_store_n(&waitv_state, state, __ATOMIC_RELAXED);
	}
	return state == 1;
}

/* After a wait that was refused, by a filter or for want of memory: the caller looks again, but not at full speed. */
static void nap_if_refused(long result)
{
	static const struct timespec nap = { 0, 1000000 };

	if (result < 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT)
		nanosleep(&nap, NULL);
}

static void wait_one(const struct futex_watch *watch, const struct timespec *until)
{
	nap_if_refused(syscall(SYS_futex, watch->word, FUTEX_WAIT_BITSET, watch->value, until, NULL,
			       FUTEX_BITSET_MATCH_ANY));
}

void futex_wait_any(const struct futex_watch *watch, unsigned n, int64_t until)
{
	struct timespec ts = clock_timespec(until < 0 ? 0 : until);
	struct waitv v[FUTEX_WATCH_MOST];
	unsigned i;
	long result;

	if (n < 2 || !futex_has_waitv()) {
		wait_one(watch, &ts);
		return;
	}
	for (i = 0; i < n; i++) {
		v[i].val = watch[i].value;
		v[i].uaddr = (uint64_t)(uintptr_t)watch[i].word;
		v[i].flags = FUTEX_32;
		v[i].reserved = 0;
	}
	result = syscall(SYS_futex_waitv, v, n, 0, &ts, CLOCK_MONOTONIC);
	if (result < 0 && (errno == ENOSYS || errno == EPERM)) {
		/* A filter was installed after the probe. */
		__atomic_store_n(&waitv_state, 2, __ATOMIC_RELAXED);
		wait_one(watch, &ts);
	} else {
		nap_if_refused(result);
	}
}

void futex_wake(const uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}
