/* SPDX-License-Identifier: MIT */
/*
 * bare-pair.c - a pair of a free lock, and of a reader beside a reader, in bare loops beside the locks of the C library
 *
 * lockshm-bench calls every lock through an adapter, which adds the same few nanoseconds to each and so shrinks ratios.
 * Here each loop has nothing but the two calls.  A round takes a slice of each lock in turn, so that a slow phase of
 * the processor hits all of them; the figures are medians over the rounds, of the times and of the ratios within a
 * round.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lockshm.h"

#define PAIRS 4000
#define ROUNDS_MAX 100000

static lockshm_t *segment;
static struct lockshm_request request = LOCKSHM_REQUEST("key:0000hotsixte");
static struct lockshm_request reading = LOCKSHM_REQUEST("key:0000hotsixte");
static struct lockshm_request beside = LOCKSHM_REQUEST("key:0000besideit"); /* has a reader of another process */
static struct lockshm_report report = LOCKSHM_REPORT_INIT;
static struct lockshm_request reported = LOCKSHM_REQUEST("key:0000hotsixte");
static struct lockshm_request renewed = LOCKSHM_REQUEST("key:0000hotsixte");
static struct lockshm_request told = LOCKSHM_REQUEST("key:0000hotsixte");
static struct lockshm_request renewed_told = LOCKSHM_REQUEST("key:0000hotsixte");
static lockshm_loop_t *loop;
static lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
static lockshm_lock_t exclusive, shared, strict, shared_beside;

/* In memory that processes could share. */
static struct peers {
	pthread_mutex_t robust;
	pthread_rwlock_t rwlock;
	uint64_t word;
	uint32_t there; /* the other reader: 1 = has its hold, 2 = none could be had */
} *peers;

#define LOOP(name, lock, unlock)                                                                                       \
	static int name(void)                                                                                          \
	{                                                                                                              \
		int bad = 0;                                                                                           \
                                                                                                                       \
		for (int i = 0; i < PAIRS; i++) {                                                                      \
			bad |= (lock);                                                                                 \
			bad |= (unlock);                                                                               \
		}                                                                                                      \
		return bad;                                                                                            \
	}

LOOP(robust_pairs, pthread_mutex_lock(&peers->robust), pthread_mutex_unlock(&peers->robust))
LOOP(write_pairs, pthread_rwlock_wrlock(&peers->rwlock), pthread_rwlock_unlock(&peers->rwlock))
LOOP(read_pairs, pthread_rwlock_rdlock(&peers->rwlock), pthread_rwlock_unlock(&peers->rwlock))
LOOP(acquire_pairs, lockshm_acquire(segment, &request, &hold), lockshm_release(&hold, 0))
LOOP(reported_pairs, lockshm_acquire(segment, &reported, &hold), lockshm_release(&hold, 0))
LOOP(loop_pairs, lockshm_loop_acquire(loop, &request, &hold, NULL), lockshm_release(&hold, 0))
LOOP(loop_reported_pairs, lockshm_loop_acquire(loop, &reported, &hold, NULL), lockshm_release(&hold, 0))
LOOP(renewed_pairs, lockshm_loop_acquire(loop, &renewed, &hold, NULL), lockshm_release(&hold, 0))
LOOP(told_pairs, lockshm_loop_acquire(loop, &told, &hold, NULL), lockshm_release(&hold, 0))
LOOP(renewed_told_pairs, lockshm_loop_acquire(loop, &renewed_told, &hold, NULL), lockshm_release(&hold, 0))
LOOP(exclusive_pairs, lockshm_lock(&exclusive, segment), lockshm_unlock(&exclusive))
LOOP(shared_pairs, lockshm_lock(&shared, segment), lockshm_unlock(&shared))
LOOP(reading_pairs, lockshm_acquire(segment, &reading, &hold), lockshm_release(&hold, 0))
LOOP(beside_pairs, lockshm_acquire(segment, &beside, &hold), lockshm_release(&hold, 0))
LOOP(shared_beside_pairs, lockshm_lock(&shared_beside, segment), lockshm_unlock(&shared_beside))
LOOP(strict_pairs, lockshm_lock(&strict, segment), lockshm_unlock(&strict))

/* The floor of a lease: each call looks at the coarse clock and swaps one word. */
static int swap_after_clock(uint64_t from, uint64_t to)
{
	struct timespec ts;

	return clock_gettime(CLOCK_MONOTONIC_COARSE, &ts) |
	       !__atomic_compare_exchange_n(&peers->word, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}

LOOP(floor_pairs, swap_after_clock(0, 1), swap_after_clock(1, 0))

enum {
	ROBUST, WRITE, READ, FLOOR, ACQUIRE, REPORTED, ON_LOOP, LOOP_REPORTED, RENEWED, TOLD, RENEWED_TOLD, EXCLUSIVE, SHARED,
	STRICT, READING, BESIDE, SHARED_BESIDE, LOOPS
};

static const struct {
	const char *name;
	int (*run)(void);
	int peer; /* the ratio is to this one */
} loops[LOOPS] = {
	[ROBUST] = { "pthread-robust", robust_pairs, ROBUST },
	[WRITE] = { "pthread-rwlock, exclusive", write_pairs, ROBUST },
	[READ] = { "pthread-rwlock, shared", read_pairs, READ },
	[FLOOR] = { "floor: two clocks, two swaps", floor_pairs, ROBUST },
	[ACQUIRE] = { "lockshm_acquire()", acquire_pairs, ROBUST },
	[REPORTED] = { "the same with a report", reported_pairs, ACQUIRE },
	[ON_LOOP] = { "lockshm_loop_acquire()", loop_pairs, ACQUIRE },
	[LOOP_REPORTED] = { "on a loop with a report", loop_reported_pairs, ON_LOOP },
	[RENEWED] = { "on a loop, renewed", renewed_pairs, ON_LOOP },
	[TOLD] = { "on a loop, its loss is told", told_pairs, ON_LOOP },
	[RENEWED_TOLD] = { "on a loop, both", renewed_told_pairs, ON_LOOP },
	[EXCLUSIVE] = { "lock object, exclusive", exclusive_pairs, ROBUST },
	[SHARED] = { "lock object, shared", shared_pairs, READ },
	[STRICT] = { "lock object, strict", strict_pairs, ROBUST },
	[READING] = { "lockshm_acquire(), shared", reading_pairs, READ },
	[BESIDE] = { "the same beside a reader", beside_pairs, READING },
	[SHARED_BESIDE] = { "lock object beside a reader", shared_beside_pairs, SHARED },
};

static double ns[LOOPS][ROUNDS_MAX], ratio[ROUNDS_MAX];

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int up(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *all, int n)
{
	static double sorted[ROUNDS_MAX];

	for (int i = 0; i < n; i++)
		sorted[i] = all[i];
	qsort(sorted, (size_t)n, sizeof(sorted[0]), up);
	return sorted[n / 2];
}

static int make_peers(void)
{
	pthread_mutexattr_t mutex;
	pthread_rwlockattr_t rwlock;

	peers = mmap(NULL, sizeof(*peers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (peers == MAP_FAILED)
		return 1;
	return pthread_mutexattr_init(&mutex) | pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) |
	       pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST) | pthread_mutex_init(&peers->robust, &mutex) |
	       pthread_rwlockattr_init(&rwlock) | pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED) |
	       pthread_rwlock_init(&peers->rwlock, &rwlock);
}

static int make_objects(void)
{
	struct lockshm_request endless = request;

	endless.ttl_ns = LOCKSHM_FOREVER;
	reported.report = &report;
	renewed.flags = LOCKSHM_AUTO_RENEW;
	told.flags = LOCKSHM_TELL_LOSS;
	renewed_told.flags = LOCKSHM_AUTO_RENEW | LOCKSHM_TELL_LOSS;
	reading.mode = beside.mode = LOCKSHM_SHARED;
	return lockshm_lock_init(&exclusive, segment, &request) | lockshm_lock_init(&strict, segment, &endless) |
	       lockshm_lock_init(&shared, segment, &reading) | lockshm_lock_init(&shared_beside, segment, &beside);
}

static int measure(int rounds)
{
	int bad = 0;

	for (int r = -1; r < rounds; r++) {
		for (int i = 0; i < LOOPS; i++) {
			double from;

			bad |= loops[i].run(); /* warm */
			from = now_ns();
			bad |= loops[i].run();
			if (r >= 0)
				ns[i][r] = (now_ns() - from) / PAIRS;
		}
	}
	return bad;
}

/* The other reader: another process, which has its hold until it is killed. */
static pid_t start_reader(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		beside.ttl_ns = LOCKSHM_FOREVER;
		__atomic_store_n(&peers->there, lockshm_acquire(segment, &beside, &hold) ? 2 : 1, __ATOMIC_RELEASE);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	while (pid > 0 && !__atomic_load_n(&peers->there, __ATOMIC_ACQUIRE))
		usleep(1000);
	return pid;
}

static int measure_beside_reader(int rounds)
{
	pid_t reader = start_reader();
	/* The loop after the fork: it starts a thread. */
	int bad = reader < 0 || peers->there != 1 || lockshm_loop_open(&loop, segment, -1, NULL) || measure(rounds);

	if (reader > 0) {
		kill(reader, SIGKILL);
		waitpid(reader, NULL, 0);
	}
	return bad;
}

static void print_table(int rounds)
{
	printf("# bare-pair: medians of %d rounds of %d pairs\n", rounds, PAIRS);
	for (int i = 0; i < LOOPS; i++) {
		for (int r = 0; r < rounds; r++)
			ratio[r] = ns[i][r] / ns[loops[i].peer][r];
		printf("%-29s %6.1f ns a pair", loops[i].name, median(ns[i], rounds));
		if (loops[i].peer != i)
			printf("  %5.2f x %s", median(ratio, rounds), loops[loops[i].peer].name);
		puts("");
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 500;
	struct lockshm_error error = { .message = "" };
	cpu_set_t one;
	char name[64];
	int rc;

	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: %s [ROUNDS]\n", argv[0]);
		return 2;
	}
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
	snprintf(name, sizeof(name), "/bare-pair-%d", (int)getpid());
	rc = lockshm_create(&segment, name, NULL, &error);
	if (!rc) {
		rc = make_peers() || make_objects() || measure_beside_reader(rounds);
		if (loop)
			lockshm_loop_close(loop);
		lockshm_close(segment);
		lockshm_destroy(name, NULL);
	}
	if (rc)
		fprintf(stderr, "bare-pair: failed: %s\n", error.message);
	else
		print_table(rounds);
	return rc ? 1 : 0;
}
