/* SPDX-License-Identifier: MIT */
/* await.c - await() for suites without segments; the others have that of fixture.c */
#define _GNU_SOURCE
#include "redis.h"
#include "support/stalls.h"

#include <time.h>

static void nap(void)
{
	struct timespec ts = { .tv_nsec = 1000000 };

	nanosleep(&ts, NULL);
}

bool await(bool (*done)(void *arg), void *arg)
{
	int64_t end = ran_ns() + PATIENCE;

	while (!done(arg)) {
		if (ran_ns() > end)
			return false;
		nap();
	}
	return true;
}
