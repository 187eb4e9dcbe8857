/* SPDX-License-Identifier: MIT */
/* test-history-outcomes.c - the checker of histories: are results true?  See test-history.c */
#include "builder.h"

START_TEST(held_after_an_operator_ended_it)
{
	struct history_record *a, *e;

	begin();
	a = acquire(track(), 1, X, STRICT, 0, 1, 1);
	e = add(track(), HISTORY_END_HOLD, 2, 3, LOCKSHM_OK);
	e->key = 1;
	e->token = a->token;
	on(a, HISTORY_CHECK, 4, 5, LOCKSHM_OK)->ns = LOCKSHM_FOREVER;
	finds("truth-ok");
}
END_TEST

START_TEST(held_again_after_lost)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, 5, 0, 1, 1);
	on(a, HISTORY_CHECK, 30, 31, LOCKSHM_LOST);
	on(a, HISTORY_CHECK, 32, 33, LOCKSHM_LATE);
	finds("truth-ok");
}
END_TEST

START_TEST(late_before_its_time)
{
	begin();
	on(acquire(track(), 1, X, 50, 0, 1, 1), HISTORY_RELEASE, 30, 31, LOCKSHM_LATE);
	finds("truth-late");
}
END_TEST

START_TEST(in_time_after_its_time)
{
	begin();
	on(acquire(track(), 1, X, 5, 0, 1, 1), HISTORY_RELEASE, 100, 101, LOCKSHM_OK);
	finds("truth-late");
}
END_TEST

/* The remaining time that a check returned bounds the lease more closely than the call that began it. */
START_TEST(check_tells_when_the_lease_ends)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, 5, 0, 10, 1);
	on(a, HISTORY_CHECK, 11, 12, LOCKSHM_OK)->ns = 1000000;
	on(a, HISTORY_RELEASE, 14, 15, LOCKSHM_OK);
	finds("truth-late");
}
END_TEST

START_TEST(renewed_and_late_too_early)
{
	struct history_record *a, *r;

	begin();
	a = acquire(track(), 1, X, 5, 0, 1, 1);
	r = on(a, HISTORY_RENEW, 2, 3, LOCKSHM_OK);
	r->ns = 100000000;
	on(a, HISTORY_RELEASE, 50, 51, LOCKSHM_LATE);
	finds("truth-late");
}
END_TEST

START_TEST(strict_hold_is_lost)
{
	begin();
	on(acquire(track(), 1, X, STRICT, 0, 1, 1), HISTORY_CHECK, 30, 31, LOCKSHM_LOST);
	finds("truth-lost");
}
END_TEST

START_TEST(lost_before_the_lease_ended)
{
	begin();
	on(acquire(track(), 1, X, 50, 0, 1, 1), HISTORY_RELEASE, 30, 31, LOCKSHM_LOST);
	finds("truth-lost");
}
END_TEST

START_TEST(lost_to_an_older_token)
{
	begin();
	on(acquire(track(), 1, X, 5, 0, 1, 7), HISTORY_RELEASE, 30, 31, LOCKSHM_LOST)->other = BASE + 7;
	finds("truth-lost");
}
END_TEST

START_TEST(foreign_hold_is_believed)
{
	begin();
	on(acquire(track(), 1, X, STRICT, 0, 1, 1), HISTORY_CHECK, 30, 31, LOCKSHM_OK)->flags = HISTORY_FOREIGN;
	finds("held");
}
END_TEST

START_TEST(own_hold_is_not_held)
{
	begin();
	on(acquire(track(), 1, X, STRICT, 0, 1, 1), HISTORY_CHECK, 30, 31, LOCKSHM_NOT_HELD);
	finds("held");
}
END_TEST

START_TEST(operator_does_not_find_a_holder)
{
	struct history_record *a, *e;

	begin();
	a = acquire(track(), 1, X, STRICT, 0, 1, 1);
	release(a, 10, 11);
	e = add(track(), HISTORY_END_HOLD, 2, 3, LOCKSHM_NOT_HELD);
	e->key = 1;
	e->token = a->token;
	finds("operator");
}
END_TEST

START_TEST(renewed_lease_is_lost)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, 500, 0, 1, 1);
	a->flags |= HISTORY_AUTO_RENEW;
	on(a, HISTORY_RELEASE, 2000, 2001, LOCKSHM_LOST);
	finds("renewal");
}
END_TEST

START_TEST(renewed_lease_of_a_stopped_process_is_lost)
{
	struct history_record *a;
	uint32_t l, driver;

	begin();
	l = track(), driver = track();
	a = acquire(l, 1, X, 500, 0, 1, 1);
	a->flags |= HISTORY_AUTO_RENEW;
	add(driver, HISTORY_STOP, 100, 100.1, 0)->subject = process_of(l);
	add(driver, HISTORY_CONTINUE, 1500, 1501, 0)->subject = process_of(l);
	on(a, HISTORY_RELEASE, 2000, 2001, LOCKSHM_LOST);
	finds("");
}
END_TEST

START_TEST(answer_that_cannot_be)
{
	begin();
	failed(acquire(track(), 1, X, STRICT, 0, 1, 0), LOCKSHM_BAD_SEGMENT, 1);
	finds("code");
}
END_TEST

START_TEST(no_service_thread_before_exec)
{
	struct history_record *a;
	uint32_t l1, l2;

	begin();
	l1 = track(), l2 = track_of(process_of(l1), HISTORY_NO_TRACK);
	a = failed(acquire(l1, 1, X, 100, 0, 2, 0), LOCKSHM_SYSTEM, 3);
	a->flags |= HISTORY_AUTO_RENEW;
	add(l2, HISTORY_EXEC, 4, OPEN, 0);
	finds("code");
}
END_TEST

START_TEST(status_and_report_differ)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, 5, 0, 1, 1);
	reporting(acquire(track(), 1, X, STRICT, 50, 51, 2), LOCKSHM_TOOK_OVER_EXPIRED, a)->outcome = LOCKSHM_OK;
	finds("code");
}
END_TEST

START_TEST(full_with_room_for_all)
{
	begin();
	h.header->realms[0].roomy = 1;
	failed(acquire(track(), 1, X, STRICT, 0, 1, 0), LOCKSHM_FULL, 1);
	finds("full");
}
END_TEST

START_TEST(granted_in_a_removed_segment)
{
	begin();
	add(track(), HISTORY_DESTROY, 0, 1, 0);
	acquire(track(), 1, X, STRICT, 2, 3, 1);
	finds("segment");
}
END_TEST

START_TEST(granted_in_a_replaced_segment)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, STRICT, 0, 1, 5000);
	a->realm = history_realm(&h, 5000);
	acquire(track(), 1, X, STRICT, 2, 3, 1);
	finds("segment");
}
END_TEST

START_TEST(no_segment_though_it_is_there)
{
	begin();
	failed(acquire(track(), 1, X, STRICT, 2, 3, 0), LOCKSHM_NO_SEGMENT, 3);
	finds("segment");
}
END_TEST

static void add_cases(TCase *tc)
{
	tcase_add_test(tc, held_after_an_operator_ended_it);
	tcase_add_test(tc, held_again_after_lost);
	tcase_add_test(tc, late_before_its_time);
	tcase_add_test(tc, in_time_after_its_time);
	tcase_add_test(tc, check_tells_when_the_lease_ends);
	tcase_add_test(tc, renewed_and_late_too_early);
	tcase_add_test(tc, strict_hold_is_lost);
	tcase_add_test(tc, lost_before_the_lease_ended);
	tcase_add_test(tc, lost_to_an_older_token);
	tcase_add_test(tc, foreign_hold_is_believed);
	tcase_add_test(tc, own_hold_is_not_held);
	tcase_add_test(tc, operator_does_not_find_a_holder);
	tcase_add_test(tc, renewed_lease_is_lost);
	tcase_add_test(tc, renewed_lease_of_a_stopped_process_is_lost);
	tcase_add_test(tc, answer_that_cannot_be);
	tcase_add_test(tc, no_service_thread_before_exec);
	tcase_add_test(tc, status_and_report_differ);
	tcase_add_test(tc, full_with_room_for_all);
	tcase_add_test(tc, granted_in_a_removed_segment);
	tcase_add_test(tc, granted_in_a_replaced_segment);
	tcase_add_test(tc, no_segment_though_it_is_there);
}

int main(void)
{
	return fixture_main("history-truth", add_cases);
}
