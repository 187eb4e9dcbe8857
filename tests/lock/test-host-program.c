/* SPDX-License-Identifier: MIT */
/* test-host-program.c - the library in a program with much thread-local data, all thread keys in use, and small
 * stacks */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "support/fixture.h"

/* More than fits a small stack; some C libraries put it on the stack of each thread. */
static __thread volatile char program_data[1 << 20];

START_TEST(service_thread_runs_in_a_program_with_much_thread_local_data)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t renewed = LOCKSHM_HOLD_INIT, moved = LOCKSHM_HOLD_INIT;

	program_data[sizeof(program_data) - 1] = 1;
	request.flags = LOCKSHM_AUTO_RENEW;
	request.ttl_ns = LOCKSHM_SECONDS(5);
	ck_code(lockshm_acquire(seg, &request, &renewed), 0);
	ck_code(take(&moved, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_move(&moved, LOCKSHM_TO_PROCESS), 0);
	ck_code(lockshm_release(&moved, 0), 0);
	ck_code(lockshm_release(&renewed, 0), 0);
}
END_TEST

/* ---------------------------------------------------------------- thread keys */

static pthread_key_t keys[4096];
static unsigned n_keys;
static int destroyed;
static lockshm_hold_t hold;
static struct lockshm_report report = LOCKSHM_REPORT_INIT;

static void destroy(void *value)
{
	ck_assert_ptr_eq(value, &destroyed);
	destroyed++;
}

static void *take_part(void *unused)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);
	unsigned i;
	int err;

	(void)unused;
	ck_assert_int_eq(pthread_setspecific(keys[n_keys - 1], &destroyed), 0);
	request.report = &report;
	err = lockshm_acquire(seg, &request, &hold);
	for (i = 0; i + 1 < n_keys; i++)
		ck_assert_ptr_null(pthread_getspecific(keys[i]));
	return (void *)(intptr_t)err;
}

START_TEST(program_that_has_taken_all_thread_keys_keeps_them)
{
	pthread_t thread;
	void *err;

	while (n_keys < sizeof(keys) / sizeof(keys[0]) && pthread_key_create(&keys[n_keys], destroy) == 0)
		n_keys++;
	ck_assert_uint_gt(n_keys, 1);
	ck_assert_uint_lt(n_keys, sizeof(keys) / sizeof(keys[0]));
	ck_assert_int_eq(pthread_create(&thread, NULL, take_part, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, &err), 0);
	ck_code((int)(intptr_t)err, LOCKSHM_SYSTEM);
	ck_assert_int_eq(report.error.sys_errno, EAGAIN);
	ck_assert_int_eq(destroyed, 1);
	ck_assert_uint_eq(stat_now().owners_used, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, service_thread_runs_in_a_program_with_much_thread_local_data);
	tcase_add_test(tc, program_that_has_taken_all_thread_keys_keeps_them);
}

int main(void)
{
	return fixture_main("guest", add);
}
