/* SPDX-License-Identifier: MIT */
/*
 * test-loop.c - requests that wait on an event loop: grants, order, time-outs, reports
 *
 * Tasks wait on the test's loop, agents in threads of other processes.  What ends a wait early is in
 * test-loop-cancel.c, what a grant and a hold go through in test-loop-lease.c.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/asan.h"
#include "support/fixture.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static struct agent *a, *b, *c;
static lockshm_loop_t *loop;
static struct task t[16];

/* Agents first: the loop starts a thread, and then forks are dearer. */
static void cast(void)
{
	a = agent_start();
	b = agent_start();
	c = agent_start();
	loop = loop_new();
}

static int tagged(struct agent *agent, const char *tag)
{
	struct agent_command command = { .op = AGENT_ACQUIRE, .key = "k", .how = X, .flags = AGENT_PLAIN };

	snprintf(command.tag, sizeof(command.tag), "%s", tag);
	return agent_begin(agent, command);
}

/* ---------------------------------------------------------------- held at once */

START_TEST(a_free_key_is_held_at_once)
{
	int i;

	cast();
	task_init(&t[0], "k", X);
	for (i = 0; i < 3; i++) {
		memset(&t[0].report, 0x55, sizeof(t[0].report));
		t[0].report.size = sizeof(t[0].report);
		t[0].request.flags = i == 1 ? LOCKSHM_AUTO_RENEW : 0;
		ck_code(task_acquire(loop, &t[0]), 0);
		ck_code(lockshm_check(&t[0].hold, NULL), 0);
		ck_assert_uint_gt(lockshm_token(&t[0].hold), 0);
		ck_assert_uint_eq(t[0].report.token, lockshm_token(&t[0].hold));
		ck_assert_int_eq(t[0].report.slept_ns, 0);
		ck_assert_int_eq(t[0].report.damage.status, 0);
		ck_assert_int_eq(t[0].report.error.code, 0);
		ck_assert_str_eq(t[0].report.error.message, "");
		ck_assert_int_eq(t[0].report.blocker.state, 0);
		if (i < 2)
			ck_code(task_release(&t[0]), 0);
	}
	ck_code(agent_try(a, "k", S), LOCKSHM_BUSY);
	loop_idle(loop);
	ck_code(task_release(&t[0]), 0);
	ck_code(agent_try(a, "k", X), 0);
	loop_idle(loop);
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
}
END_TEST

START_TEST(a_shared_key_is_held_at_once_too)
{
	cast();
	held_by(a, "k", S);
	ck_code(task_begin(loop, &t[0], "k", S), 0);
	ck_code(task_begin(loop, &t[1], "k", S), 0);
	ck_queue("k", 3, 0);
	loop_idle(loop);
	ck_code(task_release(&t[0]), 0);
	ck_code(task_release(&t[1]), 0);
	ck_queue("k", 1, 0);
}
END_TEST

static int only_exit(void)
{
	static struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog filter = { 4, program };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int pairs_without_a_call(void)
{
	lockshm_loop_t *own = loop_new();
	int i, bad = 0;

	for (i = 0; i < 2000; i++) {
		if (i == 1000 && only_exit())
			_exit(77);
		bad |= task_acquire(own, &t[i % 16]) || task_release(&t[i % 16]);
	}
	_exit(bad);
}

START_TEST(a_free_key_costs_no_system_call)
{
	char key[8];
	int i, status;

	for (i = 0; i < 16; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		task_init(&t[i], key, i % 2 ? S : X);
	}
	status = process_end(process_start(pairs_without_a_call));
	ck_assert_msg(status == 0 || status == 77, "status %d", status);
}
END_TEST

/* ---------------------------------------------------------------- pending */

START_TEST(pending_until_another_process_releases)
{
	int64_t begin;
	struct seen seen;

	cast();
	held_by(a, "k", X);
	begin = now_ns();
	task_wait(loop, &t[0], "k", X);
	loop_idle(loop);
	ck_queue("k", 1, 1);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	ck_outcome(loop, &t[0], 0);
	ck_assert_int_gt(t[0].report.waited_ns, 0);
	ck_assert_int_le(t[0].report.waited_ns, now_ns() - begin);
	ck_assert_int_gt(t[0].report.slept_ns, 0);
	ck_assert_int_le(t[0].report.slept_ns, t[0].report.waited_ns);
	ck_assert_uint_eq(t[0].report.token, lockshm_token(&t[0].hold));
	ck_assert_int_eq(t[0].report.damage.status, 0);
	ck_assert_int_eq(t[0].report.error.code, 0);
	ck_assert_int_eq(t[0].report.blocker.state, 0);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_int_eq(seen.requests[0].pid, getpid());
	ck_assert_uint_eq(seen.requests[0].token, t[0].report.token);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	loop_idle(loop);
	ck_code(agent_try(a, "k", S), LOCKSHM_BUSY);
	ck_code(task_release(&t[0]), 0);
	ck_assert_int_eq(t[0].outcomes, 1);
	verify_clean();
}
END_TEST

START_TEST(without_a_report)
{
	cast();
	held_by(a, "k", X);
	task_init(&t[0], "k", X);
	t[0].request.report = NULL;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[0], 0); /* compares the reports, NULL here */
	ck_code(task_release(&t[0]), 0);
}
END_TEST

/* Readable while anything is uncollected, also for a second poll, and not after. */
START_TEST(readable_while_an_outcome_is_uncollected)
{
	cast();
	held_by(a, "k", X);
	held_by(b, "m", X);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "m", X);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	ck_assert(loop_readable(loop));
	ck_code(agent_release(b), 0);
	ck_outcome(loop, &t[0], 0);
	ck_outcome(loop, &t[1], 0);
	loop_idle(loop);
	/* And again, after it was emptied. */
	ck_code(agent_acquire(a, "k", X), AGENT_BLOCKED);
	task_wait(loop, &t[2], "k", X);
	ck_code(task_release(&t[0]), 0);
	ck_code(agent_end(a), 0);
	loop_idle(loop);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[2], 0);
}
END_TEST

static bool both_granted(void *unused)
{
	struct seen seen;

	(void)unused;
	look("k", &seen);
	if (seen.waiters > 0)
		return false;
	look("m", &seen);
	return seen.waiters == 0;
}

START_TEST(one_of_two_outcomes_leaves_it_readable)
{
	cast();
	held_by(a, "k", X);
	held_by(b, "m", X);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "m", X);
	ck_code(agent_release(a), 0);
	ck_code(agent_release(b), 0);
	ck_assert(await(both_granted, NULL));
	loop_collect(loop);
	loop_await(loop);
	loop_collect(loop);
	ck_assert_int_eq(t[0].outcomes + t[1].outcomes, 2);
	loop_idle(loop);
}
END_TEST

/* A hold of this thread, and one of the loop: neither is a circle, and the releaser itself makes the loop readable. */
START_TEST(released_by_the_same_thread)
{
	lockshm_hold_t hold;
	int i;

	cast();
	ck_code(take(&hold, "k", X), 0);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "k", X);
	loop_idle(loop);
	ck_code(lockshm_release(&hold, 0), 0);
	for (i = 0; i < 200; i++) {
		struct task *now = &t[i % 2];

		ck_outcome(loop, now, 0);
		loop_idle(loop);
		ck_code(task_release(now), 0);
		ck_code(task_begin(loop, now, "k", X), LOCKSHM_PENDING);
	}
}
END_TEST

/* A cooldown is not a hold, but in the way like one. */
START_TEST(a_cooldown_is_waited_for)
{
	int64_t released;

	cast();
	ck_code(task_begin(loop, &t[0], "k", X), 0);
	task_wait(loop, &t[1], "k", X);
	released = now_ns();
	ck_code(lockshm_release(&t[0].hold, LOCKSHM_MS(60)), 0);
	ck_outcome(loop, &t[1], 0);
	ck_assert_int_ge(now_ns() - released, LOCKSHM_MS(60));
	ck_assert_int_ge(t[1].report.waited_ns, LOCKSHM_MS(60));
}
END_TEST

START_TEST(a_lease_that_ends_is_waited_for)
{
	cast();
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = X, .ns = LOCKSHM_MS(40),
						    .flags = AGENT_PLAIN }),
		0);
	task_wait(loop, &t[0], "k", X);
	ck_outcome(loop, &t[0], 0);
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_assert_uint_gt(lockshm_token(&t[0].hold), a->answer.token);
}
END_TEST

/* The holder may take it again until the waiter runs; then it is the waiter's. */
START_TEST(a_barging_holder_does_not_keep_it)
{
	struct agent_command barge = { .op = AGENT_ACQUIRE, .key = "k", .how = X, .flags = LOCKSHM_BARGE | AGENT_PLAIN,
				       .timeout_ns = AGENT_TRY };
	int code = 0;

	cast();
	ck_code(agent_do(a, barge), 0);
	task_wait(loop, &t[0], "k", X);
	while (code == 0) {
		ck_code(agent_release(a), 0);
		code = agent_do(a, barge);
	}
	ck_code(code, LOCKSHM_BUSY);
	ck_outcome(loop, &t[0], 0);
	ck_code(task_release(&t[0]), 0);
	/* A task may ask for it, too. */
	task_init(&t[0], "k", X);
	t[0].request.flags = LOCKSHM_BARGE;
	ck_code(task_acquire(loop, &t[0]), 0);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	ck_code(task_release(&t[0]), 0);
	ck_code(agent_end(b), 0);
}
END_TEST

/* ---------------------------------------------------------------- order */

/* Holder; then tasks and threads by turns.  Each release grants exactly the next one. */
START_TEST(one_order_for_tasks_and_threads)
{
	struct agent *threads[4];
	uint64_t last = 0;
	unsigned i;

	for (i = 0; i < 4; i++)
		threads[i] = agent_start();
	cast();
	held_by(a, "k", X);
	for (i = 0; i < 8; i++) {
		if (i % 2)
			ck_code(agent_acquire(threads[i / 2], "k", X), AGENT_BLOCKED);
		else
			task_wait(loop, &t[i / 2], "k", X);
		ck_queue("k", 1, i + 1);
	}
	ck_code(agent_release(a), 0);
	for (i = 0; i < 8; i++) {
		uint64_t token;

		if (i % 2) {
			ck_code(agent_end(threads[i / 2]), 0);
			token = threads[i / 2]->answer.token;
		} else {
			ck_outcome(loop, &t[i / 2], 0);
			token = t[i / 2].report.token;
		}
		ck_assert_uint_gt(token, last);
		last = token;
		ck_queue("k", 1, 7 - i);
		loop_idle(loop);
		ck_code(i % 2 ? agent_release(threads[i / 2]) : task_release(&t[i / 2]), 0);
	}
	verify_clean();
}
END_TEST

/* Two loops are two more parties of the same queue. */
START_TEST(one_order_for_several_loops)
{
	lockshm_loop_t *loops[3];
	unsigned i;

	cast();
	for (i = 0; i < 3; i++)
		loops[i] = loop_new();
	held_by(a, "k", X);
	for (i = 0; i < 12; i++)
		task_wait(loops[i % 3], &t[i], "k", X);
	ck_code(agent_release(a), 0);
	for (i = 0; i < 12; i++) {
		ck_outcome(loops[i % 3], &t[i], 0);
		loop_idle(loops[(i + 1) % 3]);
		ck_code(task_release(&t[i]), 0);
	}
	for (i = 0; i < 3; i++)
		ck_code(lockshm_loop_close(loops[i]), 0);
	verify_clean();
}
END_TEST

/* Holder X; S S(thread) S X S(thread): the first three together, the writer alone, the last one. */
START_TEST(shared_runs)
{
	cast();
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", S);
	ck_code(agent_acquire(b, "k", S), AGENT_BLOCKED);
	task_wait(loop, &t[1], "k", S);
	task_wait(loop, &t[2], "k", X);
	ck_code(agent_acquire(c, "k", S), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	loop_collect(loop);
	loop_collect(loop);
	ck_assert_int_eq(t[0].outcomes + t[1].outcomes, 2);
	ck_code(agent_end(b), 0);
	ck_queue("k", 3, 2);
	ck_code(task_release(&t[1]), 0);
	ck_code(agent_release(b), 0);
	loop_idle(loop);
	ck_code(task_release(&t[0]), 0);
	ck_outcome(loop, &t[2], 0);
	ck_queue("k", 1, 1);
	ck_code(task_release(&t[2]), 0);
	ck_code(agent_end(c), 0);
	verify_clean();
}
END_TEST

START_TEST(a_downgrade_grants_readers)
{
	cast();
	ck_code(task_begin(loop, &t[0], "k", X), 0);
	task_wait(loop, &t[1], "k", S);
	task_wait(loop, &t[2], "k", S);
	task_wait(loop, &t[3], "k", X);
	ck_code(lockshm_downgrade(&t[0].hold), 0);
	loop_collect(loop);
	loop_collect(loop);
	ck_assert_int_eq(t[1].outcomes + t[2].outcomes, 2);
	ck_queue("k", 3, 1);
	loop_idle(loop);
}
END_TEST

/* ---------------------------------------------------------------- not granted */

START_TEST(a_try_is_never_pending)
{
	cast();
	ck_code(tagged(a, "deploy"), 0);
	task_init(&t[0], "k", X);
	t[0].request.timeout_ns = 0;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_BUSY);
	ck_code(t[0].report.error.code, LOCKSHM_BUSY);
	ck_assert_int_eq(t[0].report.blocker.state, LOCKSHM_HOLDING);
	ck_assert_int_eq(t[0].report.blocker.pid, a->pid);
	ck_assert_str_eq(t[0].report.blocker.tag, "deploy");
	ck_assert_uint_eq(lockshm_token(&t[0].hold), 0);
	ck_queue("k", 1, 0);
	ck_code(agent_release(a), 0);
	ck_code(task_acquire(loop, &t[0]), 0);
	ck_code(task_release(&t[0]), 0);
	loop_idle(loop);
	ck_assert_uint_eq(stat_now().tries_failed, 1);
}
END_TEST

START_TEST(a_time_out_leaves_nothing)
{
	int64_t begin;

	cast();
	ck_code(tagged(a, "deploy"), 0);
	task_init(&t[0], "k", X);
	t[0].request.timeout_ns = LOCKSHM_MS(40);
	begin = now_ns();
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], LOCKSHM_TIMEOUT);
	ck_assert_int_ge(now_ns() - begin, LOCKSHM_MS(40));
	ck_assert_int_ge(t[0].report.waited_ns, LOCKSHM_MS(40));
	ck_assert_uint_eq(t[0].report.token, 0);
	ck_code(t[0].report.error.code, LOCKSHM_TIMEOUT);
	ck_assert(t[0].report.error.message[0]);
	ck_assert_int_eq(t[0].report.blocker.state, LOCKSHM_HOLDING);
	ck_assert_int_eq(t[0].report.blocker.pid, a->pid);
	ck_assert_int_eq(t[0].report.blocker.tid, a->tid);
	ck_assert_uint_eq(t[0].report.blocker.token, a->answer.token);
	ck_assert_str_eq(t[0].report.blocker.tag, "deploy");
	ck_code(task_release(&t[0]), LOCKSHM_NOT_HELD);
	ck_queue("k", 1, 0);
	ck_assert_uint_eq(stat_now().requests_used, 1);
	ck_assert_uint_eq(stat_now().timeouts, 1);
	loop_idle(loop);
	ck_code(agent_release(a), 0);
	verify_clean();
}
END_TEST

/* Reader a; writer t0; reader b, granted when the writer gives up. */
START_TEST(a_time_out_lets_the_next_through)
{
	int code;

	cast();
	held_by(a, "k", S);
	task_init(&t[0], "k", X);
	t[0].request.timeout_ns = LOCKSHM_MS(40);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	task_wait(loop, &t[1], "k", S);
	/* On a machine that stalls the writer has given up by now. */
	code = agent_acquire(b, "k", S);
	ck_code(code == AGENT_BLOCKED ? agent_end(b) : code, 0);
	loop_collect(loop);
	loop_collect(loop);
	ck_code(t[0].status, LOCKSHM_TIMEOUT);
	ck_code(t[1].status, 0);
	ck_assert_int_eq(t[0].outcomes + t[1].outcomes, 2);
	ck_queue("k", 3, 0);
}
END_TEST

/* Neither the first of a key nor the last one, nor in the order of the requests. */
START_TEST(each_has_its_own_time_out)
{
	static const int order[] = { 2, 0, 3, 1 };
	unsigned i;

	cast();
	held_by(a, "k", X);
	for (i = 0; i < 4; i++)
		task_init(&t[order[i]], "k", i % 2 ? S : X);
	for (i = 0; i < 4; i++)
		t[order[i]].request.timeout_ns = LOCKSHM_MS(40) + LOCKSHM_MS(20 * (int64_t)i);
	for (i = 0; i < 4; i++)
		ck_code(task_acquire(loop, &t[i]), LOCKSHM_PENDING);
	task_wait(loop, &t[4], "k", X);
	for (i = 0; i < 4; i++)
		ck_code(loop_collect(loop)->status, LOCKSHM_TIMEOUT);
	for (i = 0; i < 4; i++)
		ck_assert_int_eq(t[i].outcomes, 1);
	ck_queue("k", 1, 1);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[4], 0);
}
END_TEST

START_TEST(only_if_free_in_time)
{
	cast();
	held_by(a, "k", X); /* strict */
	task_init(&t[0], "k", X);
	t[0].request.flags = LOCKSHM_ONLY_IF_FREE_IN_TIME;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_BUSY);
	ck_assert_int_eq(t[0].report.blocker.pid, a->pid);
	ck_queue("k", 1, 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_RENEW, .ns = LOCKSHM_MS(50) }),
		0);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[0], 0);
}
END_TEST

/* ---------------------------------------------------------------- looked at */

START_TEST(shown_with_tag_mode_and_process)
{
	struct seen seen;

	cast();
	held_by(a, "k", X);
	task_init(&t[0], "k", S);
	t[0].request.tag = "page 17";
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	task_init(&t[1], "k", X);
	t[1].request.tag = "page 18";
	ck_code(task_acquire(loop, &t[1]), LOCKSHM_PENDING);
	look("k", &seen);
	ck_assert_uint_eq(seen.waiters, 2);
	ck_assert_int_eq(seen.requests[1].state, LOCKSHM_WAITING);
	ck_assert_int_eq(seen.requests[1].mode, S);
	ck_assert_int_eq(seen.requests[1].pid, getpid());
	ck_assert_int_eq(seen.alive[1], 1);
	ck_assert_str_eq(seen.requests[1].tag, "page 17");
	ck_assert_int_eq(seen.requests[2].mode, X);
	ck_assert_str_eq(seen.requests[2].tag, "page 18");
	ck_assert_uint_gt(seen.requests[2].ticket, seen.requests[1].ticket);
	ck_code(agent_release(a), 0);
	loop_await(loop);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_int_eq(seen.requests[0].state, LOCKSHM_HOLDING);
	ck_assert_str_eq(seen.requests[0].tag, "page 17");
	ck_outcome(loop, &t[0], 0);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_uint_eq(seen.requests[0].token, lockshm_token(&t[0].hold));
	ck_assert_str_eq(seen.requests[0].tag, "page 17");
	verify_clean();
}
END_TEST

START_TEST(counted_like_other_waits)
{
	struct lockshm_stat before, after;

	cast();
	held_by(a, "k", X);
	before = stat_now();
	task_wait(loop, &t[0], "k", X);
	ck_code(agent_release(a), 0);
	ck_outcome(loop, &t[0], 0);
	ck_code(task_begin(loop, &t[1], "m", X), 0);
	after = stat_now();
	ck_assert_uint_eq(after.acquires, before.acquires + 2);
	ck_assert_uint_eq(after.waits, before.waits + 1);
	ck_assert_uint_eq(after.requests_used, 2);
	ck_code(task_release(&t[0]), 0);
	ck_code(task_release(&t[1]), 0);
	ck_code(lockshm_loop_close(loop), 0);
	ck_assert_uint_eq(stat_now().acquires, after.acquires);
	ck_assert_uint_eq(stat_now().requests_used, 0);
}
END_TEST

/* ---------------------------------------------------------------- no deadlock is found */

/* t0 has k and waits for m; t1 has m and waits for k: nothing is found, the time-out ends it. */
START_TEST(a_circle_of_tasks_ends_by_its_time_out)
{
	cast();
	ck_code(task_begin(loop, &t[0], "k", X), 0);
	ck_code(task_begin(loop, &t[1], "m", X), 0);
	task_init(&t[2], "m", X);
	t[2].request.timeout_ns = LOCKSHM_MS(60);
	ck_code(task_acquire(loop, &t[2]), LOCKSHM_PENDING);
	task_wait(loop, &t[3], "k", X);
	ck_outcome(loop, &t[2], LOCKSHM_TIMEOUT);
	ck_code(task_release(&t[0]), 0);
	ck_outcome(loop, &t[3], 0);
}
END_TEST

/* The simplest one: the same key twice. */
START_TEST(a_key_that_is_held_already)
{
	cast();
	ck_code(task_begin(loop, &t[0], "k", X), 0);
	task_init(&t[1], "k", S);
	t[1].request.timeout_ns = LOCKSHM_MS(40);
	ck_code(task_acquire(loop, &t[1]), LOCKSHM_PENDING);
	ck_outcome(loop, &t[1], LOCKSHM_TIMEOUT);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
}
END_TEST

static void *hold_and_wait(void *result)
{
	struct lockshm_request request = request_for("m", X);
	lockshm_hold_t k, m;

	if (take(&k, "k", X) != 0)
		return NULL;
	board_add(0, 1);
	board_await(1, 1);
	request.timeout_ns = PATIENCE;
	*(int *)result = lockshm_acquire(seg, &request, &m);
	return NULL; /* and both end */
}

static bool thread_waits(void *unused)
{
	struct seen seen;

	(void)unused;
	look("m", &seen);
	return seen.waiters == 1;
}

/* A thread has k and waits for m, the process has m and a task waits for k.  It looks like a circle and is none:
 * another task releases m. */
START_TEST(no_circle_is_reported_to_a_thread)
{
	pthread_t thread;
	int result = LOCKSHM_INVALID;

	board_new();
	cast();
	ck_code(task_begin(loop, &t[0], "m", X), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, hold_and_wait, &result), 0);
	board_await(0, 1);
	task_wait(loop, &t[1], "k", X);
	board_add(1, 1);
	ck_assert(await(thread_waits, NULL));
	pass(now_ns() + LOCKSHM_MS(120)); /* longer than a waiter sleeps without a search */
	ck_code(task_release(&t[0]), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_code(result, 0);
	ck_outcome(loop, &t[1], 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, a_free_key_is_held_at_once);
	tcase_add_test(tc, a_shared_key_is_held_at_once_too);
#ifndef OTHERS_MALLOC /* a sanitizer makes calls of its own */
	tcase_add_native(tc, a_free_key_costs_no_system_call);
#else
	(void)a_free_key_costs_no_system_call;
#endif
	tcase_add_test(tc, pending_until_another_process_releases);
	tcase_add_test(tc, without_a_report);
	tcase_add_test(tc, readable_while_an_outcome_is_uncollected);
	tcase_add_test(tc, one_of_two_outcomes_leaves_it_readable);
	tcase_add_test(tc, released_by_the_same_thread);
	tcase_add_test(tc, a_cooldown_is_waited_for);
	tcase_add_test(tc, a_lease_that_ends_is_waited_for);
	tcase_add_test(tc, a_barging_holder_does_not_keep_it);
	tcase_add_test(tc, one_order_for_tasks_and_threads);
	tcase_add_test(tc, one_order_for_several_loops);
	tcase_add_test(tc, shared_runs);
	tcase_add_test(tc, a_downgrade_grants_readers);
	tcase_add_test(tc, a_try_is_never_pending);
	tcase_add_test(tc, a_time_out_leaves_nothing);
	tcase_add_test(tc, a_time_out_lets_the_next_through);
	tcase_add_test(tc, each_has_its_own_time_out);
	tcase_add_test(tc, only_if_free_in_time);
	tcase_add_test(tc, shown_with_tag_mode_and_process);
	tcase_add_test(tc, counted_like_other_waits);
	tcase_add_test(tc, a_circle_of_tasks_ends_by_its_time_out);
	tcase_add_test(tc, a_key_that_is_held_already);
	tcase_add_test(tc, no_circle_is_reported_to_a_thread);
}

int main(void)
{
	return fixture_main("loop", add);
}
