/* SPDX-License-Identifier: MIT */
/* test-max-hold.c - a hold that is renewed by itself for so long and no longer */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"

/* Of this process, which the service thread renews for @max. */
static int hold_at_most(lockshm_hold_t *hold, int64_t ttl, int64_t max)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;

	q.key = "k";
	q.key_len = 1;
	q.flags = LOCKSHM_AUTO_RENEW;
	q.ttl_ns = ttl;
	q.max_hold_ns = max;
	return lockshm_acquire(seg, &q, hold);
}

/* @w waits for it, and gets it after that long. */
static void comes_after(struct agent *w, int64_t begun, int64_t ns)
{
	ck_code(agent_end(w), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_assert_int_ge(w->answer.at_ns - begun, ns - LOCKSHM_MS(5));
	ck_assert_int_lt(w->answer.at_ns - begun, ns + LOCKSHM_MS(150));
}

START_TEST(renewed_for_so_long_and_no_longer)
{
	struct agent *w = agent_start();
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int64_t begun = now_ns();
	uint64_t notices = 0;

	ck_code(hold_at_most(&hold, LOCKSHM_MS(300), LOCKSHM_MS(1000)), 0);
	ck_code(lockshm_notify(&hold, fd), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	pass(begun + LOCKSHM_MS(850));
	ck_code(agent_poll(w), AGENT_BLOCKED);
	ck_code(lockshm_check(&hold, NULL), 0);
	comes_after(w, begun, LOCKSHM_SECONDS(1));
	ck_code(lockshm_check(&hold, NULL), LOCKSHM_LOST);
	ck_assert_int_eq(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 5000), 1);
	ck_assert_int_eq(read(fd, &notices, sizeof(notices)), sizeof(notices));
	ck_code(lockshm_release(&hold, 0), LOCKSHM_LOST);
	close(fd);
}
END_TEST

START_TEST(renewed_for_less_than_a_lease)
{
	struct agent *w = agent_start();
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int64_t begun = now_ns();

	ck_code(hold_at_most(&hold, LOCKSHM_SECONDS(30), LOCKSHM_MS(300)), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	comes_after(w, begun, LOCKSHM_MS(300));
	ck_code(lockshm_release(&hold, 0), LOCKSHM_LOST);
}
END_TEST

/* The owner shows that it is at work. */
START_TEST(renewed_by_the_owner_it_begins_anew)
{
	struct agent *w = agent_start();
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int64_t begun = now_ns(), left = 0;

	ck_code(hold_at_most(&hold, LOCKSHM_MS(200), LOCKSHM_MS(600)), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	pass(begun + LOCKSHM_MS(400));
	begun = now_ns();
	ck_code(lockshm_renew(&hold, LOCKSHM_MS(200)), 0);
	comes_after(w, begun, LOCKSHM_MS(600));
	ck_code(lockshm_release(&hold, 0), LOCKSHM_LOST);
	ck_code(agent_release(w), 0);
	/* Without a waiter: late, then renewed as before. */
	ck_code(hold_at_most(&hold, LOCKSHM_MS(200), LOCKSHM_MS(500)), 0);
	pass(now_ns() + LOCKSHM_MS(800));
	ck_code(lockshm_check(&hold, NULL), LOCKSHM_LATE);
	ck_code(lockshm_renew(&hold, LOCKSHM_MS(100)), LOCKSHM_LATE);
	/* Shorter than the service thread renews it for. */
	pass(now_ns() + LOCKSHM_MS(150));
	ck_code(lockshm_check(&hold, &left), 0);
	ck_assert_int_le(left, LOCKSHM_AUTO_RENEW_TTL_MIN);
	/* Strict has no end. */
	ck_code(lockshm_renew(&hold, LOCKSHM_FOREVER), 0);
	pass(now_ns() + LOCKSHM_MS(400));
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, renewed_for_so_long_and_no_longer);
	tcase_add_test(tc, renewed_for_less_than_a_lease);
	tcase_add_test(tc, renewed_by_the_owner_it_begins_anew);
}

int main(void)
{
	return fixture_main("max-hold", add);
}
