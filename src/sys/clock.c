/* SPDX-License-Identifier: MIT */
/*
 * clock.c - what the fast clock reads in clock.h need to know once
 *
 * Times in the segment are those of the initial time namespace.  A container with its own time namespace sees a
 * shifted CLOCK_MONOTONIC; the kernel says by how much in /proc/self/timens_offsets.
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

/* Is the first read, and finds out who does the others.  Found twice at once it is the same. */
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
	/* The kernel adds whole ticks only, so up to one stays behind, and up to one passes until the next interrupt;
	 * an eighth for one that comes late. */
	return ((int64_t)res.tv_sec * 1000000000 + res.tv_nsec) * 17 / 8;
}

#define INITIAL_TIME_NAMESPACE 0xeffffffau /* fixed by the kernel */

/* timens_offsets is about the namespace of the children.  False = it is not mine, and mine cannot be told. */
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
	/* The file says what the namespace adds; we want it off again. */
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
