/* SPDX-License-Identifier: MIT */
/* test-prepared.c - a prepared key is the key it was made from, for its segment and for no other */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"

static struct lockshm_request request_prepared(lockshm_prepared_t *prepared, int mode)
{
	struct lockshm_request request = request_for("", mode);

	request.key = NULL;
	request.key_len = 0;
	request.prepared = prepared;
	return request;
}

static int take_prepared(lockshm_hold_t *hold, lockshm_prepared_t *prepared, int mode)
{
	struct lockshm_request request = request_prepared(prepared, mode);

	return lockshm_acquire(seg, &request, hold);
}

static lockshm_prepared_t prepare(const char *key)
{
	lockshm_prepared_t prepared;

	memset(&prepared, 0xa5, sizeof(prepared));
	ck_code(lockshm_prepare(seg, &prepared, key, strlen(key)), 0);
	return prepared;
}

START_TEST(prepared_key_and_bytes_are_one_lock)
{
	static const char *const keys[] = { "k", "four", "a key of more than sixteen bytes", NULL };
	char longest[LOCKSHM_KEY_MAX + 1];
	const char *key = keys[_i];
	lockshm_prepared_t prepared;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT, other = LOCKSHM_HOLD_INIT;

	if (!key) {
		memset(longest, 'x', sizeof(longest) - 1);
		longest[sizeof(longest) - 1] = '\0';
		key = longest;
	}
	prepared = prepare(key);
	ck_code(take_prepared(&hold, &prepared, LOCKSHM_EXCLUSIVE), 0);
	ck_code(take(&other, key, LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(take(&hold, key, LOCKSHM_SHARED), 0);
	ck_code(take_prepared(&other, &prepared, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(take_prepared(&other, &prepared, LOCKSHM_SHARED), 0);
	ck_code(lockshm_release(&other, 0), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	/* The second acquire knows its entry. */
	ck_code(take_prepared(&hold, &prepared, LOCKSHM_EXCLUSIVE), 0);
	ck_code(take(&other, key, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_assert_uint_eq(stat_now().locks_known, 1);
	verify_clean();
}
END_TEST

START_TEST(prepared_key_comes_first)
{
	lockshm_prepared_t prepared = prepare("prepared");
	struct lockshm_request request = request_for("bytes", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT, other = LOCKSHM_HOLD_INIT;

	request.prepared = &prepared;
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	ck_code(take(&other, "prepared", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(take(&other, "bytes", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&other, 0), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

START_TEST(only_the_bytes_count_for_acquire_many)
{
	lockshm_prepared_t prepared = prepare("prepared");
	struct lockshm_request common = request_prepared(&prepared, LOCKSHM_EXCLUSIVE);
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("a", 0), LOCKSHM_MANY_KEY("b", 0) };
	lockshm_hold_t holds[2], other = LOCKSHM_HOLD_INIT;

	ck_code(lockshm_acquire_many(seg, &common, keys, 2, holds), 0);
	ck_code(take(&other, "b", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(take_prepared(&other, &prepared, LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&other, 0), 0);
	ck_code(lockshm_release_many(holds, 2), 0);
}
END_TEST

/* Other keys take its entry; it gets another one, with a larger token and its own name. */
START_TEST(prepared_key_survives_the_loss_of_its_entry)
{
	static const char text[] = "the first sixty-four bytes of a key are kept in the segment for humans to read";
	lockshm_prepared_t prepared;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT, other = LOCKSHM_HOLD_INIT;
	struct seen seen;
	uint64_t token;
	unsigned i, k;

	segment_with(64, 64, 8);
	prepared = prepare(text);
	for (k = 0, token = 0; k < 20; k++) {
		char key[16];

		ck_code(take_prepared(&hold, &prepared, LOCKSHM_EXCLUSIVE), 0);
		ck_assert_uint_gt(lockshm_token(&hold), token);
		token = lockshm_token(&hold);
		ck_code(take(&other, text, LOCKSHM_SHARED), LOCKSHM_BUSY);
		look(text, &seen);
		ck_assert_uint_eq(seen.holders, 1);
		ck_assert_uint_eq(seen.key_len, strlen(text));
		ck_code(lockshm_release(&hold, 0), 0);
		for (i = 0; i < 256; i++) {
			snprintf(key, sizeof(key), "other %u %u", k, i);
			ck_code(take(&other, key, LOCKSHM_EXCLUSIVE), 0);
			ck_code(lockshm_release(&other, 0), 0);
		}
	}
	verify_clean();
}
END_TEST

static void refused(lockshm_t *segment, lockshm_prepared_t *prepared)
{
	struct lockshm_request request = request_prepared(prepared, LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;

	ck_code(lockshm_acquire(segment, &request, &hold), LOCKSHM_INVALID);
	request.report = &report;
	ck_code(lockshm_acquire(segment, &request, &hold), LOCKSHM_INVALID);
	ck_assert_ptr_nonnull(strstr(report.error.message, "lockshm_prepare"));
	ck_code(lockshm_check(&hold, NULL), LOCKSHM_NOT_HELD);
}

START_TEST(key_of_another_segment_is_refused)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	lockshm_prepared_t prepared = prepare("k"), blank = LOCKSHM_PREPARED_INIT, odd;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	lockshm_t *second;

	/* A thread that takes part, and one that does not yet. */
	ck_code(lockshm_create(&second, other_name("second"), &options, NULL), 0);
	refused(second, &prepared);
	refused(seg, &blank);
	memset(&odd, 0xff, sizeof(odd));
	refused(seg, &odd);
	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	refused(seg, &blank);
	refused(seg, &odd);
	ck_code(take_prepared(&hold, &prepared, LOCKSHM_EXCLUSIVE), 0);
	refused(second, &prepared);
	ck_code(lockshm_release(&hold, 0), 0);
	lockshm_close(second);
}
END_TEST

START_TEST(key_of_a_removed_segment_is_refused_by_the_new_one)
{
	lockshm_prepared_t prepared = prepare("k");
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	ck_code(take_prepared(&hold, &prepared, LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	lockshm_close(seg);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	ck_code(lockshm_create(&seg, seg_name, NULL, NULL), 0);
	refused(seg, &prepared);
	ck_code(lockshm_prepare(seg, &prepared, "k", 1), 0);
	ck_code(take_prepared(&hold, &prepared, LOCKSHM_EXCLUSIVE), 0);
	refused(seg, &(lockshm_prepared_t)LOCKSHM_PREPARED_INIT);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

START_TEST(prepared_key_outlives_its_handle)
{
	lockshm_prepared_t prepared = prepare("k"), copy = prepared;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT, other = LOCKSHM_HOLD_INIT;

	ck_code(take_prepared(&hold, &prepared, LOCKSHM_EXCLUSIVE), 0);
	lockshm_close(seg);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
	ck_code(take_prepared(&hold, &prepared, LOCKSHM_EXCLUSIVE), 0);
	ck_code(take_prepared(&other, &copy, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(lockshm_acknowledge(&hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

/* Exit status of a child that uses @prepared while its parent holds it, and its own. */
static int child_uses(lockshm_prepared_t *prepared, lockshm_prepared_t *free_one)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	if (take_prepared(&hold, prepared, LOCKSHM_SHARED) != LOCKSHM_BUSY)
		return 1;
	if (take_prepared(&hold, free_one, LOCKSHM_EXCLUSIVE) != 0 || lockshm_release(&hold, 0) != 0)
		return 2;
	return take_prepared(&hold, free_one, LOCKSHM_EXCLUSIVE) != 0 || lockshm_release(&hold, 0) != 0 ? 3 : 0;
}

START_TEST(child_uses_its_parents_keys_at_once)
{
	lockshm_prepared_t held = prepare("held"), known = prepare("known"), fresh = prepare("fresh");
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int status;
	pid_t pid;

	ck_code(take_prepared(&hold, &known, LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(take_prepared(&hold, &held, LOCKSHM_EXCLUSIVE), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		status = child_uses(&held, &known);
		_exit(status ? status : child_uses(&held, &fresh) ? 10 : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with 0x%x", status);
	ck_code(lockshm_check(&hold, NULL), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	verify_clean();
}
END_TEST

#define ROUNDS 5000

struct crew {
	lockshm_prepared_t prepared;
	int inside;
	int wrong;
};

static void *take_turns(void *arg)
{
	struct crew *crew = arg;
	struct lockshm_request request = request_prepared(&crew->prepared, LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int i;

	request.timeout_ns = PATIENCE;
	for (i = 0; i < ROUNDS; i++) {
		if (lockshm_acquire(seg, &request, &hold) != 0)
			__atomic_fetch_add(&crew->wrong, 1, __ATOMIC_RELAXED);
		else if (__atomic_fetch_add(&crew->inside, 1, __ATOMIC_RELAXED) != 0)
			__atomic_fetch_add(&crew->wrong, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&crew->inside, 1, __ATOMIC_RELAXED);
		if (lockshm_release(&hold, 0) != 0)
			__atomic_fetch_add(&crew->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

START_TEST(threads_share_one_prepared_key)
{
	struct crew crew = { .prepared = prepare("k") };
	pthread_t threads[2];
	int i;

	for (i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, take_turns, &crew), 0);
	for (i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(crew.wrong, 0);
	ck_assert_uint_eq(stat_now().acquires, 2 * ROUNDS);
	ck_assert_uint_eq(stat_now().locks_known, 1);
	verify_clean();
}
END_TEST

START_TEST(wrong_arguments_are_refused)
{
	lockshm_prepared_t prepared = LOCKSHM_PREPARED_INIT, before = prepared;
	static char longer[LOCKSHM_KEY_MAX + 1];

	ck_code(lockshm_prepare(NULL, &prepared, "k", 1), LOCKSHM_INVALID);
	ck_code(lockshm_prepare(seg, NULL, "k", 1), LOCKSHM_INVALID);
	ck_code(lockshm_prepare(seg, &prepared, NULL, 1), LOCKSHM_INVALID);
	ck_code(lockshm_prepare(seg, &prepared, "k", 0), LOCKSHM_INVALID);
	ck_code(lockshm_prepare(seg, &prepared, longer, sizeof(longer)), LOCKSHM_KEY_TOO_LONG);
	ck_assert_mem_eq(&prepared, &before, sizeof(prepared));
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, prepared_key_and_bytes_are_one_lock, 0, 4);
	tcase_add_test(tc, prepared_key_comes_first);
	tcase_add_test(tc, only_the_bytes_count_for_acquire_many);
	tcase_add_test(tc, prepared_key_survives_the_loss_of_its_entry);
	tcase_add_test(tc, key_of_another_segment_is_refused);
	tcase_add_test(tc, key_of_a_removed_segment_is_refused_by_the_new_one);
	tcase_add_test(tc, prepared_key_outlives_its_handle);
	tcase_add_native(tc, child_uses_its_parents_keys_at_once);
	tcase_add_test(tc, threads_share_one_prepared_key);
	tcase_add_test(tc, wrong_arguments_are_refused);
}

int main(void)
{
	return fixture_main("prepared", add);
}
