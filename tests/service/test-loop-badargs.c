/* SPDX-License-Identifier: MIT */
/*
 * test-loop-badargs.c - calls on event loops that are refused, and the memory that they are given: what is read after
 * the call, and what must not be used meanwhile
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/segment.h"
#include "support/agent.h"
#include "support/fixture.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static struct agent *a;
static lockshm_loop_t *loop;
static struct task t[2];

static void cast(void)
{
	a = agent_start();
	loop = loop_new();
}

START_TEST(global_is_refused)
{
	cast();
	task_init(&t[0], "k", X);
	t[0].request.flags = LOCKSHM_GLOBAL;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_INVALID);
	ck_code(t[0].report.error.code, LOCKSHM_INVALID);
	ck_assert(t[0].report.error.message[0]);
	ck_queue("k", 0, 0);
	loop_idle(loop);
}
END_TEST

static const char *const keys_short = "k";
static char key_long[LOCKSHM_KEY_MAX + 1];

/* The @n-th way to spoil a request. */
static bool spoil(struct lockshm_request *q, int n)
{
	static const char tag[] = "a tag of more than thirty bytes";

	switch (n) {
	case 0: q->size = 8; return true;
	case 1: q->size = 5000; return true;
	case 2: q->key = NULL; return true;
	case 3: q->key_len = 0; return true;
	case 4: q->key = key_long; q->key_len = sizeof(key_long); return true;
	case 5: q->mode = 0; return true;
	case 6: q->mode = 4; return true;
	case 7: q->flags = 0x80000000u; return true;
	case 8: q->flags = 0x80; return true;
	case 9: q->flags = LOCKSHM_BARGE; q->mode = S; return true;
	case 10: q->flags = LOCKSHM_AUTO_RENEW; q->ttl_ns = LOCKSHM_AUTO_RENEW_TTL_MIN - 1; return true;
	case 11: q->ttl_ns = LOCKSHM_TTL_MIN - 1; return true;
	case 12: q->ttl_ns = LOCKSHM_TIME_MAX + 1; return true;
	case 13: q->timeout_ns = -1; return true;
	case 14: q->timeout_ns = LOCKSHM_TIME_MAX + 1; return true;
	case 15: q->tag = tag; return true;
	case 16: q->max_hold_ns = -1; return true;
	case 17: q->max_hold_ns = LOCKSHM_SECONDS(1); return true;
	case 18: q->redis_policy = 9; return true;
	case 19: q->redis_policy = LOCKSHM_REDIS_WAIT; return true;
	case 20: q->report = (struct lockshm_report *)(void *)key_long; return true;
	default: return false;
	}
}

/* The codes of lockshm_acquire() for the same request. */
START_TEST(wrong_requests_are_refused_as_by_a_thread)
{
	struct lockshm_request request;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int i, want, got;

	cast();
	held_by(a, keys_short, X);
	for (i = 0; task_init(&t[0], keys_short, X), spoil(&t[0].request, i); i++) {
		request = t[0].request;
		request.timeout_ns = request.timeout_ns == PATIENCE ? 0 : request.timeout_ns;
		want = lockshm_acquire(seg, &request, &hold);
		got = task_acquire(loop, &t[0]);
		ck_assert_msg(want == LOCKSHM_BUSY ? got == LOCKSHM_PENDING : got == want,
			      "request %d is %s to a thread and %s to a loop", i, outcome_name(want), outcome_name(got));
		if (got == LOCKSHM_PENDING)
			ck_code(lockshm_loop_cancel(loop, &t[0].hold), 0);
	}
	ck_code(lockshm_loop_acquire(loop, NULL, &t[0].hold, NULL), LOCKSHM_INVALID);
	task_init(&t[0], keys_short, X);
	ck_code(lockshm_loop_acquire(loop, &t[0].request, NULL, NULL), LOCKSHM_INVALID);
	loop_idle(loop);
	ck_queue(keys_short, 1, 0);
}
END_TEST

START_TEST(what_is_no_loop)
{
	static uint64_t memory[512];
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("k", X) };
	lockshm_loop_t *no = _i ? (lockshm_loop_t *)(void *)memory : NULL;

	task_init(&t[0], "k", X);
	ck_code(task_acquire(no, &t[0]), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire_many(no, &t[0].request, keys, 1, &t[0].hold, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_next(no, &outcome), LOCKSHM_INVALID);
	ck_code(lockshm_loop_cancel(no, &t[0].hold), LOCKSHM_INVALID);
	ck_code(lockshm_loop_fd(no), LOCKSHM_INVALID);
	ck_code(lockshm_loop_close(no), LOCKSHM_INVALID);
	ck_queue("k", 0, 0);
}
END_TEST

START_TEST(wrong_calls_with_a_loop)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	cast();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	ck_code(lockshm_loop_next(loop, NULL), LOCKSHM_INVALID);
	outcome.size = 4;
	ck_code(lockshm_loop_next(loop, &outcome), LOCKSHM_INVALID);
	outcome.size = 4097;
	ck_code(lockshm_loop_next(loop, &outcome), LOCKSHM_INVALID);
	ck_code(lockshm_loop_cancel(loop, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_cancel(loop, &t[1].hold), LOCKSHM_NOT_HELD);
	/* None of them has collected anything. */
	ck_outcome(loop, &t[0], 0);
}
END_TEST

/* Of a newer program: fields that the library does not have are 0. */
START_TEST(a_larger_outcome)
{
	struct {
		struct lockshm_outcome outcome;
		unsigned char newer[40];
	} larger;
	unsigned i;

	cast();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	memset(&larger, 0xa5, sizeof(larger));
	larger.outcome.size = sizeof(larger);
	ck_assert_int_eq(lockshm_loop_next(loop, &larger.outcome), 1);
	ck_assert_uint_eq(larger.outcome.size, sizeof(larger));
	ck_assert_ptr_eq(larger.outcome.user, &t[0]);
	for (i = 0; i < sizeof(larger.newer); i++)
		ck_assert_uint_eq(larger.newer[i], 0);
}
END_TEST

START_TEST(loops_that_cannot_be_opened)
{
	struct lockshm_error error = { 0 };
	lockshm_loop_t *out = (void *)&error;
	lockshm_t *reader;

	ck_code(lockshm_loop_open(&out, NULL, -1, &error), LOCKSHM_INVALID);
	ck_assert_ptr_null(out);
	ck_assert(error.message[0]);
	ck_code(lockshm_loop_open(NULL, seg, -1, &error), LOCKSHM_INVALID);
	ck_code(lockshm_open(&reader, seg_name, LOCKSHM_OPEN_READ_ONLY, NULL), 0);
	out = (void *)&error;
	ck_code(lockshm_loop_open(&out, reader, -1, &error), LOCKSHM_PERMISSION);
	ck_assert_ptr_null(out);
	ck_code(lockshm_close(reader), 0);
	/* No slot for the service thread. */
	segment_with(16, 64, 1);
	ck_code(take(&t[0].hold, "k", X), 0);
	ck_code(lockshm_loop_open(&out, seg, -1, &error), LOCKSHM_FULL);
	ck_assert_int_eq(error.table, LOCKSHM_TABLE_OWNERS);
	ck_code(lockshm_release(&t[0].hold, 0), 0);
	ck_code(lockshm_loop_open(&out, seg, -1, NULL), LOCKSHM_FULL);
}
END_TEST

/* One whose users do not know that a waiter may have a doorbell.  Locks are as good there as ever. */
START_TEST(a_segment_of_an_older_library)
{
	int fd = open(path_of(seg_name), O_RDWR | O_CLOEXEC);
	struct lockshm_error error = { 0 };
	struct shm_header h;

	ck_code(lockshm_close(seg), 0);
	ck_assert_int_eq(pread(fd, &h, sizeof(h), 0), (ssize_t)sizeof(h));
	h.feature_incompat = 0;
	h.check = segment_check(&h);
	ck_assert_int_eq(pwrite(fd, &h, sizeof(h), 0), (ssize_t)sizeof(h));
	close(fd);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
	ck_code(lockshm_loop_open(&loop, seg, -1, &error), LOCKSHM_VERSION);
	ck_assert_ptr_null(loop);
	ck_assert(error.message[0]);
	ck_code(take(&t[0].hold, "k", X), 0);
	ck_code(lockshm_release(&t[0].hold, 0), 0);
}
END_TEST

/* ---------------------------------------------------------------- holds and memory of waits */

static void is_no_hold(lockshm_hold_t *hold)
{
	struct lockshm_damage damage;

	ck_code(lockshm_release(hold, 0), LOCKSHM_NOT_HELD);
	ck_code(lockshm_check(hold, NULL), LOCKSHM_NOT_HELD);
	ck_code(lockshm_renew(hold, LOCKSHM_SECONDS(1)), LOCKSHM_NOT_HELD);
	ck_code(lockshm_upgrade(hold), LOCKSHM_NOT_HELD);
	ck_code(lockshm_downgrade(hold), LOCKSHM_NOT_HELD);
	ck_code(lockshm_move(hold, LOCKSHM_TO_CALLER), LOCKSHM_NOT_HELD);
	ck_code(lockshm_notify(hold, -1), LOCKSHM_NOT_HELD);
	ck_code(lockshm_damage(hold, &damage), LOCKSHM_NOT_HELD);
	ck_code(lockshm_acknowledge(hold), LOCKSHM_NOT_HELD);
	ck_assert_uint_eq(lockshm_token(hold), 0);
}

/* Neither while it waits nor when it was granted, before it is collected. */
START_TEST(an_awaited_hold_is_not_held)
{
	cast();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	is_no_hold(&t[0].hold);
	ck_queue("k", 1, 1);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	is_no_hold(&t[0].hold);
	ck_queue("k", 1, 0);
	ck_outcome(loop, &t[0], 0);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

START_TEST(an_awaited_hold_is_not_used_twice)
{
	lockshm_loop_t *other;
	struct lockshm_request request;

	cast();
	other = loop_new();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	request = t[0].request;
	request.key = "free";
	request.key_len = 4;
	ck_code(lockshm_loop_acquire(loop, &request, &t[0].hold, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire(other, &request, &t[0].hold, NULL), LOCKSHM_INVALID);
	request = t[0].request;
	ck_code(lockshm_loop_acquire(loop, &request, &t[0].hold, NULL), LOCKSHM_INVALID);
	ck_queue("free", 0, 0);
	ck_queue("k", 1, 1);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	ck_code(lockshm_loop_acquire(loop, &request, &t[0].hold, NULL), LOCKSHM_INVALID);
	ck_outcome(loop, &t[0], 0);
	/* Nor one that is held. */
	request.key = "free";
	request.key_len = 4;
	ck_code(lockshm_loop_acquire(loop, &request, &t[0].hold, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_loop_acquire(other, &request, &t[0].hold, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(task_release(&t[0]), 0);
	ck_code(lockshm_loop_acquire(other, &request, &t[0].hold, NULL), 0);
	ck_code(task_release(&t[0]), 0);
	ck_code(lockshm_loop_close(other), 0);
}
END_TEST

/* Garbage in the hold, and a request that is gone after the call. */
START_TEST(nothing_of_the_request_is_used_after_the_call)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_request *request = malloc(sizeof(*request));
	char *key = malloc(LOCKSHM_KEY_MAX), *tag = malloc(8);
	size_t len = _i == 0 ? 5 : _i == 1 ? LOCKSHM_KEY_SHOWN_MAX + 1 : LOCKSHM_KEY_MAX;
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	lockshm_hold_t blocking, hold;
	struct seen seen;

	cast();
	memset(key, 'x', LOCKSHM_KEY_MAX);
	memset(&hold, 0xa5, sizeof(hold));
	memcpy(tag, "backup", 7);
	*request = (struct lockshm_request)LOCKSHM_REQUEST_INIT;
	request->key = key;
	request->key_len = len;
	request->timeout_ns = PATIENCE;
	ck_code(lockshm_acquire(seg, request, &blocking), 0);
	request->tag = tag;
	request->report = &report;
	ck_code(lockshm_loop_acquire(loop, request, &hold, &a), LOCKSHM_PENDING);
	memset(key, 'y', LOCKSHM_KEY_MAX);
	memset(tag, 'y', 8);
	memset(request, 0xa5, sizeof(*request));
	free(key);
	free(tag);
	free(request);
	ck_code(lockshm_release(&blocking, 0), 0);
	loop_await(loop);
	ck_assert_int_eq(lockshm_loop_next(loop, &outcome), 1);
	ck_code(outcome.status, 0);
	ck_assert_ptr_eq(outcome.hold, &hold);
	ck_assert_ptr_eq(outcome.user, &a);
	ck_assert_ptr_eq(outcome.report, &report);
	ck_assert_uint_eq(report.token, lockshm_token(&hold));
	if (_i == 0) {
		look("xxxxx", &seen);
		ck_assert_uint_eq(seen.holders, 1);
		ck_assert_str_eq(seen.requests[0].tag, "backup");
	}
	ck_assert_uint_eq(stat_now().keys_busy, 1);
	ck_code(lockshm_release(&hold, 0), 0);
	verify_clean();
}
END_TEST

/* Refused when all records are in use; good again when one is free. */
START_TEST(no_record_left)
{
	struct task *many = calloc(300, sizeof(*many));
	unsigned n = 0;
	int code;

	segment_with(256, 128, 16);
	a = agent_start();
	loop = loop_new();
	held_by(a, "k", X);
	while ((code = task_begin(loop, &many[n], "k", X)) == LOCKSHM_PENDING)
		ck_assert_uint_lt(++n, 300);
	ck_code(code, LOCKSHM_FULL);
	ck_code(many[n].report.error.code, LOCKSHM_FULL);
	ck_assert_int_eq(many[n].report.error.table, LOCKSHM_TABLE_REQUESTS);
	ck_assert_uint_ge(n, 32);
	ck_code(lockshm_loop_cancel(loop, &many[n].hold), LOCKSHM_NOT_HELD);
	ck_code(lockshm_loop_cancel(loop, &many[n / 2].hold), 0);
	task_wait(loop, &many[n / 2], "k", X);
	ck_code(agent_release(a), 0);
	for (unsigned i = 0; i < n; i++) {
		struct task *now = loop_collect(loop);

		ck_code(now->status, 0);
		ck_code(task_release(now), 0);
	}
	loop_idle(loop);
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
	free(many);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, global_is_refused);
	tcase_add_test(tc, wrong_requests_are_refused_as_by_a_thread);
	tcase_add_loop_test(tc, what_is_no_loop, 0, 2);
	tcase_add_test(tc, wrong_calls_with_a_loop);
	tcase_add_test(tc, a_larger_outcome);
	tcase_add_test(tc, loops_that_cannot_be_opened);
	tcase_add_test(tc, a_segment_of_an_older_library);
	tcase_add_test(tc, an_awaited_hold_is_not_held);
	tcase_add_test(tc, an_awaited_hold_is_not_used_twice);
	tcase_add_loop_test(tc, nothing_of_the_request_is_used_after_the_call, 0, 3);
	tcase_add_test(tc, no_record_left);
}

int main(void)
{
	return fixture_main("loop-badargs", add);
}
