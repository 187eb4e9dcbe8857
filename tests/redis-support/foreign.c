/* SPDX-License-Identifier: MIT */
/* foreign.c - the lock shared with any program that takes it with SET NX PX: what each must see of the other */
#define _GNU_SOURCE
#include "foreign.h"

#include <stdlib.h>

#include "peer.h"

static const struct foreign *foreign;
static struct peer *a;

START_TEST(it_holds)
{
	ck_assert(foreign_ask("lock 30000"));
	ck_status(try_x(a), REDIS_BUSY);
	ck_kind(a, REDIS_KIND_FOREIGN);
	ck_assert_int_gt(a->op.reply.left_ms, 0);
	ck_assert_int_le(a->op.reply.left_ms, 30000);
	ck_status(try_s(a), REDIS_BUSY);
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_assert(foreign_ask("extend 30000"));
	ck_assert(foreign_ask("unlock"));
	ck_status(acquire_x(a), REDIS_GRANTED);
}
END_TEST

START_TEST(we_write)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_assert(!foreign_ask("lock 30000"));
	ck_redis(a->value, redis, "GET lock");
	ck_assert_int_gt(atoi(redis_say(redis, "PTTL lock")), 30000);
	ck_status(release(a), REDIS_DONE);
	ck_assert(foreign_ask("lock 30000"));
	ck_assert(foreign_ask("unlock"));
	ck_redis("0", redis, "EXISTS lock");
}
END_TEST

START_TEST(we_read)
{
	ck_status(acquire_s(a), REDIS_GRANTED);
	ck_assert(!foreign_ask("lock 30000"));
	ck_redis("1", redis, "SCARD lock");
	ck_status(renew(a), REDIS_DONE);
	ck_status(release(a), REDIS_DONE);
	ck_assert(foreign_ask("lock 30000"));
	ck_assert(foreign_ask("unlock"));
}
END_TEST

START_TEST(it_waits_for_us)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	foreign_tell("wait 30000");
	ck_status(renew(a), REDIS_DONE);
	ck_status(release(a), REDIS_DONE);
	ck_assert(foreign_hear());
	ck_status(release(a), REDIS_LOST);
	ck_status(renew(a), REDIS_LOST);
	ck_assert(foreign_ask("unlock"));
}
END_TEST

START_TEST(it_acquires_in_the_gap)
{
	ck_status(acquire_x(a), REDIS_GRANTED);
	a->args.gap_ms = LONG_MS;
	ck_status(release(a), REDIS_DONE);
	ck_assert(foreign_ask("lock 30000"));
	ck_assert(foreign_ask("unlock"));
}
END_TEST

/* The foreign holder overslept: its late commands must not harm the new holder. */
START_TEST(it_is_late)
{
	ck_assert(foreign_ask("lock 30000"));
	ck_redis("1", redis, "DEL lock");
	ck_status(acquire_x(a), REDIS_GRANTED);
	ck_assert(!foreign_ask("extend 30000"));
	ck_assert(!foreign_ask("unlock"));
	ck_redis(a->value, redis, "GET lock");
	ck_status(renew(a), REDIS_DONE);
	ck_status(release(a), REDIS_DONE);
}
END_TEST

START_TEST(it_never_ends)
{
	ck_assert(foreign_ask("lock 30000"));
	ck_redis("1", redis, "PERSIST lock");
	ck_status(acquire_x(a), REDIS_QUEUED);
	ck_assert_int_eq(a->op.reply.left_ms, -1);
	ck_redis("-1", redis, "PTTL lock");
	ck_assert(foreign_ask("unlock"));
}
END_TEST

/* Once for all cases: interpreters are slow to start. */
static void start(void)
{
	foreign_start(foreign);
}

static void peers(void)
{
	a = peer_new();
}

static void add(TCase *tc)
{
	tcase_add_unchecked_fixture(tc, start, foreign_end);
	tcase_add_checked_fixture(tc, peers, peers_end);
	tcase_add_test(tc, it_holds);
	tcase_add_test(tc, we_write);
	tcase_add_test(tc, we_read);
	tcase_add_test(tc, it_waits_for_us);
	tcase_add_test(tc, it_acquires_in_the_gap);
	tcase_add_test(tc, it_is_late);
	tcase_add_test(tc, it_never_ends);
}

int foreign_main(const char *name, const struct foreign *f)
{
	if (!foreign_is_there(f)) {
		printf("skipped: %s\n", f->missing);
		return 77;
	}
	foreign = f;
	return redis_main(name, add);
}
