/* SPDX-License-Identifier: MIT */
/*
 * scenario-bridge-pollers.c - programs that poll a key in Redis, beside two hosts that want it all the time
 *
 *   bridge-pollers         8 processes on two hosts, and five pollers at once
 *   bridge-pollers-50ms    with a gap (redis_gap_ns) of 50 ms
 *   bridge-pollers-400ms   with one of 400 ms, longer than any of them pauses
 *   bridge-pollers-10ms-held  the same, where each holds the key for 10 ms
 *   bridge-pollers-alone   the pollers without a process of ours, for what they leave to each other
 *
 * All hold the key for 1 ms asleep, and pause for 1 ms after it.  "lockshm" is our 8 processes together.  A poller is
 * SET NX PX, and where that is refused a sleep: of 1 and 5 ms; of 10 ms; of 100 ms, as redis-py's Lock by default; of
 * 200 to 400 ms, as redlock.  Its metric is how often it had the key in a second.
 */
#include "bench-bridge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OURS 8
#define POLLERS 5
#define START_MS 60000

static const int figure_ms[BENCH_EFFORTS] = { 100, 5000, 10000 };

static const struct poller {
	const char *row;
	unsigned least_ms, most_ms;
} pollers[POLLERS] = {
	{ "poll-1ms", 1, 1 }, { "poll-5ms", 5, 5 }, { "poll-10ms", 10, 10 },
	{ "poll-100ms", 100, 100 }, { "poll-200-400ms", 200, 400 },
};

struct street {
	int ms;
	unsigned inside_us;
	bool alone;
	uint32_t next; /* number of the process made next */
	uint32_t ready __attribute__((aligned(64)));
	uint32_t go, ended;
	uint64_t ops[OURS + POLLERS];
};

static lockshm_t *segment;
static lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
static int link_fd;
static char sha[48];

static void attach(uint32_t me)
{
	bridge_unpin();
	if (me < OURS) {
		segment = bridge_open((int)me % BRIDGE_HOSTS);
		return;
	}
	link_fd = redis_dial(REDIS_UNIX);
	snprintf(sha, sizeof(sha), "%s",
		 redis_ask(link_fd, "SCRIPT LOAD \"if redis.call('get',KEYS[1])==ARGV[1] then return "
				    "redis.call('del',KEYS[1]) else return 0 end\""));
}

/* False = not before the end. */
static bool poll_until(const struct poller *p, uint64_t end)
{
	while (bench_ticks() < end) {
		const char *reply = redis_ask(link_fd, "SET " REDIS_PREFIX REDIS_KEY " %d NX PX 30000", (int)getpid());

		if (strcmp(reply, "OK") == 0)
			return true;
		usleep(1000 * (p->least_ms + (unsigned)rand() % (p->most_ms - p->least_ms + 1)));
	}
	return false;
}

static bool take(uint32_t me, uint64_t end)
{
	if (me >= OURS)
		return poll_until(&pollers[me - OURS], end);
	bridge_lock(segment, REDIS_KEY, LOCKSHM_GLOBAL, &hold);
	return bench_ticks() < end;
}

static void give(uint32_t me)
{
	if (me < OURS)
		bridge_unlock(&hold);
	else if (redis_ask(link_fd, "EVALSHA %s 1 " REDIS_PREFIX REDIS_KEY " %d", sha, (int)getpid())[0] != '1')
		bench_fail("the lock in Redis was lost");
}

static void work(void *arg)
{
	struct street *st = arg;
	uint32_t me = st->next - 1;
	uint64_t end;
	bool got;

	attach(me);
	srand((unsigned)getpid());
	bench_add(&st->ready);
	if (!bench_wait(&st->go, 1, START_MS))
		bench_fail("the others did not come");
	end = bench_ticks() + bench_ticks_of_ns(st->ms * 1e6);
	do {
		got = take(me, end);
		st->ops[me] += got;
		if (got)
			usleep(st->inside_us);
		if (got || me < OURS)
			give(me);
		usleep(1000);
	} while (got);
	bench_add(&st->ended);
	if (!bench_wait(&st->ended, st->alone ? POLLERS : OURS + POLLERS, START_MS))
		bench_fail("the others do not end");
	if (me < OURS)
		lockshm_close(segment);
}

static void collect(const struct point *p, const struct street *st)
{
	double ours = 0;

	for (int i = 0; i < OURS; i++)
		ours += (double)st->ops[i];
	if (!st->alone)
		result_add(p, "lockshm", OPS_PER_S, ours * 1e3 / st->ms, 0);
	for (int i = 0; i < POLLERS; i++)
		result_add(p, pollers[i].row, OPS_PER_S, (double)st->ops[OURS + i] * 1e3 / st->ms, 0);
}

static void measure(const struct point *p, unsigned inside_us, bool alone)
{
	static struct street *st;
	pid_t pid[OURS + POLLERS];
	int first = alone ? OURS : 0;

	if (!st)
		st = bench_share(sizeof(*st));
	memset(st, 0, sizeof(*st));
	st->ms = figure_ms[bench_effort];
	st->inside_us = inside_us;
	st->alone = alone;
	for (int i = first; i < OURS + POLLERS; i++) {
		st->next = (uint32_t)i + 1; /* the child reads it before it reports ready */
		pid[i] = bench_spawn(bench_cpu(i), work, st);
		if (!bench_wait(&st->ready, (uint32_t)(i - first) + 1, START_MS))
			bench_fail("a process did not come");
	}
	bench_set(&st->go, 1);
	for (int i = first; i < OURS + POLLERS; i++)
		bench_reap(pid[i], "pollers");
	collect(p, st);
}

#define ALONE INT64_C(-1)

/* The gap in ms; the thousands are ms that each holds the key, beyond the first one; or ALONE. */
static void run(const struct point *p, const struct lock_adapter *lock)
{
	int64_t what = p->scenario->arg == ALONE ? 0 : p->scenario->arg;
	const struct bridge_options wish = { .hosts = BRIDGE_HOSTS, .gap_ns = LOCKSHM_MS(what % 1000) };

	(void)lock;
	if (bridge_make(&wish)) {
		measure(p, (unsigned)(1 + what / 1000) * 1000, p->scenario->arg == ALONE);
		bridge_unmake();
	}
}

#define POLLERS_SCENARIO(id, text, about, value)                                                                       \
	const struct scenario scenario_bridge_pollers##id = {                                                          \
		.name = "bridge-pollers" text,                                                                         \
		.what = about,                                                                                         \
		.first = OPS_PER_S,                                                                                    \
		.fits = bridge_fits,                                                                                   \
		.run = run,                                                                                            \
		.arg = value,                                                                                          \
		.procs = { { OURS }, { OURS }, { OURS } },                                                             \
	}

POLLERS_SCENARIO(, "", "one global key on two hosts, beside five programs that poll it; 1 ms inside, 1 ms outside", 0);
POLLERS_SCENARIO(_50ms, "-50ms", "the same with a gap of 50 ms", 50);
POLLERS_SCENARIO(_400ms, "-400ms", "the same with a gap of 400 ms", 400);
POLLERS_SCENARIO(_alone, "-alone", "the same programs without ours", ALONE);
POLLERS_SCENARIO(_10ms_held, "-10ms-held", "the same with a gap of 400 ms, 10 ms inside", 9400);
