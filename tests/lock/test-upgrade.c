/* SPDX-License-Identifier: MIT */
/* test-upgrade.c - shared to exclusive (only when alone) and back (readers behind come in) */
#include "support/agent.h"
#include "support/fixture.h"

START_TEST(sole_reader_becomes_writer_with_a_larger_token)
{
	struct agent *h = agent_start(), *other = agent_start();
	struct seen seen;
	uint64_t token;

	ck_code(agent_acquire(h, "k", LOCKSHM_SHARED), 0);
	token = h->answer.token;
	ck_code(agent_call(h, AGENT_UPGRADE), 0);
	ck_assert_uint_gt(h->answer.token, token);
	look("k", &seen);
	ck_assert_int_eq(seen.mode, LOCKSHM_EXCLUSIVE);
	ck_assert_uint_eq(seen.requests[0].token, h->answer.token);
	ck_code(agent_try(other, "k", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(agent_release(h), 0);
	ck_code(agent_try(other, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(other->answer.token, token + 1);
	verify_clean();
}
END_TEST

START_TEST(upgrade_beside_another_reader_is_busy)
{
	struct agent *a = agent_start(), *b = agent_start();

	ck_code(agent_acquire(a, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(b, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_call(a, AGENT_UPGRADE), LOCKSHM_BUSY);
	ck_code(agent_call(b, AGENT_UPGRADE), LOCKSHM_BUSY);
	ck_code(agent_call(a, AGENT_CHECK), 0);
	ck_code(agent_release(a), 0);
	ck_code(agent_call(b, AGENT_UPGRADE), 0);
	ck_code(agent_release(b), 0);
	verify_clean();
}
END_TEST

START_TEST(upgrade_before_a_waiter_is_busy)
{
	struct agent *h = agent_start(), *w = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_call(h, AGENT_UPGRADE), LOCKSHM_BUSY);
	ck_assert(agent_waits(w, "k"));
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(upgrade_ignores_readers_that_died)
{
	struct agent *h = agent_start(), *dead = agent_start();

	ck_code(agent_acquire(dead, "k", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(h, "k", LOCKSHM_SHARED), 0);
	agent_kill(dead);
	ck_code(lockshm_sweep(seg, NULL), 0);
	ck_code(agent_call(h, AGENT_UPGRADE), 0);
	ck_code(agent_release(h), 0);
	verify_clean();
}
END_TEST

START_TEST(upgrade_of_an_overdue_hold_is_late)
{
	struct agent *h = agent_start();

	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_SHARED,
						    .ns = LOCKSHM_MS(5) }),
		0);
	pass(h->answer.at_ns + LOCKSHM_MS(30));
	ck_code(agent_call(h, AGENT_UPGRADE), LOCKSHM_LATE);
	ck_code(agent_release(h), LOCKSHM_LATE);
}
END_TEST

START_TEST(same_mode_changes_nothing)
{
	lockshm_hold_t hold;
	uint64_t token;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	token = lockshm_token(&hold);
	ck_code(lockshm_upgrade(&hold), 0);
	ck_assert_uint_eq(lockshm_token(&hold), token);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(take(&hold, "k", LOCKSHM_SHARED), 0);
	token = lockshm_token(&hold);
	ck_code(lockshm_downgrade(&hold), 0);
	ck_assert_uint_eq(lockshm_token(&hold), token);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

START_TEST(downgrade_lets_the_readers_behind_in_but_no_writer)
{
	struct agent *h = agent_start(), *r1 = agent_start(), *r2 = agent_start(), *w = agent_start(),
		     *r3 = agent_start();

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(r1, "k", LOCKSHM_SHARED), AGENT_BLOCKED);
	ck_code(agent_acquire(r2, "k", LOCKSHM_SHARED), AGENT_BLOCKED);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_acquire(r3, "k", LOCKSHM_SHARED), AGENT_BLOCKED);
	ck_code(agent_call(h, AGENT_DOWNGRADE), 0);
	ck_code(agent_end(r1), 0);
	ck_code(agent_end(r2), 0);
	ck_assert(agent_waits(w, "k"));
	ck_assert(agent_waits(r3, "k"));
	ck_code(agent_release(r2), 0);
	ck_code(agent_release(h), 0);
	ck_assert(agent_waits(w, "k"));
	ck_code(agent_release(r1), 0);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(w), 0);
	ck_code(agent_end(r3), 0);
	verify_clean();
}
END_TEST

START_TEST(downgrade_then_upgrade_again)
{
	lockshm_hold_t hold;
	uint64_t token;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	token = lockshm_token(&hold);
	ck_code(lockshm_downgrade(&hold), 0);
	ck_code(agent_try(agent_start(), "k", LOCKSHM_SHARED), 0);
	ck_code(lockshm_upgrade(&hold), LOCKSHM_BUSY);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_assert_uint_eq(lockshm_token(&hold), 0);
	ck_assert_uint_gt(token, 0);
}
END_TEST

START_TEST(newcomers_during_upgrades_lose_nothing)
{
	struct agent *r = agent_start();
	lockshm_hold_t hold;
	int i, code;

	/* The reader's requests arrive at any point of the upgrade; exclusion must hold for both. */
	for (i = 0; i < 300; i++) {
		struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_SHARED };

		ck_code(take(&hold, "k", LOCKSHM_SHARED), 0);
		agent_send(r, c);
		code = lockshm_upgrade(&hold);
		ck_assert_msg(code == 0 || code == LOCKSHM_BUSY, "%s", outcome_name(code));
		if (code == 0)
			ck_code(agent_poll(r), AGENT_BLOCKED);
		ck_code(lockshm_release(&hold, 0), 0);
		ck_code(agent_end(r), 0);
		ck_code(agent_release(r), 0);
	}
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, sole_reader_becomes_writer_with_a_larger_token);
	tcase_add_test(tc, upgrade_beside_another_reader_is_busy);
	tcase_add_test(tc, upgrade_before_a_waiter_is_busy);
	tcase_add_test(tc, upgrade_ignores_readers_that_died);
	tcase_add_test(tc, upgrade_of_an_overdue_hold_is_late);
	tcase_add_test(tc, same_mode_changes_nothing);
	tcase_add_test(tc, downgrade_lets_the_readers_behind_in_but_no_writer);
	tcase_add_test(tc, downgrade_then_upgrade_again);
	tcase_add_test(tc, newcomers_during_upgrades_lose_nothing);
}

int main(void)
{
	return fixture_main("upgrade", add);
}
