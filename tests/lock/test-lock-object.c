/* SPDX-License-Identifier: MIT */
/* test-lock-object.c - a lock object is lockshm_acquire() and lockshm_release() with a request that was checked once */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/objects.h"

/* ---------------------------------------------------------------- one thread */

START_TEST(object_and_bytes_are_one_lock)
{
	static const char *const keys[] = { "k", "four", "a key of more than sixteen bytes", NULL };
	char longest[LOCKSHM_KEY_MAX + 1];
	const char *key = keys[_i];
	lockshm_hold_t other = LOCKSHM_HOLD_INIT;
	lockshm_lock_t *l;
	int i;

	if (!key) {
		memset(longest, 'x', sizeof(longest) - 1);
		longest[sizeof(longest) - 1] = '\0';
		key = longest;
	}
	l = made(key, X);
	for (i = 0; i < 3; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		ck_assert(is_fast(l, true));
		ck_code(take(&other, key, S), LOCKSHM_BUSY);
		ck_code(lockshm_unlock(l), 0);
		ck_assert(is_fast(l, false));
		ck_code(take(&other, key, S), 0);
		ck_code(lockshm_trylock(l, seg), LOCKSHM_BUSY);
		ck_code(lockshm_release(&other, 0), 0);
	}
	ck_assert_uint_eq(stat_now().keys_known, 1);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

START_TEST(object_of_a_plain_request_has_the_defaults)
{
	static lockshm_lock_t l;
	lockshm_hold_t other = LOCKSHM_HOLD_INIT;
	struct seen seen;
	int64_t left;
	int i;

	object_for(&l, "report");
	for (i = 0; i < 3; i++) {
		ck_code(lockshm_lock(&l, seg), 0);
		look("report", &seen);
		ck_assert_uint_eq(seen.holders, 1);
		ck_assert_int_eq(seen.mode, X);
		ck_assert_uint_eq(seen.key_len, 6);
		ck_code(take(&other, "report", S), LOCKSHM_BUSY);
		ck_code(lockshm_check(lockshm_lock_hold(&l), &left), 0);
		ck_assert_int_gt(left, LOCKSHM_SECONDS(1));
		ck_assert_int_le(left, LOCKSHM_SECONDS(31));
		ck_code(lockshm_unlock(&l), 0);
	}
}
END_TEST

START_TEST(shared_objects_hold_together)
{
	lockshm_lock_t one, two;
	struct lockshm_request request = request_for("k", S);
	int i;

	ck_code(lockshm_lock_init(&one, seg, &request), 0);
	ck_code(lockshm_lock_init(&two, seg, &request), 0);
	for (i = 0; i < 3; i++) {
		ck_code(lockshm_lock(&one, seg), 0);
		ck_code(lockshm_lock(&two, seg), 0);
		/* Not the newest first, so that one dies inside the queue. */
		ck_code(lockshm_unlock(i & 1 ? &one : &two), 0);
		ck_code(lockshm_unlock(i & 1 ? &two : &one), 0);
		verify_clean();
	}
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

/* Key, tag, mode and lease are the object's at each use, whatever used its record in between. */
START_TEST(record_says_what_the_object_says)
{
	struct lockshm_request request = request_for("k", S), between = request_for("other", X);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	char tag[] = "a tag", key[] = "k";
	struct seen seen;
	lockshm_lock_t *l;
	int i;

	request.key = key;
	request.tag = tag;
	request.ttl_ns = LOCKSHM_SECONDS(40);
	between.tag = "between";
	l = made_with(&request);
	memset(tag, '-', sizeof(tag) - 1);
	key[0] = '-';
	for (i = 0; i < 12; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		look("k", &seen);
		ck_assert_uint_eq(seen.holders, 1);
		ck_assert_int_eq(seen.requests[0].mode, S);
		ck_assert_str_eq(seen.requests[0].tag, "a tag");
		ck_assert_int_gt(seen.requests[0].expires_in_ns, LOCKSHM_SECONDS(5));
		ck_assert_int_lt(seen.requests[0].expires_in_ns, LOCKSHM_SECONDS(41));
		ck_code(lockshm_unlock(l), 0);
		if (i % 3 == 0)
			continue;
		between.flags = i & 1 ? LOCKSHM_AUTO_RENEW : 0;
		between.ttl_ns = i & 1 ? LOCKSHM_SECONDS(50) : LOCKSHM_FOREVER;
		ck_code(lockshm_acquire(seg, &between, &hold), 0);
		look("k", &seen);
		ck_assert_uint_eq(seen.holders, 0);
		ck_code(lockshm_release(&hold, 0), 0);
		verify_clean();
	}
}
END_TEST

START_TEST(tokens_rise)
{
	lockshm_lock_t *l = made("k", X);
	uint64_t last = 0;
	int i;

	for (i = 0; i < 5; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		ck_assert_uint_gt(lockshm_token(lockshm_lock_hold(l)), last);
		last = lockshm_token(lockshm_lock_hold(l));
		ck_code(lockshm_unlock(l), 0);
		ck_assert(is_fast(l, false));
		ck_code(lockshm_check(lockshm_lock_hold(l), NULL), LOCKSHM_NOT_HELD);
	}
}
END_TEST

START_TEST(held_object_is_not_taken_twice)
{
	lockshm_lock_t *l = made("k", X);
	struct lockshm_request request = request_for("k", X);
	int i;

	for (i = 0; i < 2; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		if (i)
			ck_assert_ptr_nonnull(lockshm_lock_hold(l));
		ck_code(lockshm_lock(l, seg), LOCKSHM_INVALID);
		ck_code(lockshm_trylock(l, seg), LOCKSHM_INVALID);
		ck_code(lockshm_lock_init(l, seg, &request), LOCKSHM_INVALID);
		ck_code(lockshm_check(lockshm_lock_hold(l), NULL), 0);
		ck_code(lockshm_unlock(l), 0);
		ck_code(lockshm_unlock(l), LOCKSHM_NOT_HELD);
	}
}
END_TEST

START_TEST(every_call_on_the_hold_works)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), i;
	lockshm_lock_t *l = made("k", S);
	lockshm_hold_t *h;
	int64_t left;

	ck_code(lockshm_unlock(l), LOCKSHM_NOT_HELD);
	for (i = 0; i < 3; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		h = lockshm_lock_hold(l);
		ck_code(lockshm_upgrade(h), 0);
		ck_code(lockshm_renew(h, LOCKSHM_SECONDS(70)), 0);
		ck_code(lockshm_check(h, &left), 0);
		ck_assert_int_gt(left, LOCKSHM_SECONDS(35));
		ck_code(lockshm_notify(h, fd), 0);
		ck_code(lockshm_acknowledge(h), 0);
		ck_code(lockshm_downgrade(h), 0);
		if (i)
			ck_code(lockshm_move(h, LOCKSHM_TO_PROCESS), 0);
		if (i > 1)
			ck_code(lockshm_move(h, LOCKSHM_TO_CALLER), 0);
		ck_assert_ptr_eq(lockshm_lock_hold(l), h);
		ck_code(lockshm_unlock(l), 0);
		ck_code(lockshm_check(h, NULL), LOCKSHM_NOT_HELD);
		/* Plain again, also where the record was the process' meanwhile. */
		ck_code(lockshm_lock(l, seg), 0);
		ck_assert(is_fast(l, true));
		ck_code(lockshm_unlock(l), 0);
		verify_clean();
	}
	close(fd);
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

START_TEST(release_of_the_hold_unlocks)
{
	lockshm_lock_t *l = made("k", X);

	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_release(lockshm_lock_hold(l), LOCKSHM_SECONDS(30)), 0);
	ck_code(lockshm_unlock(l), LOCKSHM_NOT_HELD);
	ck_code(lockshm_trylock(l, seg), LOCKSHM_BUSY);
}
END_TEST

START_TEST(renewed_object_keeps_its_lease)
{
	struct lockshm_request request = request_for("k", X);
	lockshm_lock_t *l;
	int i;

	request.flags = LOCKSHM_AUTO_RENEW;
	request.ttl_ns = LOCKSHM_SECONDS(1);
	l = made_with(&request);
	for (i = 0; i < 2; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		pass(now_ns() + LOCKSHM_MS(1200));
		ck_code(lockshm_check(lockshm_lock_hold(l), NULL), 0);
		ck_code(lockshm_unlock(l), 0);
	}
}
END_TEST

/* ---------------------------------------------------------------- leases */

START_TEST(late_unlock)
{
	struct lockshm_request request = request_for("k", X);
	lockshm_lock_t *l;
	int i;

	request.ttl_ns = LOCKSHM_MS(1);
	l = made_with(&request);
	for (i = 0; i < 3; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		pass(now_ns() + LOCKSHM_MS(20));
		ck_code(lockshm_unlock(l), LOCKSHM_LATE);
	}
	verify_clean();
}
END_TEST

START_TEST(lost_unlock)
{
	struct lockshm_request request = request_for("k", X);
	lockshm_hold_t next = LOCKSHM_HOLD_INIT;
	lockshm_lock_t *l;
	int i;

	request.ttl_ns = LOCKSHM_MS(1);
	l = made_with(&request);
	for (i = 0; i < 4; i++) {
		ck_assert_int_ge(lockshm_lock(l, seg), 0);
		pass(now_ns() + LOCKSHM_MS(20));
		ck_assert_int_ge(take(&next, "k", X), 0);
		/* Lost and known to be, or lost and not released. */
		if (i & 1) {
			ck_code(lockshm_unlock(l), LOCKSHM_LOST);
			ck_assert_uint_eq(lockshm_lost_to(lockshm_lock_hold(l)), lockshm_token(&next));
			ck_code(lockshm_unlock(l), LOCKSHM_NOT_HELD);
		}
		ck_code(lockshm_trylock(l, seg), LOCKSHM_BUSY);
		ck_code(lockshm_release(&next, 0), 0);
		verify_clean();
	}
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

START_TEST(damage_is_reported_and_acknowledged)
{
	struct lockshm_request request = request_for("k", X);
	struct agent *dead;
	lockshm_lock_t *l;

	request.flags = LOCKSHM_ROBUST;
	l = made_with(&request);
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
	dead = agent_start();
	ck_code(agent_acquire(dead, "k", X), 0);
	agent_kill(dead);
	ck_code(lockshm_lock(l, seg), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_unlock(l), 0);
	ck_code(lockshm_lock(l, seg), LOCKSHM_OWNER_DIED);
	ck_code(lockshm_acknowledge(lockshm_lock_hold(l)), 0);
	ck_code(lockshm_unlock(l), 0);
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
}
END_TEST

/* ---------------------------------------------------------------- others in the way */

static void *lock_in_a_thread(void *arg)
{
	lockshm_lock_t *l = arg;
	int code = lockshm_lock(l, seg);

	return (void *)(intptr_t)(code ? code : lockshm_unlock(l));
}

static bool has_waiters(void *n)
{
	struct seen seen;

	look("k", &seen);
	return seen.waiters == *(size_t *)n;
}

START_TEST(objects_wait_in_order)
{
	struct agent *holder = agent_start(), *behind = agent_start();
	lockshm_lock_t *l = made("k", _i ? S : X);
	uint64_t token;
	size_t one = 1;
	pthread_t thread;
	void *code;

	ck_code(agent_acquire(holder, "k", X), 0);
	token = holder->answer.token;
	ck_assert_int_eq(pthread_create(&thread, NULL, lock_in_a_thread, l), 0);
	ck_assert(await(has_waiters, &one));
	ck_code(agent_acquire(behind, "k", X), AGENT_BLOCKED);
	ck_code(agent_release(holder), 0);
	ck_code(agent_end(behind), 0);
	ck_assert_int_eq(pthread_join(thread, &code), 0);
	ck_code((int)(intptr_t)code, 0);
	ck_assert_uint_eq(behind->answer.token, token + 2);
	ck_code(agent_release(behind), 0);
	verify_clean();
}
END_TEST

START_TEST(unlock_grants_the_next)
{
	struct agent *first = agent_start(), *second = agent_start();
	lockshm_lock_t *l = made("k", _i ? S : X);
	int i;

	for (i = 0; i < 3; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		ck_code(agent_acquire(first, "k", X), AGENT_BLOCKED);
		ck_code(agent_acquire(second, "k", S), AGENT_BLOCKED);
		ck_code(lockshm_unlock(l), 0);
		ck_code(agent_end(first), 0);
		ck_code(lockshm_trylock(l, seg), LOCKSHM_BUSY);
		ck_code(lockshm_timedlock(l, seg, LOCKSHM_MS(2)), LOCKSHM_TIMEOUT);
		ck_code(agent_release(first), 0);
		ck_code(agent_end(second), 0);
		ck_code(agent_release(second), 0);
		verify_clean();
	}
}
END_TEST

START_TEST(holder_that_would_wait_for_itself)
{
	lockshm_lock_t *l = made("k", X);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_request request = request_for("k", X);

	request.timeout_ns = PATIENCE;
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_DEADLOCK);
	ck_code(lockshm_unlock(l), 0);
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	ck_code(lockshm_lock(l, seg), LOCKSHM_DEADLOCK);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

START_TEST(barging_object_resumes)
{
	struct lockshm_request request = request_for("k", X);
	struct agent *behind = agent_start();
	lockshm_lock_t *l;
	int i;

	request.flags = LOCKSHM_BARGE;
	l = made_with(&request);
	for (i = 0; i < 20; i++) {
		ck_code(lockshm_lock(l, seg), 0);
		ck_code(agent_acquire(behind, "k", X), AGENT_BLOCKED);
		ck_code(lockshm_unlock(l), 0);
		if (lockshm_trylock(l, seg) == 0)
			ck_code(lockshm_unlock(l), 0);
		ck_code(agent_end(behind), 0);
		ck_code(agent_release(behind), 0);
	}
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- arguments */

START_TEST(wrong_arguments_are_refused)
{
	static char longer[LOCKSHM_KEY_MAX + 1];
	struct lockshm_request request = request_for("k", X), q;
	lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_lock_t l, before;

	memset(&l, 0x5a, sizeof(l));
	before = l;
	ck_code(lockshm_lock_init(NULL, seg, &request), LOCKSHM_INVALID);
	ck_code(lockshm_lock_init(&l, NULL, &request), LOCKSHM_INVALID);
	ck_code(lockshm_lock_init(&l, seg, NULL), LOCKSHM_INVALID);
	q = request, q.key = NULL;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	q = request, q.key = longer, q.key_len = sizeof(longer);
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_KEY_TOO_LONG);
	q = request, q.key = longer, q.key_len = LOCKSHM_KEY_SHOWN_MAX + 1, q.flags = LOCKSHM_GLOBAL;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_KEY_TOO_LONG);
	q = request, q.mode = 0;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	q = request, q.ttl_ns = 1;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	q = request, q.timeout_ns = -1;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	q = request, q.canceller = &canceller;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	q = request, q.report = &report;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	ck_assert_ptr_nonnull(strstr(report.error.message, "report"));
	ck_code(lockshm_lock_init(NULL, seg, &q), LOCKSHM_INVALID);
	ck_assert_ptr_nonnull(strstr(report.error.message, "lock is NULL"));
	q = request, q.tag = "a tag of thirty-one characters..";
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	ck_assert_mem_eq(&l, &before, sizeof(l));
	ck_code(lockshm_lock(&l, seg), LOCKSHM_INVALID);
	ck_code(lockshm_lock(NULL, seg), LOCKSHM_INVALID);
	ck_code(lockshm_unlock(NULL), LOCKSHM_INVALID);
	ck_code(lockshm_unlock(&l), LOCKSHM_NOT_HELD);
	ck_assert_ptr_null(lockshm_lock_hold(NULL));
	ck_assert_ptr_null(lockshm_lock_hold(&l));
	ck_code(lockshm_lock_init(&l, seg, &request), 0);
	ck_code(lockshm_lock(&l, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_trylock(&l, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_timedlock(&l, seg, -1), LOCKSHM_INVALID);
	ck_code(lockshm_timedlock(&l, seg, LOCKSHM_TIME_MAX + 1), LOCKSHM_INVALID);
	ck_code(lockshm_timedlock(&l, seg, LOCKSHM_FOREVER), 0);
	ck_code(lockshm_unlock(&l), 0);
}
END_TEST

START_TEST(read_only_handle_is_refused)
{
	lockshm_lock_t *l = made("k", X);
	lockshm_t *reader;

	ck_code(lockshm_open(&reader, seg_name, LOCKSHM_OPEN_READ_ONLY, NULL), 0);
	ck_code(lockshm_lock(l, reader), LOCKSHM_PERMISSION);
	ck_code(lockshm_lock(l, seg), 0);
	ck_code(lockshm_unlock(l), 0);
	lockshm_close(reader);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, object_and_bytes_are_one_lock, 0, 4);
	tcase_add_test(tc, object_of_a_plain_request_has_the_defaults);
	tcase_add_test(tc, shared_objects_hold_together);
	tcase_add_test(tc, record_says_what_the_object_says);
	tcase_add_test(tc, tokens_rise);
	tcase_add_test(tc, held_object_is_not_taken_twice);
	tcase_add_test(tc, every_call_on_the_hold_works);
	tcase_add_test(tc, release_of_the_hold_unlocks);
	tcase_add_test(tc, renewed_object_keeps_its_lease);
	tcase_add_test(tc, late_unlock);
	tcase_add_test(tc, lost_unlock);
	tcase_add_test(tc, damage_is_reported_and_acknowledged);
	tcase_add_loop_test(tc, objects_wait_in_order, 0, 2);
	tcase_add_loop_test(tc, unlock_grants_the_next, 0, 2);
	tcase_add_test(tc, holder_that_would_wait_for_itself);
	tcase_add_test(tc, barging_object_resumes);
	tcase_add_test(tc, wrong_arguments_are_refused);
	tcase_add_test(tc, read_only_handle_is_refused);
}

int main(void)
{
	return fixture_main("lock-object", add);
}
