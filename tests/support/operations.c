/* SPDX-License-Identifier: MIT */
/* operations.c - the locks, and the table; see operations.h */
#define _GNU_SOURCE
#include "support/operations-internal.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

int64_t operations_time_out = LOCKSHM_MS(2);

static int eventfd_of_holds = -1;

/* ---------------------------------------------------------------- acquire */

static int act_acquire(struct lockshm_error *error)
{
	return take_key(&held[0], "key", error);
}

static int act_acquire_dead(struct lockshm_error *error)
{
	return take_guarded(&held[0], "dead", 0, error);
}

static int act_auto_renew(struct lockshm_error *error)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);

	request.ttl_ns = LOCKSHM_SECONDS(30);
	request.flags = LOCKSHM_AUTO_RENEW;
	return take_with(&held[0], request, error);
}

static int act_wait(struct lockshm_error *error)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);

	request.timeout_ns = LOCKSHM_FOREVER;
	return take_with(&held[0], request, error);
}

static int act_time_out(struct lockshm_error *error)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);

	request.timeout_ns = operations_time_out;
	return take_with(&held[0], request, error);
}

static int act_deadlock(struct lockshm_error *error)
{
	struct lockshm_request request = request_for("other", LOCKSHM_EXCLUSIVE);

	request.timeout_ns = LOCKSHM_FOREVER;
	return take_with(&held[1], request, error);
}

static int act_acquire_many(struct lockshm_error *error)
{
	static const struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("a", 0), LOCKSHM_MANY_KEY("b", LOCKSHM_SHARED), LOCKSHM_MANY_KEY("key", 0) };
	struct lockshm_request common = request_for("", LOCKSHM_EXCLUSIVE);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	int code;

	common.ttl_ns = LOCKSHM_SECONDS(30);
	common.flags = LOCKSHM_AUTO_RENEW;
	common.report = &report;
	code = lockshm_acquire_many(handle, &common, keys, 3, held);
	*error = report.error;
	return code;
}

static void release_many_and_close(void)
{
	int code = lockshm_release_many(held, 3);

	CALLS_EXPECT(code == 0, code);
	use_and_close();
}

/* One after the other; a failure releases them. */
static int act_acquire_crowd(struct lockshm_error *error)
{
	char key[24];
	int i, code = 0;

	for (i = 0; !code && i < MANY; i++) {
		snprintf(key, sizeof(key), "crowd%d", i);
		code = take_key(&held[i], key, error);
	}
	if (code)
		while (--i > 0)
			CALLS_EXPECT(lockshm_release(&held[i - 1], 0) == 0, i);
	return code;
}

static void release_crowd_and_close(void)
{
	int i, code;

	for (i = 0; i < MANY; i++) {
		code = lockshm_release(&held[i], 0);
		CALLS_EXPECT(code == 0, code);
	}
	use_and_close();
}

/* More readers than a snapshot has room for at first. */
static int hold_long_queue(void)
{
	int i, code = join_it();

	for (i = 0; !code && i < MANY; i++)
		code = take_with(&held[i], request_for("key", LOCKSHM_SHARED), NULL);
	return code;
}

/* ---------------------------------------------------------------- calls on a hold */

static int act_all_of_a_hold(struct lockshm_error *unused)
{
	struct lockshm_damage damage;
	int code = lockshm_upgrade(&held[0]);

	(void)unused;
	if (!code)
		code = lockshm_downgrade(&held[0]);
	if (!code)
		code = lockshm_renew(&held[0], LOCKSHM_SECONDS(30));
	if (!code)
		code = lockshm_acknowledge(&held[0]);
	if (!code)
		code = lockshm_damage(&held[0], &damage);
	if (!code)
		code = lockshm_acknowledge_of(handle, 1, 1) == LOCKSHM_NOT_HELD ? 0 : LOCKSHM_INVALID;
	return code ? code : lockshm_check(&held[0], NULL);
}

static int act_release(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_release(&held[0], 0);
}

static int act_move_to_process(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_move(&held[0], LOCKSHM_TO_PROCESS);
}

static int act_move_to_caller(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_move(&held[0], LOCKSHM_TO_CALLER);
}

static int hold_with_eventfd(void)
{
	eventfd_of_holds = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return eventfd_of_holds < 0 ? LOCKSHM_SYSTEM : hold_it();
}

static int act_notify(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_notify(&held[0], eventfd_of_holds);
}

static void end_notify(void)
{
	int code = lockshm_notify(&held[0], -1);

	CALLS_EXPECT(code == 0, code);
	close(eventfd_of_holds);
	release_and_close();
}

static int act_cancel(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_cancel(&canceller);
}

static void end_cancel(void)
{
	join_partner();
	CALLS_EXPECT(partner_code == LOCKSHM_CANCELLED, partner_code);
	release_and_close();
}

/* ---------------------------------------------------------------- a forked child */

/* It owns nothing of its parent's, and takes what is free. */
static int be_child(struct lockshm_error *error)
{
	int code = lockshm_check(&held[0], NULL);

	CALLS_EXPECT(code == LOCKSHM_NOT_HELD, code);
	code = take_key(&held[2], "child", error);
	if (code)
		return code;
	code = take_key(&held[1], "key", NULL);
	CALLS_EXPECT(code == LOCKSHM_BUSY, code);
	code = lockshm_check(&held[2], NULL);
	CALLS_EXPECT(code == 0, code);
	return lockshm_release(&held[2], 0);
}

static int act_in_child(struct lockshm_error *error)
{
	int status;
	pid_t pid = fork();

	/* The error of the first try is in memory that they share. */
	if (pid == 0)
		_exit(-be_child(error));
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? -WEXITSTATUS(status) : -99;
}

static int act_close_in_child(struct lockshm_error *unused)
{
	int status;
	pid_t pid = fork();

	(void)unused;
	if (pid == 0)
		_exit(-lockshm_close(handle));
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? -WEXITSTATUS(status) : -99;
}

/* ---------------------------------------------------------------- the first calls of a process */

static int act_first(struct lockshm_error *error)
{
	int code = lockshm_open(&handle, seg_name, 0, error);

	if (code)
		return code;
	code = act_auto_renew(error);
	if (code)
		(void)lockshm_close(handle);
	return code;
}

/* A fork is noticed, whatever was refused before. */
static void fork_and_close(void)
{
	struct lockshm_error error;
	int code = act_in_child(&error);

	CALLS_EXPECT(code == 0, code);
	release_and_close();
}

/* ---------------------------------------------------------------- the table */

#define REFUSED { LOCKSHM_NO_MEMORY, LOCKSHM_SYSTEM, 0 }
#define OPENING { LOCKSHM_NO_MEMORY, LOCKSHM_SYSTEM, LOCKSHM_PERMISSION, 0 }
#define READING { LOCKSHM_NO_MEMORY, 0 }
#define NEVER { 0 }

const struct operation operations[] = {
	{ "open, acquire and close, as the first calls", NULL, act_first, fork_and_close, 0,
	  OPENING, EXPLAINS | FRESH },
	{ "open", NULL, act_open, use_and_close, 0, OPENING, EXPLAINS },
	{ "open beside a dead owner", leave_dead, act_open, use_and_close, 0, OPENING, EXPLAINS },
	{ "open again", join_it, act_open_again, close_one_and_use, 0, OPENING, EXPLAINS },
	{ "open read-only", NULL, act_open_read_only, look_and_close, 0, OPENING, EXPLAINS },
	{ "create", NULL, act_create, close_and_destroy, 0, OPENING, EXPLAINS },
	{ "current", open_it, act_current, use_and_close, 0, NEVER, 0 },
	{ "close", join_it, act_close, nothing, 0, NEVER, 0 },
	{ "close with a service thread", with_idle_service, act_close, nothing, 0, NEVER, 0 },
	{ "first acquire", open_it, act_acquire, release_and_close, 0, REFUSED, EXPLAINS },
	{ "first acquire beside a dead owner", open_beside_dead, act_acquire, release_and_close, 0, REFUSED, EXPLAINS },
	{ "acquire", join_it, act_acquire, release_and_close, 0, REFUSED, EXPLAINS },
	{ "acquire of the dead", join_beside_dead, act_acquire_dead, release_and_close, LOCKSHM_OWNER_DIED,
	  REFUSED, EXPLAINS },
	{ "acquire with renewal", open_it, act_auto_renew, release_and_close, 0, REFUSED, EXPLAINS },
	{ "try", beside_a_holder, act_acquire, end_partner, LOCKSHM_BUSY, REFUSED, EXPLAINS },
	{ "wait", beside_a_patient_holder, act_wait, release_and_end_partner, 0, REFUSED, EXPLAINS },
	{ "time-out", beside_a_holder, act_time_out, end_partner, LOCKSHM_TIMEOUT, REFUSED, EXPLAINS },
	{ "deadlock", before_a_waiter, act_deadlock, release_to_partner, LOCKSHM_DEADLOCK, REFUSED, EXPLAINS },
	{ "acquire many", open_it, act_acquire_many, release_many_and_close, 0, REFUSED, EXPLAINS },
	{ "acquire a crowd", open_it, act_acquire_crowd, release_crowd_and_close, 0, REFUSED, EXPLAINS },
	{ "calls on a hold", hold_shared, act_all_of_a_hold, release_and_close, 0, NEVER, 0 },
	{ "release", hold_it, act_release, use_and_close, 0, NEVER, 0 },
	{ "release to a waiter", before_a_waiter, act_release, end_partner, 0, NEVER, 0 },
	{ "move to the process", hold_it, act_move_to_process, release_and_close, 0, REFUSED, 0 },
	{ "move to the caller", with_service, act_move_to_caller, release_and_close, 0, REFUSED, 0 },
	{ "notify", hold_with_eventfd, act_notify, end_notify, 0, REFUSED, 0 },
	{ "cancel", before_a_waiter, act_cancel, end_cancel, 0, NEVER, 0 },
	{ "list busy keys", hold_it, act_list_busy, release_and_close, 0, READING, 0 },
	{ "list a key", hold_it, act_list_key, release_and_close, 0, READING, 0 },
	{ "list a long queue", hold_long_queue, act_list_busy, release_crowd_and_close, 0, READING, 0 },
	{ "verify with a long queue", hold_long_queue, act_verify, release_crowd_and_close, 0, READING, 0 },
	{ "list owners", hold_it, act_list_owners, release_and_close, 0, READING, 0 },
	{ "stat", hold_it, act_stat, release_and_close, 0, READING, 0 },
	{ "list segments", NULL, act_list_segments, nothing, 0, { LOCKSHM_SYSTEM, LOCKSHM_NO_MEMORY, 0 }, FIRST_CALLS },
	{ "verify", hold_it, act_verify, release_and_close, 0, READING, 0 },
	{ "end hold", hold_and_find_token, act_end_hold, end_end_hold, 0, REFUSED, 0 },
	{ "sweep", open_beside_dead, act_sweep, use_and_close, 0, REFUSED, 0 },
	{ "fork and acquire", hold_it, act_in_child, release_and_close, 0, REFUSED, EXPLAINS | OF_CHILDREN },
	{ "fork and close", hold_it, act_close_in_child, release_and_close, 0, NEVER, OF_CHILDREN },
	{ "loop open", open_it, act_loop_open, use_and_close_loop, 0, REFUSED, EXPLAINS },
	{ "loop open with a pipe", open_with_pipe, act_loop_open_pipe, use_and_close_loop, 0, REFUSED, EXPLAINS },
	{ "loop acquire", with_loop, act_loop_acquire, release_and_close_loop, 0, REFUSED, EXPLAINS },
	{ "loop wait", with_loop_beside_a_holder, act_loop_wait, cancel_and_close_loop, LOCKSHM_PENDING, REFUSED,
	  EXPLAINS },
	{ "loop wait with renewal", with_loop_beside_a_holder, act_loop_wait_renewed, cancel_and_close_loop,
	  LOCKSHM_PENDING, REFUSED, EXPLAINS },
	{ "loop acquire many", with_loop, act_loop_many, release_many_and_close_loop, 0, REFUSED, EXPLAINS },
	{ "loop wait for many", with_loop_beside_a_holder, act_loop_many, cancel_and_close_loop, LOCKSHM_PENDING, REFUSED,
	  EXPLAINS },
	{ "loop next", loop_is_granted, act_loop_next, release_granted, 0, NEVER, 0 },
	{ "loop next of a lost grant", loop_has_lost_its_grant, act_loop_next_again, release_and_end_wait,
	  LOCKSHM_PENDING, REFUSED, EXPLAINS },
	{ "loop cancel", loop_waits, act_loop_cancel, release_and_close_loop, 0, NEVER, 0 },
	{ "loop cancel of a grant", loop_is_granted, act_loop_cancel, use_and_close_loop, 1, NEVER, 0 },
	{ "loop close", loop_waits, act_loop_close, release_and_close, 0, NEVER, 0 },
	{ "release to a loop", loop_waits, act_release, collect_and_close_loop, 0, NEVER, 0 },
};
const unsigned operations_n = sizeof(operations) / sizeof(operations[0]);

/* ---------------------------------------------------------------- after it */

static void put_problem(const char *invariant, const char *text, void *arg)
{
	(void)invariant;
	(void)arg;
	calls_expect(false, text, 0);
}

/* What another process sees. */
static void expect_nothing_left(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	lockshm_t *looker;
	int code = lockshm_open(&looker, seg_name, LOCKSHM_OPEN_READ_ONLY, NULL);

	CALLS_EXPECT(code == 0, code);
	if (code)
		return;
	code = lockshm_stat(looker, &stat);
	CALLS_EXPECT(code == 0, code);
	CALLS_EXPECT(stat.owners_used == 0, (int)stat.owners_used);
	CALLS_EXPECT(stat.requests_used == 0, (int)stat.requests_used);
	CALLS_EXPECT(stat.requests_reserved == 0, (int)stat.requests_reserved);
	CALLS_EXPECT(stat.keys_busy == 0 && stat.keys_damaged == 0, (int)stat.keys_busy);
	code = lockshm_verify(looker, put_problem, NULL, NULL);
	CALLS_EXPECT(code == 0, code);
	code = lockshm_close(looker);
	CALLS_EXPECT(code == 0, code);
}

void operation_end(const struct operation *op, int code)
{
	struct lockshm_error error;

	if (code != op->good) {
		code = op->act(&error);
		CALLS_EXPECT(code == op->good, code);
		if (code != op->good)
			return;
	}
	op->clean_up();
	expect_nothing_left();
}

static bool is_listed(const struct operation *op, int code)
{
	int i;

	for (i = 0; op->codes[i]; i++)
		if (op->codes[i] == code)
			return true;
	return code == op->good;
}

void operation_check(const struct operation *op, int code, const struct lockshm_error *error)
{
	ck_assert_msg(is_listed(op, code), "%s: %s is not a code for this", op->name, lockshm_code_name(code));
	if (!(op->flags & EXPLAINS) || code == op->good)
		return;
	ck_assert_msg(error->code == code && error->message[0], "%s: %s without a message", op->name,
		      lockshm_code_name(code));
	ck_assert_msg(error->sys_errno != 0, "%s: %s without an errno: %s", op->name, lockshm_code_name(code),
		      error->message);
}
