/* SPDX-License-Identifier: MIT */
/*
 * test-loop-lease.c - from the grant to the end of a hold that was waited for on an event loop
 *
 * A grant that is not collected lasts for its ttl or a second, whichever is less; then another request may take the
 * lock, and the wait goes on.  The lease begins when the outcome is collected, and from then on the hold is like any
 * hold of the process.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/eventfd.h>
#include <string.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED
#define LONG LOCKSHM_SECONDS(300) /* no machine stands still for that long */
#define SHORT LOCKSHM_MS(20)
#define OVER_LATER LOCKSHM_SECONDS(1) /* the next call, on a machine that stalls, begins before */

static struct agent *a, *b;
static lockshm_loop_t *loop;
static struct task t[4];

static void cast(void)
{
	a = agent_start();
	b = agent_start();
	loop = loop_new();
}

/* Now or when its turn comes. */
static int gets(struct agent *agent)
{
	int code = agent_acquire(agent, "k", X);

	return code == AGENT_BLOCKED ? agent_end(agent) : code;
}

static void wait_with(struct task *task, int64_t ttl_ns, unsigned flags)
{
	task_init(task, "k", X);
	task->request.ttl_ns = ttl_ns;
	task->request.flags = flags;
	ck_code(task_acquire(loop, task), LOCKSHM_PENDING);
}

/* @agent has the lock, the task is next. */
static void behind(struct agent *agent, int64_t ttl_ns, unsigned flags)
{
	held_by(agent, "k", X);
	wait_with(&t[0], ttl_ns, flags);
}

/* t0 is granted what a had, and nothing is collected. */
static void granted(int64_t ttl_ns, unsigned flags)
{
	behind(a, ttl_ns, flags);
	ck_code(agent_release(a), 0);
	loop_await(loop);
}

static void collected(int64_t ttl_ns, unsigned flags)
{
	granted(ttl_ns, flags);
	ck_code(task_end(loop, &t[0]), 0);
}

static int64_t remaining(struct task *task)
{
	int64_t ns;

	ck_assert_int_ge(lockshm_check(&task->hold, &ns), 0);
	return ns;
}

static int no_outcome(void)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	return lockshm_loop_next(loop, &outcome);
}

/* ---------------------------------------------------------------- not collected */

/* a, t0, b: the grant of t0 expires, b runs, t0 is behind it. */
START_TEST(another_waiter_gets_it)
{
	int64_t released;

	cast();
	behind(a, _i ? SHORT : LONG, 0);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	released = now_ns();
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_int_ge(b->answer.at_ns - released, _i ? SHORT : UNCOLLECTED_NS);
	ck_queue("k", 1, 0);
	ck_assert_int_eq(no_outcome(), 0);
	ck_queue("k", 1, 1); /* again */
	loop_idle(loop);
	ck_code(lockshm_release(&t[0].hold, 0), LOCKSHM_NOT_HELD);
	ck_code(agent_release(b), 0);
	ck_code(task_end(loop, &t[0]), 0);
	ck_assert_uint_gt(lockshm_token(&t[0].hold), b->answer.token);
	ck_assert_int_eq(t[0].outcomes, 1);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	ck_assert_int_ge(task_release(&t[0]), 0);
	verify_clean();
}
END_TEST

/* As above; t0's turn never comes again. */
START_TEST(another_waiter_gets_it_and_keeps_it)
{
	cast();
	held_by(a, "k", X);
	task_init(&t[0], "k", X);
	t[0].request.ttl_ns = SHORT;
	t[0].request.timeout_ns = LOCKSHM_SECONDS(1);
	if (task_acquire(loop, &t[0]) != LOCKSHM_PENDING)
		return;
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	if (_i) /* the time-out is over when the program looks */
		pass(now_ns() + LOCKSHM_MS(1100));
	ck_code(task_end(loop, &t[0]), LOCKSHM_TIMEOUT);
	ck_assert_int_ge(t[0].report.waited_ns, LOCKSHM_SECONDS(1));
	ck_assert_int_eq(t[0].report.blocker.pid, b->pid);
	loop_idle(loop);
	ck_queue("k", 1, 0);
	verify_clean();
}
END_TEST

/* A hold may be cancelled at that point, too: it waits, or does not wait yet. */
START_TEST(cancelled_after_another_got_it)
{
	int code;

	cast();
	behind(a, SHORT, 0);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	if (_i)
		ck_assert_int_eq(no_outcome(), 0);
	code = lockshm_loop_cancel(loop, &t[0].hold);
	ck_assert_msg(code == 0 || (code == 1 && !_i), "%d", code);
	loop_idle(loop);
	ck_queue("k", 1, 0);
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_code(agent_release(b), 0);
	ck_queue("k", 0, 0);
	verify_clean();
}
END_TEST

/* Twice round: a, t0, b; t0 lets it expire each time. */
START_TEST(more_than_once)
{
	int i;

	cast();
	behind(a, LOCKSHM_MS(5), 0);
	for (i = 0; i < 6; i++) {
		struct agent *has = i % 2 ? b : a, *next = i % 2 ? a : b;

		ck_code(agent_acquire(next, "k", X), AGENT_BLOCKED);
		ck_code(agent_release(has), 0);
		ck_code(agent_end(next), 0);
		ck_assert_int_eq(no_outcome(), 0);
	}
	ck_code(agent_release(a), 0);
	ck_code(task_end(loop, &t[0]), 0);
	ck_assert_int_eq(t[0].outcomes, 1);
}
END_TEST

START_TEST(nothing_happens_where_nothing_waits)
{
	int64_t begin;

	cast();
	granted(_i ? SHORT : LONG, 0);
	pass(now_ns() + (_i ? 3 * SHORT : UNCOLLECTED_NS + LOCKSHM_MS(100)));
	ck_queue("k", 1, 0);
	ck_assert(loop_readable(loop));
	begin = now_ns();
	ck_code(task_end(loop, &t[0]), 0);
	ck_assert_int_ge(remaining(&t[0]), (_i ? SHORT : LONG) - (now_ns() - begin) - LOCKSHM_MS(50));
	ck_assert_int_ge(task_release(&t[0]), 0);
	ck_queue("k", 0, 0);
	verify_clean();
}
END_TEST

/* A robust key of a robust request: the program was never inside. */
START_TEST(no_mark_is_left_by_it)
{
	cast();
	behind(a, SHORT, LOCKSHM_ROBUST);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0); /* not LOCKSHM_TOOK_OVER_EXPIRED */
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	ck_code(agent_release(b), 0);
	ck_code(task_end(loop, &t[0]), 0);
	ck_assert_int_eq(t[0].report.damage.status, 0);
}
END_TEST

/* A try, which waits for nothing: it sees what is there. */
START_TEST(a_try_gets_it)
{
	cast();
	granted(SHORT, 0);
	pass(now_ns() + 3 * SHORT);
	ck_code(agent_try(b, "k", X), 0);
	ck_assert_int_eq(no_outcome(), 0);
	ck_code(agent_release(b), 0);
	ck_code(task_end(loop, &t[0]), 0);
}
END_TEST

START_TEST(an_operator_ends_it)
{
	struct seen seen;

	cast();
	granted(LONG, 0);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_code(lockshm_end_hold(seg, "k", 1, seen.requests[0].token), 0);
	ck_code(task_end(loop, &t[0]), 0); /* it goes on waiting, and nothing is in the way */
	ck_assert_uint_gt(lockshm_token(&t[0].hold), seen.requests[0].token);
	verify_clean();
}
END_TEST

/* ---------------------------------------------------------------- the lease */

START_TEST(it_counts_from_collection)
{
	int64_t begin, left;
	struct seen seen;

	cast();
	granted(LONG, 0);
	look("k", &seen);
	ck_assert_int_le(seen.requests[0].expires_in_ns, UNCOLLECTED_NS);
	pass(now_ns() + LOCKSHM_MS(200));
	begin = now_ns();
	ck_code(task_end(loop, &t[0]), 0);
	left = remaining(&t[0]);
	ck_assert_int_le(left, LONG + LOCKSHM_MS(50)); /* the coarse clock's step */
	ck_assert_int_ge(left, LONG - (now_ns() - begin) - LOCKSHM_MS(50));
	look("k", &seen);
	ck_assert_int_gt(seen.requests[0].expires_in_ns, LONG / 2);
}
END_TEST

START_TEST(strict_from_collection_on)
{
	struct seen seen;

	cast();
	granted(LOCKSHM_FOREVER, 0);
	look("k", &seen);
	ck_assert_int_le(seen.requests[0].expires_in_ns, UNCOLLECTED_NS);
	ck_code(task_end(loop, &t[0]), 0);
	ck_assert_int_eq(remaining(&t[0]), LOCKSHM_FOREVER);
	look("k", &seen);
	ck_assert_int_eq(seen.requests[0].expires_in_ns, LOCKSHM_FOREVER);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

/* At once, or after a wait without an end. */
START_TEST(strict_and_endless)
{
	cast();
	task_init(&t[0], "k", X);
	t[0].request.ttl_ns = t[0].request.timeout_ns = LOCKSHM_FOREVER;
	ck_code(task_acquire(loop, &t[0]), 0);
	task_init(&t[1], "k", X);
	t[1].request.ttl_ns = t[1].request.timeout_ns = LOCKSHM_FOREVER;
	ck_code(task_acquire(loop, &t[1]), LOCKSHM_PENDING);
	ck_code(task_release(&t[0]), 0);
	ck_outcome(loop, &t[1], 0);
	ck_assert_int_eq(remaining(&t[1]), LOCKSHM_FOREVER);
	ck_code(task_release(&t[1]), 0);
}
END_TEST

/* What is held at once has its lease from the call. */
START_TEST(a_free_key_has_its_lease_at_once)
{
	int64_t begin;

	cast();
	task_init(&t[0], "k", X);
	t[0].request.ttl_ns = LONG;
	begin = now_ns();
	ck_code(task_acquire(loop, &t[0]), 0);
	ck_assert_int_ge(remaining(&t[0]), LONG - (now_ns() - begin) - LOCKSHM_MS(50));
	ck_code(task_release(&t[0]), 0);
}
END_TEST

struct left {
	struct task *task;
	int64_t before;
};

static bool was_renewed(void *arg)
{
	struct left *l = arg;
	int64_t now = remaining(l->task);
	bool more = now > l->before;

	l->before = now;
	return more;
}

static void is_renewed(struct task *task)
{
	struct left l = { task, LOCKSHM_FOREVER };

	ck_assert(await(was_renewed, &l));
}

START_TEST(renewed_from_the_call_or_from_collection_on)
{
	cast();
	if (_i) {
		collected(LOCKSHM_AUTO_RENEW_TTL_MIN, LOCKSHM_AUTO_RENEW);
	} else {
		task_init(&t[0], "k", X);
		t[0].request.ttl_ns = LOCKSHM_AUTO_RENEW_TTL_MIN;
		t[0].request.flags = LOCKSHM_AUTO_RENEW;
		ck_code(task_acquire(loop, &t[0]), 0);
	}
	is_renewed(&t[0]);
	is_renewed(&t[0]);
	ck_assert_int_ge(task_release(&t[0]), 0);
	verify_clean();
}
END_TEST

/* A loop that hangs does not keep what it did not collect. */
START_TEST(not_renewed_before)
{
	cast();
	behind(a, LOCKSHM_AUTO_RENEW_TTL_MIN, LOCKSHM_AUTO_RENEW);
	ck_code(agent_acquire(b, "k", X), AGENT_BLOCKED);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_int_eq(no_outcome(), 0);
	ck_code(agent_release(b), 0);
	ck_code(task_end(loop, &t[0]), 0);
	is_renewed(&t[0]);
	ck_assert_int_ge(task_release(&t[0]), 0);
}
END_TEST

/* Renewed for that long, then it ends as any other. */
START_TEST(renewed_for_so_long)
{
	cast();
	held_by(a, "k", X);
	task_init(&t[0], "k", X);
	t[0].request.ttl_ns = LOCKSHM_AUTO_RENEW_TTL_MIN;
	t[0].request.flags = LOCKSHM_AUTO_RENEW;
	t[0].request.max_hold_ns = LOCKSHM_MS(300);
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_PENDING);
	ck_code(agent_release(a), 0);
	ck_code(task_end(loop, &t[0]), 0);
	ck_assert_int_ge(gets(b), 0);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
}
END_TEST

/* ---------------------------------------------------------------- robust keys */

static void killed_holder(unsigned flags)
{
	cast();
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = X, .tag = "nightly" }), 0);
	wait_with(&t[0], LONG, flags);
	agent_kill(a);
}

START_TEST(a_killed_holder)
{
	struct lockshm_damage damage;

	killed_holder(_i ? LOCKSHM_ROBUST : 0);
	ck_code(task_end(loop, &t[0]), _i ? LOCKSHM_OWNER_DIED : 0);
	ck_assert_int_eq(t[0].report.damage.status, LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(t[0].report.damage.pid, a->pid);
	ck_assert_int_eq(t[0].report.damage.tid, a->tid);
	ck_assert_uint_eq(t[0].report.damage.token, a->answer.token);
	ck_assert_str_eq(t[0].report.damage.tag, "nightly");
	ck_code(lockshm_damage(&t[0].hold, &damage), 0);
	ck_assert_int_eq(damage.status, LOCKSHM_OWNER_DIED);
	ck_code(lockshm_acknowledge(&t[0].hold), 0);
	ck_code(task_release(&t[0]), 0);
	ck_code(agent_try(b, "k", X), 0);
	verify_clean();
}
END_TEST

START_TEST(an_overrun_holder)
{
	cast();
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "k", .how = X, .ns = OVER_LATER }), 0);
	wait_with(&t[0], LONG, LOCKSHM_ROBUST);
	ck_code(task_end(loop, &t[0]), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_assert_int_eq(t[0].report.damage.pid, a->pid);
	ck_code(agent_release(a), LOCKSHM_LOST);
}
END_TEST

/* Held at once, and robust: the mark is told by the call itself. */
START_TEST(a_mark_of_a_free_key)
{
	cast();
	held_by(a, "k", X);
	agent_kill(a);
	task_init(&t[0], "k", X);
	t[0].request.flags = LOCKSHM_ROBUST;
	ck_code(task_acquire(loop, &t[0]), LOCKSHM_OWNER_DIED);
	ck_assert_int_eq(t[0].report.damage.pid, a->pid);
	ck_code(lockshm_acknowledge(&t[0].hold), 0);
	ck_code(task_release(&t[0]), 0);
	loop_idle(loop);
	ck_code(task_acquire(loop, &t[0]), 0);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

/* ---------------------------------------------------------------- a hold like any other */

START_TEST(lost_later)
{
	cast();
	collected(SHORT, LOCKSHM_ROBUST);
	ck_code(gets(b), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_code(lockshm_check(&t[0].hold, NULL), LOCKSHM_LOST);
	ck_code(lockshm_renew(&t[0].hold, LONG), LOCKSHM_LOST);
	ck_assert_uint_eq(lockshm_lost_to(&t[0].hold), b->answer.token);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
	ck_code(task_release(&t[0]), LOCKSHM_NOT_HELD);
	ck_code(agent_release(b), 0);
	verify_clean();
}
END_TEST

START_TEST(late)
{
	cast();
	collected(SHORT, 0);
	pass(now_ns() + 3 * SHORT);
	ck_code(lockshm_check(&t[0].hold, NULL), LOCKSHM_LATE);
	ck_code(lockshm_renew(&t[0].hold, LONG), LOCKSHM_LATE);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

START_TEST(notified_of_its_loss)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	uint64_t n = 0;

	cast();
	collected(LONG, 0);
	ck_code(lockshm_notify(&t[0].hold, fd), 0);
	ck_assert(!fd_readable(fd));
	ck_code(lockshm_end_hold(seg, "k", 1, lockshm_token(&t[0].hold)), 0);
	fd_await(fd);
	ck_assert_int_eq(read(fd, &n, sizeof(n)), sizeof(n));
	ck_assert_uint_eq(n, 1);
	ck_code(lockshm_check(&t[0].hold, NULL), LOCKSHM_LOST);
	loop_idle(loop);
	ck_code(task_release(&t[0]), LOCKSHM_LOST);
	close(fd);
}
END_TEST

START_TEST(renewed_by_the_program)
{
	cast();
	collected(LOCKSHM_SECONDS(60), 0);
	ck_code(lockshm_renew(&t[0].hold, LONG), 0);
	ck_assert_int_gt(remaining(&t[0]), LONG / 2);
	ck_code(lockshm_extend(&t[0].hold, LONG), 0);
	ck_assert_int_gt(remaining(&t[0]), LONG);
	ck_code(lockshm_renew(&t[0].hold, LOCKSHM_FOREVER), 0);
	ck_assert_int_eq(remaining(&t[0]), LOCKSHM_FOREVER);
	ck_code(task_release(&t[0]), 0);
}
END_TEST

START_TEST(changes_its_mode)
{
	uint64_t token;

	cast();
	collected(LONG, 0);
	token = lockshm_token(&t[0].hold);
	ck_code(lockshm_downgrade(&t[0].hold), 0);
	ck_assert_uint_eq(lockshm_token(&t[0].hold), token);
	ck_code(agent_try(b, "k", S), 0);
	ck_code(lockshm_upgrade(&t[0].hold), LOCKSHM_BUSY);
	ck_code(agent_release(b), 0);
	ck_code(lockshm_upgrade(&t[0].hold), 0);
	ck_assert_uint_gt(lockshm_token(&t[0].hold), token);
	ck_code(agent_try(b, "k", S), LOCKSHM_BUSY);
	ck_code(task_release(&t[0]), 0);
	verify_clean();
}
END_TEST

static int in_thread(void *(*act)(void *))
{
	pthread_t thread;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, act, &t[0].hold), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return (int)(intptr_t)result;
}

static void *check_and_renew(void *hold)
{
	int code = lockshm_check(hold, NULL);

	return (void *)(intptr_t)(code ? code : lockshm_renew(hold, LONG));
}

static void *check_it(void *hold)
{
	return (void *)(intptr_t)lockshm_check(hold, NULL);
}

static void *release_it(void *hold)
{
	return (void *)(intptr_t)lockshm_release(hold, 0);
}

static void *move_it_here(void *hold)
{
	return (void *)(intptr_t)lockshm_move(hold, LOCKSHM_TO_CALLER);
}

/* By threads that come and go, with their own holds in the segment or without. */
START_TEST(any_thread_uses_it)
{
	cast();
	if (_i)
		collected(LONG, 0);
	else
		ck_code(task_begin(loop, &t[0], "k", X), 0);
	ck_code(in_thread(check_and_renew), 0);
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(in_thread(release_it), 0);
	ck_code(task_release(&t[0]), LOCKSHM_NOT_HELD);
	ck_code(agent_try(b, "k", X), 0);
	verify_clean();
}
END_TEST

/* It stays of the process. */
START_TEST(it_does_not_move_to_a_thread)
{
	cast();
	collected(LONG, 0);
	ck_code(lockshm_move(&t[0].hold, LOCKSHM_TO_CALLER), LOCKSHM_INVALID);
	ck_code(in_thread(move_it_here), LOCKSHM_INVALID);
	ck_code(lockshm_move(&t[0].hold, LOCKSHM_TO_PROCESS), 0);
	ck_code(in_thread(check_it), 0);
	ck_code(task_release(&t[0]), 0);
	verify_clean();
}
END_TEST

START_TEST(a_bounded_hold_is_bounded_from_its_grant)
{
	cast();
	task_init(&t[0], "k", X);
	t[0].request.flags = LOCKSHM_AUTO_RENEW;
	t[0].request.ttl_ns = LONG;
	t[0].request.max_hold_ns = LOCKSHM_SECONDS(100);
	ck_code(task_acquire(loop, &t[0]), 0);
	ck_assert_int_le(remaining(&t[0]), LOCKSHM_SECONDS(101)); /* by the coarse clock */
	ck_code(task_release(&t[0]), 0);
}
END_TEST

static void *in_a_loop_of_its_own(void *unused)
{
	lockshm_loop_t *own = loop_new();

	(void)unused;
	ck_code(task_begin(own, &t[0], "k", X), 0);
	ck_code(lockshm_loop_close(own), 0);
	return NULL;
}

/* The hold is the process', not the thread's, and not the loop's. */
START_TEST(it_outlives_its_thread_and_its_loop)
{
	cast();
	if (_i) {
		collected(LONG, 0);
		ck_code(lockshm_loop_close(loop), 0);
	} else {
		in_thread(in_a_loop_of_its_own);
	}
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(agent_try(b, "k", S), LOCKSHM_BUSY);
	ck_code(lockshm_renew(&t[0].hold, LONG), 0);
	ck_code(task_release(&t[0]), 0);
	ck_code(agent_try(b, "k", X), 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, another_waiter_gets_it, 0, 2);
	tcase_add_loop_test(tc, another_waiter_gets_it_and_keeps_it, 0, 2);
	tcase_add_loop_test(tc, cancelled_after_another_got_it, 0, 2);
	tcase_add_test(tc, more_than_once);
	tcase_add_loop_test(tc, nothing_happens_where_nothing_waits, 0, 2);
	tcase_add_test(tc, no_mark_is_left_by_it);
	tcase_add_test(tc, a_try_gets_it);
	tcase_add_test(tc, an_operator_ends_it);
	tcase_add_test(tc, it_counts_from_collection);
	tcase_add_test(tc, strict_from_collection_on);
	tcase_add_test(tc, strict_and_endless);
	tcase_add_test(tc, a_free_key_has_its_lease_at_once);
	tcase_add_loop_test(tc, renewed_from_the_call_or_from_collection_on, 0, 2);
	tcase_add_test(tc, not_renewed_before);
	tcase_add_test(tc, renewed_for_so_long);
	tcase_add_loop_test(tc, a_killed_holder, 0, 2);
	tcase_add_test(tc, an_overrun_holder);
	tcase_add_test(tc, a_mark_of_a_free_key);
	tcase_add_test(tc, lost_later);
	tcase_add_test(tc, late);
	tcase_add_test(tc, notified_of_its_loss);
	tcase_add_test(tc, renewed_by_the_program);
	tcase_add_test(tc, changes_its_mode);
	tcase_add_loop_test(tc, any_thread_uses_it, 0, 2);
	tcase_add_test(tc, it_does_not_move_to_a_thread);
	tcase_add_test(tc, a_bounded_hold_is_bounded_from_its_grant);
	tcase_add_loop_test(tc, it_outlives_its_thread_and_its_loop, 0, 2);
}

int main(void)
{
	return fixture_main("loop-lease", add);
}
