/* SPDX-License-Identifier: MIT */
/*
 * test-global-tries.c - a try of global keys waits for replies of Redis, 1.5 s at most in all
 *
 * The bridge is stopped while a key is wanted, so each key takes its time.  Once the 1.5 s are over no key is waited for,
 * whichever threads the machine delays.
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"
#include "support/loops.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define KEYS 40
#define TAKES LOCKSHM_MS(150) /* each of them */
#define TRY_ENDS LOCKSHM_MS(1500)

static struct task task;
static lockshm_hold_t holds[KEYS];
static struct lockshm_key keys[KEYS];
static char names[KEYS][16];

/* Leases outlast the stops of the bridge. */
static void host_with_long_leases(void)
{
	struct lockshm_create_options options = host_options();

	options.redis_ttl_ns = LOCKSHM_SECONDS(60);
	options.host_leases = 64;
	options.keys = 512;
	host_make(0, &options);
}

static void make_try(size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "key %zu", i);
		keys[i] = (struct lockshm_key)LOCKSHM_MANY_KEY(names[i], 0);
	}
	task_init(&task, "", LOCKSHM_EXCLUSIVE);
	task.request.flags = LOCKSHM_GLOBAL;
	task.request.timeout_ns = 0;
}

/* ---------------------------------------------------------------- a thread that blocks */

static bool stops_the_bridge; /* where this thread sleeps on another word than before */
static long last_word;

/* Called by the library for its futexes. */
long syscall(long nr, ...)
{
	static long (*next)(long, ...);
	long a[6], word;
	va_list args;
	int i;

	va_start(args, nr);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	/* The lease's word is the first of those that the thread sleeps on. */
	word = nr == SYS_futex_waitv && a[1] > 0		 ? (long)((const uint64_t *)a[0])[1] :
	       nr == SYS_futex && a[1] == FUTEX_WAIT_BITSET ? a[0] :
								  0;
	if (stops_the_bridge && word && word != last_word) {
		last_word = word;
		bridge_freeze(0);
		pass(now_ns() + TAKES);
		bridge_thaw(0);
	}
	return next(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Some keys may have their leases before the bridge stops; ten of them may not. */
START_TEST(a_thread_waits_once_for_all_keys)
{
	host_with_long_leases();
	make_try(KEYS);
	stops_the_bridge = true;
	ck_code(lockshm_acquire_many(hosts[0].s, &task.request, keys, KEYS, holds), LOCKSHM_BRIDGE);
	stops_the_bridge = false;
	ck_contains(task.report.error.message, "does not answer");
	/* Not held, and nothing is left: all at once in another try. */
	task.request.timeout_ns = PATIENCE;
	ck_code(lockshm_acquire_many(hosts[0].s, &task.request, keys, KEYS, holds), 0);
	ck_code(lockshm_release_many(holds, KEYS), 0);
}
END_TEST

/* Under a lease that this host has each key takes no time. */
START_TEST(a_try_of_many_keys)
{
	host_with_long_leases();
	make_try(KEYS);
	ck_code(lockshm_acquire_many(hosts[0].s, &task.request, keys, KEYS, holds), 0);
	ck_code(lockshm_release_many(holds, KEYS), 0);
}
END_TEST

/* ---------------------------------------------------------------- loops */

static lockshm_loop_t *loop_of_host(void)
{
	seg = hosts[0].s;
	return loop_new();
}

/* The bridge answers a second after the first key was wanted, and a second after the next one: that is too late. */
START_TEST(a_loop_waits_once_for_all_keys)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	lockshm_loop_t *loop;
	int i;

	host_with_long_leases();
	loop = loop_of_host();
	make_try(3);
	bridge_freeze(0);
	ck_code(lockshm_loop_acquire_many(loop, &task.request, keys, 3, holds, NULL), LOCKSHM_PENDING);
	for (i = 0; i < 3 && lockshm_loop_next(loop, &outcome) == 0; i++) {
		pass(now_ns() + LOCKSHM_SECONDS(1));
		bridge_thaw(0);
		loop_await(loop);
		bridge_freeze(0);
	}
	if (i == 3)
		ck_assert_int_eq(lockshm_loop_next(loop, &outcome), 1);
	bridge_thaw(0);
	ck_code(outcome.status, LOCKSHM_BRIDGE);
	ck_code(lockshm_check(&holds[0], NULL), LOCKSHM_NOT_HELD);
}
END_TEST

/* Told, and not collected before another request of the host had the key: it does not begin anew. */
START_TEST(a_late_loop_gets_no_more_time)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct agent *a;
	lockshm_loop_t *loop;

	host_with_long_leases();
	a = on_host(0);
	loop = loop_of_host();
	task_init(&task, K, LOCKSHM_EXCLUSIVE);
	task.request.flags = LOCKSHM_GLOBAL;
	task.request.timeout_ns = 0;
	ck_code(task_acquire(loop, &task), LOCKSHM_PENDING);
	loop_await(loop);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	pass(now_ns() + TRY_ENDS);
	ck_code(agent_release(a), 0);
	redis_has("EXISTS lk:" K, "0");
	bridge_freeze(0);
	ck_assert_int_eq(lockshm_loop_next(loop, &outcome), 1);
	bridge_thaw(0);
	ck_code(outcome.status, LOCKSHM_BRIDGE);
	ck_code(lockshm_check(&task.hold, NULL), LOCKSHM_NOT_HELD);
}
END_TEST

static void add_cases(TCase *tc)
{
	tcase_add_test(tc, a_thread_waits_once_for_all_keys);
	tcase_add_test(tc, a_try_of_many_keys);
	tcase_add_test(tc, a_loop_waits_once_for_all_keys);
	tcase_add_test(tc, a_late_loop_gets_no_more_time);
}

int main(void)
{
	return hosts_main("global-tries", add_cases);
}
