/* SPDX-License-Identifier: MIT */
/*
 * seccomp.c - system calls that may be missing: futex_waitv(), robust lists, both
 *
 * A filter makes the calls fail with ENOSYS, as an old kernel does, or with EPERM, as a container's default profile
 * does.  Holds are strict, so that only the death of the holder hands a lock over.
 */
#define _GNU_SOURCE
#include "env.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define ROUNDS_S 30 /* at most */

struct filter {
	const char *name;
	int calls[3];
	unsigned n;
	int error;
	bool inexact; /* the kernel does not report the death of such a process */
	bool polls;   /* a death is found by looking every 10 ms */
};

static const struct filter filters[] = {
	{ "nothing", { 0 }, 0, 0, false, false },
	{ "futex_waitv: ENOSYS", { SYS_futex_waitv }, 1, ENOSYS, false, true },
	{ "futex_waitv: EPERM", { SYS_futex_waitv }, 1, EPERM, false, true },
	{ "get_robust_list: EPERM", { SYS_get_robust_list }, 1, EPERM, true, true },
	{ "set_robust_list: ENOSYS", { SYS_set_robust_list }, 1, ENOSYS, true, true },
	{ "robust lists: EPERM", { SYS_get_robust_list, SYS_set_robust_list }, 2, EPERM, true, true },
	{ "robust lists and futex_waitv: ENOSYS", { SYS_get_robust_list, SYS_set_robust_list, SYS_futex_waitv }, 3, ENOSYS,
	  true, true },
	{ "membarrier: EPERM", { SYS_membarrier }, 1, EPERM, false, false },
};
#define FILTERS (sizeof(filters) / sizeof(filters[0]))

/* In the parent, since a process registers its robust list at its start. */
static int apply(void *arg)
{
	const struct filter *f = arg;

	return f->n ? subject_forbid(f->calls, f->n, f->error) : 0;
}

static int strict(struct subject *p, int hold, const char *key)
{
	return subject_acquire(p, hold, key, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, 0, ACKNOWLEDGES);
}

static bool exact(const struct environment *where)
{
	const struct filter *f = where->arg;

	return !f || !f->inexact;
}

/* How long from SIGKILL to the grant. */
static int64_t hand_over(const struct environment *a, const struct environment *b)
{
	struct subject *holder = subject_start(a), *waiter = subject_start(b);
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int64_t killed;
	int n = 0, code;

	CHECK_CODE(strict(holder, 0, "key"), 0);
	CHECK_CODE(strict(waiter, 1, "other"), 0);
	EACH_ROW(row, code, env_segment, LOCKSHM_LIST_OWNERS, NULL, 0)
		n += row.exact;
	CHECK_CODE(code, 0);
	CHECK(n == exact(a) + exact(b));
	subject_begin(waiter, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	killed = env_now();
	subject_kill(holder);
	CHECK_CODE(subject_end(waiter), LOCKSHM_OWNER_DIED);
	CHECK(waiter->answer.report.damage.pid == holder->answer.pid);
	killed = waiter->answered_ns - killed;
	/* The living are not taken for dead. */
	CHECK_CODE(subject_check(waiter, 0), 0);
	holder = subject_start(b);
	CHECK_CODE(subject_acquire(holder, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_MS(15), 0), LOCKSHM_TIMEOUT);
	CHECK_CODE(subject_release(waiter, 0), 0);
	CHECK_CODE(strict(holder, 0, "key"), LOCKSHM_OWNER_DIED);
	CHECK_CODE(subject_release(holder, 0), 0);
	subject_kill(waiter);
	subject_kill(holder);
	env_nothing_left(1);
	return killed;
}

/* A loaded machine may be late, but not for ever. */
static int64_t best(const struct environment *a, const struct environment *b, int64_t bound)
{
	int64_t ns, least = INT64_MAX, until = env_now() + LOCKSHM_SECONDS(ROUNDS_S);

	do {
		env_create(NULL);
		ns = hand_over(a, b);
		least = ns < least ? ns : least;
	} while (least >= bound && env_now() < until);
	return least;
}

static void with_filter(const struct filter *f)
{
	struct environment filtered = { .inherit = apply, .arg = (void *)f }, free_of_it = { .inherit = NULL };
	int64_t bound = LOCKSHM_MS(f->polls ? 25 : 5), both = best(&filtered, &filtered, bound);
	int64_t dies = best(&filtered, &free_of_it, bound), waits = best(&free_of_it, &filtered, bound);

	printf("%-40s hand-over %5.2f ms, by a free one %5.2f, from a free one %5.2f\n", f->name, (double)both / 1e6,
	       (double)dies / 1e6, (double)waits / 1e6);
	CHECK(both < bound && dies < bound && waits < bound);
}

/* ---------------------------------------------------------------- the filter comes late */

static int late_filter(void)
{
	const int calls[] = { SYS_futex_waitv };

	return subject_forbid(calls, 1, EPERM);
}

/* How often this thread has slept. */
static long sleeps(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nvcsw : 0;
}

/* Wait 300 ms for a key that another process holds: asleep. */
static int patient(void)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct timespec before, after;
	int64_t cpu_ns;
	long slept;
	int code;

	request.key = "key";
	request.key_len = 3;
	request.timeout_ns = LOCKSHM_MS(300);
	slept = sleeps();
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	code = lockshm_acquire(my_segment, &request, &my_holds[1]);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	cpu_ns = (after.tv_sec - before.tv_sec) * INT64_C(1000000000) + after.tv_nsec - before.tv_nsec;
	if (code != LOCKSHM_TIMEOUT)
		return code;
	/* Spinning takes all the time it gets, on a loaded machine that is not much; but it never sleeps. */
	return cpu_ns < LOCKSHM_MS(50) && sleeps() > slept ? 0 : LOCKSHM_SYSTEM;
}

/* A worker drops its rights when it has started, and has waited before. */
static void filter_comes_late(void)
{
	struct subject *holder, *waiter;

	env_create(NULL);
	holder = subject_start(NULL);
	waiter = subject_start(NULL);
	CHECK_CODE(strict(holder, 0, "key"), 0);
	CHECK_CODE(subject_acquire(waiter, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_MS(5), 0), LOCKSHM_TIMEOUT);
	CHECK_CODE(subject_call(waiter, patient), 0);
	CHECK_CODE(subject_call(waiter, late_filter), 0);
	CHECK_CODE(subject_call(waiter, patient), 0);
	subject_begin(waiter, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	subject_kill(holder);
	CHECK_CODE(subject_end(waiter), LOCKSHM_OWNER_DIED);
	subject_kill(waiter);
	env_nothing_left(1);
}

int main(void)
{
	unsigned i;

	env_need_robust_futexes();
	for (i = 0; i < FILTERS; i++)
		with_filter(&filters[i]);
	filter_comes_late();
	return 0;
}
