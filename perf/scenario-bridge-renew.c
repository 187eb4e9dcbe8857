/* SPDX-License-Identifier: MIT */
/*
 * scenario-bridge-renew.c - Redis' own time for renewing the leases of 1,000 keys once
 *
 * One process holds them; their leases last 3 s, so each is renewed once a second.  The server's own count of its time
 * is divided by the number of renewals that the bridge has counted.
 */
#include "bench-bridge.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEYS 1000
#define TTL_NS LOCKSHM_SECONDS(3)
#define WAIT_MS 60000

static const int keys[BENCH_EFFORTS] = { 50, KEYS, KEYS };
static const unsigned periods[BENCH_EFFORTS] = { 1, 2, 5 };

struct scene {
	double us; /* for KEYS renewals */
	double calls;
};

static void take_all(lockshm_t *s, lockshm_hold_t *holds, int n)
{
	char key[24];

	for (int i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%s-%d", REDIS_KEY, i);
		bridge_lock(s, key, LOCKSHM_GLOBAL, &holds[i]);
	}
}

/* Until that many more renewals are counted. */
static void await_renewals(lockshm_t *s, uint64_t until)
{
	uint64_t from = bench_ticks(), limit = bench_ticks_of_ns(WAIT_MS * 1e6);

	while (bridge_stat(s).renewed < until) {
		if (bench_ticks() - from > limit)
			bench_fail("leases are not renewed");
		usleep(10000);
	}
}

static void work(void *arg)
{
	static lockshm_hold_t holds[KEYS];
	struct redis_count before, after;
	struct scene *scene = arg;
	int fd = redis_dial(REDIS_UNIX), n = keys[bench_effort];
	uint64_t renewed;
	lockshm_t *s;

	bridge_unpin();
	s = bridge_open(0);
	take_all(s, holds, n);
	/* The first renewals are spread over the time that the acquires took. */
	await_renewals(s, bridge_stat(s).renewed + (uint64_t)n);
	before = redis_counted(fd, REDIS_OURS);
	renewed = bridge_stat(s).renewed;
	await_renewals(s, renewed + (uint64_t)n * periods[bench_effort]);
	after = redis_counted(fd, REDIS_OURS);
	renewed = bridge_stat(s).renewed - renewed;
	scene->us = (after.us - before.us) / (double)renewed * KEYS;
	scene->calls = (after.calls - before.calls) / (double)renewed;
	for (int i = 0; i < n; i++)
		bridge_unlock(&holds[i]);
	lockshm_close(s);
	close(fd);
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	const struct bridge_options wish = { .hosts = 1, .ttl_ns = TTL_NS, .leases = 4096 };
	static struct scene *scene;

	(void)lock;
	if (!scene)
		scene = bench_share(sizeof(*scene));
	if (!bridge_make(&wish))
		return;
	bench_reap(bench_spawn(bench_cpu(0), work, scene), "lockshm");
	bridge_unmake();
	result_add(p, "lockshm", US_P50, scene->us, 0);
	result_add(p, "lockshm", COMMANDS, scene->calls, 0);
}

const struct scenario scenario_bridge_renew = {
	.name = "bridge-renew",
	.what = "the server's own time for renewing 1,000 leases once",
	.first = US_P50,
	.fits = bridge_fits,
	.run = run,
	.procs = { { 1 }, { 1 }, { 1 } },
};
