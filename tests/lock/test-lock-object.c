/* SPDX-License-Identifier: MIT */
/* test-lock-object.c - a lock object is lockshm_acquire() and lockshm_release() with a request that was checked once */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hold/lock-object.h"
#include "support/agent.h"
#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static lockshm_lock_t object;

/* Does the next call on it take the fast path, as far as the object can tell? */
static bool is_fast(lockshm_lock_t *lock, bool held)
{
	struct lock_object *l = object_of(lock);

	return l->seal == (object_seal(l) ^ (held ? 0 : OBJECT_IDLE));
}

static lockshm_lock_t *made_with(const struct lockshm_request *request)
{
	memset(&object, 0xa5, sizeof(object));
	ck_code(lockshm_lock_init(&object, seg, request), 0);
	return &object;
}

static lockshm_lock_t *made(const char *key, int mode)
{
	struct lockshm_request request = request_for(key, mode);

	request.timeout_ns = PATIENCE;
	return made_with(&request);
}

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
	ck_assert_uint_eq(stat_now().locks_known, 1);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

START_TEST(static_object_has_the_defaults)
{
	static lockshm_lock_t l = LOCKSHM_LOCK_KEY("report");
	lockshm_hold_t other = LOCKSHM_HOLD_INIT;
	struct seen seen;
	int64_t left;
	int i;

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
	lockshm_lock_t one = LOCKSHM_LOCK_KEY("-"), two = LOCKSHM_LOCK_KEY("-");
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
		ck_code(lockshm_renew(h, LOCKSHM_SECONDS(70), LOCKSHM_RENEW_RESET), 0);
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
	int i;

	for (i = 0; i < 2; i++) {
		request.flags = LOCKSHM_ROBUST | (i ? LOCKSHM_ACKNOWLEDGE : 0);
		l = made_with(&request);
		ck_code(lockshm_lock(l, seg), 0);
		ck_code(lockshm_unlock(l), 0);
		dead = agent_start();
		ck_code(agent_acquire(dead, "k", X), 0);
		agent_kill(dead);
		ck_code(lockshm_lock(l, seg), LOCKSHM_OWNER_DIED);
		ck_code(lockshm_unlock(l), 0);
		ck_code(lockshm_lock(l, seg), i ? 0 : LOCKSHM_OWNER_DIED);
		ck_code(lockshm_acknowledge(lockshm_lock_hold(l)), 0);
		ck_code(lockshm_unlock(l), 0);
		ck_code(lockshm_lock(l, seg), 0);
		ck_code(lockshm_unlock(l), 0);
	}
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
		ck_code(lockshm_lock_for(l, seg, LOCKSHM_MS(2)), LOCKSHM_TIMEOUT);
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
	static lockshm_lock_t idle = LOCKSHM_LOCK_KEY("idle");
	int status;
	pid_t pid;

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
			wrong = lockshm_lock_for(&mine[i], seg, PATIENCE) != 0 || lockshm_unlock(&mine[i]) != 0;
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
	lockshm_lock_t l[64], last = LOCKSHM_LOCK_KEY("last"), most = LOCKSHM_LOCK_KEY("most");
	struct lockshm_request request;
	char key[16];
	unsigned n, i;
	int code = 0;

	segment_with(256, 32, 8);
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
	q = request, q.deadline_ns = 1;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	q = request, q.canceller = &canceller;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	q = request, q.report = &report;
	ck_code(lockshm_lock_init(&l, seg, &q), LOCKSHM_INVALID);
	ck_assert_ptr_nonnull(strstr(report.error.message, "report"));
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
	ck_code(lockshm_lock_for(&l, seg, -1), LOCKSHM_INVALID);
	ck_code(lockshm_lock_for(&l, seg, LOCKSHM_TIME_MAX + 1), LOCKSHM_INVALID);
	ck_code(lockshm_lock_for(&l, seg, LOCKSHM_FOREVER), 0);
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
	tcase_add_test(tc, static_object_has_the_defaults);
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
	tcase_add_test(tc, wrong_arguments_are_refused);
	tcase_add_test(tc, read_only_handle_is_refused);
}

int main(void)
{
	return fixture_main("lock-object", add);
}
