/* SPDX-License-Identifier: MIT */
/*
 * test-history.c - the checker of histories: sound ones pass, with everything in them that is uncertain
 *
 * One hand-made history for each property of history/check.h, in test-history-order.c, test-history-outcomes.c and
 * test-history-reports.c, breaks that property and, as far as this is possible, no other; the checker must
 * name exactly what is broken.
 */
#include "builder.h"

START_TEST(sound_history_passes)
{
	struct history_record *a, *b, *c, *d;
	uint32_t l1, l2, l3, driver;

	begin();
	l1 = track(), l2 = track(), l3 = track(), driver = track();
	a = acquire(l1, 1, X, 10, 0, 1, 1);
	b = acquire(l2, 1, S, STRICT, 2, 6, 2);
	c = acquire(l3, 1, S, STRICT, 3, 6, 3);
	on(a, HISTORY_CHECK, 2, 3, LOCKSHM_OK)->ns = 8500000;
	release(a, 5, 5.5);
	on(b, HISTORY_UPGRADE, 7, 8, LOCKSHM_BUSY);
	release(c, 9, 10);
	on(b, HISTORY_UPGRADE, 11, 12, LOCKSHM_OK)->token = BASE + 4;
	killed(driver, l2, 13);
	d = reporting(acquire(l1, 1, X, STRICT, 20, 21, 5), LOCKSHM_OWNER_DIED, b);
	d->previous_token = BASE + 4;
	on(d, HISTORY_ACKNOWLEDGE, 22, 23, LOCKSHM_OK);
	release(d, 24, 25);
	c = try(acquire(l3, 1, X, 10, 30, 31, 6), LOCKSHM_OK);
	reporting(acquire(l1, 1, X, 10, 32, 60, 7), LOCKSHM_TOOK_OVER_EXPIRED, c);
	finds("");
}
END_TEST

/* A call that never came back may have done all, some or nothing. */
START_TEST(what_was_cut_off_proves_nothing)
{
	struct history_record *a, *b, *c;
	uint32_t l1, l2, l3, driver;

	begin();
	l1 = track(), l2 = track(), l3 = track(), driver = track();
	a = acquire(l1, 1, X, STRICT, 0, 1, 1);
	on(a, HISTORY_RELEASE, 2, OPEN, 0);
	b = acquire(l2, 1, X, STRICT, 3, OPEN, 0);
	killed(driver, l1, 5);
	killed(driver, l2, 6);
	c = acquire(l3, 1, X, STRICT, 10, 11, 3); /* no report */
	release(c, 12, 13);
	reporting(acquire(l3, 1, X, STRICT, 14, 15, 4), LOCKSHM_OWNER_DIED, b)->previous_token = BASE + 2;
	finds("");
}
END_TEST

START_TEST(own_cycle_is_a_deadlock)
{
	struct history_record *a, *b;
	uint32_t l1, l2;

	begin();
	l1 = track(), l2 = track();
	a = acquire(l1, 1, X, STRICT, 0, 1, 1);
	b = acquire(l2, 2, X, STRICT, 0, 1, 1);
	acquire(l1, 2, X, STRICT, 2, 30, 2);
	failed(acquire(l2, 1, X, STRICT, 3, 4, 0), LOCKSHM_DEADLOCK, 1000);
	release(b, 5, 29);
	release(a, 31, 32);
	finds("");
}
END_TEST

/* The second thread took the hold over from the process, and gave it back later. */
START_TEST(cycle_through_a_moved_hold)
{
	struct history_record *a, *b, *m;
	uint32_t p, l1, l2, l3;

	begin();
	p = history_new_process(&h);
	l1 = track_of(p, HISTORY_NO_TRACK), l2 = track_of(p, HISTORY_NO_TRACK), l3 = track();
	a = acquire(l1, 1, X, STRICT, 0, 1, 1);
	on(a, HISTORY_MOVE, 2, 3, LOCKSHM_OK)->mode = LOCKSHM_TO_PROCESS;
	m = on(a, HISTORY_MOVE, 4, 5, LOCKSHM_OK);
	m->mode = LOCKSHM_TO_CALLER;
	m->track = l2;
	b = acquire(l3, 2, X, STRICT, 0, 1, 1);
	acquire(l3, 1, X, STRICT, 6, 40, 2);
	failed(acquire(l2, 2, X, STRICT, 7, 8, 0), LOCKSHM_DEADLOCK, 1000);
	m = on(a, HISTORY_MOVE, 9, 10, LOCKSHM_OK);
	m->mode = LOCKSHM_TO_PROCESS;
	m->track = l2;
	release(a, 30, 31);
	release(b, 41, 42);
	finds("");
}
END_TEST

/* Granted, and ended by an operator before it woke: its second request is queued behind the others. */
START_TEST(waiter_that_asked_again_was_not_passed)
{
	struct history_record *a, *b, *w, *e;
	uint32_t driver;

	begin();
	driver = track();
	a = acquire(track(), 1, X, STRICT, 0, 1, 1);
	w = failed(acquire(track(), 1, X, STRICT, 2, 50, 0), LOCKSHM_TIMEOUT, 50);
	seen(driver, w, 2);
	release(a, 5, 6);
	e = add(driver, HISTORY_END_HOLD, 7, 8, LOCKSHM_OK);
	e->key = 1;
	e->token = BASE + 2;
	b = acquire(track(), 1, X, STRICT, 4, 11, 3);
	release(b, 45, 46);
	finds("");
}
END_TEST

/* Two may cancel it; it has left the queue after the first. */
START_TEST(cancelled_waiter_was_not_passed)
{
	struct history_record *a, *w;
	uint32_t driver, l;

	begin();
	driver = track(), l = track();
	a = acquire(track(), 1, X, STRICT, 0, 1, 1);
	w = failed(acquire(track(), 1, X, STRICT, 2, 50, 0), LOCKSHM_CANCELLED, 1000);
	seen(driver, w, 2);
	on(w, HISTORY_CANCEL, 5, 6, LOCKSHM_OK);
	on(w, HISTORY_CANCEL, 30, 31, LOCKSHM_OK);
	release(a, 9, 10);
	release(acquire(l, 1, X, STRICT, 4, 11, 3), 45, 46);
	finds("");
}
END_TEST

/* FULL is returned before the hold is checked, so it does not prove that it was held. */
START_TEST(refused_move_says_nothing_of_the_hold)
{
	struct history_record *a, *b;

	begin();
	a = acquire(track(), 1, X, 5, 0, 1, 1);
	on(a, HISTORY_MOVE, 60, 61, LOCKSHM_FULL);
	on(a, HISTORY_RELEASE, 62, 63, LOCKSHM_LOST);
	b = reporting(acquire(track(), 1, X, STRICT, 30, 31, 2), LOCKSHM_TOOK_OVER_EXPIRED, a);
	release(b, 70, 71);
	finds("");
}
END_TEST

/* Bad ends that leave no mark, or none for sure. */
START_TEST(no_mark_of_plain_keys_and_readers)
{
	struct history_record *a, *b;
	uint32_t l[4], driver;

	begin();
	driver = track();
	for (int i = 0; i < 4; i++)
		l[i] = track();
	plain(acquire(l[0], 1, X, STRICT, 0, 1, 1));
	acquire(l[1], 2, S, STRICT, 0, 1, 1);
	a = acquire(l[2], 3, X, STRICT, 0, 1, 1);
	on(a, HISTORY_DOWNGRADE, 1.5, 2, LOCKSHM_OK);
	b = plain(acquire(l[3], 4, X, STRICT, 0, 1, 1));
	killed(driver, l[0], 4);
	killed(driver, l[1], 4);
	killed(driver, l[2], 4);
	killed(driver, l[3], 4);
	for (uint32_t key = 1; key <= 3; key++)
		acquire(track(), key, X, STRICT, 50, 51, 5);
	/* Nothing shows that it was unlinked before its key became robust. */
	reporting(acquire(track(), 4, X, STRICT, 50, 51, 5), LOCKSHM_OWNER_DIED, b);
	finds("");
}
END_TEST

/* Any of these may have been the one that the holder was spared by. */
START_TEST(operator_has_acknowledged)
{
	struct history_record *e;
	uint32_t l, driver;

	begin();
	l = track(), driver = track();
	acquire(l, 1, X, STRICT, 0, 1, 1);
	killed(driver, l, 4);
	e = add(driver, HISTORY_ACK_MARKS, 20, 21, LOCKSHM_OK);
	e->key = HISTORY_ANY_KEY;
	e->flags |= HISTORY_SOME_MARKS;
	acquire(track(), 1, X, STRICT, 50, 51, 2);
	finds("");
}
END_TEST

/* The kernel starts no thread while another one calls exec. */
START_TEST(no_service_thread_during_exec)
{
	struct history_record *a;
	uint32_t l1, l2;

	begin();
	l1 = track(), l2 = track_of(process_of(l1), HISTORY_NO_TRACK);
	add(l2, HISTORY_EXEC, 1, OPEN, 0);
	a = failed(acquire(l1, 1, X, 100, 0, 2, 0), LOCKSHM_SYSTEM, 3);
	a->flags |= HISTORY_AUTO_RENEW;
	finds("");
}
END_TEST

/* One of several released by one call, and some of them were lost: each may have gone on until then, or not. */
START_TEST(worst_of_several_releases)
{
	struct history_record *a, *b;
	uint32_t l1, l2;

	begin();
	l1 = track(), l2 = track();
	a = acquire(l1, 1, X, 10, 0, 1, 1);
	b = acquire(l1, 2, X, STRICT, 2, 3, 1);
	on(a, HISTORY_RELEASE, 50, 51, LOCKSHM_LOST)->flags |= HISTORY_WORST;
	on(b, HISTORY_RELEASE, 50, 51, LOCKSHM_LOST)->flags |= HISTORY_WORST;
	reporting(acquire(l2, 1, X, STRICT, 5, 12, 2), LOCKSHM_TOOK_OVER_EXPIRED, a);
	acquire(l2, 2, X, STRICT, 60, 61, 2);
	finds("");
}
END_TEST

static void add_cases(TCase *tc)
{
	tcase_add_test(tc, sound_history_passes);
	tcase_add_test(tc, what_was_cut_off_proves_nothing);
	tcase_add_test(tc, own_cycle_is_a_deadlock);
	tcase_add_test(tc, cycle_through_a_moved_hold);
	tcase_add_test(tc, waiter_that_asked_again_was_not_passed);
	tcase_add_test(tc, cancelled_waiter_was_not_passed);
	tcase_add_test(tc, refused_move_says_nothing_of_the_hold);
	tcase_add_test(tc, no_mark_of_plain_keys_and_readers);
	tcase_add_test(tc, operator_has_acknowledged);
	tcase_add_test(tc, no_service_thread_during_exec);
	tcase_add_test(tc, worst_of_several_releases);
}

int main(void)
{
	return fixture_main("history", add_cases);
}
