/* SPDX-License-Identifier: MIT */
/* test-acquire.c - exclusive locks: taken, refused, waited for, handed on; keys are bytes */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"

static void reports_a_free_key(const struct lockshm_report *report, const lockshm_hold_t *hold)
{
	ck_assert_uint_eq(report->size, sizeof(*report));
	ck_assert_uint_eq(report->token, lockshm_token(hold));
	ck_assert_int_eq(report->slept_ns, 0);
	ck_assert_int_ge(report->waited_ns, 0);
	ck_assert_int_eq(report->damage.status, 0);
	ck_assert_int_eq(report->error.code, 0);
	ck_assert_int_eq(report->error.sys_errno, 0);
	ck_assert_int_eq(report->error.table, 0);
	ck_assert_str_eq(report->error.message, "");
	ck_assert_int_eq(report->blocker.state, 0);
}

START_TEST(acquire_free_lock_gives_token_and_report)
{
	int i;

	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold;

	request.report = &report;
	/* The first is a thread's first, the second takes a free key at once. */
	for (i = 0; i < 2; i++) {
		memset(&report, 0xff, sizeof(report));
		report.size = sizeof(report);
		memset(&hold, 0xff, sizeof(hold)); /* any memory will do */
		ck_code(lockshm_acquire(seg, &request, &hold), 0);
		ck_assert_uint_gt(lockshm_token(&hold), stat_now().token_base);
		reports_a_free_key(&report, &hold);
		ck_code(lockshm_check(&hold, NULL), 0);
		ck_code(lockshm_release(&hold, 0), 0);
	}
}
END_TEST

/* What a call that failed left there is gone by the next one, whatever way that takes. */
START_TEST(a_report_may_be_used_again)
{
	struct agent *a = agent_start();
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int way;

	request.report = &report;
	request.timeout_ns = 0;
	request.ttl_ns = LOCKSHM_SECONDS(30);
	for (way = 0; way < 5; way++) {
		ck_code(agent_acquire(a, "k", LOCKSHM_SHARED), 0);
		request.mode = LOCKSHM_EXCLUSIVE;
		request.flags = 0;
		ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_BUSY);
		ck_code(report.error.code, LOCKSHM_BUSY);
		ck_assert_int_eq(report.blocker.state, LOCKSHM_HOLDING);
		request.mode = way == 1 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE; /* beside a reader */
		request.tag = way == 2 ? "tagged" : NULL;
		request.flags = way == 3 ? LOCKSHM_AUTO_RENEW : way == 4 ? LOCKSHM_ROBUST : 0;
		if (way != 1)
			ck_code(agent_release(a), 0);
		ck_code(lockshm_acquire(seg, &request, &hold), 0);
		reports_a_free_key(&report, &hold);
		ck_code(lockshm_release(&hold, 0), 0);
		if (way == 1)
			ck_code(agent_release(a), 0);
	}
}
END_TEST

START_TEST(release_twice_is_not_held)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_release(&hold, 0), LOCKSHM_NOT_HELD);
	ck_code(lockshm_check(&hold, NULL), LOCKSHM_NOT_HELD);
	ck_assert_uint_eq(lockshm_token(&hold), 0);
}
END_TEST

START_TEST(try_on_held_is_busy_and_leaves_nothing)
{
	struct agent *a = agent_start(), *b = agent_start();
	struct seen seen;

	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_try(b, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_try(b, "k", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(b->answer.report.error.code, LOCKSHM_BUSY);
	ck_assert_uint_eq(b->answer.report.token, 0);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_uint_eq(seen.waiters, 0);
	ck_code(agent_release(b), LOCKSHM_NOT_HELD);
	ck_code(agent_release(a), 0);
	ck_code(agent_try(b, "k", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(waiter_is_granted_by_release)
{
	struct agent *a = agent_start(), *b = agent_start();

	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(b, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_int_gt(b->answer.report.waited_ns, 0);
	ck_assert_int_le(b->answer.report.slept_ns, b->answer.report.waited_ns);
	ck_assert_uint_gt(b->answer.token, a->answer.token);
	ck_code(agent_release(b), 0);
	ck_assert_uint_eq(stat_now().waits, 1);
	verify_clean();
}
END_TEST

START_TEST(waiter_reports_its_sleep)
{
	struct agent *a = agent_start(), *b = agent_start();
	int64_t seen_waiting;

	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(b, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	seen_waiting = now_ns();
	pass(seen_waiting + LOCKSHM_MS(100)); /* far beyond any spinning */
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_int_ge(b->answer.report.waited_ns, LOCKSHM_MS(20));
	ck_assert_int_ge(b->answer.report.slept_ns, LOCKSHM_MS(10));
}
END_TEST

START_TEST(wait_survives_signal_handlers)
{
	struct agent *a = agent_start(), *b = agent_start();
	int i;

	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(b, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	for (i = 0; i < 20; i++) {
		ck_assert_int_eq(kill(b->pid, SIGUSR1), 0);
		pass(now_ns() + LOCKSHM_MS(1));
	}
	ck_code(agent_poll(b), AGENT_BLOCKED);
	ck_assert(agent_waits(b, "k"));
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
}
END_TEST

START_TEST(keys_are_independent)
{
	struct agent *a = agent_start(), *b = agent_start();

	ck_code(agent_acquire(a, "one", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(b, "two", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_code(agent_try(a, "two", LOCKSHM_SHARED), LOCKSHM_BUSY);
}
END_TEST

static int take_bytes(lockshm_hold_t *hold, const void *key, size_t len)
{
	struct lockshm_request request = request_for("", LOCKSHM_EXCLUSIVE);

	request.key = key;
	request.key_len = len;
	return lockshm_acquire(seg, &request, hold);
}

START_TEST(keys_are_any_bytes)
{
	static const struct {
		const char *bytes;
		size_t len;
	} keys[] = { { "a", 1 }, { "a\0", 2 }, { "a\0\0", 3 }, { "\0", 1 }, { "\xff\xfe", 2 }, { "a\0b", 3 }, { "a\0c", 3 } };
	lockshm_hold_t holds[7];
	unsigned i;

	for (i = 0; i < 7; i++)
		ck_code(take_bytes(&holds[i], keys[i].bytes, keys[i].len), 0);
	for (i = 0; i < 7; i++)
		ck_code(lockshm_release(&holds[i], 0), 0);
	ck_assert_uint_eq(stat_now().keys_known, 7);
}
END_TEST

START_TEST(longest_keys_differ_in_their_last_byte)
{
	char *key = malloc(LOCKSHM_KEY_MAX + 1);
	lockshm_hold_t one, two, again;

	ck_assert_ptr_nonnull(key);
	memset(key, 'x', LOCKSHM_KEY_MAX + 1);
	ck_code(take_bytes(&one, key, LOCKSHM_KEY_MAX), 0);
	ck_assert_int_lt(take_bytes(&again, key, LOCKSHM_KEY_MAX), 0); /* held by this very thread */
	key[LOCKSHM_KEY_MAX - 1] = 'y';
	ck_code(take_bytes(&two, key, LOCKSHM_KEY_MAX), 0);
	ck_code(take_bytes(&again, key, LOCKSHM_KEY_MAX - 1), 0);
	ck_code(take_bytes(&again, key, LOCKSHM_KEY_MAX + 1), LOCKSHM_KEY_TOO_LONG);
	free(key);
}
END_TEST

#define ROUNDS 3000
#define WORKERS 4

static void count_up(volatile long *counter)
{
	struct lockshm_request request = request_for("counter", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;
	int i;

	request.timeout_ns = PATIENCE;
	for (i = 0; i < ROUNDS; i++) {
		if (lockshm_acquire(seg, &request, &hold) != 0)
			_exit(1);
		*counter = *counter + 1; /* two steps on purpose */
		if (lockshm_release(&hold, 0) != 0)
			_exit(2);
	}
	_exit(0);
}

START_TEST(counter_loses_no_update)
{
	volatile long *counter = mmap(NULL, sizeof(*counter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int i, status;

	ck_assert(counter != MAP_FAILED);
	for (i = 0; i < WORKERS; i++)
		if (fork() == 0)
			count_up(counter);
	for (i = 0; i < WORKERS; i++) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	ck_assert_int_eq(*counter, WORKERS * ROUNDS);
	ck_assert_uint_eq(stat_now().acquires, WORKERS * ROUNDS);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, acquire_free_lock_gives_token_and_report);
	tcase_add_test(tc, a_report_may_be_used_again);
	tcase_add_test(tc, release_twice_is_not_held);
	tcase_add_test(tc, try_on_held_is_busy_and_leaves_nothing);
	tcase_add_test(tc, waiter_is_granted_by_release);
	tcase_add_test(tc, waiter_reports_its_sleep);
	tcase_add_test(tc, wait_survives_signal_handlers);
	tcase_add_test(tc, keys_are_independent);
	tcase_add_test(tc, keys_are_any_bytes);
	tcase_add_test(tc, longest_keys_differ_in_their_last_byte);
	tcase_add_test(tc, counter_loses_no_update);
}

int main(void)
{
	return fixture_main("acquire", add);
}
