/* SPDX-License-Identifier: MIT */
/* test-cooldown.c - release that keeps the key closed for a while (S4-14: spacing of runs) */
#include "support/agent.h"
#include "support/fixture.h"
#include "support/inside.h"

static int release_with(struct agent *a, int64_t cooldown)
{
	return agent_do(a, (struct agent_command){ .op = AGENT_RELEASE, .ns = cooldown });
}

START_TEST(cooldown_keeps_everybody_out_until_it_ends)
{
	struct agent *h = agent_start(), *w = agent_start();
	struct seen seen;
	int64_t released;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	released = now_ns();
	ck_code(release_with(h, LOCKSHM_MS(100)), 0);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_int_eq(seen.requests[0].state, LOCKSHM_COOLING);
	ck_code(agent_try(w, "k", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(agent_try(h, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY); /* also its last holder */
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_end(w), 0); /* a cooldown ends without damage */
	ck_assert_int_ge(w->answer.at_ns, released + LOCKSHM_MS(100));
	ck_assert_int_lt(w->answer.at_ns, released + LOCKSHM_SECONDS(3));
	ck_code(agent_release(w), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	verify_clean();
}
END_TEST

START_TEST(cooldown_holds_back_a_waiter_that_waits_already)
{
	struct agent *h = agent_start(), *w = agent_start();
	int64_t released;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_SHARED), AGENT_BLOCKED);
	released = now_ns();
	ck_code(release_with(h, LOCKSHM_MS(80)), 0);
	ck_code(agent_end(w), 0);
	ck_assert_int_ge(w->answer.at_ns, released + LOCKSHM_MS(80));
}
END_TEST

START_TEST(cooldown_ends_the_hold)
{
	struct agent *h = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(release_with(h, LOCKSHM_SECONDS(60)), 0);
	ck_code(agent_call(h, AGENT_CHECK), LOCKSHM_NOT_HELD);
	ck_code(agent_release(h), LOCKSHM_NOT_HELD);
}
END_TEST

START_TEST(cooldown_outlives_its_process)
{
	struct agent *h = agent_start(), *w = agent_start();
	int64_t released;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	released = now_ns();
	ck_code(release_with(h, LOCKSHM_MS(150)), 0);
	agent_kill(h);
	ck_code(lockshm_sweep(seg, NULL), 0);
	if (now_ns() < released + LOCKSHM_MS(140))
		ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	pass(h->answer.at_ns + LOCKSHM_MS(151));
	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_ge(w->answer.at_ns, released + LOCKSHM_MS(150));
	ck_code(agent_release(w), 0);
	ck_code(lockshm_sweep(seg, NULL), 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	ck_assert_uint_eq(stat_now().owners_used, 2); /* its taker, and the sweeping test itself */
	verify_clean();
}
END_TEST

/* Without a request that ends it, and a sweep then gives the record back. */
START_TEST(cooldown_that_has_ended_counts_as_nothing)
{
	struct agent *h = agent_start();
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	struct seen seen;
	uint32_t record;
	uint64_t token;
	int code;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	token = h->answer.token;
	ck_code(release_with(h, LOCKSHM_SECONDS(60)), 0);
	stat = stat_now();
	ck_assert_uint_eq(stat.keys_busy, 1);
	ck_assert_uint_eq(stat.requests_used, 1);
	ck_assert_uint_eq(stat.keys_left, 0);
	ck_code(lockshm_end_hold(seg, "k", 1, token), 0);
	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	record = nth_from_tail(entry_of("k"), 0);
	ck_code(release_with(h, LOCKSHM_MS(1)), 0);
	if (_i)
		agent_kill(h);
	pass(now_ns() + LOCKSHM_MS(5));
	stat = stat_now();
	ck_assert_uint_eq(stat.keys_busy, 0);
	ck_assert_uint_eq(stat.keys_left, 0);
	ck_assert_uint_eq(stat.requests_used, 0);
	EACH_ROW(row, code, seg, LOCKSHM_LIST_BUSY, NULL, 0)
		ck_abort_msg("it is listed");
	ck_code(code, 0);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders + seen.waiters, 0);
	ck_assert_int_eq(word_state(seg->requests[record].word), REQUEST_COOLING);
	ck_code(lockshm_sweep(seg, NULL), 0);
	ck_assert_int_eq(word_state(seg->requests[record].word), REQUEST_FREE);
	verify_clean();
}
END_TEST

/* Their owners are gone, and no request asks for the keys again. */
START_TEST(cooldowns_that_have_ended_leave_their_records_to_others)
{
	lockshm_hold_t hold[8];
	char key[8];
	int i, round;

	segment_with(64, 8, 4);
	for (round = 0; round < 3; round++) {
		struct agent *h = agent_start();

		for (i = 0; i < 8; i++) {
			struct agent_command c = { .op = AGENT_ACQUIRE, .how = LOCKSHM_EXCLUSIVE, .hold = i,
						   .timeout_ns = AGENT_TRY };

			snprintf(c.key, sizeof(c.key), "%d.%d", round, i);
			ck_code(agent_do(h, c), 0);
			ck_code(agent_do(h, (struct agent_command){ .op = AGENT_RELEASE, .hold = i,
								    .ns = LOCKSHM_MS(1) }),
				0);
		}
		agent_kill(h);
		pass(now_ns() + LOCKSHM_MS(5));
	}
	for (i = 0; i < 8; i++) {
		snprintf(key, sizeof(key), "mine.%d", i);
		ck_code(take(&hold[i], key, LOCKSHM_EXCLUSIVE), 0);
	}
	verify_clean();
}
END_TEST

START_TEST(cooldown_of_an_overdue_hold_is_late_and_still_cools)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						    .ns = LOCKSHM_MS(5) }),
		0);
	pass(h->answer.at_ns + LOCKSHM_MS(30));
	ck_code(release_with(h, LOCKSHM_SECONDS(60)), LOCKSHM_LATE);
	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
}
END_TEST

START_TEST(cooldown_of_a_lost_hold_closes_nothing)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE,
						    .ns = LOCKSHM_MS(5) }),
		0);
	pass(h->answer.at_ns + LOCKSHM_MS(30));
	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(release_with(h, LOCKSHM_SECONDS(60)), LOCKSHM_LOST);
	ck_code(agent_call(w, AGENT_ACKNOWLEDGE), 0);
	ck_code(agent_release(w), 0);
	ck_code(agent_try(w, "k", LOCKSHM_EXCLUSIVE), 0);
}
END_TEST

START_TEST(cooldown_of_a_shared_hold_is_refused_and_keeps_it)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", LOCKSHM_SHARED), 0);
	ck_code(lockshm_release(&hold, 1), LOCKSHM_INVALID);
	ck_code(lockshm_release(&hold, -1), LOCKSHM_INVALID);
	ck_code(lockshm_release(&hold, LOCKSHM_TIME_MAX + 1), LOCKSHM_INVALID);
	ck_code(lockshm_check(&hold, NULL), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

START_TEST(cooldown_out_of_range_is_refused_and_keeps_the_hold)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&hold, -1), LOCKSHM_INVALID);
	ck_code(lockshm_release(&hold, INT64_MIN), LOCKSHM_INVALID);
	ck_code(lockshm_release(&hold, LOCKSHM_FOREVER), LOCKSHM_INVALID);
	ck_code(lockshm_check(&hold, NULL), 0);
	ck_code(lockshm_release(&hold, LOCKSHM_TIME_MAX), 0);
}
END_TEST

START_TEST(operator_may_end_a_cooldown)
{
	struct agent *h = agent_start(), *w = agent_start();
	uint64_t token;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	token = h->answer.token;
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(release_with(h, LOCKSHM_SECONDS(60)), 0);
	ck_code(lockshm_end_hold(seg, "k", 1, token), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, cooldown_keeps_everybody_out_until_it_ends);
	tcase_add_test(tc, cooldown_holds_back_a_waiter_that_waits_already);
	tcase_add_test(tc, cooldown_ends_the_hold);
	tcase_add_test(tc, cooldown_outlives_its_process);
	tcase_add_loop_test(tc, cooldown_that_has_ended_counts_as_nothing, 0, 2);
	tcase_add_test(tc, cooldowns_that_have_ended_leave_their_records_to_others);
	tcase_add_test(tc, cooldown_of_an_overdue_hold_is_late_and_still_cools);
	tcase_add_test(tc, cooldown_of_a_lost_hold_closes_nothing);
	tcase_add_test(tc, cooldown_of_a_shared_hold_is_refused_and_keeps_it);
	tcase_add_test(tc, cooldown_out_of_range_is_refused_and_keeps_the_hold);
	tcase_add_test(tc, operator_may_end_a_cooldown);
}

int main(void)
{
	return fixture_main("cooldown", add);
}
