/* SPDX-License-Identifier: MIT */
/*
 * scenario-bridge-contest.c - processes that want one global key all the time
 *
 *   bridge-pass    of one host: the cost of a local grant under one host lease.  "lockshm-local" is that key of the
 *                  same segment without LOCKSHM_GLOBAL.  No work inside or outside
 *   bridge-rival   half of them on another host; "lockshm-local" is all of them on one host without LOCKSHM_GLOBAL;
 *                  "lockshm-barging" uses LOCKSHM_BARGE; "redis" is each for itself, SET NX PX tried again each
 *                  millisecond.  No work inside or outside
 *   bridge-peers   the same, 1 ms asleep inside and 1 ms outside, also with programs that use other libraries:
 *                  1,000 a second would be a lock that is never free
 *
 * Counting begins after every process has had the key once.  A plain counter checks exclusion all the time: a violation
 * ends the run with status 1 (not of the programs in other languages, which do not share the memory).
 */
#include "bench-bridge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROCS_MAX 16
#define START_MS 60000
#define RETRY_US 1000

enum { PASS, RIVAL, PEERS };
static const int figure_ms[][BENCH_EFFORTS] = {
	[PASS] = { 30, 200, 500 }, [RIVAL] = { 100, 600, 2000 }, [PEERS] = { 100, 1500, 5000 }
};

struct arena;

/* A method to take the key. */
struct way {
	const char *name;
	void (*attach)(int host);
	void (*lock)(void);
	void (*unlock)(void);
	void (*detach)(void);
	const char *commands; /* that it sends to the server */
};

struct worker {
	uint64_t ops; /* counted ones */
	uint64_t all;
	uint64_t violations;
	struct hist wait;
};

struct arena {
	const struct way *way;
	int procs, hosts, ms;
	unsigned inside_us, outside_us;
	uint32_t next; /* number of the worker made next */
	uint32_t ready __attribute__((aligned(64)));
	uint32_t go, started, begun, ended;
	uint64_t begin __attribute__((aligned(64))); /* ticks; 0 = not all have started */
	uint64_t end;
	uint64_t counter __attribute__((aligned(64))); /* plain: only the lock keeps it right */
	uint32_t owner;
	struct worker worker[PROCS_MAX];
};

/* ---------------------------------------------------------------------------------------------------------------- *
 * Ways
 */
static lockshm_t *segment;
static lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
static int link_fd;
static char sha[48];

static void attach_segment(int host)
{
	segment = bridge_open(host);
}

static void detach_segment(void)
{
	lockshm_close(segment);
}

static void lock_global(void)
{
	bridge_lock(segment, REDIS_KEY, LOCKSHM_GLOBAL, &hold);
}

static void lock_barging(void)
{
	bridge_lock(segment, REDIS_KEY, LOCKSHM_GLOBAL | LOCKSHM_BARGE, &hold);
}

static void lock_local(void)
{
	bridge_lock(segment, REDIS_KEY, 0, &hold);
}

static void unlock_hold(void)
{
	bridge_unlock(&hold);
}

static void attach_redis(int host)
{
	(void)host;
	link_fd = redis_dial(REDIS_UNIX);
	snprintf(sha, sizeof(sha), "%s",
		 redis_ask(link_fd, "SCRIPT LOAD \"if redis.call('get',KEYS[1])==ARGV[1] then return "
				    "redis.call('del',KEYS[1]) else return 0 end\""));
}

static void lock_redis(void)
{
	while (strcmp(redis_ask(link_fd, "SET plain %d NX PX 30000", (int)getpid()), "OK") != 0)
		usleep(RETRY_US);
}

static void unlock_redis(void)
{
	if (atoi(redis_ask(link_fd, "EVALSHA %s 1 plain %d", sha, (int)getpid())) != 1)
		bench_fail("the lock in Redis was lost");
}

static void detach_redis(void)
{
	close(link_fd);
}

static const struct way way_global = {
	"lockshm", attach_segment, lock_global, unlock_hold, detach_segment, REDIS_OURS
};
static const struct way way_barging = {
	"lockshm-barging", attach_segment, lock_barging, unlock_hold, detach_segment, REDIS_OURS
};
static const struct way way_local = { "lockshm-local", attach_segment, lock_local, unlock_hold, detach_segment, "" };
static const struct way way_redis = { "redis", attach_redis, lock_redis, unlock_redis, detach_redis, "set evalsha" };

/* ---------------------------------------------------------------------------------------------------------------- *
 * Workers
 */
static void sleep_us(unsigned us)
{
	if (us)
		usleep(us);
}

static void inside(struct arena *a, struct worker *w, uint32_t me)
{
	w->violations += __atomic_load_n(&a->owner, __ATOMIC_RELAXED) != 0;
	__atomic_store_n(&a->owner, me, __ATOMIC_RELAXED);
	a->counter++;
	sleep_us(a->inside_us);
	w->violations += __atomic_load_n(&a->owner, __ATOMIC_RELAXED) != me;
	__atomic_store_n(&a->owner, 0, __ATOMIC_RELAXED);
	w->all++;
}

/* The last one to start sets the time from which operations count. */
static void start(struct arena *a)
{
	uint64_t now;

	if (__atomic_add_fetch(&a->started, 1, __ATOMIC_SEQ_CST) != (uint32_t)a->procs)
		return;
	now = bench_ticks();
	__atomic_store_n(&a->end, now + bench_ticks_of_ns(a->ms * 1e6), __ATOMIC_RELAXED);
	__atomic_store_n(&a->begin, now, __ATOMIC_RELEASE);
	bench_set(&a->begun, 1);
}

static void turns(struct arena *a, struct worker *w, uint32_t me)
{
	for (uint64_t turn = 0;; turn++) {
		uint64_t asked = bench_ticks(), got, begin;

		a->way->lock();
		got = bench_ticks();
		inside(a, w, me);
		a->way->unlock();
		if (turn == 0)
			start(a);
		begin = __atomic_load_n(&a->begin, __ATOMIC_ACQUIRE);
		if (begin && got >= a->end)
			return;
		if (begin && got >= begin) {
			w->ops++;
			hist_add(&w->wait, got - asked);
		}
		sleep_us(a->outside_us);
	}
}

static void work(void *arg)
{
	struct arena *a = arg;
	uint32_t me = a->next;

	bridge_unpin();
	a->way->attach((int)(me - 1) % a->hosts);
	bench_add(&a->ready);
	if (!bench_wait(&a->go, 1, START_MS))
		bench_fail("the others did not come");
	turns(a, &a->worker[me - 1], me);
	/* The bridge's process stays until no process wants the key any more. */
	bench_add(&a->ended);
	if (!bench_wait(&a->ended, (uint32_t)a->procs, START_MS))
		bench_fail("the others do not end");
	a->way->detach();
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * What came of it
 */
static double jain(const struct arena *a)
{
	double sum = 0, squares = 0;

	for (int i = 0; i < a->procs; i++) {
		sum += (double)a->worker[i].ops;
		squares += (double)a->worker[i].ops * (double)a->worker[i].ops;
	}
	return squares > 0 ? sum * sum / (a->procs * squares) : 0;
}

static void check(const struct arena *a)
{
	uint64_t all = 0, violations = 0;

	for (int i = 0; i < a->procs; i++) {
		all += a->worker[i].all;
		violations += a->worker[i].violations;
	}
	if (!violations && a->counter == all)
		return;
	fprintf(stderr, "lockshm-bench: %s does not exclude: %llu violations seen, %lld of %llu updates lost\n",
		a->way->name, (unsigned long long)violations, (long long)(all - a->counter), (unsigned long long)all);
	exit(1);
}

static void collect(const struct point *p, const struct arena *a, double commands)
{
	static struct hist all;
	double host[BRIDGE_HOSTS] = { 0 }, ops = 0;

	memset(&all, 0, sizeof(all));
	for (int i = 0; i < a->procs; i++) {
		ops += (double)a->worker[i].ops;
		host[i % a->hosts] += (double)a->worker[i].ops;
		hist_merge(&all, &a->worker[i].wait);
	}
	if (ops <= 0)
		return;
	if (p->scenario->first == NS)
		result_add(p, a->way->name, NS, a->ms * 1e6 / ops, 0);
	result_add(p, a->way->name, OPS_PER_S, ops * 1e3 / a->ms, 0);
	result_add(p, a->way->name, JAIN, jain(a), 0);
	result_add_hist(p, a->way->name, &all, 0);
	if (a->way->commands[0])
		result_add(p, a->way->name, COMMANDS, commands / ops, 0);
	if (a->hosts == 2 && host[0] > 0 && host[1] > 0 && a->way == &way_global)
		result_add(p, a->way->name, SHARE, host[0] > host[1] ? host[0] / host[1] : host[1] / host[0], 0);
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * One figure
 */
/* Commands sent while operations counted. */
static double watch(struct arena *a, int fd)
{
	double before;

	if (!bench_wait(&a->begun, 1, START_MS))
		bench_fail("a process never had the key");
	before = redis_counted(fd, a->way->commands).calls;
	usleep((unsigned)a->ms * 1000);
	return redis_counted(fd, a->way->commands).calls - before;
}

static void measure(const struct point *p, struct arena *a)
{
	const struct bridge_options wish = { .hosts = a->hosts };
	pid_t pid[PROCS_MAX];
	double commands;
	int fd;

	if (!bridge_make(&wish))
		return;
	fd = redis_dial(REDIS_UNIX);
	for (int i = 0; i < a->procs; i++) {
		a->next = (uint32_t)i + 1; /* the child reads it before it reports ready */
		pid[i] = bench_spawn(bench_cpu(i), work, a);
		if (!bench_wait(&a->ready, (uint32_t)i + 1, START_MS))
			bench_fail("a process did not come");
	}
	bench_set(&a->go, 1);
	commands = watch(a, fd);
	for (int i = 0; i < a->procs; i++)
		bench_reap(pid[i], a->way->name);
	close(fd);
	bridge_unmake();
	check(a);
	collect(p, a, commands);
}

static void contest(const struct point *p, const struct way *way)
{
	static struct arena *a;

	if (!a)
		a = bench_share(sizeof(*a));
	memset(a, 0, sizeof(*a));
	a->way = way;
	a->procs = p->procs;
	a->hosts = p->scenario->arg == PASS || way == &way_local ? 1 : 2;
	a->ms = figure_ms[p->scenario->arg][bench_effort];
	a->inside_us = a->outside_us = p->scenario->arg == PEERS ? 1000 : 0;
	measure(p, a);
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Programs with other libraries
 */
static void contest_of_others(const struct point *p, const struct other *o)
{
	static struct hist waits;
	uint64_t ops[PROCS_MAX];
	double sum = 0, squares = 0;
	int ms = figure_ms[PEERS][bench_effort];

	memset(&waits, 0, sizeof(waits));
	if (!redis_socket() || !other_is_there(o) || !other_run(o, p->procs, ms, 1000, 1000, ops, &waits))
		return;
	for (int i = 0; i < p->procs; i++) {
		sum += (double)ops[i];
		squares += (double)ops[i] * (double)ops[i];
	}
	result_add(p, o->name, OPS_PER_S, sum * 1e3 / ms, 0);
	result_add(p, o->name, JAIN, squares > 0 ? sum * sum / (p->procs * squares) : 0, 0);
	result_add_hist(p, o->name, &waits, 0);
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	(void)lock;
	contest(p, &way_global);
	contest(p, p->scenario->arg == PASS ? &way_local : &way_redis);
	if (p->scenario->arg == RIVAL) {
		contest(p, &way_local);
		contest(p, &way_barging);
	}
	for (int i = 0; p->scenario->arg == PEERS && bridge_others[i].name; i++)
		contest_of_others(p, &bridge_others[i]);
}

const struct scenario scenario_bridge_pass = {
	.name = "bridge-pass",
	.what = "a global key is passed on under its lease; nothing inside, nothing outside",
	.first = NS,
	.fits = bridge_fits,
	.run = run,
	.arg = PASS,
	.procs = { { 2 }, { 2, 4 }, { 2, 4, 8 } },
};

const struct scenario scenario_bridge_rival = {
	.name = "bridge-rival",
	.what = "one global key, half of the processes on another host; nothing inside, nothing outside",
	.first = OPS_PER_S,
	.fits = bridge_fits,
	.run = run,
	.arg = RIVAL,
	.procs = { { 4 }, { 8 }, { 8 } },
};

const struct scenario scenario_bridge_peers = {
	.name = "bridge-peers",
	.what = "one global key; 1 ms inside, 1 ms outside; 1,000 a second = never free",
	.first = OPS_PER_S,
	.fits = bridge_fits,
	.run = run,
	.arg = PEERS,
	.procs = { { 4 }, { 8 }, { 8 } },
};
