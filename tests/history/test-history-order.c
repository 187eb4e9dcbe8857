/* SPDX-License-Identifier: MIT */
/* test-history-order.c - the checker of histories: exclusion, order, tokens; see test-history.c */
#include "builder.h"

START_TEST(two_exclusive_holders)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 9, 10);
	release(acquire(track(), 1, X, STRICT, 2, 3, 2), 8, 9);
	finds("exclusion");
}
END_TEST

START_TEST(reader_beside_a_writer)
{
	begin();
	release(acquire(track(), 1, X, 50, 0, 1, 1), 9, 10);
	acquire(track(), 1, S, 50, 2, 3, 2);
	finds("exclusion");
}
END_TEST

START_TEST(taken_before_the_release_of_several)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, STRICT, 0, 1, 1);
	on(a, HISTORY_RELEASE, 9, 10, LOCKSHM_LOST)->flags |= HISTORY_WORST;
	acquire(track(), 1, X, STRICT, 2, 8, 2);
	finds("exclusion");
}
END_TEST

START_TEST(writer_beside_the_longer_of_two_readers)
{
	begin();
	release(acquire(track(), 1, S, STRICT, 0, 1, 1), 99, 100);
	release(acquire(track(), 1, S, STRICT, 0, 2, 2), 5, 6);
	release(acquire(track(), 1, X, STRICT, 3, 50, 3), 60, 61);
	finds("exclusion");
}
END_TEST

START_TEST(readers_may_be_together)
{
	begin();
	release(acquire(track(), 1, S, STRICT, 0, 1, 1), 9, 10);
	release(acquire(track(), 1, S, STRICT, 2, 3, 2), 8, 9);
	finds("");
}
END_TEST

START_TEST(reader_beside_an_upgraded_one)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, S, STRICT, 0, 1, 1);
	on(a, HISTORY_UPGRADE, 2, 3, LOCKSHM_OK)->token = BASE + 2;
	release(a, 9, 10);
	release(acquire(track(), 1, S, STRICT, 4, 5, 3), 6, 7);
	finds("exclusion");
}
END_TEST

START_TEST(reader_beside_a_downgraded_one)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, STRICT, 0, 1, 1);
	on(a, HISTORY_DOWNGRADE, 2, 3, LOCKSHM_OK);
	release(a, 9, 10);
	release(acquire(track(), 1, S, STRICT, 4, 5, 3), 6, 7);
	finds("");
}
END_TEST

/* The lease is over, but a later result proves that there was no other holder. */
START_TEST(late_answer_after_another_holder)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, 5, 0, 1, 1);
	on(a, HISTORY_RELEASE, 60, 61, LOCKSHM_LATE);
	release(reporting(acquire(track(), 1, X, STRICT, 2, 30, 2), LOCKSHM_TOOK_OVER_EXPIRED, a), 31, 32);
	finds("exclusion damage-false");
}
END_TEST

START_TEST(taken_during_the_cooldown)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, STRICT, 0, 1, 1);
	on(a, HISTORY_RELEASE, 2, 3, LOCKSHM_OK)->ns = 20000000;
	release(acquire(track(), 1, S, STRICT, 5, 6, 2), 7, 8);
	finds("exclusion");
}
END_TEST

START_TEST(token_order_is_not_the_order_of_holding)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 20, 1), 25, 26);
	release(acquire(track(), 1, X, STRICT, 1, 5, 2), 8, 9);
	finds("fifo");
}
END_TEST

START_TEST(waiter_that_was_passed_and_timed_out)
{
	struct history_record *a;
	uint32_t driver;

	begin();
	driver = track();
	a = acquire(track(), 1, X, STRICT, 0, 1, 1);
	seen(driver, failed(acquire(track(), 1, X, STRICT, 2, 50, 0), LOCKSHM_TIMEOUT, 50), 2);
	release(a, 9, 10);
	release(acquire(track(), 1, S, STRICT, 8, 11, 3), 45, 46);
	finds("fifo");
}
END_TEST

START_TEST(later_arrival_has_the_smaller_token)
{
	begin();
	release(acquire(track(), 1, S, STRICT, 0, 1, 5), 2, 3);
	release(acquire(track(), 1, S, STRICT, 4, 5, 4), 6, 7);
	finds("arrival");
}
END_TEST

START_TEST(token_given_twice)
{
	begin();
	release(acquire(track(), 1, S, STRICT, 0, 10, 1), 12, 13);
	release(acquire(track(), 1, S, STRICT, 0, 10, 1), 12, 13);
	finds("tokens");
}
END_TEST

START_TEST(token_above_a_newer_segment)
{
	begin();
	history_realm(&h, 2 * BASE);
	release(acquire(track(), 1, S, STRICT, 0, 10, BASE + 1), 12, 13);
	finds("tokens");
}
END_TEST

START_TEST(token_below_the_base)
{
	begin();
	acquire(track(), 1, S, 5, 0, 10, 1)->token = BASE;
	finds("tokens");
}
END_TEST

static void add_cases(TCase *tc)
{
	tcase_add_test(tc, two_exclusive_holders);
	tcase_add_test(tc, reader_beside_a_writer);
	tcase_add_test(tc, taken_before_the_release_of_several);
	tcase_add_test(tc, writer_beside_the_longer_of_two_readers);
	tcase_add_test(tc, readers_may_be_together);
	tcase_add_test(tc, reader_beside_an_upgraded_one);
	tcase_add_test(tc, reader_beside_a_downgraded_one);
	tcase_add_test(tc, late_answer_after_another_holder);
	tcase_add_test(tc, taken_during_the_cooldown);
	tcase_add_test(tc, token_order_is_not_the_order_of_holding);
	tcase_add_test(tc, waiter_that_was_passed_and_timed_out);
	tcase_add_test(tc, later_arrival_has_the_smaller_token);
	tcase_add_test(tc, token_given_twice);
	tcase_add_test(tc, token_above_a_newer_segment);
	tcase_add_test(tc, token_below_the_base);
}

int main(void)
{
	return fixture_main("history-order", add_cases);
}
