/* SPDX-License-Identifier: MIT */
/*
 * threads-as-processes.c - every operation at once, by threads of one process on one mapping
 *
 *   threads-as-processes [SECONDS [SEED]]       3 seconds and a seed from the clock if not given
 *
 * To the library a thread is an owner like any other process' thread, so this is the same traffic as between processes.
 * But a race detector sees it: build with --enable-tsan and every access to the segment, to the handle and to what the
 * locks guard is watched.  tests/build/build-tsan.sh does that; without it the program is a test of its own.
 *
 * What is guarded is touched by plain loads and stores, so a missing happens-before between two holders is a data race,
 * and a lost update is seen by the sums at the end.  Two things are left out of that on purpose:
 *
 *  - keys of short leases guard nothing: a thread that overran a lease may still write, without any order by locks;
 *  - keys that threads die with guard atomic words: the order is there, by the life word, but the dying thread's C
 *    library writes that word through another mapping of its page, and a race detector goes by addresses.
 */
#include "threads-as-processes.h"
#include "support/rows.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 6

_Atomic uint64_t deeds[DEEDS];
static const char *const deed_names[DEEDS] = {
	"exclusive", "shared", "tried", "upgraded", "downgraded", "renewed", "cooled", "timed out", "cancelled", "many",
	"lease lost", "moved", "auto-renewed", "deadlocked", "died", "taken over", "by objects", "in a crowd",
	"verified"
};

lockshm_t *locks;

static struct worker workers[WORKERS];
static char segment_name[64];
static atomic_int stop;

/* Only the first failure is printed; the others follow from it. */
void fail(const char *format, ...)
{
	static atomic_flag failed = ATOMIC_FLAG_INIT;
	va_list args;

	while (atomic_flag_test_and_set(&failed))
		pause();
	fputs("threads-as-processes: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	lockshm_destroy(segment_name, NULL);
	_exit(EXIT_FAILURE);
}

void did(enum deed d)
{
	atomic_fetch_add_explicit(&deeds[d], 1, memory_order_relaxed);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void nap(long ns)
{
	struct timespec ts = { 0, ns };

	nanosleep(&ts, NULL);
}

/* @status must be one of those listed; the list ends with INT32_MIN. */
void expect(const char *what, int status, ...)
{
	va_list allowed;
	int one;

	va_start(allowed, status);
	while ((one = va_arg(allowed, int)) != INT32_MIN && one != status)
		;
	va_end(allowed);
	if (one != status)
		fail("%s: %s", what, lockshm_code_name(status));
}

/* ---------------------------------------------------------------- threads */

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		operations[next_random(w) % n_operations](w);
	return NULL;
}

static void *cancel_waits(void *arg)
{
	unsigned i;

	for (i = 0; !atomic_load_explicit(&stop, memory_order_relaxed); i = (i + 1) % WORKERS) {
		struct worker *w = &workers[i];

		pthread_mutex_lock(&w->lock);
		if (w->cancellable)
			EXPECT("cancel", lockshm_cancel(&w->canceller), LOCKSHM_OK);
		pthread_mutex_unlock(&w->lock);
		if (i == 0)
			nap(100000);
	}
	return arg;
}

static void print_problem(const char *invariant, const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "threads-as-processes: %s: %s\n", invariant, text);
}

/* 0, or a code; 1 = a row that cannot be. */
static int list(int what, const char *key)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code, wrong = 0;

	EACH_ROW(row, code, locks, what, key, key ? strlen(key) : 0)
		wrong |= what == LOCKSHM_LIST_OWNERS ? row.request.pid != getpid() : row.key_len == 0;
	return code ? code : wrong;
}

static void *look_on(void *arg)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		if (lockshm_verify(locks, print_problem, NULL, NULL) != 0)
			fail("lockshm_verify() found something");
		EXPECT("list", list(LOCKSHM_LIST_BUSY, NULL), 0);
		EXPECT("list of owners", list(LOCKSHM_LIST_OWNERS, NULL), 0);
		EXPECT("list of a key", list(LOCKSHM_LIST_KEY, "strict0"), 0);
		EXPECT("stat", lockshm_stat(locks, &stat), 0);
		did(VERIFIED);
		nap(1000000);
	}
	return arg;
}

static void *sweep(void *arg)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		EXPECT("sweep", lockshm_sweep(locks, NULL), 0);
		nap(2000000);
	}
	return arg;
}

static void set_up(uint64_t seed)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error = { 0 };
	int i;

	snprintf(segment_name, sizeof(segment_name), "/threads-as-processes.%d", (int)getpid());
	options.keys = 64;
	options.requests = 1024;
	options.owners = 64 + CROWD;
	if (lockshm_create(&locks, segment_name, &options, &error) < 0)
		fail("%s", error.message);
	for (i = 0; i < WORKERS; i++) {
		pthread_mutex_init(&workers[i].lock, NULL);
		workers[i].random = (seed + (uint64_t)i + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
	}
}

/* A deed not yet done by any thread, NULL if there is none. */
static const char *undone(void)
{
	for (int i = 0; i < DEEDS; i++)
		if (!atomic_load(&deeds[i]))
			return deed_names[i];
	return NULL;
}

static void run(int64_t seconds)
{
	void *(*const others[])(void *) = { cancel_waits, look_on, sweep };
	pthread_t threads[sizeof(others) / sizeof(others[0])];
	int64_t end = now_ns() + LOCKSHM_SECONDS(seconds);
	unsigned i;

	for (i = 0; i < WORKERS; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			fail("pthread_create");
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (pthread_create(&threads[i], NULL, others[i], NULL) != 0)
			fail("pthread_create");
	/* On a busy machine it takes longer until everything has happened. */
	while (now_ns() < end || (undone() && now_ns() < end + PATIENCE))
		nap(10000000);
	atomic_store(&stop, 1);
	for (i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		pthread_join(threads[i], NULL);
}

/* The next acquire reaps it. */
static void end_the_last_cooldown(void)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	q.key = "cool";
	q.key_len = strlen(q.key);
	EXPECT("last cool", lockshm_acquire(locks, &q, &hold), LOCKSHM_OK, LOCKSHM_TOOK_OVER_EXPIRED);
	EXPECT("last cool down", lockshm_release(&hold, 0), LOCKSHM_OK);
}

static void check_books(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	int i;

	for (i = 0; i < KEYS; i++)
		if (guarded[i].value != atomic_load(&updates[i]))
			fail("strict%d: %" PRIu64 " updates, but the value is %" PRIu64, i, atomic_load(&updates[i]),
			     guarded[i].value);
	if (mailbox.full)
		EXPECT("last of the process", lockshm_release(&mailbox.hold, 0), LOCKSHM_OK);
	if (lockshm_verify(locks, print_problem, NULL, NULL) != 0)
		fail("lockshm_verify() found something at the end");
	end_the_last_cooldown();
	lockshm_sweep(locks, NULL);
	if (lockshm_stat(locks, &stat) < 0 || stat.requests_used || stat.keys_busy || stat.keys_left || stat.owners_used > 2)
		fail("left in use: %" PRIu32 " requests, %" PRIu32 " locks, %" PRIu32 " owners (2: me and the service thread)",
		     stat.requests_used, stat.keys_busy + (uint32_t)stat.keys_left, stat.owners_used);
	for (i = 0; i < DEEDS; i++)
		printf("%s%s %" PRIu64, i ? ", " : "", deed_names[i], atomic_load(&deeds[i]));
	putchar('\n');
	if (undone())
		fail("nothing was %s, however long it ran", undone());
}

int main(int argc, char **argv)
{
	int64_t seconds = argc > 1 ? atoll(argv[1]) : 3;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)now_ns() % 1000000 + 1;

	printf("threads-as-processes: %d workers, %" PRId64 " s, seed %" PRIu64 "\n", WORKERS, seconds, seed);
	fflush(stdout);
	set_up(seed);
	wake_crowds();
	run(seconds);
	check_books();
	lockshm_close(locks);
	lockshm_destroy(segment_name, NULL);
	return EXIT_SUCCESS;
}
