/* SPDX-License-Identifier: MIT */
/*
 * litmus-futex.c - the kernel as the partner of a fence (K1 of doc/internals/memory-model.md)
 *
 * Of the 64 bits that a granter swaps the kernel compares the lower 32, in its own time.  A wake-up is lost if the
 * kernel lets the sleeper sleep to the end of its time though the granter had done its part long before.
 */
#define _GNU_SOURCE
#include "litmus.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sys/atomic.h"

#define NAP_NS 100000000
#define LONG_BEFORE_NS 30000000

static struct {
	struct shm_request request;
	uint64_t probed_ns; /* when the granter had done its part; 0 = not yet */
	int64_t end_ns;
	uint64_t rounds, slept, lost, enough, stop;
	bool broken;
} bed;

static void begin_round(void)
{
	int64_t now = now_ns();
	/* On a busy machine it may take a while until the first sleep. */
	bool done = bed.enough ? bed.lost >= bed.enough : now >= bed.end_ns && bed.slept >= ENOUGH;

	if (done || now >= bed.end_ns + PATIENCE)
		bed.stop = 1;
	bed.rounds++;
	store_relaxed32(&bed.request.sleeping, 0);
	store_relaxed(&bed.probed_ns, 0);
	store_relaxed(&bed.request.word, WAITING);
}

/* wait_asleep(), until granted */
static void sleep_until_granted(void)
{
	struct shm_request *r = &bed.request;
	const struct timespec nap = { 0, NAP_NS };
	int64_t end, looked;
	uint64_t w;
	long err;

	while ((w = load_acquire(&r->word)) == WAITING) {
		store_relaxed32(&r->sleeping, 1);
		fence_full();
		if (load_acquire(&r->word) != w)
			break;
		end = now_ns() + NAP_NS;
		err = syscall(SYS_futex, (uint32_t *)(void *)&r->word, FUTEX_WAIT, (uint32_t)w, &nap, NULL, 0);
		looked = (int64_t)load_acquire(&bed.probed_ns);
		bed.slept += err == 0;
		bed.lost += err != 0 && errno == ETIMEDOUT && looked && looked < end - LONG_BEFORE_NS;
	}
}

/* queue_grant() and queue_wake(); broken: the load long enough before the grant for the waiter to fall asleep
 * between */
static void grant_and_wake(void)
{
	struct shm_request *r = &bed.request;
	uint32_t sleeping = load_relaxed32(&r->sleeping);
	volatile uint32_t delay;

	for (delay = bed.broken ? 2000 : 0; delay > 0; delay--)
		;
	(void)cas_from(&r->word, WAITING, GRANTED);
	fence_after_rmw();
	if (!bed.broken)
		sleeping = load_relaxed32(&r->sleeping);
	if (sleeping)
		syscall(SYS_futex, (uint32_t *)(void *)&r->word, FUTEX_WAKE, 1, NULL, NULL, 0);
	store_release(&bed.probed_ns, (uint64_t)now_ns());
}

static void *play_bed(void *arg)
{
	int me = (int)(intptr_t)arg;
	uint32_t random = 99 + (uint32_t)me;
	volatile uint32_t delay;

	for (;;) {
		if (me == 0)
			begin_round();
		meet(me);
		if (bed.stop)
			return NULL;
		random = random * 1664525 + 1013904223;
		/* From before the flag to well into the sleep. */
		for (delay = me ? random >> (random >> 30 ? 26 : 18) : 0; delay > 0; delay--)
			;
		if (me == 0)
			sleep_until_granted();
		else
			grant_and_wake();
		meet(me);
	}
}

static void run_bed(bool broken, int64_t ns, uint64_t enough)
{
	memset(&bed, 0, sizeof(bed));
	bed.broken = broken;
	bed.end_ns = now_ns() + ns;
	bed.enough = enough;
	run_pair(play_bed);
}

void check_futex(int64_t ns)
{
	printf("     sleep flag, futex wait | grant, sleep flag, futex wake\n");
	run_bed(false, ns, 0);
	printf("%-4s %-28s %10" PRIu64 " meetings, %" PRIu64 " slept, %" PRIu64 " wake-ups lost\n", "K1", "as it is",
	       bed.rounds, bed.slept, bed.lost);
	report(bed.lost != 0, "a sleeper was granted and not woken");
	skip_if(bed.slept == 0);
	run_bed(true, 0, 3);
	printf("%-4s %-28s %10" PRIu64 " meetings, %" PRIu64 " slept, %" PRIu64 " wake-ups lost\n", "",
	       "sleep flag, then grant", bed.rounds, bed.slept, bed.lost);
	report(bed.lost == 0, "no wake-up is lost even when the shape is broken");
}
