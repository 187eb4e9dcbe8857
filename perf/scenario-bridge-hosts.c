/* SPDX-License-Identifier: MIT */
/*
 * scenario-bridge-hosts.c - a host waits for a global key that is held elsewhere
 *
 *   bridge-handover   by another host: from its release until the waiter owns the key.  "ping" is one round trip.
 *                     Commands are all those of both hosts meanwhile
 *   bridge-foreign    by a program that took the lock in Redis itself and deletes it: from before its DEL
 *
 * The waiter is queued in Redis, and has slept for a millisecond at least, before the release.
 */
#include "bench-bridge.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TURN_MS 60000
#define ASLEEP_US 1000

enum { HANDOVER, FOREIGN };
static const uint32_t turns[BENCH_EFFORTS] = { 5, 100, 400 };

struct scene {
	int what;
	uint32_t held, got, counted; /* rounds */
	uint64_t released_at;
	double commands;
	struct hist wait, ping;
};

static void meet(uint32_t *word, uint32_t turn)
{
	if (!bench_wait(word, turn, TURN_MS))
		bench_fail("the other process does not answer");
}

static void want(void *arg)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct scene *s = arg;
	lockshm_t *segment;

	bridge_unpin();
	segment = bridge_open(1);
	for (uint32_t i = 1; i <= turns[bench_effort]; i++) {
		uint64_t got;

		meet(&s->held, i);
		bridge_lock(segment, REDIS_KEY, LOCKSHM_GLOBAL, &hold);
		got = bench_ticks();
		hist_add(&s->wait, got > s->released_at ? got - s->released_at : 0);
		bench_set(&s->got, i);
		/* The cost of the release is not included. */
		meet(&s->counted, i);
		bridge_unlock(&hold);
	}
	lockshm_close(segment);
}

static void let_wait(int fd)
{
	bridge_await_queue(fd, 1);
	usleep(ASLEEP_US);
}

static void handover_turn(struct scene *s, lockshm_t *segment, int fd, uint32_t i)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	double before;

	bridge_lock(segment, REDIS_KEY, LOCKSHM_GLOBAL, &hold);
	bench_set(&s->held, i);
	let_wait(fd);
	before = redis_counted(fd, REDIS_OURS).calls;
	s->released_at = bench_ticks();
	bridge_unlock(&hold);
	meet(&s->got, i);
	s->commands += redis_counted(fd, REDIS_OURS).calls - before;
	bench_set(&s->counted, i);
}

static void foreign_turn(struct scene *s, int fd, uint32_t i)
{
	redis_ask(fd, "SET " REDIS_PREFIX REDIS_KEY " foreign PX 30000");
	bench_set(&s->held, i);
	let_wait(fd);
	s->released_at = bench_ticks();
	redis_ask(fd, "DEL " REDIS_PREFIX REDIS_KEY);
	meet(&s->got, i);
	bench_set(&s->counted, i);
	/* The host must have released it before it is taken again. */
	while (redis_ask(fd, "GET " REDIS_PREFIX REDIS_KEY)[0])
		usleep(100);
}

static void hold_it(void *arg)
{
	struct scene *s = arg;
	int fd = redis_dial(REDIS_UNIX);
	lockshm_t *segment;

	bridge_unpin();
	segment = bridge_open(0);
	for (uint32_t i = 1; i <= turns[bench_effort]; i++) {
		uint64_t from = bench_ticks();

		redis_ask(fd, "PING");
		hist_add(&s->ping, bench_ticks() - from);
		if (s->what == HANDOVER)
			handover_turn(s, segment, fd, i);
		else
			foreign_turn(s, fd, i);
	}
	lockshm_close(segment);
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	const struct bridge_options wish = { .hosts = 2 };
	static struct scene *s;
	pid_t holder, waiter;

	(void)lock;
	if (!s)
		s = bench_share(sizeof(*s));
	memset(s, 0, sizeof(*s));
	s->what = p->scenario->arg;
	if (!bridge_make(&wish))
		return;
	holder = bench_spawn(bench_cpu(0), hold_it, s);
	waiter = bench_spawn(bench_cpu(0), want, s);
	bench_reap(holder, "lockshm");
	bench_reap(waiter, "lockshm");
	bridge_unmake();
	result_add_hist(p, "lockshm", &s->wait, 0);
	result_add_hist(p, "ping", &s->ping, 0);
	if (s->what == HANDOVER)
		result_add(p, "lockshm", COMMANDS, s->commands / turns[bench_effort], 0);
}

const struct scenario scenario_bridge_handover = {
	.name = "bridge-handover",
	.what = "from the release on one host until a waiter on another one owns the key",
	.first = US_P50,
	.fits = bridge_fits,
	.run = run,
	.arg = HANDOVER,
	.procs = { { 2 }, { 2 }, { 2 } },
};

const struct scenario scenario_bridge_foreign = {
	.name = "bridge-foreign",
	.what = "from the DEL of a program that held the lock by itself until a waiter owns the key",
	.first = US_P50,
	.fits = bridge_fits,
	.run = run,
	.arg = FOREIGN,
	.procs = { { 2 }, { 2 }, { 2 } },
};
