/* SPDX-License-Identifier: MIT */
/* test-barging.c - LOCKSHM_BARGE: a released hold stays bargeable until its thread or the next waiter takes it (R12) */
#include "support/agent.h"
#include "support/fixture.h"
#include "sys/futex.h"

static int barge(struct agent *a, const char *key)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = LOCKSHM_EXCLUSIVE, .flags = LOCKSHM_BARGE };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return agent_begin(a, c);
}

static int barge_once(struct agent *a, const char *key)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = LOCKSHM_EXCLUSIVE, .flags = LOCKSHM_BARGE,
				   .timeout_ns = AGENT_TRY };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return agent_do(a, c);
}

/* A sleeper without futex_waitv() watches only its own word, so no hold before it is bargeable. */
static bool can_barge(void)
{
	return futex_has_waitv();
}

static int first_state(const char *key)
{
	struct seen seen;

	look(key, &seen);
	return seen.requests[0].state;
}

/* @h holds; @w is the next waiter, and stopped. */
static void hold_before_a_stopped_one(struct agent *h, struct agent *w)
{
	ck_code(barge(h, "k"), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_stop(w);
}

START_TEST(next_waiter_is_woken_and_takes_it)
{
	struct agent *h = agent_start(), *w = agent_start();
	int i;

	for (i = 0; i < 20; i++) {
		ck_code(barge(h, "k"), 0);
		ck_code(barge(w, "k"), AGENT_BLOCKED);
		ck_code(agent_release(h), 0);
		ck_code(agent_end(w), 0);
		ck_assert_uint_gt(w->answer.token, h->answer.token);
		ck_code(agent_release(w), 0);
	}
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

START_TEST(its_thread_takes_it_again_with_the_same_token)
{
	struct agent *h = agent_start(), *w = agent_start();
	uint64_t token;

	if (!can_barge())
		return;
	hold_before_a_stopped_one(h, w);
	token = h->answer.token;
	ck_code(agent_release(h), 0);
	ck_assert_int_eq(first_state("k"), LOCKSHM_BARGEABLE);
	verify_clean();
	ck_code(barge_once(h, "k"), 0);
	ck_assert_uint_eq(h->answer.token, token);
	ck_assert_int_eq(first_state("k"), LOCKSHM_HOLDING);
	ck_code(agent_call(h, AGENT_CHECK), 0);
	ck_code(agent_release(h), 0);
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_assert_uint_gt(w->answer.token, token);
	ck_code(barge_once(h, "k"), LOCKSHM_BUSY);
	ck_code(agent_release(w), 0);
	verify_clean();
}
END_TEST

/* A streak ends although the next waiter never runs: it is granted in its sleep. */
START_TEST(waiters_are_passed_for_a_bounded_time)
{
	struct agent *h = agent_start(), *w = agent_start();
	int n;

	hold_before_a_stopped_one(h, w);
	for (n = 0; n < 100000; n++) {
		ck_code(agent_release(h), 0);
		if (barge_once(h, "k") != 0)
			break;
	}
	ck_assert_int_lt(n, 100000);
	ck_assert_int_eq(first_state("k"), LOCKSHM_HOLDING);
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(w), 0);
}
END_TEST

static int hold_nested(struct agent *a, int hold, const char *key)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .hold = hold, .how = LOCKSHM_EXCLUSIVE, .flags = LOCKSHM_BARGE,
				   .timeout_ns = AGENT_TRY };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return agent_do(a, c);
}

static int release_nested(struct agent *a, int hold)
{
	return agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .hold = hold });
}

/* Each streak has its own end. */
START_TEST(a_streak_ends_beside_another_one)
{
	struct agent *h = agent_start(), *outer = agent_start(), *inner = agent_start();
	int n;

	ck_code(hold_nested(h, 0, "outer"), 0);
	ck_code(hold_nested(h, 1, "inner"), 0);
	ck_code(agent_acquire(outer, "outer", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_acquire(inner, "inner", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_stop(outer);
	agent_stop(inner);
	for (n = 0; n < 1000; n++) {
		ck_code(release_nested(h, 1), 0);
		ck_code(release_nested(h, 0), 0);
		if (hold_nested(h, 0, "outer") != 0)
			break;
		if (hold_nested(h, 1, "inner") != 0) {
			ck_code(release_nested(h, 0), 0);
			break;
		}
	}
	ck_assert_int_lt(n, 1000);
	agent_cont(outer);
	agent_cont(inner);
	ck_code(agent_end(outer), 0);
	ck_code(agent_end(inner), 0);
}
END_TEST

/* The next waiter is stopped, and the thread of the bargeable hold does not resume it. */
START_TEST(a_stopped_successor_does_not_keep_it_from_others)
{
	struct agent *h = agent_start(), *w = agent_start(), *v = agent_start();

	ck_code(barge(h, "k"), 0);
	ck_code(agent_begin(w, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						       .ns = LOCKSHM_MS(100) }),
		AGENT_BLOCKED);
	agent_stop(w);
	ck_code(agent_acquire(v, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_release(h), 0);
	ck_code(agent_end(v), 0); /* granted to w in its sleep, and never its hold */
	ck_code(agent_release(v), 0);
	agent_kill(w);
	verify_clean();
}
END_TEST

START_TEST(an_operator_ends_a_bargeable_hold)
{
	struct agent *h = agent_start(), *w = agent_start();
	uint64_t token;

	if (!can_barge())
		return;
	hold_before_a_stopped_one(h, w);
	token = h->answer.token;
	ck_code(agent_release(h), 0);
	ck_code(lockshm_end_hold(seg, "k", 1, token), 0);
	ck_code(barge_once(h, "k"), LOCKSHM_BUSY);
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(w), 0);
}
END_TEST

START_TEST(other_threads_do_not_take_a_bargeable_hold)
{
	struct agent *h = agent_start(), *w = agent_start(), *other = agent_start();

	hold_before_a_stopped_one(h, w);
	ck_code(agent_release(h), 0);
	ck_code(barge_once(other, "k"), LOCKSHM_BUSY);
	ck_code(agent_try(other, "k", LOCKSHM_SHARED), LOCKSHM_BUSY);
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(w), 0);
	ck_code(agent_try(other, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_release(other), 0);
}
END_TEST

START_TEST(it_is_free_once_no_waiter_is_left)
{
	struct agent *h = agent_start(), *w = agent_start(), *other = agent_start();

	if (!can_barge())
		return;
	hold_before_a_stopped_one(h, w);
	ck_code(agent_release(h), 0);
	agent_kill(w);
	ck_code(agent_try(other, "k", LOCKSHM_SHARED), 0);
	ck_code(barge_once(h, "k"), LOCKSHM_BUSY);
	ck_code(agent_release(other), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

START_TEST(a_bargeable_hold_is_released_when_its_thread_is_gone)
{
	struct agent *h = agent_start(), *w = agent_start();

	hold_before_a_stopped_one(h, w);
	ck_code(agent_release(h), 0);
	if (_i == 0)
		agent_kill(h);
	else if (_i == 1)
		ck_code(agent_call(h, AGENT_EXIT_THREAD), AGENT_DIED);
	else
		ck_code(agent_call(h, AGENT_CLOSE), 0);
	agent_cont(w);
	ck_code(agent_end(w), 0); /* not OWNER_DIED: no thread was inside */
	ck_code(agent_release(w), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

/* Inside again with each hold of the streak. */
START_TEST(a_holder_that_dies_in_its_streak_leaves_a_mark)
{
	struct agent *h = agent_start(), *w = agent_start();

	hold_before_a_stopped_one(h, w);
	ck_code(agent_release(h), 0);
	if (can_barge())
		ck_code(barge_once(h, "k"), 0);
	agent_kill(h);
	agent_cont(w);
	ck_code(agent_end(w), can_barge() ? LOCKSHM_OWNER_DIED : 0);
	ck_code(agent_release(w), 0);
	verify_clean();
}
END_TEST

START_TEST(other_locks_of_its_thread_go_on_meanwhile)
{
	struct agent *h = agent_start(), *w = agent_start();
	int i;

	if (!can_barge())
		return;
	hold_before_a_stopped_one(h, w);
	ck_code(agent_release(h), 0);
	for (i = 0; i < 20; i++) {
		ck_code(barge_once(h, i % 2 ? "other" : "third"), 0);
		ck_code(agent_release(h), 0);
	}
	ck_code(barge_once(h, "k"), 0);
	ck_code(agent_release(h), 0);
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(w), 0);
	verify_clean();
}
END_TEST

/* Without LOCKSHM_BARGE a request queues after its own thread's bargeable hold. */
START_TEST(another_kind_of_request_waits_its_turn)
{
	struct agent *h = agent_start(), *w = agent_start();

	hold_before_a_stopped_one(h, w);
	ck_code(agent_release(h), 0);
	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(w), 0);
	ck_code(agent_end(h), 0);
	ck_code(agent_release(h), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

START_TEST(a_bargeable_hold_is_no_deadlock)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(barge(h, "k"), 0);
	ck_code(agent_do(w, (struct agent_command){ .op = AGENT_ACQUIRE, .hold = 1, .key = "w's",
						    .how = LOCKSHM_EXCLUSIVE }),
		0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_stop(w);
	ck_code(agent_release(h), 0);
	ck_code(agent_acquire(h, "w's", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_cont(w);
	ck_code(agent_end(w), 0);
	ck_code(agent_do(w, (struct agent_command){ .op = AGENT_RELEASE, .hold = 1 }), 0);
	ck_code(agent_end(h), 0);
}
END_TEST

START_TEST(expired_and_downgraded_holds_are_not_bargeable)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(barge(h, "k"), 0);
	ck_code(agent_call(h, AGENT_DOWNGRADE), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	agent_stop(w);
	ck_code(agent_release(h), 0);
	ck_assert_int_eq(first_state("k"), LOCKSHM_HOLDING); /* granted in its sleep */
	agent_cont(w);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(a_cooldown_is_a_cooldown)
{
	struct agent *h = agent_start(), *w = agent_start();

	hold_before_a_stopped_one(h, w);
	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_RELEASE, .ns = LOCKSHM_SECONDS(60) }), 0);
	ck_assert_int_eq(first_state("k"), LOCKSHM_COOLING);
	ck_code(barge_once(h, "k"), LOCKSHM_BUSY);
}
END_TEST

START_TEST(the_full_table_reclaims_bargeable_holds)
{
	struct agent *h, *w;
	int i;

	segment_with(64, 8, 8);
	h = agent_start();
	w = agent_start();
	hold_before_a_stopped_one(h, w);
	ck_code(agent_release(h), 0);
	for (i = 0; i <= 7; i++) {
		struct agent_command c = { .op = AGENT_ACQUIRE, .hold = i, .how = LOCKSHM_EXCLUSIVE };

		snprintf(c.key, sizeof(c.key), "other %d", i);
		ck_code(agent_do(h, c), i < 7 ? 0 : LOCKSHM_FULL);
	}
	verify_clean();
	agent_cont(w);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(wrong_company_is_refused)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct lockshm_key key = LOCKSHM_MANY_KEY("k", 0);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	request.key = "k";
	request.key_len = 1;
	request.report = &report;
	request.flags = LOCKSHM_BARGE | LOCKSHM_AUTO_RENEW;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_INVALID);
	ck_assert_ptr_nonnull(strstr(report.error.message, "LOCKSHM_AUTO_RENEW"));
	request.flags = LOCKSHM_BARGE;
	request.mode = LOCKSHM_SHARED;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_INVALID);
	ck_assert_ptr_nonnull(strstr(report.error.message, "exclusive"));
	request.mode = LOCKSHM_EXCLUSIVE;
	ck_code(lockshm_acquire_many(seg, &request, &key, 1, &hold), LOCKSHM_INVALID);
	ck_assert_ptr_nonnull(strstr(report.error.message, "one key"));
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, next_waiter_is_woken_and_takes_it);
	tcase_add_test(tc, its_thread_takes_it_again_with_the_same_token);
	tcase_add_test(tc, waiters_are_passed_for_a_bounded_time);
	tcase_add_test(tc, a_streak_ends_beside_another_one);
	tcase_add_test(tc, a_stopped_successor_does_not_keep_it_from_others);
	tcase_add_test(tc, an_operator_ends_a_bargeable_hold);
	tcase_add_test(tc, other_threads_do_not_take_a_bargeable_hold);
	tcase_add_test(tc, it_is_free_once_no_waiter_is_left);
	tcase_add_loop_test(tc, a_bargeable_hold_is_released_when_its_thread_is_gone, 0, 3);
	tcase_add_test(tc, a_holder_that_dies_in_its_streak_leaves_a_mark);
	tcase_add_test(tc, other_locks_of_its_thread_go_on_meanwhile);
	tcase_add_test(tc, another_kind_of_request_waits_its_turn);
	tcase_add_test(tc, a_bargeable_hold_is_no_deadlock);
	tcase_add_test(tc, expired_and_downgraded_holds_are_not_bargeable);
	tcase_add_test(tc, a_cooldown_is_a_cooldown);
	tcase_add_test(tc, the_full_table_reclaims_bargeable_holds);
	tcase_add_test(tc, wrong_company_is_refused);
}

int main(void)
{
	return fixture_main("barging", add);
}
