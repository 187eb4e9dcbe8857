/* SPDX-License-Identifier: MIT */
/* test-history-reports.c - the checker of histories: reports of bad ends, waiting, the log; see test-history.c */
#include "builder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* ---------------------------------------------------------------- damage */

/* The next holder gets @status of a hold that ended by @end. */
enum ending { RELEASED, ALIVE, KILLED };

static struct history_record *tell_after(enum ending end, double ttl, int status)
{
	uint32_t l = track(), driver = track();
	struct history_record *a = acquire(l, 1, X, ttl, 0, 1, 1);

	if (end == RELEASED)
		release(a, 2, 3);
	if (end == KILLED)
		killed(driver, l, 4);
	return reporting(acquire(track(), 1, X, STRICT, 50, 51, 2), status, a);
}

START_TEST(death_of_a_releaser)
{
	begin();
	tell_after(RELEASED, STRICT, LOCKSHM_OWNER_DIED);
	finds("damage-false");
}
END_TEST

START_TEST(death_of_a_living_owner)
{
	begin();
	tell_after(ALIVE, 5, LOCKSHM_OWNER_DIED);
	finds("damage-false");
}
END_TEST

START_TEST(expiry_of_a_lease_that_is_not_over)
{
	begin();
	tell_after(KILLED, 500, LOCKSHM_TOOK_OVER_EXPIRED);
	finds("damage-false damage-missing");
}
END_TEST

START_TEST(death_with_another_pid)
{
	begin();
	tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED)->previous_pid = 999;
	finds("damage-false");
}
END_TEST

START_TEST(death_with_another_thread)
{
	begin();
	tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED)->previous_tid = 999;
	finds("damage-false");
}
END_TEST

/* The move had changed the owner, and then found that the hold had been ended. */
START_TEST(expiry_in_the_midst_of_a_move_names_either_thread)
{
	struct history_record *a, *b;

	begin();
	a = acquire(track(), 1, X, 5, 0, 1, 1);
	on(a, HISTORY_MOVE, 2, 40, LOCKSHM_LOST)->mode = LOCKSHM_TO_PROCESS;
	b = reporting(acquire(track(), 1, X, STRICT, 10, 20, 2), LOCKSHM_TOOK_OVER_EXPIRED, a);
	b->previous_tid = 999;
	finds("");
}
END_TEST

START_TEST(death_with_another_tag)
{
	begin();
	tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED)->previous_track = 1;
	finds("damage-false");
}
END_TEST

START_TEST(death_of_a_reader)
{
	struct history_record *a;
	uint32_t l, driver;

	begin();
	l = track(), driver = track();
	a = acquire(l, 1, X, STRICT, 0, 1, 1);
	on(a, HISTORY_DOWNGRADE, 1.5, 2, LOCKSHM_OK);
	killed(driver, l, 4);
	reporting(acquire(track(), 1, X, STRICT, 50, 51, 2), LOCKSHM_OWNER_DIED, a);
	finds("damage-false");
}
END_TEST

/* Unlinked by the second one at the latest; robust with the third. */
START_TEST(death_before_the_key_was_robust)
{
	struct history_record *a, *b;
	uint32_t l, driver;

	begin();
	l = track(), driver = track();
	a = plain(acquire(l, 1, X, STRICT, 0, 1, 1));
	killed(driver, l, 4);
	b = plain(acquire(track(), 1, X, STRICT, 10, 11, 2));
	release(b, 12, 13);
	reporting(acquire(track(), 1, X, STRICT, 50, 51, 3), LOCKSHM_OWNER_DIED, a);
	finds("damage-false");
}
END_TEST

/* It waits behind the plain one when that dies. */
START_TEST(death_behind_which_a_robust_one_waits)
{
	struct history_record *w;
	uint32_t l, driver;

	begin();
	l = track(), driver = track();
	plain(acquire(l, 1, X, STRICT, 0, 1, 1));
	w = acquire(track(), 1, X, STRICT, 2, 10, 2);
	seen(driver, w, 2);
	killed(driver, l, 5);
	finds("damage-missing");
}
END_TEST

START_TEST(plain_report_leaves_the_mark_out)
{
	struct history_record *b;

	begin();
	b = tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED);
	release(b, 52, 53);
	plain(acquire(track(), 1, S, STRICT, 54, 55, 3));
	finds("damage-missing");
}
END_TEST

START_TEST(plain_acquire_without_a_report_is_told_nothing)
{
	struct history_record *b;

	begin();
	b = tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED);
	release(b, 52, 53);
	plain(acquire(track(), 1, S, STRICT, 54, 55, 3))->flags |= HISTORY_NO_REPORT;
	finds("");
}
END_TEST

START_TEST(plain_acquire_returns_a_status)
{
	begin();
	plain(tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED));
	finds("code");
}
END_TEST

/* Its acquire never returned a hold. */
static void told_of_a_failed(int code)
{
	struct history_record *a, *w;

	begin();
	a = acquire(track(), 1, X, STRICT, 0, 1, 1);
	release(a, 5, 6);
	w = failed(acquire(track(), 1, X, 3, 2, 20, 0), code, 20);
	if (code == LOCKSHM_CANCELLED)
		on(w, HISTORY_CANCEL, 19, 19.5, LOCKSHM_OK);
	reporting(acquire(track(), 1, X, STRICT, 4, 21, 3), LOCKSHM_TOOK_OVER_EXPIRED, w)->previous_token = BASE + 2;
	finds("damage-false");
}

START_TEST(expiry_of_a_wait_that_timed_out)
{
	told_of_a_failed(LOCKSHM_TIMEOUT);
}
END_TEST

START_TEST(expiry_of_a_wait_that_was_cancelled)
{
	told_of_a_failed(LOCKSHM_CANCELLED);
}
END_TEST

/* A mark, seen by a holder at 51; an operator acknowledges marks, of @key or of all, with @flags. */
static struct history_record *told_and_acknowledged(uint32_t key, uint32_t flags)
{
	struct history_record *b, *e;

	begin();
	b = tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED);
	release(b, 52, 53);
	e = add(track(), HISTORY_ACK_MARKS, 54, 55, LOCKSHM_OK);
	e->key = key;
	e->flags = flags;
	return b;
}

static void told_again(struct history_record *b)
{
	struct history_record *c = acquire(track(), 1, X, STRICT, 60, 61, 3);

	c->outcome = c->previous_status = b->previous_status;
	c->previous_token = b->previous_token;
	c->previous_pid = b->previous_pid, c->previous_tid = b->previous_tid;
}

START_TEST(mark_comes_back_after_an_operator)
{
	told_again(told_and_acknowledged(1, 0));
	finds("damage-again");
}
END_TEST

START_TEST(mark_comes_back_after_an_operator_for_all)
{
	told_again(told_and_acknowledged(HISTORY_ANY_KEY, 0));
	finds("damage-again");
}
END_TEST

START_TEST(operator_for_others_leaves_the_mark)
{
	told_again(told_and_acknowledged(2, 0));
	finds("");
}
END_TEST

START_TEST(operator_for_some_may_leave_the_mark)
{
	told_again(told_and_acknowledged(HISTORY_ANY_KEY, HISTORY_SOME_MARKS));
	finds("");
}
END_TEST

START_TEST(operator_for_others_cleared_the_mark)
{
	told_and_acknowledged(2, 0);
	acquire(track(), 1, X, STRICT, 60, 61, 3);
	finds("damage-missing");
}
END_TEST

/* lockshm_previous() on the hold that was told. */
static struct history_record *asked(int status)
{
	struct history_record *b, *p;

	begin();
	b = tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED);
	p = on(b, HISTORY_PREVIOUS, 52, 53, LOCKSHM_OK);
	p->previous_status = (uint8_t)status;
	p->previous_token = b->previous_token;
	p->previous_pid = b->previous_pid, p->previous_tid = b->previous_tid;
	p->ns = LOCKSHM_MS(2);
	return p;
}

START_TEST(previous_shows_the_mark)
{
	asked(LOCKSHM_OWNER_DIED);
	finds("");
}
END_TEST

START_TEST(previous_hides_the_mark)
{
	asked(0);
	finds("damage-missing");
}
END_TEST

START_TEST(previous_shows_another_mark)
{
	struct history_record *p = asked(LOCKSHM_OWNER_DIED), *q;
	uint32_t l = track();

	/* Killed inside an acquire, so its token may be anything. */
	q = acquire(l, 1, X, STRICT, 1, OPEN, 0);
	killed(0, l, 5);
	p->previous_token = BASE;
	p->previous_pid = p->previous_tid = 0;
	p->previous_track = q->track;
	finds("damage-false");
}
END_TEST

START_TEST(previous_shows_a_mark_that_is_too_old)
{
	asked(LOCKSHM_OWNER_DIED)->ns = LOCKSHM_MS(60);
	finds("damage-false");
}
END_TEST

START_TEST(death_with_another_token)
{
	begin();
	tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED)->previous_token = BASE + 77;
	finds("damage-false");
}
END_TEST

START_TEST(death_is_not_reported)
{
	struct history_record *b;

	begin();
	b = tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED);
	b->outcome = b->previous_status = 0;
	finds("damage-missing");
}
END_TEST

START_TEST(death_is_not_reported_to_the_second_one)
{
	struct history_record *b;

	begin();
	b = tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED);
	release(b, 52, 53);
	acquire(track(), 1, S, STRICT, 54, 55, 3);
	finds("damage-missing");
}
END_TEST

START_TEST(expiry_is_not_reported)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, X, 5, 0, 1, 1);
	on(a, HISTORY_RELEASE, 60, 61, LOCKSHM_LOST);
	acquire(track(), 1, X, STRICT, 20, 50, 2);
	finds("damage-missing");
}
END_TEST

START_TEST(forked_child_dies_with_its_parent)
{
	struct history_record *a;
	uint32_t parent, child, driver;

	begin();
	parent = track(), driver = track();
	child = track_of(history_new_process(&h), parent);
	a = acquire(child, 1, X, STRICT, 0, 1, 1);
	killed(driver, parent, 4);
	reporting(acquire(track(), 1, X, STRICT, 50, 51, 2), LOCKSHM_OWNER_DIED, a);
	finds("");
}
END_TEST

START_TEST(acknowledged_death_comes_back)
{
	struct history_record *a, *b;
	uint32_t l, driver;

	begin();
	l = track(), driver = track();
	a = acquire(l, 1, X, STRICT, 0, 1, 1);
	killed(driver, l, 4);
	b = reporting(acquire(track(), 1, X, STRICT, 50, 51, 2), LOCKSHM_OWNER_DIED, a);
	on(b, HISTORY_ACKNOWLEDGE, 52, 53, LOCKSHM_OK);
	release(b, 54, 55);
	reporting(acquire(track(), 1, X, STRICT, 60, 61, 3), LOCKSHM_OWNER_DIED, a);
	finds("damage-again");
}
END_TEST

START_TEST(acknowledge_is_busy)
{
	begin();
	on(tell_after(KILLED, STRICT, LOCKSHM_OWNER_DIED), HISTORY_ACKNOWLEDGE, 52, 53, LOCKSHM_BUSY);
	finds("code");
}
END_TEST

/* ---------------------------------------------------------------- waits */

START_TEST(timeout_before_its_time)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 50, 51);
	failed(acquire(track(), 1, X, STRICT, 2, 20, 0), LOCKSHM_TIMEOUT, 30);
	finds("early");
}
END_TEST

START_TEST(call_comes_back_too_late)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 9000, 9001);
	failed(acquire(track(), 1, X, STRICT, 2, 5000, 0), LOCKSHM_TIMEOUT, 30);
	finds("overdue");
}
END_TEST

START_TEST(release_that_blocks)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 2, 5000);
	finds("overdue");
}
END_TEST

START_TEST(call_never_comes_back)
{
	uint32_t l, driver;

	begin();
	l = track(), driver = track();
	on(acquire(l, 1, X, STRICT, 0, 1, 1), HISTORY_CHECK, 2, OPEN, 0);
	killed(driver, l, 5000);
	finds("overdue");
}
END_TEST

START_TEST(call_of_a_stopped_process_may_take_long)
{
	uint32_t l, driver;

	begin();
	l = track(), driver = track();
	release(acquire(l, 1, X, STRICT, 0, 1, 1), 2, 5000);
	add(driver, HISTORY_STOP, 1.5, 1.6, 0)->subject = process_of(l);
	add(driver, HISTORY_CONTINUE, 4900, 4901, 0)->subject = process_of(l);
	finds("");
}
END_TEST

START_TEST(waiter_is_stuck)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 5, 6);
	acquire(track(), 1, X, STRICT, 2, 4000, 2);
	finds("stuck");
}
END_TEST

START_TEST(waiter_behind_a_long_hold_is_not_stuck)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 3990, 3995);
	acquire(track(), 1, X, STRICT, 2, 4000, 2);
	finds("");
}
END_TEST

START_TEST(reader_is_not_granted_beside_readers)
{
	struct history_record *a;

	begin();
	a = acquire(track(), 1, S, STRICT, 0, 1, 1);
	release(acquire(track(), 1, S, STRICT, 2, 4000, 2), 4001, 4002);
	release(a, 4003, 4004);
	finds("stuck");
}
END_TEST

/* Hand over a lock from release to waiter, @n times, @late ms after the release. */
static void hand_over(unsigned n, double late)
{
	uint32_t l[2] = { track(), track() };
	struct history_record *r = acquire(l[0], 1, X, STRICT, 0, 1, 1);
	unsigned i;

	add(track(), HISTORY_CALM, 0, 1e6, 0);
	for (i = 1; i <= n; i++) {
		double t = 1000 + i * 300;

		release(r, t, t + 1);
		r = acquire(l[i % 2], 1, X, STRICT, t - 10, t + 1 + late, i + 1);
		r->slept_ns = 5000000;
	}
}

START_TEST(waiters_are_woken_by_their_self_check)
{
	begin();
	hand_over(20, 100);
	finds("wake");
	ck_assert_uint_eq(summary.calm_late, 20);
}
END_TEST

START_TEST(waiters_are_woken_at_once)
{
	begin();
	hand_over(20, 1);
	finds("");
	ck_assert_uint_eq(summary.calm_waits, 20);
	ck_assert_uint_eq(summary.calm_late, 0);
}
END_TEST

START_TEST(busy_for_a_free_key)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 2, 3);
	try(acquire(track(), 1, X, STRICT, 10, 11, 0), LOCKSHM_BUSY);
	finds("busy");
}
END_TEST

START_TEST(busy_for_a_reader_beside_readers)
{
	begin();
	release(acquire(track(), 1, S, STRICT, 0, 1, 1), 20, 21);
	try(acquire(track(), 1, S, STRICT, 10, 11, 0), LOCKSHM_BUSY);
	finds("busy");
}
END_TEST

START_TEST(busy_upgrade_of_a_lonely_reader)
{
	begin();
	on(acquire(track(), 1, S, STRICT, 0, 1, 1), HISTORY_UPGRADE, 20, 21, LOCKSHM_BUSY);
	finds("busy");
}
END_TEST

START_TEST(cancelled_without_a_cancel)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 50, 51);
	failed(acquire(track(), 1, X, STRICT, 2, 20, 0), LOCKSHM_CANCELLED, 30);
	finds("cancel");
}
END_TEST

START_TEST(deadlock_without_a_cycle)
{
	begin();
	release(acquire(track(), 1, X, STRICT, 0, 1, 1), 50, 51);
	failed(acquire(track(), 1, X, STRICT, 2, 20, 0), LOCKSHM_DEADLOCK, 30);
	finds("deadlock");
}
END_TEST

/* ---------------------------------------------------------------- the log itself */

/* What a writer left, killed or not, is what a reader of the saved file finds. */
START_TEST(saved_history_is_the_same)
{
	struct history_record *r;
	char path[64];
	int fd;

	begin();
	r = history_new(&writers[track()]);
	r->key = 7;
	history_enter(r, HISTORY_ACQUIRE);
	snprintf(path, sizeof(path), "test-history-%d.history", (int)getpid());
	ck_assert_int_eq(history_save(&h, path), 0);
	history_close(&h);
	fd = open(path, O_RDWR);
	ck_assert_int_ge(fd, 0);
	unlink(path);
	ck_assert_int_eq(history_open(&h, fd), 0);
	ck_assert_uint_eq(h.records[0].key, 7);
	ck_assert_int_gt(h.records[0].enter, 0);
	ck_assert_int_eq(h.records[0].leave, 0);
	finds("");
	ck_assert_uint_eq(summary.in_flight, 1);
}
END_TEST

static void add_cases(TCase *tc)
{
	tcase_add_test(tc, death_of_a_releaser);
	tcase_add_test(tc, death_of_a_living_owner);
	tcase_add_test(tc, expiry_of_a_lease_that_is_not_over);
	tcase_add_test(tc, death_with_another_pid);
	tcase_add_test(tc, death_with_another_thread);
	tcase_add_test(tc, expiry_in_the_midst_of_a_move_names_either_thread);
	tcase_add_test(tc, death_with_another_tag);
	tcase_add_test(tc, death_of_a_reader);
	tcase_add_test(tc, death_before_the_key_was_robust);
	tcase_add_test(tc, death_behind_which_a_robust_one_waits);
	tcase_add_test(tc, plain_report_leaves_the_mark_out);
	tcase_add_test(tc, plain_acquire_without_a_report_is_told_nothing);
	tcase_add_test(tc, plain_acquire_returns_a_status);
	tcase_add_test(tc, expiry_of_a_wait_that_timed_out);
	tcase_add_test(tc, expiry_of_a_wait_that_was_cancelled);
	tcase_add_test(tc, mark_comes_back_after_an_operator);
	tcase_add_test(tc, mark_comes_back_after_an_operator_for_all);
	tcase_add_test(tc, operator_for_others_leaves_the_mark);
	tcase_add_test(tc, operator_for_some_may_leave_the_mark);
	tcase_add_test(tc, operator_for_others_cleared_the_mark);
	tcase_add_test(tc, previous_shows_the_mark);
	tcase_add_test(tc, previous_hides_the_mark);
	tcase_add_test(tc, previous_shows_another_mark);
	tcase_add_test(tc, previous_shows_a_mark_that_is_too_old);
	tcase_add_test(tc, death_with_another_token);
	tcase_add_test(tc, death_is_not_reported);
	tcase_add_test(tc, death_is_not_reported_to_the_second_one);
	tcase_add_test(tc, expiry_is_not_reported);
	tcase_add_test(tc, forked_child_dies_with_its_parent);
	tcase_add_test(tc, acknowledged_death_comes_back);
	tcase_add_test(tc, acknowledge_is_busy);
	tcase_add_test(tc, timeout_before_its_time);
	tcase_add_test(tc, call_comes_back_too_late);
	tcase_add_test(tc, release_that_blocks);
	tcase_add_test(tc, call_never_comes_back);
	tcase_add_test(tc, call_of_a_stopped_process_may_take_long);
	tcase_add_test(tc, waiter_is_stuck);
	tcase_add_test(tc, waiter_behind_a_long_hold_is_not_stuck);
	tcase_add_test(tc, reader_is_not_granted_beside_readers);
	tcase_add_test(tc, waiters_are_woken_by_their_self_check);
	tcase_add_test(tc, waiters_are_woken_at_once);
	tcase_add_test(tc, busy_for_a_free_key);
	tcase_add_test(tc, busy_for_a_reader_beside_readers);
	tcase_add_test(tc, busy_upgrade_of_a_lonely_reader);
	tcase_add_test(tc, cancelled_without_a_cancel);
	tcase_add_test(tc, deadlock_without_a_cycle);
	tcase_add_test(tc, saved_history_is_the_same);
}

int main(void)
{
	return fixture_main("history-reports", add_cases);
}
