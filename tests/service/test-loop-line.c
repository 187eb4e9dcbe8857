/* SPDX-License-Identifier: MIT */
/*
 * test-loop-line.c - several waits of a process for one key: only the first is looked after, so the next one must be
 * when the first has left
 *
 * In each case the second wait depends on something that rings for nothing: the end of a lease, or a death.  And a wait
 * whose own ring is lost.
 */
#include "service/waits.h"
#include "support/agent.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE

static lockshm_loop_t *loop;
static struct task first, second;

static void both_wait(int64_t first_timeout_ns)
{
	loop = loop_new();
	task_init(&first, "k", X);
	first.request.ttl_ns = LOCKSHM_MS(30);
	first.request.timeout_ns = first_timeout_ns;
	ck_code(task_acquire(loop, &first), LOCKSHM_PENDING);
	task_wait(loop, &second, "k", X);
}

static void end(void)
{
	ck_code(task_release(&second), 0);
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
}

START_TEST(lease_of_the_first_ends)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", X), 0);
	both_wait(PATIENCE);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_outcome(loop, &first, 0);
	ck_outcome(loop, &second, 0);
	ck_code(task_release(&first), LOCKSHM_LOST);
	end();
}
END_TEST

START_TEST(first_is_cancelled_and_the_holder_dies)
{
	struct agent *holder = agent_start();

	ck_code(agent_acquire(holder, "k", X), 0);
	both_wait(PATIENCE);
	ck_code(lockshm_loop_cancel(loop, &first.hold), 0);
	agent_kill(holder);
	ck_assert_int_ge(task_end(loop, &second), 0);
	end();
}
END_TEST

START_TEST(first_times_out_and_the_holder_dies)
{
	struct agent *holder = agent_start();

	ck_code(agent_acquire(holder, "k", X), 0);
	both_wait(LOCKSHM_MS(5));
	ck_outcome(loop, &first, LOCKSHM_TIMEOUT);
	agent_kill(holder);
	ck_assert_int_ge(task_end(loop, &second), 0);
	end();
}
END_TEST

/* The service thread sleeps, and no wait is about to wake it. */
static bool is_idle(void *unused)
{
	bool idle;

	(void)unused;
	waits_lock(seg->waits);
	idle = seg->waits->until > segment_now(seg) + LOCKSHM_SECONDS(1);
	waits_unlock(seg->waits);
	return idle;
}

/* As after writes to the segment that undo it: the thread counts as awake, and sleeps. */
START_TEST(ring_is_lost)
{
	lockshm_hold_t hold;

	ck_code(take(&hold, "k", X), 0);
	loop = loop_new();
	ck_assert(await(is_idle, NULL));
	waits_lock(seg->waits);
	seg->waits->until = 0;
	waits_unlock(seg->waits);
	task_init(&first, "k", X);
	first.request.timeout_ns = LOCKSHM_MS(5);
	ck_code(task_acquire(loop, &first), LOCKSHM_PENDING);
	ck_outcome(loop, &first, LOCKSHM_TIMEOUT);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, ring_is_lost);
	tcase_add_test(tc, lease_of_the_first_ends);
	tcase_add_test(tc, first_is_cancelled_and_the_holder_dies);
	tcase_add_test(tc, first_times_out_and_the_holder_dies);
}

int main(void)
{
	return fixture_main("loop-line", add);
}
