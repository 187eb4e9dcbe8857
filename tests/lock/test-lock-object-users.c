/* SPDX-License-Identifier: MIT */
/* test-lock-object-users.c - a lock object of several threads, in a child, in another segment; what many objects take */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/objects.h"

/* ---------------------------------------------------------------- another thread, a child, another segment */

static void *use_thrice(void *arg)
{
	lockshm_lock_t *l = arg;
	intptr_t wrong = 0;
	int i;

	for (i = 0; i < 3; i++) {
		wrong |= lockshm_lock(l, seg) != 0;
		wrong |= !is_fast(l, true);
		wrong |= lockshm_unlock(l) != 0;
	}
	return (void *)wrong;
}

START_TEST(threads_use_it_one_after_the_other)
{
	lockshm_lock_t *l = made("k", X);
	pthread_t thread;
	void *wrong;
	int i;

	for (i = 0; i < 4; i++) {
		ck_assert_ptr_null(use_thrice(l));
		ck_assert_int_eq(pthread_create(&thread, NULL, use_thrice, l), 0);
		ck_assert_int_eq(pthread_join(thread, &wrong), 0);
		ck_assert_ptr_null(wrong);
	}
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

static void *not_mine(void *arg)
{
	lockshm_lock_t *l = arg;

	return (void *)(intptr_t)(lockshm_unlock(l) != LOCKSHM_NOT_HELD ||
				  lockshm_check(lockshm_lock_hold(l), NULL) != LOCKSHM_NOT_HELD);
}

START_TEST(another_threads_hold_is_not_held)
{
	lockshm_lock_t *l = made("k", X);
	pthread_t thread;
	void *wrong;
	int i;

	for (i = 0; i < 2; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		if (i)
			ck_code(lockshm_check(lockshm_lock_hold(l), NULL), 0);
		ck_assert_int_eq(pthread_create(&thread, NULL, not_mine, l), 0);
		ck_assert_int_eq(pthread_join(thread, &wrong), 0);
		ck_assert_ptr_null(wrong);
		ck_code(lockshm_unlock(l), 0);
	}
}
END_TEST

static void *lock_and_end(void *l)
{
	return (void *)(intptr_t)lockshm_lock(l, seg);
}

START_TEST(left_held_by_a_thread_that_ended)
{
	lockshm_lock_t *l = made("k", X);
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, lock_and_end, l), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_code(lockshm_unlock(l), LOCKSHM_NOT_HELD);
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
}
END_TEST

static int child_of_a_holder(lockshm_lock_t *held, lockshm_lock_t *idle)
{
	int i;

	if (lockshm_unlock(held) != LOCKSHM_NOT_HELD || lockshm_check(lockshm_lock_hold(held), NULL) != LOCKSHM_NOT_HELD)
		return 1;
	if (lockshm_trylock(held, seg) != LOCKSHM_BUSY)
		return 2;
	for (i = 0; i < 3; i++)
		if (lockshm_lock(idle, seg) != 0 || lockshm_unlock(idle) != 0)
			return 3;
	return is_fast(idle, false) ? 0 : 4;
}

START_TEST(child_holds_nothing_and_uses_it_at_once)
{
	lockshm_lock_t *held = made("held", X);
	static lockshm_lock_t idle;
	int status;
	pid_t pid;

	object_for(&idle, "idle");
	ck_code(lockshm_lock(&idle, seg), 0);
	ck_code(lockshm_unlock(&idle), 0);
	ck_code(lockshm_lock(held, seg), 0);
	if (_i)
		ck_code(lockshm_check(lockshm_lock_hold(held), NULL), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(child_of_a_holder(held, &idle));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with 0x%x", status);
	ck_code(lockshm_unlock(held), 0);
	ck_code(lockshm_lock(&idle, seg), 0);
	ck_code(lockshm_unlock(&idle), 0);
	verify_clean();
}
END_TEST

START_TEST(removed_segment)
{
	lockshm_lock_t *l = made("k", X);

	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	ck_code(lockshm_unlock(l), 0);
	ck_code(lockshm_lock(l, seg), LOCKSHM_NO_SEGMENT);
	lockshm_close(seg);
	ck_code(lockshm_unlock(l), LOCKSHM_NOT_HELD);
	ck_code(lockshm_create(&seg, seg_name, NULL, NULL), 0);
	/* The same key in the new segment. */
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
	ck_assert_uint_eq(stat_now().acquires, 1);
}
END_TEST

START_TEST(closed_segment)
{
	lockshm_lock_t *l = made("k", X);

	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
	ck_code(lockshm_lock(l, seg), 0);
	lockshm_close(seg);
	ck_code(lockshm_unlock(l), LOCKSHM_NOT_HELD);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
	ck_code(lockshm_unlock(l), LOCKSHM_NOT_HELD);
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
}
END_TEST

START_TEST(long_key_is_for_one_segment)
{
	char key[LOCKSHM_KEY_SHOWN_MAX + 2];
	lockshm_t *second;
	lockshm_lock_t *l;
	int i;

	memset(key, 'k', sizeof(key) - 1);
	ck_code(lockshm_create(&second, other_name("second"), NULL, NULL), 0);
	for (i = 0; i < 2; i++) {
		key[LOCKSHM_KEY_SHOWN_MAX + 1 - i] = '\0';
		l = made(key, X);
		ck_code(lockshm_lock(l, seg), 0);
		ck_code(lockshm_lock(l, second), LOCKSHM_INVALID);
		ck_code(lockshm_unlock(l), 0);
		ck_code(lockshm_lock(l, second), i ? 0 : LOCKSHM_INVALID);
		ck_code(lockshm_unlock(l), i ? 0 : LOCKSHM_NOT_HELD);
		ck_code(lockshm_lock(l, seg), 0);
		ck_code(lockshm_unlock(l), 0);
	}
	lockshm_close(second);
}
END_TEST

/* ---------------------------------------------------------------- entries and records */

/* Other keys take its entry; it gets another one, with a larger token and its own name. */
START_TEST(object_survives_the_loss_of_its_entry)
{
	static const char text[] = "the first sixty-four bytes of a key are kept in the segment for humans to read";
	lockshm_hold_t other = LOCKSHM_HOLD_INIT;
	uint64_t token = 0;
	struct seen seen;
	lockshm_lock_t *l;
	unsigned i, k;

	segment_with(64, 64, 8);
	l = made(text, X);
	for (k = 0; k < 20; k++) {
		char key[16];

		ck_code(lockshm_lock(l, seg), 0);
		ck_assert_uint_gt(lockshm_token(lockshm_lock_hold(l)), token);
		token = lockshm_token(lockshm_lock_hold(l));
		ck_code(take(&other, text, S), LOCKSHM_BUSY);
		look(text, &seen);
		ck_assert_uint_eq(seen.holders, 1);
		ck_assert_uint_eq(seen.key_len, strlen(text));
		ck_code(lockshm_unlock(l), 0);
		for (i = 0; i < 256; i++) {
			snprintf(key, sizeof(key), "other %u %u", k, i);
			ck_code(take(&other, key, X), 0);
			ck_code(lockshm_release(&other, 0), 0);
		}
	}
	verify_clean();
}
END_TEST

#define IDLE 1000

static void *use_many(void *arg)
{
	lockshm_lock_t *mine = calloc(IDLE, sizeof(*mine));
	struct lockshm_request request;
	intptr_t wrong = !mine;
	char key[16];
	int i, k;

	(void)arg;
	for (i = 0; !wrong && i < IDLE; i++) {
		snprintf(key, sizeof(key), "key %d", i % 50);
		request = request_for(key, S);
		wrong = lockshm_lock_init(&mine[i], seg, &request) != 0;
	}
	for (k = 0; k < 3; k++)
		for (i = 0; !wrong && i < IDLE; i++)
			wrong = lockshm_timedlock(&mine[i], seg, PATIENCE) != 0 || lockshm_unlock(&mine[i]) != 0;
	free(mine);
	return (void *)wrong;
}

/* Eight threads with 1,000 objects each need no more records than plain acquires: one each at a time. */
START_TEST(idle_objects_reserve_nothing)
{
	pthread_t threads[8];
	void *wrong;
	int i;

	segment_with(256, 128, 16);
	for (i = 0; i < 8; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, use_many, NULL), 0);
	for (i = 0; i < 8; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
		ck_assert_ptr_null(wrong);
	}
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

/* As many locked objects as there are records; then none is left, and each one that is unlocked is enough. */
START_TEST(held_objects_use_up_the_records)
{
	lockshm_lock_t l[64], last, most;
	struct lockshm_request request;
	char key[16];
	unsigned n, i;
	int code = 0;

	segment_with(256, 32, 8);
	object_for(&last, "last");
	object_for(&most, "most");
	ck_code(lockshm_lock(&last, seg), 0);
	ck_code(lockshm_unlock(&last), 0);
	for (n = 0; n < 64 && code == 0; n += code == 0) {
		snprintf(key, sizeof(key), "key %u", n);
		request = request_for(key, X);
		ck_code(lockshm_lock_init(&l[n], seg, &request), 0);
		code = lockshm_lock(&l[n], seg);
	}
	ck_code(code, LOCKSHM_FULL);
	ck_assert_uint_ge(n, stat_now().requests - 1);
	ck_code(lockshm_lock(&last, seg), n == stat_now().requests ? LOCKSHM_FULL : 0);
	(void)lockshm_unlock(&last);
	ck_code(lockshm_unlock(&l[0]), 0);
	ck_code(lockshm_lock(&last, seg), 0);
	ck_code(lockshm_unlock(&last), 0);
	ck_code(lockshm_lock(&most, seg), 0);
	ck_code(lockshm_unlock(&most), 0);
	for (i = 1; i < n; i++)
		ck_code(lockshm_unlock(&l[i]), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, threads_use_it_one_after_the_other);
	tcase_add_test(tc, another_threads_hold_is_not_held);
	tcase_add_test(tc, left_held_by_a_thread_that_ended);
	if (!emulated())
		tcase_add_loop_test(tc, child_holds_nothing_and_uses_it_at_once, 0, 2);
	tcase_add_test(tc, removed_segment);
	tcase_add_test(tc, closed_segment);
	tcase_add_test(tc, long_key_is_for_one_segment);
	tcase_add_test(tc, object_survives_the_loss_of_its_entry);
	tcase_add_test(tc, idle_objects_reserve_nothing);
	tcase_add_test(tc, held_objects_use_up_the_records);
}

int main(void)
{
	return fixture_main("lock-object-users", add);
}
