/* SPDX-License-Identifier: MIT */
/*
 * test-fork.c - a child owns no hold of its parent and takes part at once as an owner of its own
 *
 * The agents of one process share a table of holds and a forked child has a copy of it, so hold 0 of the child is a
 * bitwise copy of its parent's.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"

START_TEST(parents_hold_is_not_held_in_the_child)
{
	static const enum agent_op ops[] = { AGENT_CHECK, AGENT_UPGRADE, AGENT_DOWNGRADE, AGENT_ACKNOWLEDGE, AGENT_RELEASE };
	struct agent *parent = agent_start(), *child;
	struct seen seen;

	ck_code(agent_acquire(parent, "k", LOCKSHM_EXCLUSIVE), 0);
	child = agent_child(parent);
	ck_code(agent_call(child, ops[_i]), LOCKSHM_NOT_HELD);
	ck_code(agent_do(child, (struct agent_command){ .op = AGENT_RENEW, .ns = LOCKSHM_SECONDS(1) }),
		LOCKSHM_NOT_HELD);
	ck_code(agent_do(child, (struct agent_command){ .op = AGENT_MOVE, .how = LOCKSHM_TO_CALLER }), LOCKSHM_NOT_HELD);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_int_eq(seen.requests[0].pid, parent->pid);
	ck_code(agent_call(parent, AGENT_CHECK), 0);
	ck_code(agent_release(parent), 0);
}
END_TEST

START_TEST(child_takes_part_at_once)
{
	struct agent *parent = agent_start(), *child;
	struct seen seen;

	ck_code(agent_acquire(parent, "parents", LOCKSHM_EXCLUSIVE), 0);
	child = agent_child(parent);
	ck_assert_int_ne(child->pid, parent->pid);
	ck_code(agent_do(child, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "childs", .how = LOCKSHM_EXCLUSIVE,
							.hold = 1, .timeout_ns = AGENT_TRY }),
		0);
	look("childs", &seen);
	ck_assert_int_eq(seen.requests[0].pid, child->pid);
	ck_assert_int_eq(seen.requests[0].tid, child->tid);
	ck_code(agent_do(child, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "parents", .how = LOCKSHM_SHARED,
							.hold = 2, .timeout_ns = AGENT_TRY }),
		LOCKSHM_BUSY);
	ck_code(agent_do(child, (struct agent_command){ .op = AGENT_RELEASE, .hold = 1 }), 0);
	ck_assert_uint_eq(stat_now().owners_used, 2);
}
END_TEST

/* No cycle: the child is another party than its parent. */
START_TEST(child_waits_for_its_parent)
{
	struct agent *parent = agent_start(), *child;
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE, .hold = 1 };

	ck_code(agent_acquire(parent, "k", LOCKSHM_EXCLUSIVE), 0);
	child = agent_child(parent);
	ck_code(agent_begin(child, c), AGENT_BLOCKED);
	ck_code(agent_release(parent), 0);
	ck_code(agent_end(child), 0);
}
END_TEST

START_TEST(childs_end_does_not_touch_the_parents_holds)
{
	struct agent *parent = agent_start(), *child, *w = agent_start();

	ck_code(agent_acquire(parent, "k", LOCKSHM_EXCLUSIVE), 0);
	child = agent_child(parent);
	if (_i & 1) /* has it taken part, or not? */
		ck_code(agent_do(child, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "other", .hold = 1,
								.how = LOCKSHM_EXCLUSIVE }),
			0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	if (_i & 2)
		kill(child->pid, SIGKILL);
	else
		ck_code(agent_call(child, AGENT_EXIT), AGENT_DIED);
	agent_gone(child);
	ck_code(lockshm_sweep(seg, NULL), 0);
	pass(now_ns() + LOCKSHM_MS(120)); /* longer than a waiter sleeps without looking */
	ck_assert(agent_waits(w, "k"));
	ck_code(agent_call(parent, AGENT_CHECK), 0);
	ck_code(agent_release(parent), 0);
	ck_code(agent_end(w), 0);
}
END_TEST

START_TEST(childs_close_does_not_touch_the_parents_holds)
{
	struct agent *parent = agent_start(), *child;

	ck_code(agent_acquire(parent, "k", LOCKSHM_EXCLUSIVE), 0);
	child = agent_child(parent);
	ck_code(agent_call(child, AGENT_CLOSE), 0);
	ck_code(agent_call(parent, AGENT_CHECK), 0);
	ck_code(agent_try(agent_start(), "k", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(agent_release(parent), 0);
}
END_TEST

START_TEST(parents_end_does_not_touch_the_childs_holds)
{
	struct agent *parent = agent_start(), *child, *w = agent_start();
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE, .hold = 1 };

	ck_code(agent_acquire(parent, "parents", LOCKSHM_EXCLUSIVE), 0);
	child = agent_child(parent);
	ck_code(agent_begin(child, c), 0);
	agent_kill(parent);
	ck_code(lockshm_sweep(seg, NULL), 0);
	ck_code(agent_try(w, "k", LOCKSHM_SHARED), LOCKSHM_BUSY);
	ck_code(agent_try(w, "parents", LOCKSHM_SHARED), LOCKSHM_OWNER_DIED);
	ck_code(agent_do(child, (struct agent_command){ .op = AGENT_RELEASE, .hold = 1 }), 0);
}
END_TEST

START_TEST(child_of_a_waiting_thread_waits_for_nothing)
{
	struct agent *h = agent_start(), *a = agent_start(), *b = agent_thread(a), *child;
	struct seen seen;

	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(a, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	child = agent_child(b); /* forked while a sibling thread is inside the library */
	ck_code(agent_do(child, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "free", .how = LOCKSHM_EXCLUSIVE,
							.hold = 1 }),
		0);
	look("k", &seen);
	ck_assert_uint_eq(seen.waiters, 1);
	ck_code(agent_release(h), 0);
	ck_code(agent_end(a), 0);
}
END_TEST

START_TEST(auto_renewal_stays_with_the_parent)
{
	struct agent *parent = agent_start(), *child, *w = agent_start();
	struct agent_command c = { .op = AGENT_ACQUIRE, .key = "k", .how = LOCKSHM_EXCLUSIVE, .ns = LOCKSHM_MS(200),
				   .flags = LOCKSHM_AUTO_RENEW };

	ck_code(agent_begin(parent, c), 0);
	child = agent_child(parent);
	c.hold = 1;
	c.key[0] = 'c';
	ck_code(agent_begin(child, c), 0); /* needs a service thread of its own */
	pass(now_ns() + LOCKSHM_MS(500));
	ck_code(agent_call(parent, AGENT_CHECK), 0);
	ck_code(agent_do(child, (struct agent_command){ .op = AGENT_CHECK, .hold = 1 }), 0);
	kill(child->pid, SIGKILL);
	agent_gone(child);
	ck_code(agent_try(w, "c", LOCKSHM_SHARED), LOCKSHM_OWNER_DIED);
	pass(now_ns() + LOCKSHM_MS(500));
	ck_code(agent_call(parent, AGENT_CHECK), 0);
	ck_code(agent_release(parent), 0);
}
END_TEST

START_TEST(grandchildren_take_part_too)
{
	struct agent *a = agent_start(), *b, *c;

	ck_code(agent_acquire(a, "a", LOCKSHM_EXCLUSIVE), 0);
	b = agent_child(a);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "b", .how = LOCKSHM_EXCLUSIVE,
						    .hold = 1 }),
		0);
	c = agent_child(b);
	ck_code(agent_do(c, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "c", .how = LOCKSHM_EXCLUSIVE,
						    .hold = 2 }),
		0);
	ck_code(agent_do(c, (struct agent_command){ .op = AGENT_CHECK, .hold = 0 }), LOCKSHM_NOT_HELD);
	ck_code(agent_do(c, (struct agent_command){ .op = AGENT_RELEASE, .hold = 1 }), LOCKSHM_NOT_HELD);
	ck_code(agent_do(c, (struct agent_command){ .op = AGENT_RELEASE, .hold = 2 }), 0);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_RELEASE, .hold = 1 }), 0);
	ck_code(agent_release(a), 0);
	verify_clean();
}
END_TEST

/* The test process itself is the prefork master here. */
START_TEST(holder_forks_and_the_child_exits)
{
	lockshm_hold_t hold;
	int status, i;
	pid_t pid;

	ck_code(take(&hold, "k", LOCKSHM_EXCLUSIVE), 0);
	for (i = 0; i < 4; i++) {
		pid = fork();
		if (pid == 0)
			_exit(lockshm_release(&hold, 0) == LOCKSHM_NOT_HELD && lockshm_token(&hold) == 0 ? 0 : 1);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
		ck_code(lockshm_check(&hold, NULL), 0);
	}
	ck_code(lockshm_release(&hold, 0), 0);
	ck_assert_uint_eq(stat_now().owners_used, 1);
}
END_TEST

static void *start_service(void *unused)
{
	struct lockshm_request q = request_for("k", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;
	lockshm_t *s;

	(void)unused;
	q.flags = LOCKSHM_AUTO_RENEW;
	q.ttl_ns = LOCKSHM_SECONDS(10);
	q.timeout_ns = LOCKSHM_FOREVER;
	if (lockshm_open(&s, seg_name, 0, NULL) != 0 || lockshm_acquire(s, &q, &hold) != 0 || lockshm_release(&hold, 0) != 0 ||
	    lockshm_close(s) != 0)
		_exit(1);
	return NULL;
}

/* A process whose first thread forks while the second one starts the service thread, the first to join a segment. */
static void fork_beside_the_start(void)
{
	pthread_t starter;
	int i;

	lockshm_close(seg); /* so that the starter's close is the last one */
	if (pthread_create(&starter, NULL, start_service, NULL) != 0)
		_exit(1);
	for (i = 0; i < 4; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			_exit(1);
	}
	pthread_join(starter, NULL);
	_exit(0);
}

/* A deadlock of the two would hang this case. */
START_TEST(forks_while_the_service_thread_starts)
{
	int i, status;

	for (i = 0; i < 400; i++) {
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0)
			fork_beside_the_start();
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, parents_hold_is_not_held_in_the_child, 0, 5);
	tcase_add_test(tc, child_takes_part_at_once);
	tcase_add_test(tc, child_waits_for_its_parent);
	tcase_add_loop_test(tc, childs_end_does_not_touch_the_parents_holds, 0, 4);
	tcase_add_test(tc, childs_close_does_not_touch_the_parents_holds);
	tcase_add_test(tc, parents_end_does_not_touch_the_childs_holds);
	tcase_add_test(tc, child_of_a_waiting_thread_waits_for_nothing);
	tcase_add_native(tc, auto_renewal_stays_with_the_parent);
	tcase_add_test(tc, grandchildren_take_part_too);
	tcase_add_test(tc, holder_forks_and_the_child_exits);
	tcase_add_native(tc, forks_while_the_service_thread_starts);
}

int main(void)
{
	return fixture_main("fork", add);
}
