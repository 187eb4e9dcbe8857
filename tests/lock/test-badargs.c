/* SPDX-License-Identifier: MIT */
/*
 * test-badargs.c - every function with every wrong argument: the code, a message that names the argument, no change
 *
 * Names and options of segments are in test-segment.c, cooldowns in test-cooldown.c, sizes of structs in test-sizes.c.
 */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/agent.h"
#include "support/fixture.h"

static char long_key[LOCKSHM_KEY_MAX + 1];
static char long_tag[LOCKSHM_TAG_MAX + 2];

/* One field of a request put wrong. */
static void no_key(struct lockshm_request *q)
{
	q->key = NULL;
}

static void empty_key(struct lockshm_request *q)
{
	q->key_len = 0;
}

static void key_too_long(struct lockshm_request *q)
{
	q->key = long_key;
	q->key_len = sizeof(long_key);
}

static void key_length_minus_one(struct lockshm_request *q)
{
	q->key_len = SIZE_MAX;
}

static void mode_zero(struct lockshm_request *q)
{
	q->mode = 0;
}

static void mode_one(struct lockshm_request *q)
{
	q->mode = 1;
}

static void mode_both(struct lockshm_request *q)
{
	q->mode = LOCKSHM_SHARED | LOCKSHM_EXCLUSIVE | 4;
}

static void mode_negative(struct lockshm_request *q)
{
	q->mode = -3;
}

static void unknown_flag(struct lockshm_request *q)
{
	q->flags = 0x80;
}

static void global_without_redis(struct lockshm_request *q)
{
	q->flags = LOCKSHM_GLOBAL;
}

static void all_flags(struct lockshm_request *q)
{
	q->flags = UINT_MAX;
}

static void ttl_zero(struct lockshm_request *q)
{
	q->ttl_ns = 0;
}

static void ttl_negative(struct lockshm_request *q)
{
	q->ttl_ns = -1;
}

static void ttl_most_negative(struct lockshm_request *q)
{
	q->ttl_ns = INT64_MIN;
}

static void ttl_below_the_least(struct lockshm_request *q)
{
	q->ttl_ns = LOCKSHM_TTL_MIN - 1;
}

static void ttl_above_the_most(struct lockshm_request *q)
{
	q->ttl_ns = LOCKSHM_TIME_MAX + 1;
}

static void ttl_almost_forever(struct lockshm_request *q)
{
	q->ttl_ns = LOCKSHM_FOREVER - 1;
}

static void timeout_negative(struct lockshm_request *q)
{
	q->timeout_ns = -1;
}

static void timeout_most_negative(struct lockshm_request *q)
{
	q->timeout_ns = INT64_MIN;
}

static void timeout_above_the_most(struct lockshm_request *q)
{
	q->timeout_ns = LOCKSHM_TIME_MAX + 1;
}

static void tag_too_long(struct lockshm_request *q)
{
	q->tag = long_tag;
}

static void renew_what_never_ends(struct lockshm_request *q)
{
	q->flags = LOCKSHM_AUTO_RENEW;
	q->ttl_ns = LOCKSHM_FOREVER;
}

static void renew_too_often(struct lockshm_request *q)
{
	q->flags = LOCKSHM_AUTO_RENEW;
	q->ttl_ns = LOCKSHM_AUTO_RENEW_TTL_MIN - 1;
}

static void hold_no_time(struct lockshm_request *q)
{
	q->flags = LOCKSHM_AUTO_RENEW;
	q->ttl_ns = LOCKSHM_SECONDS(1);
	q->max_hold_ns = LOCKSHM_TTL_MIN - 1;
}

static void hold_negative(struct lockshm_request *q)
{
	q->flags = LOCKSHM_AUTO_RENEW;
	q->ttl_ns = LOCKSHM_SECONDS(1);
	q->max_hold_ns = -1;
}

static const struct {
	void (*spoil)(struct lockshm_request *q);
	int code;
	const char *word;
	int field;
} requests[] = {
	{ no_key, LOCKSHM_INVALID, "key", LOCKSHM_FIELD_KEY },
	{ empty_key, LOCKSHM_INVALID, "key", LOCKSHM_FIELD_KEY },
	{ key_too_long, LOCKSHM_KEY_TOO_LONG, "key", LOCKSHM_FIELD_KEY },
	{ key_length_minus_one, LOCKSHM_KEY_TOO_LONG, "key", LOCKSHM_FIELD_KEY },
	{ mode_zero, LOCKSHM_INVALID, "mode", LOCKSHM_FIELD_MODE },
	{ mode_one, LOCKSHM_INVALID, "mode", LOCKSHM_FIELD_MODE },
	{ mode_both, LOCKSHM_INVALID, "mode", LOCKSHM_FIELD_MODE },
	{ mode_negative, LOCKSHM_INVALID, "mode", LOCKSHM_FIELD_MODE },
	{ unknown_flag, LOCKSHM_INVALID, "flags", LOCKSHM_FIELD_FLAGS },
	{ all_flags, LOCKSHM_INVALID, "flags", LOCKSHM_FIELD_FLAGS },
	{ ttl_zero, LOCKSHM_INVALID, "ttl_ns", LOCKSHM_FIELD_TTL },
	{ ttl_negative, LOCKSHM_INVALID, "ttl_ns", LOCKSHM_FIELD_TTL },
	{ ttl_most_negative, LOCKSHM_INVALID, "ttl_ns", LOCKSHM_FIELD_TTL },
	{ ttl_below_the_least, LOCKSHM_INVALID, "ttl_ns", LOCKSHM_FIELD_TTL },
	{ ttl_above_the_most, LOCKSHM_INVALID, "ttl_ns", LOCKSHM_FIELD_TTL },
	{ ttl_almost_forever, LOCKSHM_INVALID, "ttl_ns", LOCKSHM_FIELD_TTL },
	{ timeout_negative, LOCKSHM_INVALID, "timeout_ns", LOCKSHM_FIELD_TIMEOUT },
	{ timeout_most_negative, LOCKSHM_INVALID, "timeout_ns", LOCKSHM_FIELD_TIMEOUT },
	{ timeout_above_the_most, LOCKSHM_INVALID, "timeout_ns", LOCKSHM_FIELD_TIMEOUT },
	{ tag_too_long, LOCKSHM_INVALID, "tag", LOCKSHM_FIELD_TAG },
	{ renew_what_never_ends, LOCKSHM_INVALID, "AUTO_RENEW", LOCKSHM_FIELD_TTL },
	{ renew_too_often, LOCKSHM_INVALID, "LOCKSHM_AUTO_RENEW", LOCKSHM_FIELD_TTL },
	{ hold_no_time, LOCKSHM_INVALID, "max_hold_ns", LOCKSHM_FIELD_MAX_HOLD },
	{ hold_negative, LOCKSHM_INVALID, "max_hold_ns", LOCKSHM_FIELD_MAX_HOLD },
	{ global_without_redis, LOCKSHM_INVALID, "LOCKSHM_GLOBAL", LOCKSHM_FIELD_NONE },
};
#define N_REQUESTS (int)(sizeof(requests) / sizeof(requests[0]))

static void names(const struct lockshm_error *error, int code, const char *word)
{
	ck_code(error->code, code);
	ck_assert_ptr_nonnull(memchr(error->message, '\0', sizeof(error->message)));
	ck_assert_msg(strstr(error->message, word), "no '%s' in: %s", word, error->message);
}

/* What a message about a field begins with. */
static const char *const fields[] = { "", "key", "mode", "flags", "ttl_ns", "timeout_ns", "tag", "canceller", "redis_policy",
				      "max_hold_ns" };

static bool begins_with(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0 && strchr(" :", text[strlen(word)]);
}

START_TEST(acquire_with_a_wrong_field)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	memset(long_tag, 't', sizeof(long_tag) - 1);
	memset(&report, 0x55, sizeof(report));
	report.size = sizeof(report);
	request.report = &report;
	requests[_i].spoil(&request);
	ck_code(lockshm_acquire(seg, &request, &hold), requests[_i].code);
	names(&report.error, requests[_i].code, requests[_i].word);
	ck_assert_int_eq(report.error.field, requests[_i].field);
	ck_assert_msg(!report.error.field || begins_with(report.error.message, fields[report.error.field]), "%s",
		      report.error.message);
	ck_assert_uint_eq(report.token, 0);
	ck_assert_int_eq(report.damage.status, 0);
	request.report = NULL;
	ck_code(lockshm_acquire(seg, &request, &hold), requests[_i].code);
	ck_code(lockshm_release(&hold, 0), LOCKSHM_NOT_HELD);
	ck_assert_uint_eq(stat_now().keys_known, 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

START_TEST(acquire_many_with_a_wrong_field)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_key keys[3] = { LOCKSHM_MANY_KEY("a", 0), LOCKSHM_MANY_KEY("k", 0), LOCKSHM_MANY_KEY("z", 0) };
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t holds[3];

	memset(long_tag, 't', sizeof(long_tag) - 1);
	request.report = &report;
	requests[_i].spoil(&request);
	if (_i < 4) { /* a wrong key is one of the keys here; the common request's key is not used */
		keys[1].data = request.key;
		keys[1].len = request.key_len;
	}
	ck_code(lockshm_acquire_many(seg, &request, keys, 3, holds), requests[_i].code);
	names(&report.error, requests[_i].code, requests[_i].word);
	ck_assert_uint_eq(stat_now().keys_known, 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

START_TEST(acquire_at_the_edges_of_the_ranges)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;
	static const int64_t ttls[] = { LOCKSHM_TTL_MIN, LOCKSHM_TIME_MAX, LOCKSHM_FOREVER };
	static const int64_t timeouts[] = { 0, 1, LOCKSHM_TIME_MAX, LOCKSHM_FOREVER };
	unsigned i, j;

	memset(long_tag, 't', LOCKSHM_TAG_MAX);
	request.tag = long_tag;
	request.key = long_key;
	request.key_len = LOCKSHM_KEY_MAX;
	for (i = 0; i < 3; i++)
		for (j = 0; j < 4; j++) {
			request.ttl_ns = ttls[i];
			request.timeout_ns = timeouts[j];
			ck_code(lockshm_acquire(seg, &request, &hold), 0);
			ck_assert_int_ge(lockshm_release(&hold, 0), 0);
		}
}
END_TEST

START_TEST(reserved_words_of_a_key)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_key key = LOCKSHM_MANY_KEY("k", 0);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold;

	key.reserved[_i] = 1;
	request.report = &report;
	ck_code(lockshm_acquire_many(seg, &request, &key, 1, &hold), LOCKSHM_INVALID);
	names(&report.error, LOCKSHM_INVALID, "reserved");
}
END_TEST

/* A call that is refused outright leaves nothing of an earlier one in the report. */
static void refused(int code, struct lockshm_report *report, const char *word)
{
	ck_code(code, LOCKSHM_INVALID);
	names(&report->error, LOCKSHM_INVALID, word);
	ck_assert_uint_eq(report->size, sizeof(*report));
	ck_assert_uint_eq(report->token, 0);
	ck_assert_int_eq(report->waited_ns, 0);
	ck_assert_int_eq(report->damage.status, 0);
	ck_assert_int_eq(report->blocker.state, 0);
	memset(report, 0x55, sizeof(*report));
	report->size = sizeof(*report);
}

START_TEST(report_of_a_refused_call)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_key key = LOCKSHM_MANY_KEY("k", 0);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;

	memset(&report, 0x55, sizeof(report));
	report.size = sizeof(report);
	request.report = &report;
	refused(lockshm_acquire(NULL, &request, &hold), &report, "segment");
	refused(lockshm_acquire(seg, &request, NULL), &report, "hold");
	refused(lockshm_acquire_many(NULL, &request, &key, 1, &hold), &report, "segment");
	refused(lockshm_acquire_many(seg, &request, NULL, 1, &hold), &report, "keys");
	refused(lockshm_acquire_many(seg, &request, &key, 1, NULL), &report, "holds");
}
END_TEST

static pthread_barrier_t barrier;

static void *hold_until_told(void *arg)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "other", LOCKSHM_EXCLUSIVE), 0);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return arg;
}

/* The memory of the closed handle stays as long as a thread holds a lock of it. */
START_TEST(report_of_a_closed_handle)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_key key = LOCKSHM_MANY_KEY("k", 0);
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	lockshm_t *closed = seg;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	pthread_t thread;

	memset(&report, 0x55, sizeof(report));
	report.size = sizeof(report);
	request.report = &report;
	pthread_barrier_init(&barrier, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, hold_until_told, NULL), 0);
	pthread_barrier_wait(&barrier);
	ck_code(lockshm_close(closed), 0);
	refused(lockshm_acquire(closed, &request, &hold), &report, "segment");
	refused(lockshm_acquire_many(closed, &request, &key, 1, &hold), &report, "segment");
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
}
END_TEST

START_TEST(null_arguments)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_key key = LOCKSHM_MANY_KEY("k", 0);
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	ck_code(lockshm_acquire(NULL, &request, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_acquire(seg, NULL, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_acquire(seg, &request, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_acquire_many(NULL, &request, &key, 1, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_acquire_many(seg, NULL, &key, 1, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_acquire_many(seg, &request, NULL, 1, &hold), LOCKSHM_INVALID);
	ck_code(lockshm_acquire_many(seg, &request, &key, 1, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_release(NULL, 0), LOCKSHM_INVALID);
	ck_code(lockshm_release_many(NULL, 1), LOCKSHM_INVALID);
	ck_code(lockshm_renew(NULL, LOCKSHM_SECONDS(1)), LOCKSHM_INVALID);
	ck_code(lockshm_check(NULL, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_upgrade(NULL), LOCKSHM_INVALID);
	ck_code(lockshm_downgrade(NULL), LOCKSHM_INVALID);
	ck_code(lockshm_acknowledge(NULL), LOCKSHM_INVALID);
	ck_code(lockshm_move(NULL, LOCKSHM_TO_CALLER), LOCKSHM_INVALID);
	ck_code(lockshm_cancel(NULL), LOCKSHM_INVALID);
	ck_assert_uint_eq(lockshm_token(NULL), 0);
	ck_assert_uint_eq(lockshm_lost_to(NULL), 0);
	ck_code(lockshm_stat(NULL, &stat), LOCKSHM_INVALID);
	ck_code(lockshm_stat(seg, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_verify(NULL, NULL, NULL, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_verify(seg, NULL, NULL, NULL), 0); /* no callback is allowed */
	ck_code(lockshm_sweep(NULL, NULL), LOCKSHM_INVALID);
}
END_TEST

/* Refused, and there is no listing. */
static void list_refused(lockshm_t *segment, int what, const char *key, size_t len, int code)
{
	lockshm_list_t *list = (lockshm_list_t *)(uintptr_t)8;

	ck_code(lockshm_list_open(&list, segment, what, key, len), code);
	ck_assert_ptr_null(list);
}

START_TEST(wrong_arguments_of_the_inspectors)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;

	ck_code(lockshm_list_open(NULL, seg, LOCKSHM_LIST_BUSY, NULL, 0), LOCKSHM_INVALID);
	list_refused(NULL, LOCKSHM_LIST_BUSY, NULL, 0, LOCKSHM_INVALID);
	list_refused(seg, LOCKSHM_LIST_SEGMENTS, NULL, 0, LOCKSHM_INVALID);
	list_refused(seg, 1, NULL, 0, LOCKSHM_INVALID);
	list_refused(seg, LOCKSHM_LIST_SEGMENTS + 1, NULL, 0, LOCKSHM_INVALID);
	list_refused(seg, LOCKSHM_LIST_KEY, NULL, 0, LOCKSHM_INVALID);
	list_refused(seg, LOCKSHM_LIST_KEY, NULL, 1, LOCKSHM_INVALID);
	list_refused(seg, LOCKSHM_LIST_KEY, "k", 0, LOCKSHM_INVALID);
	list_refused(seg, LOCKSHM_LIST_OWNERS, "k", 1, LOCKSHM_INVALID);
	list_refused(NULL, LOCKSHM_LIST_SEGMENTS, "k", 1, LOCKSHM_INVALID);
	list_refused(seg, LOCKSHM_LIST_KEY, long_key, sizeof(long_key), LOCKSHM_KEY_TOO_LONG);
	list_refused(seg, LOCKSHM_LIST_BUSY, long_key, LOCKSHM_KEY_SHOWN_MAX + 1, LOCKSHM_KEY_TOO_LONG);
	ck_code(lockshm_list_open(&list, seg, LOCKSHM_LIST_BUSY, NULL, 0), 0);
	ck_code(lockshm_list_next(list, NULL), LOCKSHM_INVALID);
	ck_code(lockshm_list_next(NULL, &row), LOCKSHM_INVALID);
	lockshm_list_close(list);
	ck_code(lockshm_end_hold(NULL, "k", 1, 1), LOCKSHM_INVALID);
	ck_code(lockshm_end_hold(seg, NULL, 1, 1), LOCKSHM_INVALID);
	ck_code(lockshm_end_hold(seg, "k", 0, 1), LOCKSHM_INVALID);
	ck_code(lockshm_end_hold(seg, long_key, sizeof(long_key), 1), LOCKSHM_KEY_TOO_LONG);
	ck_code(lockshm_end_hold(seg, "k", 1, 1), LOCKSHM_NOT_HELD);
}
END_TEST

START_TEST(number_of_many_keys)
{
	static struct lockshm_key keys[LOCKSHM_MANY_MAX + 1];
	static lockshm_hold_t holds[LOCKSHM_MANY_MAX + 1];
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	unsigned i;

	for (i = 0; i <= LOCKSHM_MANY_MAX; i++)
		keys[i] = (struct lockshm_key)LOCKSHM_MANY_KEY("k", 0);
	request.report = &report;
	ck_code(lockshm_acquire_many(seg, &request, keys, 0, holds), LOCKSHM_INVALID);
	names(&report.error, LOCKSHM_INVALID, "n ");
	ck_code(lockshm_acquire_many(seg, &request, keys, LOCKSHM_MANY_MAX + 1, holds), LOCKSHM_INVALID);
	ck_code(lockshm_acquire_many(seg, &request, keys, SIZE_MAX, holds), LOCKSHM_INVALID);
	keys[1].mode = 17;
	ck_code(lockshm_acquire_many(seg, &request, keys, 2, holds), LOCKSHM_INVALID);
	names(&report.error, LOCKSHM_INVALID, "mode");
	ck_assert_uint_eq(stat_now().keys_known, 0);
}
END_TEST

START_TEST(renew_with_wrong_times_keeps_the_lease)
{
	static const int64_t times[] = { 0,
					 -1,
					 INT64_MIN,
					 1,
					 LOCKSHM_TTL_MIN - 1,
					 LOCKSHM_TIME_MAX + 1,
					 LOCKSHM_FOREVER - 1 };
	lockshm_hold_t hold;
	int64_t left;
	unsigned i;

	ck_code(take_for(&hold, "k", LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(50)), 0);
	for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		ck_code(lockshm_renew(&hold, times[i]), LOCKSHM_INVALID);
		ck_code(lockshm_extend(&hold, times[i]), LOCKSHM_INVALID);
	}
	ck_code(lockshm_extend(&hold, LOCKSHM_FOREVER), LOCKSHM_INVALID);
	ck_code(lockshm_check(&hold, &left), 0);
	ck_assert_int_gt(left, LOCKSHM_SECONDS(40));
	ck_assert_int_le(left, LOCKSHM_SECONDS(51));
}
END_TEST

START_TEST(added_times_do_not_overflow)
{
	lockshm_hold_t hold;
	int64_t left;
	int i, code = 0;

	ck_code(take_for(&hold, "k", LOCKSHM_EXCLUSIVE, LOCKSHM_TIME_MAX), 0);
	for (i = 0; i < 200 && code == 0; i++)
		code = lockshm_extend(&hold, LOCKSHM_TIME_MAX);
	ck_code(code, LOCKSHM_INVALID);
	ck_code(lockshm_check(&hold, &left), 0);
	ck_assert_int_gt(left, LOCKSHM_TIME_MAX / 2);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

/* Holds that are none */
static void is_no_hold(lockshm_hold_t *hold)
{
	int64_t left = 99;

	ck_code(lockshm_check(hold, &left), LOCKSHM_NOT_HELD);
	ck_assert_int_eq(left, 0);
	ck_code(lockshm_renew(hold, LOCKSHM_SECONDS(1)), LOCKSHM_NOT_HELD);
	ck_code(lockshm_upgrade(hold), LOCKSHM_NOT_HELD);
	ck_code(lockshm_downgrade(hold), LOCKSHM_NOT_HELD);
	ck_code(lockshm_acknowledge(hold), LOCKSHM_NOT_HELD);
	ck_code(lockshm_move(hold, LOCKSHM_TO_PROCESS), LOCKSHM_NOT_HELD);
	ck_code(lockshm_release(hold, 0), LOCKSHM_NOT_HELD);
	ck_code(lockshm_release(hold, LOCKSHM_SECONDS(1)), LOCKSHM_NOT_HELD);
}

START_TEST(any_memory_is_no_hold)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	unsigned seed = 7;
	size_t i;

	is_no_hold(&hold);
	memset(&hold, 0xff, sizeof(hold));
	is_no_hold(&hold);
	for (i = 0; i < sizeof(hold); i++)
		((unsigned char *)&hold)[i] = (unsigned char)(seed = seed * 1103515245 + 12345);
	is_no_hold(&hold);
}
END_TEST

START_TEST(copy_of_a_hold_is_no_hold)
{
	lockshm_hold_t hold, copy;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	copy = hold;
	is_no_hold(&copy);
	ck_code(lockshm_check(&hold, NULL), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	is_no_hold(&copy);
	ck_code(lockshm_check(&hold, NULL), 0);
}
END_TEST

/* A copy put back where the original was, after the original was used. */
START_TEST(stale_copy_in_the_old_place_touches_no_hold)
{
	lockshm_hold_t hold, saved, other;
	int code;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	saved = hold;
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(take(&other, "k", LOCKSHM_EXCLUSIVE), 0); /* probably with the same record */
	hold = saved;
	code = lockshm_release(&hold, 0);
	ck_assert_msg(code == LOCKSHM_LOST || code == LOCKSHM_NOT_HELD, "%s", outcome_name(code));
	ck_code(lockshm_check(&other, NULL), 0);
	ck_code(lockshm_release(&other, 0), 0);
}
END_TEST

START_TEST(hold_in_use_is_not_taken_again)
{
	struct lockshm_request request = request_for("other", LOCKSHM_EXCLUSIVE);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	request.report = &report;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_INVALID);
	names(&report.error, LOCKSHM_INVALID, "hold is in use for \"k\", by this thread");
	ck_code(lockshm_move(&hold, LOCKSHM_TO_PROCESS), 0);
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_INVALID);
	names(&report.error, LOCKSHM_INVALID, "hold is in use for \"k\", by this process");
	ck_code(lockshm_check(&hold, NULL), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
}
END_TEST

START_TEST(what_is_in_use_for_which_key)
{
	struct lockshm_request request = request_for("o\nther", LOCKSHM_EXCLUSIVE);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_key keys[2] = { { .data = "a", .len = 1 }, { .data = "b", .len = 1 } };
	lockshm_hold_t holds[2] = { LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT };
	lockshm_lock_t lock = { 0 };

	ck_code(take(&holds[1], "k", LOCKSHM_SHARED), 0);
	request.report = &report;
	ck_code(lockshm_acquire_many(seg, &request, keys, 2, holds), LOCKSHM_INVALID);
	names(&report.error, LOCKSHM_INVALID, "hold 1 is in use for \"k\", by this thread");
	ck_code(lockshm_release(&holds[1], 0), 0);

	request.report = NULL;
	ck_code(lockshm_lock_init(&lock, seg, &request), 0);
	ck_code(lockshm_lock(&lock, seg), 0);
	request.report = &report;
	ck_code(lockshm_lock_init(&lock, seg, &request), LOCKSHM_INVALID);
	names(&report.error, LOCKSHM_INVALID, "lock object is in use for \"o?ther\", by this thread: unlock it first");
	ck_code(lockshm_unlock(&lock), 0);
}
END_TEST

/* The next handle may lie where the closed one was, and the thread's slot in it has the same number. */
START_TEST(hold_of_a_closed_handle_is_no_hold_of_the_next_one)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	const char *names_of[2] = { other_name("one"), other_name("two") };
	lockshm_hold_t stale, fresh;
	lockshm_t *s, *old;
	int i;

	options.keys = options.requests = options.owners = 64;
	ck_code(lockshm_create(NULL, names_of[0], &options, NULL), 0);
	ck_code(lockshm_create(NULL, names_of[1], &options, NULL), 0);
	for (i = 0; i < 12; i++) {
		ck_code(lockshm_open(&old, names_of[0], 0, NULL), 0);
		ck_code(lockshm_acquire(old, &request, &stale), 0);
		ck_code(lockshm_close(old), 0);
		ck_code(lockshm_open(&s, names_of[1], 0, NULL), 0);
		ck_code(lockshm_acquire(s, &request, &fresh), 0);
		is_no_hold(&stale);
		ck_code(lockshm_check(&fresh, NULL), 0);
		ck_code(lockshm_release(&fresh, 0), 0);
		ck_code(lockshm_close(s), 0);
	}
	ck_code(lockshm_destroy(names_of[0], NULL), 0);
	ck_code(lockshm_destroy(names_of[1], NULL), 0);
}
END_TEST

START_TEST(hold_of_a_closed_handle_is_not_held)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_close(seg), 0);
	is_no_hold(&hold);
	ck_code(lockshm_open(&seg, seg_name, 0, NULL), 0);
	is_no_hold(&hold);
	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(every_code_has_a_name_and_a_sentence)
{
	int code, known = 0;

	for (code = -40; code < 40; code++) {
		const char *name = lockshm_code_name(code), *text = lockshm_strerror(code);

		ck_assert_ptr_nonnull(name);
		ck_assert_ptr_nonnull(text);
		ck_assert_uint_gt(strlen(text), 3);
		known += code >= LOCKSHM_SYSTEM && code <= LOCKSHM_LATE && strcmp(name, lockshm_code_name(40)) != 0;
	}
	ck_assert_int_eq(known, LOCKSHM_LATE - LOCKSHM_SYSTEM + 1);
	ck_assert_str_eq(lockshm_code_name(LOCKSHM_TIMEOUT), "TIMEOUT");
	ck_assert_str_eq(lockshm_version(), "0.1.0");
	ck_assert_ptr_nonnull(lockshm_strerror(INT_MIN));
	ck_assert_ptr_nonnull(lockshm_strerror(INT_MAX));
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, acquire_with_a_wrong_field, 0, N_REQUESTS);
	tcase_add_loop_test(tc, acquire_many_with_a_wrong_field, 0, N_REQUESTS);
	tcase_add_test(tc, acquire_at_the_edges_of_the_ranges);
	tcase_add_loop_test(tc, reserved_words_of_a_key, 0, 3);
	tcase_add_test(tc, report_of_a_refused_call);
	tcase_add_test(tc, report_of_a_closed_handle);
	tcase_add_test(tc, null_arguments);
	tcase_add_test(tc, wrong_arguments_of_the_inspectors);
	tcase_add_test(tc, number_of_many_keys);
	tcase_add_test(tc, renew_with_wrong_times_keeps_the_lease);
	tcase_add_test(tc, added_times_do_not_overflow);
	tcase_add_test(tc, any_memory_is_no_hold);
	tcase_add_test(tc, copy_of_a_hold_is_no_hold);
	tcase_add_test(tc, stale_copy_in_the_old_place_touches_no_hold);
	tcase_add_test(tc, hold_in_use_is_not_taken_again);
	tcase_add_test(tc, what_is_in_use_for_which_key);
	tcase_add_test(tc, hold_of_a_closed_handle_is_no_hold_of_the_next_one);
	tcase_add_test(tc, hold_of_a_closed_handle_is_not_held);
	tcase_add_test(tc, every_code_has_a_name_and_a_sentence);
}

int main(void)
{
	return fixture_main("badargs", add);
}
