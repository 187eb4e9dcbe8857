/* SPDX-License-Identifier: MIT */
/* test-modes.c - downgrade and upgrade in Redis */
#define _GNU_SOURCE
#include "redis-support/peer.h"

#include <stdlib.h>

static struct peer *a, *b;

/* ---------------------------------------------------------------- downgrade */

START_TEST(downgrade)
{
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_ABSENT);
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(peer_do(b, REDIS_DOWNGRADE), REDIS_LOST);
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_DONE);
	ck_redis("set", redis, "TYPE lock");
	ck_ttl("lock", LONG_MS - 20000, LONG_MS);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_status(renew(a), REDIS_DONE);
	ck_status(release(a), REDIS_DONE);
	ck_status(release(b), REDIS_DONE);
}
END_TEST

/* The reply was lost, and other readers came meanwhile. */
START_TEST(repeated_downgrade)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_DONE);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_redis("1", redis, "PEXPIRE lock 20000");
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_DONE);
	ck_redis("2", redis, "SCARD lock");
	ck_ttl("lock", LONG_MS - 20000, LONG_MS);
	ck_redis("0", redis, "ZADD {lock}:rx 1 %s", a->value);
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_LOST); /* its reader's deadline passed long ago */
}
END_TEST

/* Its sender was stopped before it was sent: the lease became a writer's again since then. */
START_TEST(downgrade_that_comes_late)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_DONE);
	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_GRANTED);
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_BUSY);
	/* A late upgrade of the earlier mode_gen does not lower the record. */
	ck_status(acquire_x(a), REDIS_GRANTED);
	a->args.mode_gen = 0;
	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_GRANTED);
	a->args.mode_gen = 1;
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_BUSY);
	ck_redis(a->value, redis, "GET lock");
	a->args.mode_gen = 2;
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_DONE);
	ck_redis("set", redis, "TYPE lock");
	/* The next lease begins again. */
	ck_status(release(a), REDIS_DONE);
	new_value(a);
	a->args.mode_gen = 1;
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_DONE);
}
END_TEST

/* The record that tells late downgrades apart is lost: refused. */
START_TEST(downgrade_without_a_record)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_redis("1", redis, "DEL {lock}:f");
	ck_status(peer_do(a, REDIS_DOWNGRADE), REDIS_BUSY);
	ck_redis(a->value, redis, "GET lock");
}
END_TEST

/* ---------------------------------------------------------------- upgrade */

START_TEST(upgrade_of_the_only_reader)
{
	int64_t before;

	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_ABSENT);
	ck_status(acquire_s(a), REDIS_GRANTED);
	before = a->op.reply.fence;
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_BUSY);
	ck_kind(a, REDIS_KIND_READERS);
	ck_status(release(b), REDIS_DONE);
	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_GRANTED);
	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_GRANTED); /* the reply was lost */
	ck_assert_int_gt(a->op.reply.fence, before);
	ck_redis(a->value, redis, "GET lock");
	ck_ttl("lock", LONG_MS - 20000, LONG_MS);
	ck_status(release(a), REDIS_DONE);
	ck_redis("0", redis, "EXISTS lock {lock}:rx");
}
END_TEST

/* The deadline of a reader that died before the server's clock was set back. */
START_TEST(upgrade_despite_a_deadline_far_away)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_redis("0", redis, "ZADD {lock}:rx 9999999999999 %s", b->value);
	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_BUSY);
	ck_assert_int_lt(atoll(redis_say(redis, "ZSCORE {lock}:rx %s", b->value)), 9999999999999);
}
END_TEST

START_TEST(no_upgrade_before_a_waiting_writer)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_status(acquire_x(b), REDIS_QUEUED);
	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_BUSY);
	ck_status(leave(b, "x"), REDIS_DONE);
	ck_redis("OK", redis, "SET lock:lock-intent 1");
	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_BUSY);
	ck_kind(a, REDIS_KIND_INTENT);
	ck_redis("1", redis, "DEL lock:lock-intent");
	ck_status(peer_do(a, REDIS_UPGRADE), REDIS_GRANTED);
}
END_TEST

static void peers(void)
{
	a = peer_new();
	b = peer_new();
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, peers, peers_end);
	tcase_add_test(tc, downgrade);
	tcase_add_test(tc, repeated_downgrade);
	tcase_add_test(tc, downgrade_that_comes_late);
	tcase_add_test(tc, downgrade_without_a_record);
	tcase_add_test(tc, upgrade_of_the_only_reader);
	tcase_add_test(tc, upgrade_despite_a_deadline_far_away);
	tcase_add_test(tc, no_upgrade_before_a_waiting_writer);
}

int main(void)
{
	return redis_main("bridge-modes", add);
}
