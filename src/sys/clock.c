/* SPDX-License-Identifier: MIT */
/*
 * clock.c - the set-up of the fast clock reads in clock.h
 *
 * Times in the segment are those of the initial time namespace.  A container with its own time namespace sees a
 * shifted CLOCK_MONOTONIC; /proc/self/timens_offsets has the offset.
 */
#include "sys/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool reads(vdso_clock_fn *fn, clockid_t clock)
{
	struct timespec ts;

	return fn(clock, &ts) == 0;
}

/* The first read, which chooses the function for all others.  Two threads at once choose the same. */
static int find_clock(clockid_t clock, struct timespec *out)
{
	vdso_clock_fn *found = vdso_clock_gettime();

	if (!found || !reads(found, CLOCK_MONOTONIC) || !reads(found, CLOCK_MONOTONIC_COARSE))
		found = clock_gettime;
	__atomic_store_n(&clock_read, found, __ATOMIC_RELAXED);
	return found(clock, out);
}

vdso_clock_fn *clock_read = find_clock;

int64_t clock_tick(void)
{
	struct timespec res;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &res) != 0)
		return 20000000;
	/* The kernel adds whole ticks only: up to one tick is missing, up to one passes until the next interrupt, and
	 * an eighth allows for a late interrupt. */
	return ((int64_t)res.tv_sec * 1000000000 + res.tv_nsec) * 17 / 8;
}

#define INITIAL_TIME_NAMESPACE 0xeffffffau /* fixed by the kernel */

/* timens_offsets has the offsets of the children's namespace.  False = that is not mine, so mine are unknown. */
static bool offsets_are_mine(bool *initial, uint64_t *ns)
{
	struct stat mine, children;

	*initial = true;
	*ns = 0;
	/* No such files: a kernel without time namespaces, or no /proc. */
	if (stat("/proc/self/ns/time", &mine) != 0)
		return errno == ENOENT;
	*ns = (uint64_t)mine.st_ino;
	*initial = mine.st_ino == INITIAL_TIME_NAMESPACE;
	if (*initial)
		return true;
	return stat("/proc/self/ns/time_for_children", &children) == 0 && children.st_ino == mine.st_ino;
}

/* The line of one clock ("monotonic", "boottime"). */
static bool read_offset(const char *clock, int64_t *out)
{
	char text[256];
	long long sec, nsec;
	ssize_t n;
	const char *line;
	int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	line = strstr(text, clock);
	if (!line || sscanf(line, "%*s %lld %lld", &sec, &nsec) != 2)
		return false;
	/* The file has what the namespace adds. */
	*out = -((int64_t)sec * 1000000000 + nsec);
	return true;
}

static bool offset_of(const char *clock, int64_t *out, uint64_t *ns)
{
	bool initial;

	*out = 0;
	if (!offsets_are_mine(&initial, ns))
		return false;
	return initial || read_offset(clock, out);
}

uint64_t clock_namespace(void)
{
	struct stat mine;

	return stat("/proc/self/ns/time", &mine) == 0 ? (uint64_t)mine.st_ino : 0;
}

bool clock_is_initial(uint64_t ns)
{
	return ns == INITIAL_TIME_NAMESPACE;
}

bool clock_namespace_offset(int64_t *out, uint64_t *ns)
{
	uint64_t unused;

	return offset_of("monotonic", out, ns ? ns : &unused);
}

bool clock_boottime_offset(int64_t *out)
{
	uint64_t unused;

	return offset_of("boottime", out, &unused);
}
