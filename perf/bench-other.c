/* SPDX-License-Identifier: MIT */
/*
 * bench-other.c - programs in other languages that take a lock in Redis with their own libraries
 *
 * Arguments of each process: the server's socket, the key, the duration in ms, how many us it holds and pauses.  It
 * prints "ready", waits for a line, and prints at the end a line with each of its waits in us.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "bench-bridge.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef BENCH_SOURCES
#define BENCH_SOURCES "perf"
#endif

const struct other bridge_others[] = {
	{ "redis-py", "/usr/bin/python3", "other-redis-py.py", "/usr/bin/python3 -c 'import redis' 2>/dev/null",
	  "python3-redis" },
	{ "redlock", "node", "other-redlock.js", "node -e 'require(\"redlock\"), require(\"ioredis\")' 2>/dev/null",
	  "redlock (version 4) and ioredis where node finds them; NODE_PATH may name where" },
	{ NULL, NULL, NULL, NULL, NULL },
};

struct pipes {
	const struct other *o;
	int in[2], out[2]; /* of the child */
	char ms[16], hold_us[16], think_us[16];
};

bool other_is_there(const struct other *o)
{
	static int known[sizeof(bridge_others) / sizeof(bridge_others[0])]; /* 1 = yes, 2 = no */
	int *k = &known[o - bridge_others];

	if (*k)
		return *k == 1;
	*k = system(o->probe) == 0 ? 1 : 2;
	if (*k == 2)
		fprintf(stderr, "# skipped: %s: needs %s\n", o->name, o->package);
	return *k == 1;
}

static void become(void *arg)
{
	struct pipes *p = arg;
	char script[512];

	bridge_unpin();
	snprintf(script, sizeof(script), "%s/%s", BENCH_SOURCES, p->o->script);
	if (dup2(p->in[0], STDIN_FILENO) < 0 || dup2(p->out[1], STDOUT_FILENO) < 0)
		bench_fail("dup2");
	close(p->in[1]);
	close(p->out[0]);
	execlp(p->o->program, p->o->program, script, redis_socket(), "other", p->ms, p->hold_us, p->think_us,
	       (char *)NULL);
	bench_fail(p->o->program);
}

static pid_t start(struct pipes *p)
{
	pid_t pid;

	if (pipe2(p->in, O_CLOEXEC) || pipe2(p->out, O_CLOEXEC))
		bench_fail("pipe");
	pid = bench_spawn(bench_cpu(0), become, p);
	close(p->in[0]);
	close(p->out[1]);
	return pid;
}

/* Reads its output to the end; returns the number of waits. */
static uint64_t take(FILE *from, struct hist *waits)
{
	char line[64];
	uint64_t n = 0;

	for (; fgets(line, sizeof(line), from); n++)
		hist_add(waits, bench_ticks_of_ns(strtod(line, NULL) * 1000));
	return n;
}

bool other_run(const struct other *o, int procs, int ms, int hold_us, int think_us, uint64_t *ops, struct hist *waits)
{
	struct pipes pipes[OTHERS_MAX];
	FILE *from[OTHERS_MAX];
	pid_t pid[OTHERS_MAX];
	char line[64];
	bool ready = true;

	for (int i = 0; i < procs; i++) {
		struct pipes *p = &pipes[i];

		p->o = o;
		snprintf(p->ms, sizeof(p->ms), "%d", ms);
		snprintf(p->hold_us, sizeof(p->hold_us), "%d", hold_us);
		snprintf(p->think_us, sizeof(p->think_us), "%d", think_us);
		pid[i] = start(p);
		from[i] = fdopen(p->out[0], "r");
		if (!from[i])
			bench_fail("fdopen");
	}
	for (int i = 0; i < procs; i++)
		ready = fgets(line, sizeof(line), from[i]) && ready;
	for (int i = 0; i < procs; i++)
		ready = write(pipes[i].in[1], "\n", 1) == 1 && ready;
	for (int i = 0; i < procs; i++) {
		ops[i] = take(from[i], waits);
		fclose(from[i]);
		close(pipes[i].in[1]);
		bench_reap(pid[i], o->name);
	}
	return ready;
}
