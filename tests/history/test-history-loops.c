/* SPDX-License-Identifier: MIT */
/* test-history-loops.c - the checker of histories: requests of event loops; see test-history.c */
#include "builder.h"

/* A wait of a loop: the call returned PENDING at @pending, and no outcome was collected yet. */
static struct history_record *waits(uint32_t l, uint32_t key, int mode, double ttl, double enter, double pending)
{
	struct history_record *r = acquire(l, key, mode, ttl, enter, OPEN, 0);

	r->flags |= HISTORY_LOOP;
	r->pending = LOCKSHM_SECONDS(1000) + (int64_t)(pending * 1e6);
	return r;
}

static struct history_record *next(struct history_record *w, double enter, double leave, int code)
{
	struct history_record *r = add(w->track, HISTORY_NEXT, enter, leave, code);

	r->subject = history_number(&h, w);
	return r;
}

/* Its outcome is collected in a call at those times. */
static struct history_record *granted(struct history_record *w, double enter, double leave, unsigned ticket)
{
	const struct history_record *r = next(w, enter, leave, 0);

	w->collect = r->enter;
	w->leave = r->leave;
	w->token = BASE + ticket;
	return w;
}

static struct history_record *timed_out(struct history_record *w, double deadline, double enter, double leave)
{
	const struct history_record *r = next(w, enter, leave, LOCKSHM_TIMEOUT);

	w->collect = r->enter;
	w->leave = r->leave;
	return failed(w, LOCKSHM_TIMEOUT, deadline);
}

/* lockshm_loop_cancel() returned @code. */
static struct history_record *withdrawn(struct history_record *w, double enter, double leave, int code)
{
	struct history_record *r = add(w->track, HISTORY_WITHDRAW, enter, leave, code);

	r->subject = history_number(&h, w);
	if (code >= 0) {
		w->leave = r->leave;
		w->outcome = LOCKSHM_CANCELLED;
	}
	return r;
}

/* Its thread did nothing else but poll from then on. */
static struct history_record *polled(struct history_record *w, double from)
{
	w->other = (uint64_t)(LOCKSHM_SECONDS(1000) + (int64_t)(from * 1e6));
	return w;
}

/* ---------------------------------------------------------------- order, exclusion */

START_TEST(a_good_one)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 4, 5);
	release(granted(waits(track(), 1, X, 50, 2, 3), 6, 7, 2), 8, 9);
	finds("");
	ck_assert_uint_eq(summary.loop_waits, 1);
	ck_assert_uint_eq(summary.loop_outcomes, 1);
}
END_TEST

START_TEST(overtaken)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 4, 5, 3), 6, 7);
	release(granted(waits(track(), 1, X, STRICT, 1, 2), 8, 9, 2), 10, 11);
	finds("fifo");
}
END_TEST

/* Its place was given when the call returned PENDING, not when the outcome was collected. */
START_TEST(came_first_and_has_the_larger_token)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 4, 5, 1), 6, 7);
	release(granted(waits(track(), 1, X, STRICT, 1, 2), 8, 9, 2), 10, 11);
	finds("arrival");
}
END_TEST

START_TEST(overtaken_while_it_waits)
{
	struct history_record *w;

	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 9, 10);
	w = waits(track(), 1, X, 5000, 1.5, 2);
	seen(track(), w, 2);
	release(acquire(track(), 1, X, STRICT, 5, 20, 3), 25, 26);
	withdrawn(w, 30, 31, 0);
	finds("fifo");
}
END_TEST

START_TEST(two_holders)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 19, 20);
	release(granted(waits(track(), 1, X, 50, 2, 3), 6, 7, 2), 8, 9);
	finds("exclusion");
}
END_TEST

START_TEST(two_loops_hold)
{
	begin();
	release(granted(waits(track(), 1, X, STRICT, 0, 1), 4, 5, 1), 19, 20);
	release(granted(waits(track(), 1, S, 50, 2, 3), 6, 7, 2), 8, 9);
	finds("exclusion");
}
END_TEST

START_TEST(withdrawn_as_granted_beside_a_holder)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 19, 20);
	withdrawn(waits(track(), 1, X, 50, 2, 3), 6, 7, 1);
	finds("exclusion");
	begin();
	release(acquire(track(), 1, S, STRICT, 0, 1, 1), 19, 20);
	withdrawn(waits(track(), 1, S, 50, 2, 3), 6, 7, 1);
	finds("");
	ck_assert_uint_eq(summary.loop_cancels[1], 1);
}
END_TEST

/* A hold of a loop is the process': the end of its thread does not end it. */
START_TEST(held_after_the_end_of_its_thread)
{
	struct history_record *w;
	uint32_t a, b, joiner;

	begin();
	a = track();
	joiner = track_of(process_of(a), HISTORY_NO_TRACK);
	b = track();
	w = granted(waits(a, 1, X, STRICT, 0, 1), 2, 3, 1);
	add(a, HISTORY_THREAD_END, 4, 5, 0);
	add(joiner, HISTORY_JOIN, 6, 7, 0)->subject = a;
	release(acquire(b, 1, X, STRICT, 8, 9, 2), 10, 11);
	(void)w;
	finds("exclusion");
}
END_TEST

/* It stays of the process. */
START_TEST(moved_to_a_thread)
{
	struct history_record *w;
	int refused;

	for (refused = 0; refused < 2; refused++) {
		begin();
		w = granted(waits(track(), 1, X, STRICT, 0, 1), 2, 3, 1);
		on(w, HISTORY_MOVE, 4, 5, refused ? LOCKSHM_INVALID : LOCKSHM_OK)->mode = LOCKSHM_TO_CALLER;
		release(w, 6, 7);
		finds(refused ? "" : "code");
	}
}
END_TEST

/* ---------------------------------------------------------------- ends */

START_TEST(outcome_after_cancel)
{
	struct history_record *w;

	begin();
	w = waits(track(), 1, X, 50, 2, 3);
	withdrawn(w, 6, 7, 0);
	next(w, 8, 9, LOCKSHM_CANCELLED);
	finds("outcome");
}
END_TEST

START_TEST(two_outcomes)
{
	struct history_record *w;

	begin();
	w = granted(waits(track(), 1, X, 50, 2, 3), 4, 5, 1);
	next(w, 8, 9, 0);
	finds("outcome");
}
END_TEST

START_TEST(outcome_of_what_was_held_at_once)
{
	struct history_record *w;

	begin();
	w = acquire(track(), 1, X, 50, 2, 3, 1);
	w->flags |= HISTORY_LOOP;
	next(w, 4, 5, 0);
	finds("outcome");
}
END_TEST

START_TEST(outcome_of_nothing)
{
	begin();
	next(acquire(track(), 1, X, 50, 2, 3, 1), 4, 5, 0)->subject = HISTORY_NO_WAIT;
	finds("outcome");
}
END_TEST

START_TEST(cancelled_twice)
{
	struct history_record *w;

	begin();
	w = waits(track(), 1, X, 50, 2, 3);
	withdrawn(w, 6, 7, 0);
	withdrawn(w, 8, 9, 0);
	finds("outcome");
}
END_TEST

START_TEST(cancel_finds_no_wait)
{
	struct history_record *w;

	begin();
	w = waits(track(), 1, X, 50, 2, 3);
	withdrawn(w, 4, 5, LOCKSHM_NOT_HELD);
	granted(w, 6, 7, 1);
	finds("cancel");
	begin();
	withdrawn(granted(waits(track(), 1, X, 50, 2, 3), 6, 7, 1), 8, 9, LOCKSHM_NOT_HELD);
	finds("");
}
END_TEST

START_TEST(cancelled_without_a_cancel)
{
	struct history_record *w;

	begin();
	w = waits(track(), 1, X, 50, 2, 3);
	w->leave = next(w, 4, 5, LOCKSHM_CANCELLED)->leave;
	w->outcome = LOCKSHM_CANCELLED;
	finds("cancel");
}
END_TEST

START_TEST(deadlock_of_a_loop)
{
	struct history_record *w;

	begin();
	w = waits(track(), 1, X, 50, 2, 3);
	w->leave = next(w, 4, 5, LOCKSHM_DEADLOCK)->leave;
	w->outcome = LOCKSHM_DEADLOCK;
	finds("code deadlock");
}
END_TEST

/* ---------------------------------------------------------------- the end of the queue again */

START_TEST(grant_that_ended_goes_back)
{
	struct history_record *w;

	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 10, 11);
	w = waits(track(), 1, X, STRICT, 2, 2.5);
	seen(track(), w, 2);
	release(acquire(track(), 1, X, STRICT, 5, 1030, 3), 1040, 1041);
	release(granted(w, 1300, 1301, 4), 1310, 1311);
	finds("");
	ck_assert_uint_eq(summary.went_back, 1);
}
END_TEST

START_TEST(goes_back_without_a_reason)
{
	struct history_record *w;

	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 10, 11);
	w = waits(track(), 1, X, STRICT, 2, 2.5);
	seen(track(), w, 2);
	release(granted(w, 900, 901, 4), 910, 911);
	finds("place");
}
END_TEST

START_TEST(an_operator_ends_an_uncollected_grant)
{
	struct history_record *w, *e;

	begin();
	w = waits(track(), 1, X, STRICT, 2, 2.5);
	seen(track(), w, 2);
	e = add(track(), HISTORY_END_HOLD, 5, 6, LOCKSHM_OK);
	e->key = 1;
	e->token = BASE + 2;
	release(granted(w, 900, 901, 4), 910, 911);
	finds("");
}
END_TEST

/* ---------------------------------------------------------------- leases, times */

START_TEST(lease_counts_from_the_collection)
{
	begin();
	on(granted(waits(track(), 1, X, 50, 0, 1), 100, 101, 1), HISTORY_RELEASE, 130, 131, LOCKSHM_LATE);
	finds("truth-late");
	begin();
	on(granted(waits(track(), 1, X, 50, 0, 1), 100, 101, 1), HISTORY_RELEASE, 200, 201, LOCKSHM_OK);
	finds("truth-late");
	begin();
	on(granted(waits(track(), 1, X, 50, 0, 1), 100, 101, 1), HISTORY_RELEASE, 130, 131, LOCKSHM_LOST);
	finds("truth-lost");
}
END_TEST

START_TEST(time_out_before_its_time)
{
	begin();
	timed_out(waits(track(), 1, X, 50, 0, 1), 100, 50, 51);
	finds("early");
}
END_TEST

START_TEST(time_out_that_is_not_polled_for)
{
	begin();
	timed_out(waits(track(), 1, X, 50, 0, 1), 100, 9000, 9001);
	finds("");
	begin();
	polled(timed_out(waits(track(), 1, X, 50, 0, 1), 100, 9000, 9001), 8999);
	finds("");
	begin();
	polled(timed_out(waits(track(), 1, X, 50, 0, 1), 100, 9000, 9001), 10);
	finds("stuck overdue");
}
END_TEST

START_TEST(closed_long_after_its_time)
{
	struct history_record *w, *r;

	begin();
	w = waits(track(), 1, X, 50, 0, 1);
	w->deadline = LOCKSHM_SECONDS(1000) + LOCKSHM_MS(100);
	r = withdrawn(w, 9000, 9001, 0);
	r->flags |= HISTORY_AT_CLOSE;
	polled(w, 10);
	finds("overdue");
}
END_TEST

START_TEST(stuck_though_polled_for)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 10, 11);
	release(polled(granted(waits(track(), 1, X, STRICT, 2, 3), 8000, 8001, 2), 5), 8002, 8003);
	finds("stuck");
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 10, 11);
	release(polled(granted(waits(track(), 1, X, STRICT, 2, 3), 8000, 8001, 2), 7990), 8002, 8003);
	finds("");
}
END_TEST

/* ---------------------------------------------------------------- marks */

/* Nothing was entered, so nothing is damaged. */
START_TEST(mark_of_a_grant_that_was_withdrawn)
{
	struct history_record *w;

	begin();
	w = waits(track(), 1, X, STRICT, 0, 1);
	withdrawn(w, 5, 6, 1);
	w->token = BASE + 1;
	reporting(acquire(track(), 1, X, STRICT, 7, 8, 2), LOCKSHM_TOOK_OVER_EXPIRED, w);
	w->token = 0;
	finds("damage-false");
}
END_TEST

/* Killed with a grant that is not collected; then in the call that collects it, and between its record and the acquire's. */
START_TEST(mark_of_a_grant_of_a_killed_process)
{
	struct history_record *w;
	uint32_t driver, victim;
	int collecting;

	for (collecting = 0; collecting < 3; collecting++) {
		begin();
		driver = track();
		victim = track();
		w = waits(victim, 1, X, STRICT, 0, 1);
		if (collecting)
			next(w, 4, collecting == 1 ? OPEN : 4.5, 0);
		else
			next(w, 4, 4.5, 0)->flags |= HISTORY_EMPTY;
		killed(driver, victim, 5);
		w->token = BASE + 1;
		reporting(acquire(track(), 1, X, STRICT, 8, 9, 2), LOCKSHM_OWNER_DIED, w);
		w->token = 0;
		finds(collecting ? "" : "damage-false");
	}
}
END_TEST

START_TEST(missing_mark_of_a_hold_of_a_loop)
{
	uint32_t driver, victim;

	begin();
	driver = track();
	victim = track();
	granted(waits(victim, 1, X, STRICT, 0, 1), 2, 3, 1);
	killed(driver, victim, 5);
	acquire(track(), 1, X, STRICT, 8, 9, 2);
	finds("damage-missing");
}
END_TEST

static void add_all(TCase *tc)
{
	tcase_add_test(tc, a_good_one);
	tcase_add_test(tc, overtaken);
	tcase_add_test(tc, came_first_and_has_the_larger_token);
	tcase_add_test(tc, overtaken_while_it_waits);
	tcase_add_test(tc, two_holders);
	tcase_add_test(tc, two_loops_hold);
	tcase_add_test(tc, withdrawn_as_granted_beside_a_holder);
	tcase_add_test(tc, held_after_the_end_of_its_thread);
	tcase_add_test(tc, moved_to_a_thread);
	tcase_add_test(tc, outcome_after_cancel);
	tcase_add_test(tc, two_outcomes);
	tcase_add_test(tc, outcome_of_what_was_held_at_once);
	tcase_add_test(tc, outcome_of_nothing);
	tcase_add_test(tc, cancelled_twice);
	tcase_add_test(tc, cancel_finds_no_wait);
	tcase_add_test(tc, cancelled_without_a_cancel);
	tcase_add_test(tc, deadlock_of_a_loop);
	tcase_add_test(tc, grant_that_ended_goes_back);
	tcase_add_test(tc, goes_back_without_a_reason);
	tcase_add_test(tc, an_operator_ends_an_uncollected_grant);
	tcase_add_test(tc, lease_counts_from_the_collection);
	tcase_add_test(tc, time_out_before_its_time);
	tcase_add_test(tc, time_out_that_is_not_polled_for);
	tcase_add_test(tc, closed_long_after_its_time);
	tcase_add_test(tc, stuck_though_polled_for);
	tcase_add_test(tc, mark_of_a_grant_that_was_withdrawn);
	tcase_add_test(tc, mark_of_a_grant_of_a_killed_process);
	tcase_add_test(tc, missing_mark_of_a_hold_of_a_loop);
}

int main(void)
{
	return fixture_main("history-loops", add_all);
}
