/* SPDX-License-Identifier: MIT */
/* test-cancel.c - a wait ended from another thread or a signal handler */
#include <signal.h>
#include <sys/time.h>

#include "support/agent.h"
#include "support/fixture.h"

static const struct agent_command cancellable = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						  .cancellable = true };

static struct agent *holder(void)
{
	struct agent *h = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	return h;
}

START_TEST(cancel_ends_the_wait)
{
	struct agent *h = holder(), *w = agent_start(), *c = agent_thread(w);
	struct seen seen;

	ck_code(agent_begin(w, cancellable), AGENT_BLOCKED);
	ck_code(agent_call(c, AGENT_CANCEL), 0);
	ck_code(agent_end(w), LOCKSHM_CANCELLED);
	ck_code(w->answer.report.error.code, LOCKSHM_CANCELLED);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_uint_eq(seen.waiters, 0);
	ck_assert_uint_eq(stat_now().timeouts, 1);
	ck_code(agent_release(h), 0);
	verify_clean();
}
END_TEST

START_TEST(cancel_before_the_wait_ends_it_as_it_starts)
{
	struct agent *w, *c;

	holder();
	w = agent_start();
	c = agent_thread(w);
	ck_code(agent_call(c, AGENT_CANCEL), 0);
	ck_code(agent_do(w, cancellable), LOCKSHM_CANCELLED);
	ck_code(agent_do(w, cancellable), LOCKSHM_CANCELLED); /* stays so ... */
	ck_code(agent_call(c, AGENT_UNCANCEL), 0);
	ck_code(agent_begin(w, cancellable), AGENT_BLOCKED); /* ... until it is reset */
	ck_code(agent_call(c, AGENT_CANCEL), 0);
	ck_code(agent_end(w), LOCKSHM_CANCELLED);
}
END_TEST

START_TEST(cancel_does_not_undo_a_grant)
{
	struct agent *w = agent_start(), *c = agent_thread(w);

	ck_code(agent_begin(w, cancellable), 0);
	ck_code(agent_call(c, AGENT_CANCEL), 0);
	ck_code(agent_call(w, AGENT_CHECK), 0);
	ck_code(agent_release(w), 0);
}
END_TEST

START_TEST(cancelled_waiter_in_the_middle_lets_the_rest_through)
{
	struct agent *r1 = agent_start(), *w = agent_start(), *c = agent_thread(w), *r2 = agent_start();

	ck_code(agent_acquire(r1, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_begin(w, cancellable), AGENT_BLOCKED);
	ck_code(agent_acquire(r2, "k", LOCKSHM_SHARED), AGENT_BLOCKED);
	ck_code(agent_call(c, AGENT_CANCEL), 0);
	ck_code(agent_end(w), LOCKSHM_CANCELLED);
	ck_code(agent_end(r2), 0);
	verify_clean();
}
END_TEST

START_TEST(one_canceller_ends_only_its_own_wait)
{
	struct agent *h = holder(), *w = agent_start(), *c = agent_thread(w), *other = agent_thread(w);
	struct agent_command second = cancellable;

	second.hold = 1;
	ck_code(agent_begin(w, cancellable), AGENT_BLOCKED);
	ck_code(agent_begin(other, second), AGENT_BLOCKED);
	ck_code(agent_call(c, AGENT_CANCEL), 0);
	ck_code(agent_end(w), LOCKSHM_CANCELLED);
	ck_assert(agent_waits(other, "k"));
	ck_code(agent_release(h), 0);
	ck_code(agent_end(other), 0);
}
END_TEST

static lockshm_canceller_t from_handler = LOCKSHM_CANCELLER_INIT;

static void cancel_in_handler(int number)
{
	(void)number;
	lockshm_cancel(&from_handler);
}

START_TEST(cancel_from_a_signal_handler_of_the_waiting_thread)
{
	struct lockshm_request request = request_for("k", LOCKSHM_SHARED);
	struct sigaction action = { .sa_handler = cancel_in_handler };
	struct itimerval timer = { .it_value = { .tv_usec = 30000 } };
	lockshm_hold_t hold;

	holder();
	request.timeout_ns = PATIENCE;
	request.canceller = &from_handler;
	ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &timer, NULL), 0);
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_CANCELLED);
	from_handler = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	request.timeout_ns = LOCKSHM_MS(5);
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_TIMEOUT);
}
END_TEST

START_TEST(cancel_races_with_the_grant_and_one_of_them_wins)
{
	struct agent *h = agent_start(), *w = agent_start(), *c = agent_thread(w);
	int i, code;

	for (i = 0; i < 200; i++) {
		ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
		ck_code(agent_begin(w, cancellable), AGENT_BLOCKED);
		agent_send(c, (struct agent_command){ .op = AGENT_CANCEL });
		ck_code(agent_release(h), 0);
		ck_code(agent_end(c), 0);
		code = agent_end(w);
		ck_assert_msg(code == 0 || code == LOCKSHM_CANCELLED, "%s", outcome_name(code));
		ck_code(agent_release(w), code == 0 ? 0 : LOCKSHM_NOT_HELD);
		ck_code(agent_call(c, AGENT_UNCANCEL), 0);
	}
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, cancel_ends_the_wait);
	tcase_add_test(tc, cancel_before_the_wait_ends_it_as_it_starts);
	tcase_add_test(tc, cancel_does_not_undo_a_grant);
	tcase_add_test(tc, cancelled_waiter_in_the_middle_lets_the_rest_through);
	tcase_add_test(tc, one_canceller_ends_only_its_own_wait);
	tcase_add_test(tc, cancel_from_a_signal_handler_of_the_waiting_thread);
	tcase_add_test(tc, cancel_races_with_the_grant_and_one_of_them_wins);
}

int main(void)
{
	return fixture_main("cancel", add);
}
