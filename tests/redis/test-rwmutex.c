/* SPDX-License-Identifier: MIT */
/*
 * test-rwmutex.c - the lock shared with foreign readers and writers that use K and K:lock-intent only
 *
 * Their protocol: a string is a writer, a set are readers, an intent key stops readers.  A writer that fails writes the
 * intent key; a writer that succeeds deletes it, whatever its content; every reader that joins sets the ttl of the
 * whole set.
 */
#define _GNU_SOURCE
#include "redis-support/peer.h"

#include <stdlib.h>
#include <string.h>

static struct peer *a, *b;

/* The four operations of their protocol; nil = taken. */
#define THEIR_TTL "40000"

static bool their_lock(const char *id)
{
	if (strcmp(redis_say(redis, "SET lock %s NX PX " THEIR_TTL, id), "OK") == 0) {
		redis_say(redis, "DEL lock:lock-intent");
		return true;
	}
	ck_redis("OK", redis, "SET lock:lock-intent 1 PX " THEIR_TTL);
	return false;
}

static bool their_rlock(const char *id)
{
	if (strcmp(redis_say(redis, "TYPE lock"), "string") == 0 || atoi(redis_say(redis, "EXISTS lock:lock-intent")))
		return false;
	redis_say(redis, "SADD lock %s", id);
	ck_redis("1", redis, "PEXPIRE lock " THEIR_TTL);
	return true;
}

static void their_unlock(const char *id)
{
	if (strcmp(redis_say(redis, "TYPE lock"), "set") == 0)
		ck_redis("1", redis, "SREM lock %s", id);
	else
		ck_redis("1", redis, "DEL lock");
}

START_TEST(their_writer_and_ours)
{
	ck_assert(their_lock("w1"));
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_kind(a, REDIS_KIND_FOREIGN);
	ck_status(try_s(b), REDIS_BUSY);
	their_unlock("w1");
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_assert(!their_lock("w2"));
	ck_assert(!their_rlock("r1"));
	/* Their intent key stops readers of this protocol, which leave it alone. */
	ck_status(release(a), REDIS_DONE);
	ck_status(try_s(b), REDIS_BUSY);
	ck_kind(b, REDIS_KIND_INTENT);
	ck_assert(their_lock("w2"));
	their_unlock("w2");
	ck_status(try_s(b), REDIS_GRANTED);
}
END_TEST

/* Told apart by value: a reader of this protocol that they removed must not count a foreign one as itself. */
START_TEST(their_reader_after_ours_was_removed)
{
	a->args.ttl_ms = b->args.ttl_ms = 5000;
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_assert(their_rlock("r1"));
	their_unlock(a->value);
	ck_status(acquire_s(b), REDIS_GRANTED);
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL lock")), 20000);
	/* It finds out, and leaves nothing. */
	ck_status(release(a), REDIS_LOST);
	ck_redis("(nil)", redis, "ZSCORE {lock}:rx %s", a->value);
	ck_status(release(b), REDIS_DONE);
	ck_redis("1", redis, "SCARD lock");
}
END_TEST

START_TEST(readers_of_both_kinds)
{
	ck_assert(their_rlock("r1"));
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_redis("2", redis, "SCARD lock");
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL lock")), 40000);
	ck_assert(!their_lock("w1"));
	ck_redis("1", redis, "DEL lock:lock-intent");
	their_unlock("r1");
	ck_status(try_x(b), REDIS_BUSY);
	ck_status(release(a), REDIS_DONE);
	ck_assert(their_lock("w1"));
}
END_TEST

/* Their readers shorten the set's ttl; the next renewal restores it. */
START_TEST(their_reader_shortens_and_we_renew)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_assert(their_rlock("r1"));
	ck_assert_int_le(atoi(redis_say(redis, "PTTL lock")), 40000);
	ck_status(renew(a), REDIS_DONE);
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL lock")), 40000);
	/* Their reader has no deadline: it stays until it leaves or the set ends. */
	ck_status(release(a), REDIS_DONE);
	ck_status(try_x(b), REDIS_BUSY);
	their_unlock("r1");
	ck_status(try_x(b), REDIS_GRANTED);
}
END_TEST

START_TEST(our_waiting_writer_stops_their_readers)
{
	ck_assert(their_rlock("r1"));
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_assert(!their_rlock("r2"));
	/* Their writer passes and deletes the intent key; it is written again when there are readers. */
	their_unlock("r1");
	ck_assert(their_lock("w1"));
	ck_redis("0", redis, "EXISTS lock:lock-intent");
	their_unlock("w1");
	ck_assert(their_rlock("r3"));
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_assert(!their_rlock("r4"));
	their_unlock("r3");
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_status(release(a), REDIS_DONE);
	ck_assert(their_rlock("r4"));
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
	tcase_add_test(tc, their_writer_and_ours);
	tcase_add_test(tc, their_reader_after_ours_was_removed);
	tcase_add_test(tc, readers_of_both_kinds);
	tcase_add_test(tc, their_reader_shortens_and_we_renew);
	tcase_add_test(tc, our_waiting_writer_stops_their_readers);
}

int main(void)
{
	return redis_main("bridge-rwmutex", add);
}
