/* SPDX-License-Identifier: MIT */
/*
 * pair.c - nanoseconds of a free pair in C: as the Python binding asks for it, with a lease that is renewed and one
 * that is not, and of a thread
 */
#include <lockshm.h>
#include <stdio.h>
#include <time.h>

enum { PAIRS = 300000 };

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double loop_pair(lockshm_loop_t *loop, const struct lockshm_request *request)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	double start = now_ns();

	for (int i = 0; i < PAIRS; i++)
		if (lockshm_loop_acquire(loop, request, &hold, NULL) < 0 || lockshm_release(&hold, 0) < 0)
			return -1;
	return (now_ns() - start) / PAIRS;
}

static double thread_pair(lockshm_t *segment, const struct lockshm_request *request)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	double start = now_ns();

	for (int i = 0; i < PAIRS; i++)
		if (lockshm_acquire(segment, request, &hold) < 0 || lockshm_release(&hold, 0) < 0)
			return -1;
	return (now_ns() - start) / PAIRS;
}

int main(int argc, char **argv)
{
	struct lockshm_request plain = LOCKSHM_REQUEST("free pair"), renewed = plain;
	struct lockshm_error error = { 0 };
	lockshm_loop_t *loop;
	lockshm_t *segment;

	renewed.flags = LOCKSHM_AUTO_RENEW;
	if (argc != 2 || lockshm_open(&segment, argv[1], 0, &error) || lockshm_loop_open(&loop, segment, -1, &error)) {
		fprintf(stderr, "usage: pair SEGMENT %s\n", error.message);
		return 1;
	}
	printf("%.1f %.1f %.1f\n", loop_pair(loop, &renewed), loop_pair(loop, &plain), thread_pair(segment, &plain));
	return 0;
}
