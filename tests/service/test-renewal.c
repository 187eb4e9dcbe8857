/* SPDX-License-Identifier: MIT */
/* test-renewal.c - when the service thread is woken for a renewal, and when it wakes up by itself */
#include "hold/renewal.h"
#include "segment/segment.h"
#include "support/fixture.h"

#define LONG LOCKSHM_SECONDS(60)
#define SHORT LOCKSHM_MS(300)

static lockshm_hold_t first, hold;

static int renewed(lockshm_hold_t *h, const char *key, int64_t ttl)
{
	struct lockshm_request q = LOCKSHM_REQUEST(key);

	q.ttl_ns = ttl;
	q.flags = LOCKSHM_AUTO_RENEW;
	return lockshm_acquire(seg, &q, h);
}

static bool sleeps_long(void *unused)
{
	int64_t left;

	(void)unused;
	renewals_lock(seg);
	left = seg->renewals->sleeps_until - segment_now(seg);
	renewals_unlock(seg);
	/* Before it has seen the first renewal it means to sleep for an hour. */
	return left > LONG / 4 && left < LONG;
}

/* The service thread is to wake up in half a minute. */
static void asleep(void)
{
	ck_code(renewed(&first, "first", LONG), 0);
	ck_assert(await(sleeps_long, NULL));
}

static bool is_good(void *since)
{
	return now_ns() > *(const int64_t *)since + SHORT && lockshm_check(&hold, NULL) == 0;
}

START_TEST(a_later_renewal_wakes_nothing)
{
	uint32_t rung;
	int i;

	asleep();
	rung = load_acquire32(&seg->renewals->doorbell);
	for (i = 0; i < 100; i++) {
		ck_code(renewed(&hold, "k", LONG), 0);
		ck_code(lockshm_renew(&hold, LONG), 0);
		ck_code(lockshm_release(&hold, 0), 0);
	}
	ck_assert_uint_eq(load_acquire32(&seg->renewals->doorbell), rung);
	ck_code(lockshm_release(&first, 0), 0);
}
END_TEST

START_TEST(an_earlier_renewal_is_made)
{
	int64_t since;

	asleep();
	since = now_ns();
	ck_code(renewed(&hold, "k", SHORT), 0);
	ck_assert(await(is_good, &since));
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_release(&first, 0), 0);
}
END_TEST

START_TEST(a_lease_that_becomes_shorter_is_renewed)
{
	int64_t since;

	asleep();
	ck_code(renewed(&hold, "k", LONG), 0);
	since = now_ns();
	ck_code(lockshm_renew(&hold, SHORT), 0);
	ck_assert(await(is_good, &since));
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_release(&first, 0), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_later_renewal_wakes_nothing);
	tcase_add_test(tc, an_earlier_renewal_is_made);
	tcase_add_test(tc, a_lease_that_becomes_shorter_is_renewed);
}

int main(void)
{
	return fixture_main("renewal", add);
}
