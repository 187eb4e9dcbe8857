/* SPDX-License-Identifier: MIT */
/*
 * bare-process-pair.c - a pair of a free lock whose hold is moved to the process, beside one of a thread
 *
 * In bare loops as in bare-pair.c; but the figures are the best of all rounds.  Releases are also measured alone: the
 * move costs more than they do.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lockshm.h"

#define PAIRS 4000
#define MANY 250 /* holds at a time, where releases are measured alone */

static lockshm_t *segment;
static struct lockshm_request request = LOCKSHM_REQUEST_INIT;
static lockshm_hold_t hold, holds[MANY];
static char keys[MANY][24];

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double thread_pairs(int *bad)
{
	double from = now_ns();

	for (int i = 0; i < PAIRS; i++) {
		*bad |= lockshm_acquire(segment, &request, &hold);
		*bad |= lockshm_release(&hold, 0);
	}
	return now_ns() - from;
}

static double moved_pairs(int *bad)
{
	double from = now_ns();

	for (int i = 0; i < PAIRS; i++) {
		*bad |= lockshm_acquire(segment, &request, &hold);
		*bad |= lockshm_move(&hold, LOCKSHM_TO_PROCESS);
		*bad |= lockshm_release(&hold, 0);
	}
	return now_ns() - from;
}

static double releases(int *bad, bool move)
{
	struct lockshm_request q = request;
	double sum = 0, from;

	for (int n = 0; n < PAIRS / MANY; n++) {
		for (int i = 0; i < MANY; i++) {
			q.key = keys[i];
			*bad |= lockshm_acquire(segment, &q, &holds[i]);
			if (move)
				*bad |= lockshm_move(&holds[i], LOCKSHM_TO_PROCESS);
		}
		from = now_ns();
		for (int i = 0; i < MANY; i++)
			*bad |= lockshm_release(&holds[i], 0);
		sum += now_ns() - from;
	}
	return sum;
}

static double thread_releases(int *bad)
{
	return releases(bad, false);
}

static double process_releases(int *bad)
{
	return releases(bad, true);
}

static const struct {
	const char *name;
	double (*run)(int *bad);
} loops[] = {
	{ "pair of a thread", thread_pairs },
	{ "acquire, move to the process, release", moved_pairs },
	{ "release alone, of a thread", thread_releases },
	{ "release alone, of the process", process_releases },
};
#define LOOPS (sizeof(loops) / sizeof(loops[0]))

static void prepare(void)
{
	for (int i = 0; i < MANY; i++)
		snprintf(keys[i], sizeof(keys[i]), "key:%012d", i);
	request.key = "key:0000hotsixte";
	request.key_len = 16;
	request.ttl_ns = LOCKSHM_SECONDS(30);
}

static int measure(int rounds, double *best)
{
	int bad = 0;

	for (int r = 0; r < rounds; r++) {
		for (size_t i = 0; i < LOOPS; i++) {
			double ns = loops[i].run(&bad) / PAIRS;

			if (r == 0 || ns < best[i])
				best[i] = ns;
		}
	}
	return bad;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 400, bad;
	double best[LOOPS];
	cpu_set_t one;
	char name[64];

	if (rounds < 1) {
		fprintf(stderr, "usage: %s [ROUNDS]\n", argv[0]);
		return 2;
	}
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
	snprintf(name, sizeof(name), "/bare-process-pair-%d", (int)getpid());
	if (lockshm_create(&segment, name, NULL, NULL))
		return 1;
	prepare();
	bad = measure(rounds, best);
	lockshm_close(segment);
	lockshm_destroy(name, NULL);
	if (bad)
		return 1;
	printf("# bare-process-pair: best of %d rounds of %d\n", rounds, PAIRS);
	for (size_t i = 0; i < LOOPS; i++)
		printf("%-38s %6.1f ns  %5.2f x a pair of a thread\n", loops[i].name, best[i], best[i] / best[0]);
	return 0;
}
