/* SPDX-License-Identifier: MIT */
/*
 * test-lease.c - leases: they end, can be moved, and an overrun is reported as what it was
 *
 * A lease may be expired by others only after its end; lockshm_lost_to() names the successor.
 */
#include <string.h>

#include "support/agent.h"
#include "support/fixture.h"

#define SHORT LOCKSHM_MS(20)

static int leased(struct agent *a, int mode, int64_t ttl)
{
	return agent_begin(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = mode, .ns = ttl,
						      .tag = "lease" });
}

static int strict_at_last(struct agent *a)
{
	return agent_do(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE });
}

static int renew(struct agent *a, int64_t ns)
{
	return agent_do(a, (struct agent_command){ .op = AGENT_RENEW, .ns = ns });
}

static int extend(struct agent *a, int64_t ns)
{
	return agent_do(a, (struct agent_command){ .op = AGENT_EXTEND, .ns = ns });
}

/* A holder whose lease has run out, without other requests. */
static struct agent *overdue(int mode)
{
	struct agent *h = agent_start();

	ck_code(leased(h, mode, SHORT), 0);
	pass(h->answer.at_ns + SHORT + LOCKSHM_MS(10));
	return h;
}

START_TEST(lease_ends_under_a_waiter)
{
	struct agent *h = agent_start(), *w = agent_start();
	const struct lockshm_damage *p = &w->answer.report.damage;
	int64_t granted;

	ck_code(leased(h, LOCKSHM_EXCLUSIVE, LOCKSHM_MS(300)), 0);
	granted = h->answer.at_ns;
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_end(w), LOCKSHM_TOOK_OVER_EXPIRED);
	/* Never early: the lease began before the call returned, by less than this. */
	ck_assert_int_ge(w->answer.at_ns, granted + LOCKSHM_MS(300) - LOCKSHM_MS(20));
	ck_assert_int_lt(w->answer.at_ns, granted + LOCKSHM_SECONDS(2));
	ck_code(p->status, LOCKSHM_TOOK_OVER_EXPIRED);
	ck_assert_int_eq(p->pid, h->pid);
	ck_assert_int_eq(p->tid, h->tid);
	ck_assert_uint_eq(p->token, h->answer.token);
	ck_assert_str_eq(p->tag, "lease");
	ck_code(agent_call(h, AGENT_CHECK), LOCKSHM_LOST);
	ck_assert_uint_eq(h->answer.lost_to, w->answer.token);
	ck_code(agent_release(h), LOCKSHM_LOST);
	ck_assert_uint_eq(stat_now().expired, 1);
	ck_assert_uint_ge(stat_now().lost, 1);
}
END_TEST

START_TEST(lease_never_ends_early)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct agent *w = agent_start();
	lockshm_hold_t hold;
	int64_t before = now_ns();
	int code;

	request.ttl_ns = LOCKSHM_MS(_i);
	request.flags = LOCKSHM_ROBUST;
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	/* On a busy machine the lease may be over before the agent comes. */
	code = agent_acquire(w, "k", LOCKSHM_SHARED);
	ck_code(code == AGENT_BLOCKED ? agent_end(w) : code, LOCKSHM_TOOK_OVER_EXPIRED);
	ck_assert_int_ge(w->answer.at_ns - before, LOCKSHM_MS(_i));
	ck_code(lockshm_release(&hold, 0), LOCKSHM_LOST);
}
END_TEST

START_TEST(late_release_returns_late)
{
	struct agent *h = overdue(_i ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE);

	ck_code(agent_call(h, AGENT_CHECK), LOCKSHM_LATE);
	ck_assert_int_eq(h->answer.remaining_ns, 0);
	ck_code(agent_release(h), LOCKSHM_LATE);
	ck_code(agent_release(h), LOCKSHM_NOT_HELD);
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

START_TEST(late_renewal_returns_late_and_holds_again)
{
	struct agent *h = overdue(LOCKSHM_EXCLUSIVE), *w = agent_start();

	ck_code(renew(h, LOCKSHM_SECONDS(60)), LOCKSHM_LATE);
	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_call(h, AGENT_CHECK), 0);
	ck_code(agent_release(h), 0);
}
END_TEST

START_TEST(lost_to_names_the_newer_token)
{
	struct agent *h = overdue(LOCKSHM_EXCLUSIVE), *w = agent_start();
	uint64_t token = h->answer.token;

	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(renew(h, LOCKSHM_SECONDS(1)), LOCKSHM_LOST);
	ck_assert_uint_eq(h->answer.token, token); /* the token stays readable */
	ck_assert_uint_eq(h->answer.lost_to, w->answer.token);
	ck_code(agent_call(w, AGENT_CHECK), 0); /* the late one changed nothing for the new one */
	ck_code(agent_release(h), LOCKSHM_LOST);
	ck_code(agent_call(w, AGENT_CHECK), 0);
	ck_code(agent_release(w), 0);
	verify_clean();
}
END_TEST

START_TEST(lost_stays_lost_when_the_key_is_free_again)
{
	struct agent *h = overdue(LOCKSHM_EXCLUSIVE), *w = agent_start();

	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(agent_release(w), 0);
	ck_code(agent_call(h, AGENT_UPGRADE), LOCKSHM_LOST);
	ck_code(agent_call(h, AGENT_DOWNGRADE), LOCKSHM_LOST);
	ck_code(agent_call(h, AGENT_ACKNOWLEDGE), LOCKSHM_LOST);
	ck_code(agent_release(h), LOCKSHM_LOST);
	ck_assert_uint_ge(h->answer.lost_to, w->answer.token);
}
END_TEST

START_TEST(renew_reset_counts_from_now)
{
	struct agent *h = agent_start();

	ck_code(leased(h, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(60)), 0);
	ck_code(renew(h, LOCKSHM_SECONDS(5)), 0);
	ck_code(agent_call(h, AGENT_CHECK), 0);
	ck_assert_int_le(h->answer.remaining_ns, LOCKSHM_SECONDS(5) + LOCKSHM_MS(20));
	ck_assert_int_gt(h->answer.remaining_ns, LOCKSHM_SECONDS(4));
}
END_TEST

START_TEST(renew_add_counts_from_the_old_end)
{
	struct agent *h = agent_start();

	ck_code(leased(h, LOCKSHM_SHARED, LOCKSHM_SECONDS(60)), 0);
	ck_code(extend(h, LOCKSHM_SECONDS(5)), 0);
	ck_code(extend(h, LOCKSHM_SECONDS(5)), 0);
	ck_code(agent_call(h, AGENT_CHECK), 0);
	ck_assert_int_gt(h->answer.remaining_ns, LOCKSHM_SECONDS(68));
	ck_assert_int_le(h->answer.remaining_ns, LOCKSHM_SECONDS(70) + LOCKSHM_MS(20));
}
END_TEST

START_TEST(renew_can_make_strict_and_back)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(leased(h, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(1)), 0);
	ck_code(renew(h, LOCKSHM_FOREVER), 0);
	ck_code(agent_call(h, AGENT_CHECK), 0);
	ck_assert_int_eq(h->answer.remaining_ns, LOCKSHM_FOREVER);
	ck_code(extend(h, LOCKSHM_SECONDS(1)), LOCKSHM_INVALID);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(renew(h, SHORT), 0); /* seen by a waiter that sleeps already */
	ck_code(agent_end(w), LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

START_TEST(renewed_holder_is_not_expired_by_the_old_end)
{
	struct agent *h = agent_start(), *w = agent_start();
	int i;

	ck_code(leased(h, LOCKSHM_EXCLUSIVE, LOCKSHM_MS(400)), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	for (i = 0; i < 8; i++) {
		pass(now_ns() + LOCKSHM_MS(100));
		ck_code(renew(h, LOCKSHM_MS(400)), 0);
	}
	ck_code(agent_poll(w), AGENT_BLOCKED);
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(lease_of_a_waiter_starts_at_its_grant)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(leased(h, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(60)), 0);
	ck_code(leased(w, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(10)), AGENT_BLOCKED);
	pass(now_ns() + LOCKSHM_MS(200));
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w), 0);
	ck_code(agent_call(w, AGENT_CHECK), 0);
	ck_assert_int_gt(w->answer.remaining_ns, LOCKSHM_SECONDS(10) - LOCKSHM_MS(150));
}
END_TEST

START_TEST(granted_waiter_that_never_wakes_expires_like_anyone)
{
	struct agent *h = agent_start(), *s = agent_start(), *w = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(leased(s, LOCKSHM_EXCLUSIVE, LOCKSHM_MS(50)), AGENT_BLOCKED);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_stop(s);
	ck_code(agent_release(h), 0);
	/* The call has not returned the hold, so it never was one, and leaves no mark. */
	ck_code(agent_end(w), 0);
	ck_code(w->answer.report.damage.status, 0);
	agent_cont(s);
	/* Nor does it return LOST: it requests again. */
	ck_code(agent_poll(s), AGENT_BLOCKED);
	ck_code(agent_call(w, AGENT_CHECK), 0);
	ck_code(agent_release(w), 0);
	ck_code(agent_end(s), 0);
	ck_assert_uint_gt(s->answer.token, w->answer.token);
}
END_TEST

/* The waiter behind it gets no wake-up for that grant, and must notice the end of that lease without waiting for its
 * self-check.  Several tries, as the machine may be busy. */
static int64_t overrun_noticed_after(struct agent *h, struct agent *b, struct agent *w)
{
	int64_t granted;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_begin(b, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						       .ns = LOCKSHM_MS(10), .flags = ACKNOWLEDGES }),
		AGENT_BLOCKED);
	agent_stop(b);
	ck_code(agent_begin(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						       .flags = ACKNOWLEDGES }),
		AGENT_BLOCKED);
	granted = now_ns();
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w), 0);
	agent_cont(b);
	ck_code(agent_release(w), 0);
	(void)agent_end(b);
	(void)agent_release(b);
	return w->answer.at_ns - granted;
}

START_TEST(overrun_of_one_that_was_granted_asleep_is_noticed_at_its_end)
{
	struct agent *h = agent_start(), *b = agent_start(), *w = agent_start();
	int64_t after, best = INT64_MAX;
	int tries;

	for (tries = 0; tries < 20 && best > LOCKSHM_MS(40); tries++) {
		after = overrun_noticed_after(h, b, w);
		best = after < best ? after : best;
	}
	ck_assert_msg(best < LOCKSHM_MS(40), "a lease of 10 ms: noticed after %lld us at best", (long long)best / 1000);
}
END_TEST

/* The request between has a lease shorter than the time between two self-checks, and is stopped. */
START_TEST(stopped_waiter_with_a_short_lease_does_not_hide_an_overrun)
{
	struct agent *h = agent_start(), *b = agent_start(), *w = agent_start();
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE, .ns = LOCKSHM_MS(300),
				   .flags = ACKNOWLEDGES };

	ck_code(agent_do(h, c), 0);
	agent_stop(h);
	c.ns = LOCKSHM_MS(20);
	ck_code(agent_begin(b, c), AGENT_BLOCKED);
	agent_stop(b);
	c.ns = 0;
	ck_code(agent_begin(w, c), AGENT_BLOCKED);
	/* Takes over from the holder, and then from the request between, which was granted while stopped. */
	ck_code(agent_end(w), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(agent_release(w), 0);
	agent_cont(b);
	agent_cont(h);
	(void)agent_end(b);
}
END_TEST

START_TEST(stopped_holder_learns_the_truth_afterwards)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(leased(h, LOCKSHM_EXCLUSIVE, SHORT), 0);
	agent_stop(h);
	ck_code(strict_at_last(w), LOCKSHM_TOOK_OVER_EXPIRED);
	agent_cont(h);
	ck_code(agent_call(h, AGENT_CHECK), LOCKSHM_LOST);
	ck_code(extend(h, LOCKSHM_SECONDS(1)), LOCKSHM_LOST);
	ck_code(agent_release(h), LOCKSHM_LOST);
	ck_code(agent_release(w), 0);
}
END_TEST

/* Auto-renewal */
static int auto_renewed(struct agent *a, int64_t ttl)
{
	return agent_begin(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						      .ns = ttl, .flags = LOCKSHM_AUTO_RENEW });
}

START_TEST(auto_renew_keeps_a_short_lease)
{
	struct agent *h = agent_start(), *w = agent_start();
	int64_t end;

	ck_code(auto_renewed(h, LOCKSHM_MS(500)), 0);
	end = h->answer.at_ns + LOCKSHM_MS(1300);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	while (now_ns() < end) {
		pass(now_ns() + LOCKSHM_MS(25));
		ck_code(agent_poll(w), AGENT_BLOCKED);
	}
	ck_code(agent_call(h, AGENT_CHECK), 0);
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(auto_renew_keeps_the_shortest_lease)
{
	struct agent *h = agent_start();
	int64_t end;
	int in_time = 0;

	ck_code(auto_renewed(h, LOCKSHM_AUTO_RENEW_TTL_MIN), 0);
	end = h->answer.at_ns + LOCKSHM_SECONDS(2);
	while (now_ns() < end) {
		int said;

		pass(now_ns() + 2 * LOCKSHM_AUTO_RENEW_TTL_MIN);
		said = agent_call(h, AGENT_CHECK);
		/* On a machine that is busy for half a lease the service thread is late: LATE is allowed, LOST is
		 * not. */
		ck_assert_msg(said == 0 || said == LOCKSHM_LATE, "%s", lockshm_code_name(said));
		in_time += said == 0;
	}
	ck_assert_int_ge(in_time, 3);
	ck_code(agent_release(h), 0);
}
END_TEST

START_TEST(auto_renew_stops_with_the_hold)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(auto_renewed(h, LOCKSHM_AUTO_RENEW_TTL_MIN), 0);
	ck_code(agent_release(h), 0);
	/* The record is used again without renewal: a service thread that went on would keep this one alive. */
	ck_code(leased(h, LOCKSHM_EXCLUSIVE, 2 * LOCKSHM_AUTO_RENEW_TTL_MIN), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_end(w), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(agent_release(h), LOCKSHM_LOST);
}
END_TEST

START_TEST(auto_renew_dies_with_its_process)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(auto_renewed(h, LOCKSHM_SECONDS(60)), 0);
	agent_kill(h);
	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_OWNER_DIED);
}
END_TEST

START_TEST(auto_renew_ends_with_the_thread_that_holds)
{
	struct agent *h = agent_thread(agent_start()), *w = agent_start();

	ck_code(auto_renewed(h, LOCKSHM_AUTO_RENEW_TTL_MIN), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_call(h, AGENT_EXIT_THREAD), AGENT_DIED);
	ck_code(agent_end(w), LOCKSHM_OWNER_DIED);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, lease_ends_under_a_waiter);
	tcase_add_loop_test(tc, lease_never_ends_early, 1, 4);
	tcase_add_loop_test(tc, lease_never_ends_early, 33, 35);
	tcase_add_loop_test(tc, late_release_returns_late, 0, 2);
	tcase_add_test(tc, late_renewal_returns_late_and_holds_again);
	tcase_add_test(tc, lost_to_names_the_newer_token);
	tcase_add_test(tc, lost_stays_lost_when_the_key_is_free_again);
	tcase_add_test(tc, renew_reset_counts_from_now);
	tcase_add_test(tc, renew_add_counts_from_the_old_end);
	tcase_add_test(tc, renew_can_make_strict_and_back);
	tcase_add_test(tc, renewed_holder_is_not_expired_by_the_old_end);
	tcase_add_test(tc, lease_of_a_waiter_starts_at_its_grant);
	tcase_add_test(tc, granted_waiter_that_never_wakes_expires_like_anyone);
	tcase_add_test(tc, overrun_of_one_that_was_granted_asleep_is_noticed_at_its_end);
	tcase_add_test(tc, stopped_waiter_with_a_short_lease_does_not_hide_an_overrun);
	tcase_add_test(tc, stopped_holder_learns_the_truth_afterwards);
	tcase_add_test(tc, auto_renew_keeps_a_short_lease);
	tcase_add_native(tc, auto_renew_keeps_the_shortest_lease);
	tcase_add_test(tc, auto_renew_stops_with_the_hold);
	tcase_add_test(tc, auto_renew_dies_with_its_process);
	tcase_add_test(tc, auto_renew_ends_with_the_thread_that_holds);
}

int main(void)
{
	return fixture_main("lease", add);
}
