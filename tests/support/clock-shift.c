/* SPDX-License-Identifier: MIT */
/*
 * clock-shift.c - preloaded into a Redis server: its wall clock is off by the number in a file
 *
 * The file, named by LOCKSHM_TEST_CLOCK, holds one number, microseconds; the test has it mapped, too.  It is taken over
 * between two commands: in the middle of a script the server itself compares times of before and after the step.
 * Clocks that count from the start of the machine are left as they are, as a step of the wall clock leaves them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int gettimeofday(struct timeval *restrict tv, void *restrict zone);
int clock_gettime(clockid_t id, struct timespec *ts);
time_t time(time_t *out);

static const int64_t *wanted_us;
static int64_t offset_us;

__attribute__((constructor)) static void find_offset(void)
{
	const char *path = getenv("LOCKSHM_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *p = fd >= 0 ? mmap(NULL, sizeof(*wanted_us), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (fd >= 0)
		close(fd);
	wanted_us = p == MAP_FAILED ? NULL : p;
}

static int64_t now_us(void)
{
	struct timespec ts;

	syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000 + __atomic_load_n(&offset_us, __ATOMIC_RELAXED);
}

/* The server waits here for its next commands. */
int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	int n = (int)syscall(SYS_epoll_pwait, epfd, events, max, timeout, NULL, 8);

	if (wanted_us)
		__atomic_store_n(&offset_us, __atomic_load_n(wanted_us, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
	return n;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	int64_t us = now_us();

	(void)zone;
	tv->tv_sec = us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int64_t us;

	if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
		return (int)syscall(SYS_clock_gettime, id, ts);
	us = now_us();
	ts->tv_sec = us / 1000000;
	ts->tv_nsec = us % 1000000 * 1000;
	return 0;
}

time_t time(time_t *out)
{
	time_t t = now_us() / 1000000;

	if (out)
		*out = t;
	return t;
}
