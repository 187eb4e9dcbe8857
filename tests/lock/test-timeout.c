/* SPDX-License-Identifier: MIT */
/* test-timeout.c - every wait ends by its time, not before it, and leaves nothing behind */
#include "support/agent.h"
#include "support/fixture.h"

static struct agent *holder(void)
{
	struct agent *h = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	return h;
}

static void check_only_holder(void)
{
	struct seen seen;

	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_uint_eq(seen.waiters, 0);
	ck_assert_uint_eq(stat_now().requests_used, 1);
	verify_clean();
}

START_TEST(timeout_ends_the_wait_in_time)
{
	struct lockshm_request request = request_for("k", LOCKSHM_EXCLUSIVE);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold;
	int64_t start, took;

	holder();
	request.timeout_ns = LOCKSHM_MS(_i);
	request.report = &report;
	start = now_ns();
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_TIMEOUT);
	took = now_ns() - start;
	ck_assert_int_ge(took, LOCKSHM_MS(_i));
	ck_assert_int_lt(took, LOCKSHM_MS(_i) + LOCKSHM_SECONDS(1));
	ck_assert_int_ge(report.waited_ns, LOCKSHM_MS(_i));
	ck_assert_int_le(report.waited_ns, took);
	ck_code(report.error.code, LOCKSHM_TIMEOUT);
	ck_assert_uint_eq(stat_now().timeouts, 1);
	check_only_holder();
}
END_TEST

START_TEST(timeout_of_a_nanosecond_is_a_timeout)
{
	struct lockshm_request request = request_for("k", LOCKSHM_SHARED);
	lockshm_hold_t hold;

	holder();
	request.timeout_ns = 1;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_TIMEOUT);
	check_only_holder();
}
END_TEST

START_TEST(shared_waiter_times_out_too)
{
	struct agent *h = holder(), *r = agent_start();

	ck_code(agent_do(r, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_SHARED,
						    .timeout_ns = LOCKSHM_MS(20) }),
		LOCKSHM_TIMEOUT);
	check_only_holder();
	ck_code(agent_release(h), 0);
	ck_code(agent_try(r, "k", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(wait_without_bound_outlasts_the_safety_slice)
{
	struct agent *h = holder(), *w = agent_start();

	ck_code(agent_begin(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						       .timeout_ns = LOCKSHM_FOREVER }),
		AGENT_BLOCKED);
	pass(now_ns() + LOCKSHM_MS(350));
	ck_code(agent_poll(w), AGENT_BLOCKED);
	ck_assert(agent_waits(w, "k"));
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(stopped_process_does_not_delay_others_timeouts)
{
	struct agent *h = holder(), *s = agent_start(), *w = agent_start();

	ck_code(agent_acquire(s, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_stop(s);
	ck_code(agent_do(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						    .timeout_ns = LOCKSHM_MS(50) }),
		LOCKSHM_TIMEOUT);
	ck_assert_int_lt(w->answer.report.waited_ns, LOCKSHM_SECONDS(2));
	agent_cont(s);
	ck_code(agent_release(h), 0);
	ck_code(agent_end(s), 0);
}
END_TEST

START_TEST(stopped_waiter_that_is_past_its_time_says_so)
{
	struct agent *h = holder(), *s = agent_start(), *w = agent_start();

	ck_code(agent_begin(s, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						       .timeout_ns = LOCKSHM_MS(100) }),
		AGENT_BLOCKED);
	agent_stop(s);
	pass(now_ns() + LOCKSHM_MS(150));
	agent_cont(s);
	ck_code(agent_end(s), LOCKSHM_TIMEOUT);
	check_only_holder();
	ck_code(agent_release(h), 0);
	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

/* S4-09: no queueing behind a hold that ends after the caller's deadline. */
static int if_free_in_time(struct agent *a, int mode, int64_t timeout)
{
	return agent_do(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = mode, .timeout_ns = timeout,
						   .flags = LOCKSHM_ONLY_IF_FREE_IN_TIME });
}

START_TEST(only_if_free_in_time_gives_up_at_once)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						    .ns = LOCKSHM_SECONDS(60) }),
		0);
	ck_code(if_free_in_time(w, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(10)), LOCKSHM_BUSY);
	ck_assert_int_lt(w->answer.report.waited_ns, LOCKSHM_SECONDS(2));
	ck_code(if_free_in_time(w, LOCKSHM_SHARED, LOCKSHM_SECONDS(10)), LOCKSHM_BUSY);
	check_only_holder();
	ck_code(agent_release(h), 0);
	ck_code(if_free_in_time(w, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(10)), 0);
}
END_TEST

START_TEST(only_if_free_in_time_waits_for_a_short_lease)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						    .ns = LOCKSHM_MS(100) }),
		0);
	ck_code(if_free_in_time(w, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(10)), LOCKSHM_TOOK_OVER_EXPIRED);
}
END_TEST

START_TEST(only_if_free_in_time_refuses_a_strict_holder)
{
	holder();
	ck_code(if_free_in_time(agent_start(), LOCKSHM_SHARED, LOCKSHM_SECONDS(10)), LOCKSHM_BUSY);
}
END_TEST

/* The newest of several requests is the one that no earlier walk has reaped. */
START_TEST(only_if_free_in_time_takes_a_dead_holders_booking_for_none)
{
	struct agent *first = agent_start(), *second = agent_start(), *w = agent_start();

	ck_code(agent_acquire(first, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(second, "k", LOCKSHM_SHARED), 0);
	agent_kill(second);
	ck_code(if_free_in_time(w, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(10)), LOCKSHM_BUSY);
	agent_kill(first);
	ck_code(if_free_in_time(w, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(10)), 0);
}
END_TEST

START_TEST(only_if_free_in_time_sees_that_all_holders_died_together)
{
	struct agent *first = agent_start(), *second = agent_start(), *w = agent_start();

	ck_code(agent_acquire(w, "other", LOCKSHM_SHARED), 0); /* joining sweeps: so join now */
	ck_code(agent_release(w), 0);
	ck_code(agent_acquire(first, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(second, "k", LOCKSHM_SHARED), 0);
	agent_kill(first);
	agent_kill(second);
	ck_code(if_free_in_time(w, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(10)), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, timeout_ends_the_wait_in_time, 1, 4);
	tcase_add_loop_test(tc, timeout_ends_the_wait_in_time, 150, 151); /* beyond the safety slice */
	tcase_add_test(tc, timeout_of_a_nanosecond_is_a_timeout);
	tcase_add_test(tc, shared_waiter_times_out_too);
	tcase_add_test(tc, wait_without_bound_outlasts_the_safety_slice);
	tcase_add_test(tc, stopped_process_does_not_delay_others_timeouts);
	tcase_add_test(tc, stopped_waiter_that_is_past_its_time_says_so);
	tcase_add_test(tc, only_if_free_in_time_gives_up_at_once);
	tcase_add_test(tc, only_if_free_in_time_waits_for_a_short_lease);
	tcase_add_test(tc, only_if_free_in_time_refuses_a_strict_holder);
	tcase_add_test(tc, only_if_free_in_time_takes_a_dead_holders_booking_for_none);
	tcase_add_test(tc, only_if_free_in_time_sees_that_all_holders_died_together);
}

int main(void)
{
	return fixture_main("timeout", add);
}
