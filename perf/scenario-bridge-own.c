/* SPDX-License-Identifier: MIT */
/*
 * scenario-bridge-own.c - processes of one host that take free global keys of their own, at the same time
 *
 *   bridge-own-200us   over a network with a delay of 0.2 ms in each direction
 *   bridge-own-1ms     with a delay of 1 ms
 *   bridge-own-three   the same; "lockshm-three" and "lockshm-five" are segments for which a majority of so many servers
 *                      decides, with "lockshm" beside them
 *
 * Each process has OWN_KEYS keys in turn: acquire and release, nothing inside or outside.  The waits are those for
 * acquire; the release of "lockshm" is sent after the call has returned.  "redis" is each process for itself over a
 * connection of its own: SET NX PX, and a script that compares and deletes.  Rows "...-turn" have the time from the call
 * to acquire until release has returned, too.
 */
#include "bench-bridge.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROCS_MAX 32
#define OWN_KEYS 8
#define START_MS 60000
#define WARM 16 /* pairs, before the time counts */

static const int figure_ms[BENCH_EFFORTS] = { 100, 1000, 3000 };

struct own {
	uint64_t ops;
	struct hist wait, turn;
};

/* Whose locks, and the rows of their waits and whole turns. */
struct kind {
	const char *row, *turn_row;
	bool plain;
};
static const struct kind kind_redis = { "redis", "redis-turn", true };
static const struct kind kind_one = { "lockshm", "lockshm-turn", false };
static const struct kind kind_three = { "lockshm-three", "lockshm-three-turn", false };
static const struct kind kind_five = { "lockshm-five", "lockshm-five-turn", false };

struct street {
	int procs, ms;
	const struct kind *kind;
	uint32_t next; /* number of the process made next */
	uint32_t ready __attribute__((aligned(64)));
	uint32_t go, ended;
	struct own own[PROCS_MAX];
};

static lockshm_t *segment;
static lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
static int link_fd;
static char sha[48];

static void attach(const struct street *st)
{
	bridge_unpin();
	if (!st->kind->plain) {
		segment = bridge_open(0);
		return;
	}
	link_fd = redis_dial(REDIS_FAR);
	snprintf(sha, sizeof(sha), "%s",
		 redis_ask(link_fd, "SCRIPT LOAD \"if redis.call('get',KEYS[1])==ARGV[1] then return "
				    "redis.call('del',KEYS[1]) else return 0 end\""));
}

static void detach(const struct street *st)
{
	if (st->kind->plain)
		close(link_fd);
	else
		lockshm_close(segment);
}

static void lock_one(const struct street *st, const char *key)
{
	if (!st->kind->plain)
		bridge_lock(segment, key, LOCKSHM_GLOBAL, &hold);
	else if (strcmp(redis_ask(link_fd, "SET plain:%s %d NX PX 30000", key, (int)getpid()), "OK") != 0)
		bench_fail("a free key is not free");
}

static void unlock_one(const struct street *st, const char *key)
{
	if (!st->kind->plain)
		bridge_unlock(&hold);
	else if (redis_ask(link_fd, "EVALSHA %s 1 plain:%s %d", sha, key, (int)getpid())[0] != '1')
		bench_fail("the lock in Redis was lost");
}

static void turns(const struct street *st, struct own *own, uint32_t me)
{
	uint64_t begin = UINT64_MAX, end = UINT64_MAX, asked, got = 0, back;

	for (uint32_t turn = 0; got < end; turn++) {
		char key[32];

		snprintf(key, sizeof(key), "own-%u-%u", me, turn % OWN_KEYS);
		asked = bench_ticks();
		lock_one(st, key);
		got = bench_ticks();
		unlock_one(st, key);
		back = bench_ticks();
		if (turn == WARM) {
			begin = got;
			end = begin + bench_ticks_of_ns(st->ms * 1e6);
		} else if (asked >= begin && got < end) {
			own->ops++;
			hist_add(&own->wait, got - asked);
			hist_add(&own->turn, back - asked);
		}
	}
}

static void work(void *arg)
{
	struct street *st = arg;
	uint32_t me = st->next;

	attach(st);
	bench_add(&st->ready);
	if (!bench_wait(&st->go, 1, START_MS))
		bench_fail("the others did not come");
	turns(st, &st->own[me - 1], me);
	bench_add(&st->ended);
	if (!bench_wait(&st->ended, (uint32_t)st->procs, START_MS))
		bench_fail("the others do not end");
	detach(st);
}

static void collect(const struct point *p, const struct street *st)
{
	static struct own all;
	double ops = 0;

	memset(&all, 0, sizeof(all));
	for (int i = 0; i < st->procs; i++) {
		ops += (double)st->own[i].ops;
		hist_merge(&all.wait, &st->own[i].wait);
		hist_merge(&all.turn, &st->own[i].turn);
	}
	if (ops <= 0)
		return;
	result_add_hist(p, st->kind->row, &all.wait, 0);
	result_add(p, st->kind->row, OPS_PER_S, ops * 1e3 / st->ms, 0);
	result_add_hist(p, st->kind->turn_row, &all.turn, 0);
}

static void measure(const struct point *p, const struct kind *kind)
{
	static struct street *st;
	pid_t pid[PROCS_MAX];

	if (!st)
		st = bench_share(sizeof(*st));
	memset(st, 0, sizeof(*st));
	st->kind = kind;
	st->procs = p->procs;
	st->ms = figure_ms[bench_effort];
	for (int i = 0; i < st->procs; i++) {
		st->next = (uint32_t)i + 1; /* the child reads it before it reports ready */
		pid[i] = bench_spawn(bench_cpu(i), work, st);
		if (!bench_wait(&st->ready, (uint32_t)i + 1, START_MS))
			bench_fail("a process did not come");
	}
	bench_set(&st->go, 1);
	for (int i = 0; i < st->procs; i++)
		bench_reap(pid[i], kind->row);
	collect(p, st);
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	const struct bridge_options wish = { .hosts = 1, .way = REDIS_FAR, .leases = PROCS_MAX * OWN_KEYS };

	(void)lock;
	if (redis_socket())
		redis_far_begin(p->scenario->arg);
	if (bridge_make(&wish)) {
		measure(p, &kind_redis);
		measure(p, &kind_one);
		bridge_unmake();
	}
	redis_far_end();
}

/* A young server does not vote for the time of a lease. */
static void run_three(const struct point *p, const struct lock_adapter *lock)
{
	struct bridge_options wish = { .hosts = 1, .way = REDIS_FAR, .leases = PROCS_MAX * OWN_KEYS,
				       .ttl_ns = LOCKSHM_SECONDS(2) };

	(void)lock;
	for (int n = 3; n <= MAJORITY; n += 2) {
		wish.majority = redis_socket() ? redis_majority_begin(p->scenario->arg, n) : "";
		if (wish.majority[0] && bridge_make(&wish)) {
			measure(p, n == 3 ? &kind_three : &kind_five);
			bridge_unmake();
		}
		redis_far_end();
	}
	wish.majority = NULL;
	if (redis_socket())
		redis_far_begin(p->scenario->arg);
	if (redis_socket() && bridge_make(&wish)) {
		measure(p, &kind_one);
		bridge_unmake();
	}
	redis_far_end();
}

const struct scenario scenario_bridge_own_200us = {
	.name = "bridge-own-200us",
	.what = "free global keys, of each process its own, by a network of 0.2 ms each way",
	.first = US_P50,
	.fits = bridge_fits,
	.run = run,
	.arg = 200000,
	.procs = { { 8 }, { 1, 8, 32 }, { 1, 8, 32 } },
};

const struct scenario scenario_bridge_own_1ms = {
	.name = "bridge-own-1ms",
	.what = "the same by a network of 1 ms each way",
	.first = US_P50,
	.fits = bridge_fits,
	.run = run,
	.arg = 1000000,
	.procs = { { 8 }, { 1, 8, 32 }, { 1, 8, 32 } },
};

const struct scenario scenario_bridge_own_three = {
	.name = "bridge-own-three",
	.what = "the same, where a majority of three, and of five, servers decides",
	.first = US_P50,
	.fits = bridge_fits,
	.run = run_three,
	.arg = 1000000,
	.procs = { { 8 }, { 1, 8, 32 }, { 1, 8, 32 } },
};
