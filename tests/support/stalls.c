/* SPDX-License-Identifier: MIT */
/* stalls.c - see stalls.h */
#define _GNU_SOURCE
#include "stalls.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS INT64_C(10000000)
#define STALL_NS INT64_C(50000000) /* a shorter one is none: each nap takes a little longer */

/* Shared with the process that watches, which alone writes. */
struct watch {
	int64_t stalled, woken;
};

static struct watch *watch;

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t stall_since(int64_t woken)
{
	int64_t late = now() - woken - NAP_NS;

	return late > STALL_NS ? late : 0;
}

static void look(pid_t runner)
{
	struct timespec nap = { .tv_nsec = NAP_NS };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == runner) {
		nanosleep(&nap, NULL);
		__atomic_store_n(&watch->stalled, watch->stalled + stall_since(watch->woken), __ATOMIC_RELEASE);
		__atomic_store_n(&watch->woken, now(), __ATOMIC_RELEASE);
	}
	_exit(0);
}

void stalls_watch(void)
{
	pid_t runner = getpid();
	void *page = mmap(NULL, sizeof(*watch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return;
	watch = page;
	watch->woken = now();
	if (fork() == 0)
		look(runner);
}

/* Between the stores of the process that watches a stall counts twice, which only a bound that is too wide shows. */
int64_t stalled_ns(void)
{
	int64_t since;

	if (!watch)
		return 0;
	since = stall_since(__atomic_load_n(&watch->woken, __ATOMIC_ACQUIRE));
	return since + __atomic_load_n(&watch->stalled, __ATOMIC_ACQUIRE);
}

int64_t ran_ns(void)
{
	return now() - stalled_ns();
}
