/* SPDX-License-Identifier: MIT */
/*
 * chaos.c - processes of two hosts want global keys, and everything that can fail does, at random
 *
 * Two segments play hosts; one real redis-server is between them, which writes all it acknowledges to disk, and each
 * host has a proxy on its path.  The workers (bridge-crash/chaos-worker.c) take one key exclusively and another one
 * mostly shared, hold them for a while, check meanwhile whether they still do, change the mode, and now and then take a
 * third one many times in a row; the first is robust, the second at times.  They record all of it in a history.  The
 * driver kills and stops workers, and the bridge of each host; now and then it causes a fault of Redis
 * (bridge-crash/chaos-faults.c).  Afterwards the history is checked: history/global.h has the properties.
 *
 * Usage: chaos [SECONDS [SEED]]     a violation is kept in chaos-global-SEED.history
 */
#define _GNU_SOURCE
#include "chaos.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <string.h>

#define BLOCKS 16384 /* a million records */
#define WAIT_MAX_NS LOCKSHM_SECONDS(12)
/* A lease of a dead host, its queue position, the longest holds of those before. */
#define CLOSED_NS LOCKSHM_SECONDS(8)
#define ROUND_S 30 /* then the history is checked, and another one begun */

struct history history;
struct history_writer driver;

static double seconds = 8;
static unsigned seed;
static pid_t workers[WORKERS];
static uint32_t processes[WORKERS];
static int problems;

static unsigned chance(unsigned below)
{
	return (unsigned)rand() % below;
}

/* ---------------------------------------------------------------- workers */

static void start_worker(unsigned i)
{
	processes[i] = history_new_process(&history);
	fflush(NULL);
	workers[i] = fork();
	ck_assert_int_ge(workers[i], 0);
	if (workers[i] == 0)
		worker_main(i % CHAOS_HOSTS, processes[i], seed);
}

static void kill_worker(unsigned i)
{
	struct history_record *r = history_new(&driver);

	r->subject = processes[i];
	history_enter(r, HISTORY_KILL);
	kill(workers[i], SIGKILL);
	waitpid(workers[i], NULL, 0);
	history_leave(r, history_now(), 0);
	start_worker(i);
}

/* Shorter than a lease has left at least: no lease is lost by that. */
static void stop_worker(unsigned i)
{
	struct history_record *r = history_new(&driver);

	r->subject = processes[i];
	history_enter(r, HISTORY_STOP);
	kill(workers[i], SIGSTOP);
	chaos_nap(LOCKSHM_MS(20 + (int64_t)chance(200)));
	kill(workers[i], SIGCONT);
	history_leave(r, history_now(), 0);
}

static void end_workers(void)
{
	int64_t limit = history_now() + LOCKSHM_SECONDS(30);
	unsigned i;
	int status;

	__atomic_store_n(&history.header->stop, 1, __ATOMIC_RELEASE);
	for (i = 0; i < WORKERS; i++) {
		while (waitpid(workers[i], &status, WNOHANG) == 0 && history_now() < limit)
			chaos_nap(LOCKSHM_MS(10));
		/* The history says which call did not return. */
		if (history_now() >= limit) {
			kill(workers[i], SIGKILL);
			waitpid(workers[i], &status, 0);
		} else if (status != 0) {
			printf("a worker ended with status 0x%x\n", (unsigned)status);
			problems++;
		}
	}
}

/* ---------------------------------------------------------------- the checks */

static void report(const char *property, const char *text, void *arg)
{
	unsigned *told = arg;

	if ((*told)++ < 20)
		printf("%s: %s\n", property, text);
}

static void check_history(void)
{
	const struct global_terms terms = {
		.ttl_ns = TTL_NS, .wait_ns = WAIT_MAX_NS, .closed_ns = CLOSED_NS, .hosts = CHAOS_HOSTS
	};
	struct global_summary sum;
	unsigned reported = 0;
	char path[64];

	problems += history_check_global(&history, &terms, report, &reported, &sum);
	printf("%llu acquires, %llu granted (%llu shared, %llu changes of mode; host 0 %llu, host 1 %llu), "
	       "%llu lost, %llu killed holding, %llu told of a bad end, %llu undecided; "
	       "faults: Redis forgot %llu, was away %llu, slow %llu; longest wait while all was well %.0f ms; "
	       "the chain of a renewal waited %.0f ms for a processor\n",
	       (unsigned long long)sum.acquires, (unsigned long long)sum.granted, (unsigned long long)sum.shared,
	       (unsigned long long)sum.changes, (unsigned long long)sum.by_host[0], (unsigned long long)sum.by_host[1],
	       (unsigned long long)sum.lost, (unsigned long long)sum.killed, (unsigned long long)sum.told,
	       (unsigned long long)sum.unsure,
	       (unsigned long long)sum.faults[FAULT_FORGETS], (unsigned long long)sum.faults[FAULT_AWAY],
	       (unsigned long long)sum.faults[FAULT_SLOW], (double)sum.worst_wait_ns / 1e6,
	       (double)starved_worst() / 1e6);
	fflush(stdout); /* a failed assertion ends this process at once */
	if (sum.by_host[0] < 10 || sum.by_host[1] < 10) {
		printf("one host hardly had a turn\n");
		problems++;
	}
	if (!problems)
		return;
	snprintf(path, sizeof(path), "chaos-global-%u.history", seed);
	if (history_save(&history, path) == 0)
		printf("%d violations; %s\n", problems, path);
	fflush(stdout);
}

/* ---------------------------------------------------------------- all of it */

static void make_hosts(void)
{
	struct lockshm_create_options options = host_options();
	unsigned i;

	chaos_redis = redis_start("appendonly yes\nappendfsync always", false);
	options.redis_ttl_ns = TTL_NS;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	for (i = 0; i < CHAOS_HOSTS; i++) {
		chaos_proxies[i] = proxy_start(chaos_redis, false);
		strcpy(options.redis, chaos_proxies[i]->uri);
		host_make(i, &options);
	}
}

/* The one that got the first key last; worker @i if that is dead. */
static unsigned one_inside(unsigned i)
{
	uint32_t process = __atomic_load_n(inside, __ATOMIC_RELAXED);
	unsigned k;

	for (k = 0; k < WORKERS; k++)
		if (processes[k] == process)
			return k;
	return i;
}

static void torment(void)
{
	unsigned i = chance(WORKERS), what = chance(9);

	chaos_nap(LOCKSHM_MS(5 + (int64_t)chance(60)));
	if (what < 3)
		kill_worker(what == 0 ? i : one_inside(i));
	else if (what < 6)
		stop_worker(i);
	else if (what < 8)
		bridge_any(chance);
	else
		fault_any(chance);
}

static void one_round(double duration)
{
	int64_t end;
	unsigned i;

	history_track_begin(&driver, &history, history_new_process(&history), 0, HISTORY_NO_TRACK);
	for (i = 0; i < WORKERS; i++)
		start_worker(i);
	end = history_now() + (int64_t)(duration * 1e9);
	while (history_now() < end && !history_is_full(&history))
		torment();
	/* No fault is left: is every worker served again? */
	for (i = 0; i < CLOSED_NS / LOCKSHM_MS(100) + 10; i++)
		chaos_nap(LOCKSHM_MS(100));
	end_workers();
	check_history();
}

START_TEST(chaos)
{
	double left;

	history_clock = CLOCK_BOOTTIME;
	hold_on = mmap(NULL, 2 * sizeof(*hold_on), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(hold_on != MAP_FAILED);
	inside = hold_on + 1;
	ck_assert_int_eq(history_create(&history, BLOCKS), 0);
	make_hosts();
	for (left = seconds; left > 0 && problems == 0; left -= ROUND_S) {
		history_clear(&history);
		one_round(left < ROUND_S ? left : ROUND_S);
	}
	ck_assert_int_eq(problems, 0);
}
END_TEST

static void cases(TCase *tc)
{
	tcase_set_timeout(tc, 2 * seconds + 120);
	tcase_add_test(tc, chaos);
}

int main(int argc, char **argv)
{
	seconds = argc > 1 ? atof(argv[1]) : seconds;
	seed = argc > 2 && atoi(argv[2]) ? (unsigned)atoi(argv[2]) : (unsigned)getpid();
	printf("chaos-global: %d workers, %.0f s, seed %u\n", WORKERS, seconds, seed);
	fflush(stdout);
	srand(seed);
	return hosts_main("chaos-global", cases);
}
