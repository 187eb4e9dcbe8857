/* SPDX-License-Identifier: MIT */
/* test-lock.c - acquire, renew and release in Redis */
#define _GNU_SOURCE
#include "redis-support/peer.h"

#include <stdlib.h>
#include <string.h>

static struct peer *a, *b, *c;

/* 16 in each microsecond since 2025. */
static int64_t clock_tokens(const struct peer *p)
{
	return (reply_ms(p) * 1000 - INT64_C(1735689600000000)) * 16;
}

/* ---------------------------------------------------------------- writers */

START_TEST(a_free_lock)
{
	int64_t before = redis_now();

	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_redis(a->value, redis, "GET lock");
	ck_ttl("lock", LONG_MS - 20000, LONG_MS);
	ck_assert_int_ge(a->op.began, before);
	ck_assert_int_ge(a->op.ended, a->op.began);
	ck_assert_int_ge(a->op.reply.fence, clock_tokens(a));
	ck_assert_int_eq(a->op.reply.queued, 0);
	ck_status(release(a), REDIS_DONE);
	ck_redis("0", redis, "EXISTS lock");
}
END_TEST

/* The record of the writer, without the numbers. */
static const char *record(void)
{
	static char out[200];

	snprintf(out, sizeof(out), "%s", redis_say(redis, "HMGET {lock}:f token ttl turn readers mark"));
	return out;
}

/* The first acquire takes the long path; a dead waiter prevents the short one. */
START_TEST(the_short_path_and_the_long)
{
	struct script_reply first;
	char left[200];

	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(release(a), REDIS_DONE);
	new_value(a);
	ck_status(acquire_x(a), REDIS_GRANTED);
	first = a->op.reply;
	strcpy(left, record());
	ck_status(release(a), REDIS_DONE);
	ck_redis("1", redis, "ZADD {lock}:q 1 X:dead");
	ck_redis("1", redis, "ZADD {lock}:qx 1 X:dead");
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_assert_str_eq(left, record());
	ck_redis("0", redis, "EXISTS {lock}:q {lock}:qx");
	ck_redis(a->value, redis, "GET lock");
	ck_assert_int_ge(a->op.reply.fence, first.fence + a->args.stride);
	ck_assert_int_eq(a->op.reply.kind, first.kind);
	ck_assert_str_eq(a->op.reply.holder, first.holder);
	ck_assert_int_ge(a->op.reply.left_ms, first.left_ms - 1000);
	ck_assert_int_eq(a->op.reply.queued, first.queued);
	ck_assert_int_eq(a->op.reply.position, first.position);
	ck_assert_int_eq(a->op.reply.intent, first.intent);
}
END_TEST

START_TEST(tokens_are_host_and_chance)
{
	char first[33];

	ck_assert_uint_eq(strlen(a->value), 32);
	ck_assert_uint_eq(strspn(a->value, "0123456789abcdef"), 32);
	ck_assert(memcmp(a->value, a->host.id, 16) == 0);
	strcpy(first, a->value);
	new_value(a);
	ck_assert_str_ne(a->value, first);
	ck_assert(memcmp(a->value, first, 16) == 0);
	ck_assert_str_ne(a->host.id, b->host.id);
}
END_TEST

START_TEST(a_held_lock)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(try_x(b), REDIS_BUSY);
	ck_kind(b, REDIS_KIND_HOST);
	ck_assert_str_eq(b->op.reply.holder, a->value);
	ck_assert_int_gt(b->op.reply.left_ms, LONG_MS - 20000);
	ck_status(try_s(b), REDIS_BUSY);
	ck_redis("0", redis, "EXISTS {lock}:q {lock}:qx lock:lock-intent");
	ck_status(release(a), REDIS_DONE);
	ck_status(try_x(b), REDIS_GRANTED);
}
END_TEST

START_TEST(expiry_frees)
{
	a->args.ttl_ms = 20;
	ck_status(acquire_x(a), REDIS_GRANTED);
	let_pass(20);
	ck_status(try_x(b), REDIS_GRANTED);
	ck_status(release(a), REDIS_LOST);
	ck_assert_str_eq(a->op.reply.holder, b->value);
	ck_redis(b->value, redis, "GET lock");
}
END_TEST

START_TEST(release_reports_what_it_found)
{
	ck_status(release(a), REDIS_ABSENT);
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(release(b), REDIS_LOST);
	ck_kind(b, REDIS_KIND_HOST);
	ck_redis(a->value, redis, "GET lock");
	ck_status(release(a), REDIS_DONE);
	ck_status(release(a), REDIS_ABSENT);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_status(release(a), REDIS_LOST);
	ck_kind(a, REDIS_KIND_READERS);
}
END_TEST

/* The reply to an acquire was lost: the same value acquires again. */
START_TEST(repeated_acquire_with_the_same_value)
{
	int64_t first;

	a->args.ttl_ms = 5000;
	ck_status(acquire_x(a), REDIS_GRANTED);
	first = a->op.reply.fence;
	a->args.ttl_ms = LONG_MS;
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_ttl("lock", LONG_MS - 20000, LONG_MS);
	ck_assert_int_ge(a->op.reply.fence, first + 1024);
	new_value(a);
	ck_status(try_x(a), REDIS_BUSY);
	ck_status(acquire_s(b), REDIS_QUEUED);
}
END_TEST

/* For hosts of this protocol; another program takes it. */
START_TEST(a_gap_is_left_to_other_programs)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	a->args.gap_ms = 9000;
	ck_status(release(a), REDIS_DONE);
	ck_redis("0", redis, "EXISTS lock");
	/* The reply was lost. */
	ck_status(release(a), REDIS_ABSENT);
	ck_status(try_x(a), REDIS_BUSY);
	ck_kind(a, REDIS_KIND_GAP);
	ck_assert_int_gt(a->op.reply.left_ms, 0);
	ck_assert_int_le(a->op.reply.left_ms, 9000);
	ck_status(try_s(b), REDIS_BUSY);
	ck_kind(b, REDIS_KIND_GAP);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_kind(b, REDIS_KIND_GAP);
	ck_status(acquire_s(c), REDIS_QUEUED);
	ck_kind(c, REDIS_KIND_GAP);
	ck_redis("OK", redis, "SET lock another NX PX 60000");
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_kind(b, REDIS_KIND_FOREIGN);
	ck_redis("1", redis, "DEL lock");
	/* A majority puts back what a server lost. */
	new_value(a);
	a->args.flags = "tb";
	ck_status(peer_do(a, REDIS_ACQUIRE_X), REDIS_GRANTED);
}
END_TEST

START_TEST(readers_leave_a_gap)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_s(b), REDIS_GRANTED);
	a->args.gap_ms = 9000;
	ck_status(release(a), REDIS_DONE);
	/* Not free yet: readers go on. */
	ck_status(acquire_s(c), REDIS_GRANTED);
	ck_status(release(c), REDIS_DONE);
	ck_status(release(b), REDIS_DONE);
	ck_status(try_s(c), REDIS_BUSY);
	ck_kind(c, REDIS_KIND_GAP);
}
END_TEST

START_TEST(the_gap_ends)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	a->args.gap_ms = 20;
	ck_status(release(a), REDIS_DONE);
	let_pass(20);
	ck_status(try_x(b), REDIS_GRANTED);
	ck_status(release(b), REDIS_DONE);
	/* Stored before the clock was set back. */
	ck_redis("1", redis, "HSET {lock}:f gap 99999999999999 x 1");
	ck_status(try_x(b), REDIS_GRANTED);
}
END_TEST

/* A dead waiter prevents the short path. */
static int64_t token_of(struct peer *p, bool is_short)
{
	if (!is_short)
		redis_say(redis, "ZADD {lock}:q 1 X:dead");
	if (!is_short)
		redis_say(redis, "ZADD {lock}:qx 1 X:dead");
	new_value(p);
	ck_status(acquire_x(p), REDIS_GRANTED);
	redis_say(redis, "DEL lock {lock}:f");
	return p->op.reply.fence;
}

/* By the clock, however soon the next writer comes. */
START_TEST(tokens_rise_after_a_loss_of_all_data)
{
	int64_t last = 0, token;
	int i;

	for (i = 0; i < 200; i++) {
		token = token_of(i % 2 ? a : b, _i);
		ck_assert_int_gt(token, last);
		ck_assert_int_ge(token, clock_tokens(i % 2 ? a : b));
		last = token;
	}
}
END_TEST

/* ---------------------------------------------------------------- renewal */

START_TEST(renewing_counts_from_now)
{
	a->args.ttl_ms = 10000;
	ck_status(acquire_x(a), REDIS_GRANTED);
	a->args.ttl_ms = 100000;
	ck_status(renew(a), REDIS_DONE);
	ck_ttl("lock", 50000, 100000);
	a->args.ttl_ms = 40000;
	ck_status(renew(a), REDIS_DONE);
	ck_ttl("lock", 0, 40000);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(renew(a), REDIS_DONE);
	ck_assert_int_eq(a->op.reply.queued, 1);
}
END_TEST

/* Leases of one host with names of their own, as renew-many.lua gets them. */
#define SOME 8
static struct redis_keys some_keys[SOME];
static struct redis_many some;

static void take_some(void)
{
	char name[8];
	size_t i;

	some.n = SOME;
	a->keys = some_keys;
	for (i = 0; i < SOME; i++, a->keys++) {
		snprintf(name, sizeof(name), "some%zu", i);
		ck_code(redis_keys_make(a->keys, REDIS_KEYS_SINGLE, "", name, strlen(name), NULL), 0);
		some.keys[i] = a->keys;
		some.value[i] = a->value;
		ck_status(i == 1 ? acquire_s(a) : acquire_x(a), REDIS_GRANTED);
	}
}

/* Renews them; returns a digit for each. */
static const char *renew_some(int64_t ttl_ms)
{
	static char done[SOME + 1];
	size_t i;

	ck_code(redis_op_begin_many(&a->op, a->conn, &some, ttl_ms, soon()), 0);
	redis_ops_wait(&a->op, 1);
	ck_assert_msg(a->op.code == 0, "%s", a->op.why);
	for (i = 0; i < SOME; i++)
		done[i] = redis_op_renewed(&a->op, i) ? '1' : '0';
	redis_op_end(&a->op);
	return done;
}

/* Only leases that need nothing else. */
START_TEST(renewing_many)
{
	take_some();
	some.fences = true;
	ck_assert_str_eq(renew_some(LONG_MS), "10111111");
	ck_redis("1", redis, "DEL some2");
	ck_redis("OK", redis, "SET some3 thief PX 5000");
	ck_redis("1", redis, "PEXPIRE some7 5000");
	ck_assert_str_eq(renew_some(LONG_MS), "10001111");
	ck_ttl("some7", LONG_MS - 20000, LONG_MS);
	ck_redis("0", redis, "EXISTS some2");
	ck_ttl("some3", 0, 5000);
	/* A forgotten script is sent as text. */
	ck_redis("OK", redis, "SCRIPT FLUSH");
	ck_assert_str_eq(renew_some(LONG_MS), "10001111");
	/* One lease needs more: all are left to be renewed one by one. */
	ck_redis("1", redis, "DEL {some4}:f");
	ck_assert_str_eq(renew_some(LONG_MS), "00000000");
	a->keys = &some_keys[4];
	ck_status(renew(a), REDIS_DONE);
	ck_assert_str_eq(renew_some(LONG_MS), "10001111");
	ck_redis("OK", redis, "SET some5:lock-intent somebody");
	ck_assert_str_eq(renew_some(LONG_MS), "00000000");
	ck_redis("1", redis, "DEL some5:lock-intent");
	ck_assert_str_eq(renew_some(LONG_MS), "10001111");
	some.fences = false;
	ck_redis("1", redis, "DEL {some4}:f");
	ck_assert_str_eq(renew_some(LONG_MS), "10001111");
	b->keys = &some_keys[6];
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_assert_str_eq(renew_some(LONG_MS), "00000000");
}
END_TEST

START_TEST(renewing_never_creates)
{
	ck_status(renew(a), REDIS_ABSENT);
	ck_redis("0", redis, "DBSIZE");
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_redis("OK", redis, "FLUSHALL");
	ck_status(renew(a), REDIS_ABSENT);
	ck_redis("0", redis, "EXISTS lock");
}
END_TEST

START_TEST(a_stolen_lock)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_redis("OK", redis, "SET lock thief");
	ck_status(renew(a), REDIS_LOST);
	ck_kind(a, REDIS_KIND_FOREIGN);
	ck_assert_str_eq(a->op.reply.holder, "thief");
	ck_assert_int_eq(a->op.reply.left_ms, -1);
	ck_status(release(a), REDIS_LOST);
	ck_redis("thief", redis, "GET lock");
}
END_TEST

/* ---------------------------------------------------------------- readers */

START_TEST(readers_together)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_redis("2", redis, "SCARD lock");
	ck_status(try_x(c), REDIS_BUSY);
	ck_kind(c, REDIS_KIND_READERS);
	ck_status(release(a), REDIS_DONE);
	ck_status(try_x(c), REDIS_BUSY);
	ck_status(release(b), REDIS_DONE);
	ck_redis("0", redis, "EXISTS lock {lock}:rx");
	ck_status(try_x(c), REDIS_GRANTED);
	ck_status(try_s(a), REDIS_BUSY);
}
END_TEST

/* Each reader has its own deadline: renewals of others do not keep a dead one. */
START_TEST(a_dead_reader_is_left_out)
{
	a->args.ttl_ms = 20;
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_s(b), REDIS_GRANTED);
	let_pass(20);
	ck_status(renew(b), REDIS_DONE);
	ck_status(renew(a), REDIS_LOST);
	ck_status(release(b), REDIS_DONE);
	ck_status(try_x(c), REDIS_GRANTED);
}
END_TEST

START_TEST(a_late_reader)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_s(b), REDIS_GRANTED);
	/* Its deadline has passed, and no script has run since. */
	ck_redis("0", redis, "ZADD {lock}:rx 1 %s", a->value);
	ck_status(release(a), REDIS_LATE);
	ck_status(release(a), REDIS_LOST);
	ck_redis("1", redis, "SCARD lock");
}
END_TEST

/* A reader with a shorter lease does not shorten that of the others. */
START_TEST(the_longest_lease_counts)
{
	a->args.ttl_ms = 100000;
	ck_status(acquire_s(a), REDIS_GRANTED);
	b->args.ttl_ms = 40000;
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_ttl("lock", 50000, 100000);
	ck_status(renew(b), REDIS_DONE);
	ck_ttl("lock", 50000, 100000);
	ck_ttl("{lock}:rx", 50000, 100000);
}
END_TEST

START_TEST(reading_again_with_the_same_token)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	/* Not queued after the writer: this reader holds the lock already. */
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_redis("1", redis, "SCARD lock");
	ck_status(acquire_s(c), REDIS_QUEUED);
}
END_TEST

/* ---------------------------------------------------------------- fencing */

/* Ranges of 2 ms of the clock: up to 14 ms of tokens are ahead of it when the server loses them. */
START_TEST(fence_rises_with_every_holder)
{
	int64_t last = 0;
	int i;

	a->args.stride = b->args.stride = 16 * 2000;
	for (i = 0; i < 20; i++) {
		struct peer *p = i % 2 ? a : b;

		ck_status(i % 3 ? acquire_x(p) : acquire_s(p), REDIS_GRANTED);
		ck_assert_int_gt(p->op.reply.fence, last);
		last = p->op.reply.fence + (i % 3 ? p->args.stride - 1 : 0);
		ck_status(release(p), REDIS_DONE);
		if (i % 7 == 6) {
			ck_redis("1", redis, "DEL {lock}:f");
			let_pass(30);
		}
	}
}
END_TEST

/* A host uses up to four tokens in a microsecond, and reserves a third more than it uses: what it had when all data was
 * lost must be below the clock of the next acquire, or another host gets tokens once more.  By both paths. */
static void ck_clock_is_faster_than_holds(struct peer *next, const char *flags)
{
	int64_t from_ms, before;

	ck_status(acquire_x(a), REDIS_GRANTED);
	before = a->op.reply.fence;
	from_ms = reply_ms(a);
	let_pass(20);
	ck_redis("OK", redis, "FLUSHALL");
	next->args.flags = flags;
	ck_status(acquire_x(next), REDIS_GRANTED);
	ck_assert_int_ge(next->op.reply.fence - before, (reply_ms(next) - from_ms - 1) * 12000);
	ck_redis("OK", redis, "FLUSHALL");
}

START_TEST(the_clock_is_faster_than_holds)
{
	ck_clock_is_faster_than_holds(b, "l");
	ck_clock_is_faster_than_holds(b, "");
}
END_TEST

/* The clock is a lower bound. */
START_TEST(fence_survives_flushall)
{
	int64_t before;

	ck_status(acquire_x(a), REDIS_GRANTED);
	before = a->op.reply.fence;
	let_pass(1);
	ck_redis("OK", redis, "FLUSHALL");
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_assert_int_ge(b->op.reply.fence, before + 1024);
}
END_TEST

START_TEST(fence_can_be_raised)
{
	int64_t raised;

	ck_status(acquire_x(a), REDIS_GRANTED);
	a->args.fence = a->op.reply.fence + 5000000;
	ck_status(peer_do(a, REDIS_FENCE), REDIS_DONE);
	ck_status(release(a), REDIS_DONE);
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_assert_int_eq(b->op.reply.fence, a->args.fence);
	/* Never lowered. */
	raised = a->args.fence;
	a->args.fence = 1;
	ck_status(peer_do(a, REDIS_FENCE), REDIS_DONE);
	ck_status(release(b), REDIS_DONE);
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_assert_int_eq(b->op.reply.fence, raised + b->args.stride);
}
END_TEST

/* ---------------------------------------------------------------- administration */

static const char *text_at(const struct peer *p, size_t i)
{
	size_t len;
	const char *text = redis_reply_text(redis_reply_at(p->op.inspected, i), &len);

	return text ? text : "";
}

START_TEST(inspect_changes_nothing)
{
	ck_status(peer_do(a, REDIS_INSPECT), REDIS_DONE);
	ck_assert_str_eq(text_at(a, 1), "none");
	ck_redis("0", redis, "DBSIZE");
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(peer_do(c, REDIS_INSPECT), REDIS_DONE);
	ck_assert_str_eq(text_at(c, 1), "string");
	ck_assert_str_eq(text_at(c, 2), a->value);
	ck_assert_int_gt(redis_reply_integer(redis_reply_at(c->op.inspected, 3), 0), 0);
	ck_assert_uint_eq(redis_reply_count(redis_reply_at(c->op.inspected, 6)), 2);
	ck_assert_uint_eq(redis_reply_count(redis_reply_at(c->op.inspected, 9)), 3);
	ck_status(release(a), REDIS_DONE);
	ck_status(leave(b, "x"), REDIS_DONE);
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_status(peer_do(c, REDIS_INSPECT), REDIS_DONE);
	ck_assert_str_eq(text_at(c, 1), "set");
	ck_assert_uint_eq(redis_reply_count(redis_reply_at(c->op.inspected, 2)), 2);
	ck_assert_uint_eq(redis_reply_count(redis_reply_at(c->op.inspected, 8)), 4);
}
END_TEST

START_TEST(force_release_of_what_was_seen)
{
	int64_t before;

	ck_status(acquire_x(a), REDIS_GRANTED);
	before = a->op.reply.fence;
	c->args.value = "something";
	ck_status(peer_do(c, REDIS_FORCE_RELEASE), REDIS_CHANGED);
	ck_assert_str_eq(c->op.reply.holder, a->value);
	c->args.value = a->value;
	ck_status(peer_do(c, REDIS_FORCE_RELEASE), REDIS_DONE);
	ck_status(renew(a), REDIS_ABSENT);
	ck_status(peer_do(c, REDIS_FORCE_RELEASE), REDIS_CHANGED);
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_assert_int_gt(b->op.reply.fence, before + a->args.stride);
}
END_TEST

START_TEST(force_release_of_one_reader)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_redis("1", redis, "SADD lock stranger");
	c->args.value = "stranger";
	ck_status(peer_do(c, REDIS_FORCE_RELEASE), REDIS_DONE);
	ck_redis("0", redis, "SISMEMBER lock stranger");
	ck_redis("1", redis, "SISMEMBER lock %s", a->value);
}
END_TEST

static void peers(void)
{
	a = peer_new();
	b = peer_new();
	c = peer_new();
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, peers, peers_end);
	tcase_add_test(tc, a_free_lock);
	tcase_add_test(tc, the_short_path_and_the_long);
	tcase_add_test(tc, tokens_are_host_and_chance);
	tcase_add_test(tc, a_held_lock);
	tcase_add_test(tc, expiry_frees);
	tcase_add_test(tc, release_reports_what_it_found);
	tcase_add_test(tc, repeated_acquire_with_the_same_value);
	tcase_add_test(tc, a_gap_is_left_to_other_programs);
	tcase_add_test(tc, readers_leave_a_gap);
	tcase_add_test(tc, the_gap_ends);
	tcase_add_loop_test(tc, tokens_rise_after_a_loss_of_all_data, 0, 2);
	tcase_add_test(tc, renewing_counts_from_now);
	tcase_add_test(tc, renewing_many);
	tcase_add_test(tc, renewing_never_creates);
	tcase_add_test(tc, a_stolen_lock);
	tcase_add_test(tc, readers_together);
	tcase_add_test(tc, a_dead_reader_is_left_out);
	tcase_add_test(tc, a_late_reader);
	tcase_add_test(tc, the_longest_lease_counts);
	tcase_add_test(tc, reading_again_with_the_same_token);
	tcase_add_test(tc, fence_rises_with_every_holder);
	tcase_add_test(tc, the_clock_is_faster_than_holds);
	tcase_add_test(tc, the_clock_is_faster_than_holds);
	tcase_add_test(tc, fence_survives_flushall);
	tcase_add_test(tc, fence_can_be_raised);
	tcase_add_test(tc, inspect_changes_nothing);
	tcase_add_test(tc, force_release_of_what_was_seen);
	tcase_add_test(tc, force_release_of_one_reader);
}

int main(void)
{
	return redis_main("bridge-lock", add);
}
