/* SPDX-License-Identifier: MIT */
/*
 * bench-machine.c - the machine a run is on: its processors, its counter of time, and a session of the run's own
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

double bench_ns_per_tick = 1;
int bench_cpus;
static int cpu_list[CPU_SETSIZE];

static double clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void calibrate(void)
{
	double from_ns = clock_ns();
	uint64_t from = bench_ticks();

	while (clock_ns() - from_ns < 20e6)
		;
	bench_ns_per_tick = (clock_ns() - from_ns) / (double)(bench_ticks() - from);
}

static void find_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		bench_fail("sched_getaffinity");
	for (size_t i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			cpu_list[bench_cpus++] = (int)i;
}

/*
 * The kernel shares the processors between sessions first and between processes second.  In a session of its own, with
 * the highest weight where that is allowed, a run is disturbed less by other processes.  A quick run compares no times
 * and must not disturb others.
 */
static void leave_session(void)
{
	int fd;

	if (setsid() < 0 || bench_effort == BENCH_QUICK)
		return; /* leads its group already */
	fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "-20", 3) < 0)
		errno = 0; /* needs a privilege: else measured without */
	close(fd);
}

static void cpu_model(char *out, size_t size)
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "re");

	snprintf(out, size, "unknown processor");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) || !colon)
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(out, size, "%s", colon + 2);
		break;
	}
	fclose(f);
}

void bench_machine_line(char *out, size_t size)
{
	const char *commit = getenv("BENCH_COMMIT");
	struct utsname u;
	char cpu[128];

	uname(&u);
	cpu_model(cpu, sizeof(cpu));
	snprintf(out, size, "%s, %d CPUs | %s %s %s | commit %s", cpu, bench_cpus, u.sysname, u.release, u.machine,
		 commit ? commit : "unknown");
}

/*
 * A processor shared with another guest (one half of a core of a virtual machine) has phases in which the same work
 * takes 1.7 times as long; no counter shows that, as no time is stolen.  So a few microseconds of arithmetic without
 * memory are timed, and compared with the fastest in this run.
 */
#define PROBE_STEPS 4000u
#define SLOW 1.15

static uint64_t *fastest; /* ticks; shared by all processes of the run */

static uint64_t probe(void)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, from = bench_ticks();

	for (uint32_t i = 0; i < PROBE_STEPS; i++) {
		a = a * 3 + i;
		b = (b ^ i) + 5;
		c = c + (c >> 3);
		d = (d << 1) ^ i;
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
	}
	return bench_ticks() - from;
}

bool bench_is_slow(void)
{
	uint64_t now = probe(), best = __atomic_load_n(fastest, __ATOMIC_RELAXED);

	while (now < best && !__atomic_compare_exchange_n(fastest, &best, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return (double)now > (double)best * SLOW;
}

static void find_speed(void)
{
	fastest = bench_share(sizeof(*fastest));
	*fastest = UINT64_MAX;
	for (int i = 0; i < 2000; i++)
		(void)bench_is_slow();
}

int bench_cpu(int n)
{
	return cpu_list[n % bench_cpus];
}

void bench_machine_init(void)
{
	find_cpus();
	leave_session();
	calibrate();
	find_speed();
}
