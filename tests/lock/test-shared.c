/* SPDX-License-Identifier: MIT */
/* test-shared.c - shared holds do not conflict with each other; a writer waits for all of them */
#include "support/agent.h"
#include "support/fixture.h"

START_TEST(readers_share)
{
	struct agent *r[3];
	struct seen seen;
	int i;

	for (i = 0; i < 3; i++) {
		r[i] = agent_start();
		ck_code(agent_try(r[i], "k", LOCKSHM_SHARED), 0);
	}
	look("k", &seen);
	ck_assert_int_eq(seen.mode, LOCKSHM_SHARED);
	ck_assert_uint_eq(seen.holders, 3);
	ck_assert_uint_eq(seen.waiters, 0);
	for (i = 0; i < 3; i++)
		ck_code(agent_release(r[i]), 0);
	ck_assert_uint_eq(stat_now().waits, 0);
}
END_TEST

/* @order: the order in which three readers leave. */
static void writer_waits_for_all(const int order[3])
{
	struct agent *r[3], *w = agent_start();
	int i;

	for (i = 0; i < 3; i++) {
		r[i] = agent_start();
		ck_code(agent_acquire(r[i], "k", LOCKSHM_SHARED), 0);
	}
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	for (i = 0; i < 3; i++) {
		ck_code(agent_poll(w), AGENT_BLOCKED);
		ck_assert(agent_waits(w, "k"));
		ck_code(agent_release(r[order[i]]), 0);
	}
	ck_code(agent_end(w), 0);
	verify_clean();
}

START_TEST(writer_waits_for_every_reader_whatever_their_order)
{
	static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	writer_waits_for_all(orders[_i]);
}
END_TEST

START_TEST(writer_shuts_everybody_out)
{
	struct agent *w = agent_start(), *r = agent_start();

	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_try(r, "k", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(agent_try(r, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_acquire(r, "k", LOCKSHM_SHARED), AGENT_BLOCKED);
	ck_code(agent_release(w), 0);
	ck_code(agent_end(r), 0);
}
END_TEST

START_TEST(last_release_frees_the_lock)
{
	struct agent *a = agent_start(), *b = agent_start();
	lockshm_hold_t hold;

	ck_code(agent_try(a, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_try(b, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_release(a), 0);
	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_release(b), 0);
	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

START_TEST(readers_have_leases_of_their_own)
{
	struct agent *shorter = agent_start(), *longer = agent_start(), *w = agent_start();
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_SHARED };

	ck_code(agent_begin(longer, c), 0);
	c.ns = LOCKSHM_MS(20);
	ck_code(agent_begin(shorter, c), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	pass(now_ns() + LOCKSHM_MS(60));
	ck_code(agent_poll(w), AGENT_BLOCKED); /* the short lease ended no other hold */
	ck_code(agent_call(longer, AGENT_CHECK), 0);
	ck_assert_int_eq(longer->answer.remaining_ns, LOCKSHM_FOREVER);
	ck_code(agent_release(longer), 0);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(shorter), LOCKSHM_LOST);
}
END_TEST

START_TEST(own_second_shared_hold_is_a_deadlock_only_behind_a_writer)
{
	struct lockshm_request patient = request_for("k", LOCKSHM_SHARED);
	struct agent *w = agent_start();
	lockshm_hold_t one, two, three;

	patient.timeout_ns = PATIENCE;
	ck_code(take(&one, "k", LOCKSHM_SHARED), 0);
	ck_code(lockshm_acquire(seg, &patient, &two), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(lockshm_acquire(seg, &patient, &three), LOCKSHM_DEADLOCK);
	ck_code(lockshm_release(&one, 0), 0);
	ck_assert(agent_waits(w, "k"));
	ck_code(lockshm_release(&two, 0), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

#define MANY 48 /* twice as many as an agent has holds */

enum order { OLDEST_FIRST, NEWEST_FIRST, SHUFFLED, ORDERS };

/* The @i-th of @n to leave. */
static unsigned leaves(enum order order, unsigned i, unsigned n)
{
	return order == OLDEST_FIRST ? i : order == NEWEST_FIRST ? n - 1 - i : (i * 37 + 11) % n;
}

/* Half of them of this process, which joins by the fast path, the others of another one. */
START_TEST(readers_leave_in_any_order_and_leave_nothing)
{
	struct agent_command c = { .key = "k", .how = LOCKSHM_SHARED };
	struct agent *other = agent_start();
	lockshm_hold_t holds[MANY];
	unsigned i, at;

	ck_code(take(&holds[0], "k", LOCKSHM_SHARED), 0);
	ck_code(lockshm_release(&holds[0], 0), 0);
	for (i = 0; i < MANY; i++) {
		c.op = AGENT_ACQUIRE;
		c.hold = (int)i / 2;
		ck_code(i % 2 ? agent_begin(other, c) : take(&holds[i], "k", LOCKSHM_SHARED), 0);
	}
	for (i = 0; i < MANY; i++) {
		at = leaves(_i, i, MANY);
		c.op = AGENT_RELEASE;
		c.hold = (int)at / 2;
		ck_code(at % 2 ? agent_do(other, c) : lockshm_release(&holds[at], 0), 0);
		ck_assert_uint_eq(stat_now().requests_used, MANY - 1 - i);
	}
	ck_assert_uint_eq(stat_now().keys_busy, 0);
	verify_clean();
}
END_TEST

static void key_was_used(void)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", LOCKSHM_SHARED), 0);
	ck_code(lockshm_release(&hold, 0), 0);
}

START_TEST(reader_of_a_known_key_does_not_hide_a_death)
{
	struct agent *dies = agent_start();
	lockshm_hold_t hold;

	key_was_used();
	ck_code(agent_try(dies, "k", LOCKSHM_SHARED), 0);
	agent_kill(dies);
	ck_code(take(&hold, "k", LOCKSHM_SHARED), 0);
	ck_assert_uint_eq(stat_now().recovered, 1);
	ck_code(lockshm_release(&hold, 0), 0);
	agent_forget(dies);
}
END_TEST

START_TEST(reader_of_a_known_key_does_not_prolong_an_overrun)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_SHARED, .ns = LOCKSHM_MS(1) };
	struct agent *overruns = agent_start();
	lockshm_hold_t hold;

	key_was_used();
	ck_code(agent_begin(overruns, c), 0);
	pass(overruns->answer.at_ns + LOCKSHM_MS(12));
	ck_code(take(&hold, "k", LOCKSHM_SHARED), 0);
	ck_assert_uint_eq(stat_now().expired, 1);
	ck_code(agent_release(overruns), LOCKSHM_LOST);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

/* Its hint is of the reader that has left. */
START_TEST(writer_behind_readers_that_came_and_went_is_granted)
{
	struct agent *first = agent_start(), *w = agent_start();
	lockshm_hold_t mine, later;

	ck_code(agent_try(first, "k", LOCKSHM_SHARED), 0);
	ck_code(take(&mine, "k", LOCKSHM_SHARED), 0);
	ck_code(take(&later, "k", LOCKSHM_SHARED), 0);
	ck_code(lockshm_release(&mine, 0), 0);
	ck_code(lockshm_release(&later, 0), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_release(first), 0);
	ck_code(agent_end(w), 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, readers_leave_in_any_order_and_leave_nothing, 0, ORDERS);
	tcase_add_test(tc, reader_of_a_known_key_does_not_hide_a_death);
	tcase_add_test(tc, reader_of_a_known_key_does_not_prolong_an_overrun);
	tcase_add_test(tc, writer_behind_readers_that_came_and_went_is_granted);
	tcase_add_test(tc, readers_share);
	tcase_add_loop_test(tc, writer_waits_for_every_reader_whatever_their_order, 0, 6);
	tcase_add_test(tc, writer_shuts_everybody_out);
	tcase_add_test(tc, last_release_frees_the_lock);
	tcase_add_test(tc, readers_have_leases_of_their_own);
	tcase_add_test(tc, own_second_shared_hold_is_a_deadlock_only_behind_a_writer);
}

int main(void)
{
	return fixture_main("shared", add);
}
