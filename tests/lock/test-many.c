/* SPDX-License-Identifier: MIT */
/* test-many.c - several keys, all or none */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"

static struct lockshm_key key_of(const char *text, int mode)
{
	struct lockshm_key key = LOCKSHM_MANY_KEY(text, mode);

	return key;
}

static struct lockshm_request common(void)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;

	request.ttl_ns = LOCKSHM_FOREVER;
	request.timeout_ns = 0;
	return request;
}

START_TEST(all_keys_are_held_and_released)
{
	struct lockshm_key keys[] = { key_of("a", 0), key_of("b", LOCKSHM_SHARED), key_of("c", 0) };
	struct lockshm_request request = common();
	struct agent *other = agent_start();
	lockshm_hold_t holds[3];
	int i;

	ck_code(lockshm_acquire_many(seg, &request, keys, 3, holds), 0);
	for (i = 0; i < 3; i++) {
		ck_code(lockshm_check(&holds[i], NULL), 0);
		ck_assert_uint_gt(lockshm_token(&holds[i]), 0);
	}
	ck_code(agent_try(other, "a", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(agent_try(other, "b", LOCKSHM_SHARED), 0);
	ck_code(agent_release(other), 0);
	ck_code(agent_try(other, "b", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(lockshm_release_many(holds, 3), 0);
	for (i = 0; i < 3; i++)
		ck_code(lockshm_check(&holds[i], NULL), LOCKSHM_NOT_HELD);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
}
END_TEST

START_TEST(one_refused_key_means_none_is_held)
{
	struct lockshm_key keys[] = { key_of("a", 0), key_of("b", 0), key_of("c", 0), key_of("d", 0) };
	struct lockshm_request request = common();
	struct agent *other = agent_start();
	char name[2] = { (char)('a' + _i), 0 };
	lockshm_hold_t holds[4];
	int i;

	ck_code(agent_acquire(other, name, LOCKSHM_SHARED), 0);
	ck_code(lockshm_acquire_many(seg, &request, keys, 4, holds), LOCKSHM_BUSY);
	for (i = 0; i < 4; i++)
		ck_code(lockshm_check(&holds[i], NULL), LOCKSHM_NOT_HELD);
	ck_assert_uint_eq(stat_now().keys_busy, 1);
	ck_assert_uint_eq(stat_now().requests_used, 1);
	request.timeout_ns = LOCKSHM_MS(20);
	ck_code(lockshm_acquire_many(seg, &request, keys, 4, holds), LOCKSHM_TIMEOUT);
	ck_assert_uint_eq(stat_now().requests_used, 1);
	verify_clean();
}
END_TEST

START_TEST(duplicates_count_once_with_the_stronger_mode)
{
	struct lockshm_key keys[] = { key_of("a", LOCKSHM_SHARED), key_of("b", 0), key_of("a", LOCKSHM_EXCLUSIVE),
				      key_of("a", LOCKSHM_SHARED) };
	struct lockshm_request request = common();
	struct agent *other = agent_start();
	lockshm_hold_t holds[4];
	struct seen seen;

	ck_code(lockshm_acquire_many(seg, &request, keys, 4, holds), 0);
	look("a", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_int_eq(seen.mode, LOCKSHM_EXCLUSIVE);
	ck_code(lockshm_check(&holds[0], NULL), 0);
	ck_code(lockshm_check(&holds[2], NULL), LOCKSHM_NOT_HELD);
	ck_code(lockshm_check(&holds[3], NULL), LOCKSHM_NOT_HELD);
	ck_code(agent_try(other, "a", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(lockshm_release_many(holds, 4), 0);
	ck_code(agent_try(other, "a", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(deadline_is_one_for_all)
{
	struct lockshm_key keys[] = { key_of("a", 0), key_of("b", 0), key_of("c", 0) };
	struct lockshm_request request = common();
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct agent *other = agent_start();
	lockshm_hold_t holds[3];
	int i;

	for (i = 0; i < 3; i++) {
		struct agent_command c = { .op = AGENT_ACQUIRE, .how = LOCKSHM_EXCLUSIVE, .hold = i,
					   .key = { (char)('a' + i) }, .ns = LOCKSHM_MS(60 + 60 * i) };

		ck_code(agent_do(other, c), 0);
	}
	/* Each lease ends within 100 ms of the one before, all three only after 180 ms. */
	request.timeout_ns = LOCKSHM_MS(100);
	request.report = &report;
	ck_code(lockshm_acquire_many(seg, &request, keys, 3, holds), LOCKSHM_TIMEOUT);
	ck_assert_int_lt(report.waited_ns, LOCKSHM_MS(100) + LOCKSHM_SECONDS(1));
	ck_assert_uint_eq(report.token, 0);
}
END_TEST

START_TEST(worst_status_of_all_keys_is_returned)
{
	struct lockshm_key keys[] = { key_of("clean", 0), key_of("torn", 0), key_of("overrun", 0) };
	struct lockshm_request request = common();
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct agent *late = agent_start(), *dies = agent_start();
	lockshm_hold_t holds[3];

	ck_code(agent_do(late, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "overrun", .ns = LOCKSHM_MS(2),
						       .how = LOCKSHM_EXCLUSIVE }),
		0);
	ck_code(agent_acquire(dies, "torn", LOCKSHM_EXCLUSIVE), 0);
	agent_kill(dies);
	request.report = &report;
	request.flags = LOCKSHM_ROBUST;
	request.timeout_ns = PATIENCE;
	ck_code(lockshm_acquire_many(seg, &request, keys, 3, holds), LOCKSHM_OWNER_DIED);
	ck_code(report.damage.status, LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(report.damage.pid, dies->pid);
	ck_code(lockshm_release_many(holds, 3), 0);
}
END_TEST

START_TEST(worst_outcome_of_the_releases_is_returned)
{
	struct lockshm_key keys[] = { key_of("a", 0), key_of("b", 0) };
	struct lockshm_request request = common();
	struct agent *thief = agent_start();
	lockshm_hold_t holds[2];

	request.ttl_ns = LOCKSHM_MS(5);
	request.flags = LOCKSHM_ROBUST;
	ck_code(lockshm_acquire_many(seg, &request, keys, 2, holds), 0);
	pass(now_ns() + LOCKSHM_MS(30));
	ck_code(lockshm_release_many(holds, 2), LOCKSHM_LATE);
	ck_code(lockshm_acquire_many(seg, &request, keys, 2, holds), 0);
	pass(now_ns() + LOCKSHM_MS(30));
	ck_code(agent_try(thief, "a", LOCKSHM_EXCLUSIVE), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(lockshm_release_many(holds, 2), LOCKSHM_LOST);
	ck_code(lockshm_release_many(holds, 2), 0); /* all empty now */
}
END_TEST

START_TEST(release_of_all_skips_what_is_not_held)
{
	struct lockshm_key keys[] = { key_of("a", 0), key_of("b", 0) };
	struct lockshm_request request = common();
	lockshm_hold_t holds[2], copies[2];

	ck_code(lockshm_acquire_many(seg, &request, keys, 2, holds), 0);
	memcpy(copies, holds, sizeof(copies));
	ck_code(lockshm_release_many(copies, 2), 0);
	ck_assert_int_eq(memcmp(copies, holds, sizeof(copies)), 0);
	ck_code(lockshm_check(&holds[0], NULL), 0);
	ck_code(lockshm_release(&holds[1], 0), 0);
	ck_code(lockshm_release_many(holds, 2), 0);
	ck_code(lockshm_check(&holds[0], NULL), LOCKSHM_NOT_HELD);
}
END_TEST

START_TEST(largest_number_of_keys)
{
	struct lockshm_key keys[LOCKSHM_MANY_MAX];
	lockshm_hold_t holds[LOCKSHM_MANY_MAX];
	struct lockshm_request request = common();
	char names[LOCKSHM_MANY_MAX][8];
	unsigned i;

	for (i = 0; i < LOCKSHM_MANY_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		keys[i] = key_of(names[i], 0);
	}
	ck_code(lockshm_acquire_many(seg, &request, keys, LOCKSHM_MANY_MAX, holds), 0);
	ck_assert_uint_eq(stat_now().keys_busy, LOCKSHM_MANY_MAX);
	ck_code(lockshm_release_many(holds, LOCKSHM_MANY_MAX), 0);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
}
END_TEST

START_TEST(key_held_by_the_caller_is_refused_and_nothing_kept)
{
	struct lockshm_key keys[] = { key_of("a", 0), key_of("mine", 0), key_of("z", 0) };
	struct lockshm_request request = common();
	lockshm_hold_t mine, holds[3];

	ck_code(take(&mine, "mine", LOCKSHM_EXCLUSIVE), 0);
	request.timeout_ns = PATIENCE;
	ck_code(lockshm_acquire_many(seg, &request, keys, 3, holds), LOCKSHM_DEADLOCK);
	ck_assert_uint_eq(stat_now().keys_busy, 1);
	ck_code(lockshm_check(&mine, NULL), 0);
}
END_TEST

#define ROUNDS 400

static void crossing_worker(int worker, volatile long *counters)
{
	struct lockshm_key keys[3];
	struct lockshm_request request = common();
	lockshm_hold_t holds[3];
	char names[3][2];
	int i, round;

	request.timeout_ns = PATIENCE;
	for (i = 0; i < 3; i++) { /* each worker names the keys in another order */
		names[i][0] = (char)('a' + (i * (worker % 2 ? 1 : 2) + worker) % 3);
		names[i][1] = '\0';
		keys[i] = key_of(names[i], LOCKSHM_EXCLUSIVE);
	}
	for (round = 0; round < ROUNDS; round++) {
		if (lockshm_acquire_many(seg, &request, keys, 3, holds) != 0)
			_exit(1);
		for (i = 0; i < 3; i++)
			counters[i] = counters[i] + 1;
		if (lockshm_release_many(holds, 3) != 0)
			_exit(2);
	}
	_exit(0);
}

START_TEST(crossing_orders_never_deadlock)
{
	volatile long *counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int i, status;

	ck_assert(counters != MAP_FAILED);
	for (i = 0; i < 4; i++)
		if (fork() == 0)
			crossing_worker(i, counters);
	for (i = 0; i < 4; i++) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	for (i = 0; i < 3; i++)
		ck_assert_int_eq(counters[i], 4 * ROUNDS);
	ck_assert_uint_eq(stat_now().deadlocks, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, all_keys_are_held_and_released);
	tcase_add_loop_test(tc, one_refused_key_means_none_is_held, 0, 4);
	tcase_add_test(tc, duplicates_count_once_with_the_stronger_mode);
	tcase_add_test(tc, deadline_is_one_for_all);
	tcase_add_test(tc, worst_status_of_all_keys_is_returned);
	tcase_add_test(tc, worst_outcome_of_the_releases_is_returned);
	tcase_add_test(tc, release_of_all_skips_what_is_not_held);
	tcase_add_test(tc, largest_number_of_keys);
	tcase_add_test(tc, key_held_by_the_caller_is_refused_and_nothing_kept);
	tcase_add_test(tc, crossing_orders_never_deadlock);
}

int main(void)
{
	return fixture_main("many", add);
}
