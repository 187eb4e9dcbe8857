/* SPDX-License-Identifier: MIT */
/* test-note.c - the note of a robust key in Redis: what each script makes of it */
#define _GNU_SOURCE
#include "redis-support/peer.h"

#include <stdlib.h>
#include <string.h>

static struct peer *a, *b;
static int64_t first, second; /* numbers of leases */

static const char *field(const char *name)
{
	return redis_say(redis, "HGET {lock}:f %s", name);
}

/* Robust requests from here on; returns the last token of the lease. */
static int64_t acquires(struct peer *p)
{
	new_value(p);
	p->args.note = 1;
	ck_status(acquire_x(p), REDIS_GRANTED);
	ck_assert(p->op.reply.noted);
	return p->op.reply.fence + p->args.stride - 1;
}

static void is_told(const struct peer *p, int64_t bad, int64_t good)
{
	ck_assert_int_eq(p->op.reply.bad, bad);
	ck_assert_int_eq(p->op.reply.good, good);
}

/* It is there for longer than the fence of a plain key. */
static void stays(void)
{
	ck_assert_int_gt(strtoll(redis_say(redis, "PTTL {lock}:f"), NULL, 10), INT64_C(20) * 24 * 60 * LONG_MS);
}

static int closes_late(struct peer *p, const char *how, int64_t last)
{
	int status;

	p->args.close = how;
	p->args.last = last;
	if (*how == 'k')
		snprintf(p->args.how, sizeof(p->args.how), "%lld", (long long)first);
	else
		strcpy(p->args.how, "d4711");
	status = release(p);
	p->args.close = NULL;
	return status;
}

static void closes(struct peer *p, const char *how, int64_t last)
{
	ck_status(closes_late(p, how, last), REDIS_DONE);
}

static void two_peers(void)
{
	a = peer_new();
	b = peer_new();
	first = acquires(a);
	is_told(a, 0, 0);
}

START_TEST(given_back)
{
	two_peers();
	closes(a, "c", first);
	second = acquires(b);
	is_told(b, first, first);
	stays();
	closes(b, "c", second);
	ck_assert_int_gt(acquires(a), second);
	is_told(a, second, second);
}
END_TEST

/* A failover lost that the lease was given such tokens, and the new server's clock is behind. */
START_TEST(later_tokens_are_above_it)
{
	int64_t last;

	two_peers();
	last = first + INT64_C(1000000000000);
	closes(a, "d", last);
	second = acquires(b);
	ck_assert_int_gt(second, last);
	is_told(b, last, 0);
	closes(b, "k", second);
	(void)acquires(a);
	is_told(a, second, 0);
}
END_TEST

START_TEST(a_holder_died)
{
	char why[64];

	two_peers();
	closes(a, "d", first);
	snprintf(why, sizeof(why), "%lldd%s4711", (long long)first, a->host.id);
	second = acquires(b);
	is_told(b, first, 0);
	ck_assert_str_eq(b->op.reply.why, why);
	/* Told, and kept: for the next one, too, and for a reader. */
	closes(b, "k", second);
	b->args.note = 1;
	new_value(b);
	ck_status(acquire_s(b), REDIS_GRANTED);
	is_told(b, second, 0);
	ck_assert_str_eq(b->op.reply.why, why);
	ck_status(release(b), REDIS_DONE);
	/* Acknowledged. */
	second = acquires(a);
	ck_assert_str_eq(a->op.reply.why, why);
	closes(a, "c", second);
	(void)acquires(b);
	is_told(b, second, second);
	ck_assert_str_eq(b->op.reply.why, "");
}
END_TEST

START_TEST(not_given_back)
{
	char why[64];

	two_peers();
	ck_redis("1", redis, "DEL lock");
	second = acquires(b);
	is_told(b, first, 0);
	snprintf(why, sizeof(why), "%lldl%s", (long long)first, a->host.id);
	ck_assert_str_eq(b->op.reply.why, why);
	/* The same command again. */
	ck_status(acquire_x(b), REDIS_GRANTED);
	is_told(b, first, 0);
	/* Too late: the later lease was told of it.  Its own holders tell of it here. */
	ck_status(closes_late(a, "d", first), REDIS_LOST);
	ck_assert(!a->op.reply.bad);
	closes(b, "c", second);
	(void)acquires(a);
	ck_assert_int_eq(a->op.reply.bad, a->op.reply.good);
}
END_TEST

/* Commands of a stopped leader, late: of a lease that was closed, and of one that was not used. */
START_TEST(late_commands)
{
	two_peers();
	closes(a, "d", first);
	ck_status(closes_late(a, "u", first), REDIS_ABSENT);
	ck_status(closes_late(a, "k", first), REDIS_ABSENT);
	ck_status(closes_late(a, "d", first), REDIS_ABSENT);
	ck_assert(a->op.reply.bad);
	(void)acquires(b);
	is_told(b, first, 0);
}
END_TEST

START_TEST(not_used)
{
	two_peers();
	closes(a, "u", first);
	second = acquires(b);
	is_told(b, 0, 0);
	closes(b, "d", second);
	(void)acquires(a);
	closes(a, "u", 0);
	(void)acquires(b);
	is_told(b, second, 0);
}
END_TEST

/* Acknowledged in Redis while a lease goes on that was told: that one is whole, unless it says otherwise. */
START_TEST(acknowledged_meanwhile)
{
	two_peers();
	closes(a, "d", first);
	second = acquires(b);
	new_value(a);
	ck_status(closes_late(a, "a", first), REDIS_LOST);
	closes(b, "k", second);
	(void)acquires(a);
	is_told(a, second, second);
}
END_TEST

/* The server has lost the note: the release brings it. */
START_TEST(lost_data)
{
	two_peers();
	redis_say(redis, "FLUSHALL");
	ck_status(closes_late(a, "d", first), REDIS_ABSENT);
	ck_assert(a->op.reply.bad);
	(void)acquires(b);
	is_told(b, first, 0);
}
END_TEST

/* The key became robust under a lease, or the note was lost: by a renewal. */
START_TEST(with_a_renewal)
{
	a = peer_new();
	b = peer_new();
	ck_status(acquire_x(a), REDIS_GRANTED);
	first = a->op.reply.fence + 5;
	a->args.note = first;
	a->args.stride = 0;
	ck_status(renew(a), REDIS_DONE);
	is_told(a, 0, 0);
	ck_status(renew(a), REDIS_DONE);
	ck_redis("1", redis, "DEL lock");
	(void)acquires(b);
	is_told(b, first, 0);
}
END_TEST

/* As before there were notes: no field, no argument. */
START_TEST(plain_keys_have_none)
{
	a = peer_new();
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_assert(!a->op.reply.noted);
	ck_assert_int_eq(a->op.n_args, 6);
	ck_status(renew(a), REDIS_DONE);
	ck_assert_int_eq(a->op.n_args, 3);
	ck_status(release(a), REDIS_DONE);
	ck_assert_int_eq(a->op.n_args, 2);
	ck_assert(!a->op.reply.noted);
	ck_redis("3", redis, "HLEN {lock}:f");
}
END_TEST

/* A plain lease of another host keeps the note, and its time. */
START_TEST(plain_leases_keep_it)
{
	two_peers();
	closes(a, "d", first);
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_assert(!b->op.reply.noted);
	ck_status(release(b), REDIS_DONE);
	new_value(b);
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_status(release(b), REDIS_DONE);
	stays();
	(void)acquires(a);
	is_told(a, first, 0);
}
END_TEST

/* At one server of several: a note has the token that the host asked for, or that it was raised to. */
START_TEST(of_a_majority)
{
	int64_t asked = strtoll(redis_say(redis, "TIME") + 1, NULL, 10) * 1000000 + INT64_C(3600000000);

	a = peer_new();
	b = peer_new();
	a->args.note = 1;
	a->args.clock_us = asked;
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_assert(a->op.reply.noted);
	first = a->op.reply.fence + a->args.stride - 1;
	closes(a, "c", first);
	/* The server is ahead of what is asked. */
	new_value(b);
	b->args.note = 1;
	b->args.clock_us = asked - 1000;
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_assert(!b->op.reply.noted);
	ck_assert_str_ne(field("open"), "");
	b->args.fence = b->op.reply.fence + 2 * b->args.stride;
	ck_status(peer_do(b, REDIS_FENCE), REDIS_DONE);
	ck_assert(b->op.reply.noted);
	is_told(b, first, first);
}
END_TEST

/* A server of a minority that has lost the note does not know that it was acknowledged. */
START_TEST(kept_where_the_note_is_missing)
{
	two_peers();
	closes(a, "d", first);
	redis_say(redis, "FLUSHALL");
	second = acquires(b);
	closes(b, "k", second);
	(void)acquires(a);
	ck_assert_int_lt(a->op.reply.good, second);
}
END_TEST

/* Whole, but given back when another writer had it: that one was told, and its word counts. */
START_TEST(whole_too_late)
{
	two_peers();
	ck_redis("1", redis, "DEL lock");
	second = acquires(b);
	is_told(b, first, 0);
	ck_status(closes_late(a, "c", first), REDIS_LOST);
	closes(b, "k", second);
	(void)acquires(a);
	is_told(a, second, 0);
}
END_TEST

/* The same with a plain writer, who changes nothing of the note. */
START_TEST(whole_too_late_after_a_plain_one)
{
	two_peers();
	ck_redis("1", redis, "DEL lock");
	ck_status(acquire_x(b), REDIS_GRANTED);
	ck_status(closes_late(a, "c", first), REDIS_LOST);
	ck_status(release(b), REDIS_DONE);
	(void)acquires(b);
	is_told(b, first, 0);
}
END_TEST

/* Late, but nobody else came. */
START_TEST(whole_after_it_expired)
{
	two_peers();
	ck_redis("1", redis, "DEL lock");
	ck_status(closes_late(a, "c", first), REDIS_ABSENT);
	(void)acquires(b);
	is_told(b, first, first);
}
END_TEST

/* The time of a note that a release brings. */
START_TEST(a_gap_does_not_shorten_it)
{
	a = peer_new();
	b = peer_new();
	ck_status(acquire_x(a), REDIS_GRANTED);
	a->args.gap_ms = 5;
	closes(a, "d", a->op.reply.fence + 5);
	stays();
}
END_TEST

/* The same value is granted twice, and another lease ended badly in between: the second reply tells. */
START_TEST(granted_again)
{
	two_peers();
	ck_redis("1", redis, "DEL lock");
	second = acquires(b);
	ck_redis("1", redis, "DEL lock");
	a->op.reply.bad = 0;
	ck_status(acquire_x(a), REDIS_GRANTED);
	is_told(a, second, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, given_back);
	tcase_add_test(tc, later_tokens_are_above_it);
	tcase_add_test(tc, a_holder_died);
	tcase_add_test(tc, not_given_back);
	tcase_add_test(tc, late_commands);
	tcase_add_test(tc, not_used);
	tcase_add_test(tc, acknowledged_meanwhile);
	tcase_add_test(tc, lost_data);
	tcase_add_test(tc, with_a_renewal);
	tcase_add_test(tc, plain_keys_have_none);
	tcase_add_test(tc, plain_leases_keep_it);
	tcase_add_test(tc, of_a_majority);
	tcase_add_test(tc, kept_where_the_note_is_missing);
	tcase_add_test(tc, whole_too_late);
	tcase_add_test(tc, whole_too_late_after_a_plain_one);
	tcase_add_test(tc, whole_after_it_expired);
	tcase_add_test(tc, a_gap_does_not_shorten_it);
	tcase_add_test(tc, granted_again);
}

int main(void)
{
	return redis_main("bridge-note", add);
}
