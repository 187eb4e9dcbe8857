/* SPDX-License-Identifier: MIT */
/*
 * operations-loops.c - event loops
 *
 * After lockshm_loop_open() the service thread makes calls of its own: those of a loop that is opened before the
 * operation are not under the filter, and those of one that is opened by it may fail as well.
 */
#define _GNU_SOURCE
#include "support/operations-internal.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

static lockshm_loop_t *loop;
static int ends[2] = { -1, -1 }; /* of a pipe */
static bool waits; /* held[1], for "key" */

#define IN_LOOP 1 /* its place in held[] */

/* ---------------------------------------------------------------- open, close */

int act_loop_open(struct lockshm_error *error)
{
	return lockshm_loop_open(&loop, handle, -1, error);
}

int open_with_pipe(void)
{
	int code = open_it();

	return code ? code : pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0 ? 0 : LOCKSHM_SYSTEM;
}

int act_loop_open_pipe(struct lockshm_error *error)
{
	return lockshm_loop_open(&loop, handle, ends[1], error);
}

int act_loop_close(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_loop_close(loop);
}

static void close_loop(void)
{
	int code = lockshm_loop_close(loop);

	CALLS_EXPECT(code == 0, code);
}

static unsigned reserved(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	int code = lockshm_stat(handle, &stat);

	CALLS_EXPECT(code == 0, code);
	return stat.requests_reserved;
}

/* It gives its records back. */
void use_and_close_loop(void)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_request request = request_for("use", LOCKSHM_EXCLUSIVE);
	unsigned before = reserved();
	int code = lockshm_loop_acquire(loop, &request, &hold, NULL);

	CALLS_EXPECT(code == 0, code);
	code = lockshm_release(&hold, 0);
	CALLS_EXPECT(code == 0, code);
	close_loop();
	CALLS_EXPECT(reserved() <= before, (int)before);
	if (ends[0] >= 0) {
		close(ends[0]);
		close(ends[1]);
	}
	ends[0] = -1;
	use_and_close();
}

/* ---------------------------------------------------------------- acquire */

static int take_in_loop(lockshm_hold_t *hold, struct lockshm_request request, struct lockshm_error *error)
{
	static struct lockshm_report report;
	int code;

	report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	request.report = &report;
	code = lockshm_loop_acquire(loop, &request, hold, NULL);
	if (error)
		*error = report.error;
	return code;
}

static struct lockshm_request patient(int64_t ttl)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);

	request.timeout_ns = PATIENCE;
	request.ttl_ns = ttl;
	return request;
}

int with_loop(void)
{
	int code = open_it();

	return code ? code : act_loop_open(NULL);
}

int with_loop_beside_a_holder(void)
{
	int code = beside_a_holder();

	return code ? code : act_loop_open(NULL);
}

int act_loop_acquire(struct lockshm_error *error)
{
	return take_in_loop(&held[0], request_for("key", LOCKSHM_EXCLUSIVE), error);
}

int act_loop_wait(struct lockshm_error *error)
{
	return take_in_loop(&held[0], patient(LOCKSHM_SECONDS(30)), error);
}

int act_loop_wait_renewed(struct lockshm_error *error)
{
	struct lockshm_request request = patient(LOCKSHM_SECONDS(30));

	request.flags = LOCKSHM_AUTO_RENEW;
	return take_in_loop(&held[0], request, error);
}

int act_loop_many(struct lockshm_error *error)
{
	static const struct lockshm_key keys[] = { LOCKSHM_MANY_KEY("a", 0), LOCKSHM_MANY_KEY("key", 0), LOCKSHM_MANY_KEY("b", 0) };
	static struct lockshm_report report;
	struct lockshm_request common = patient(LOCKSHM_SECONDS(30));
	int code;

	report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	common.key = NULL;
	common.key_len = 0;
	common.flags = LOCKSHM_AUTO_RENEW;
	common.report = &report;
	code = lockshm_loop_acquire_many(loop, &common, keys, 3, held, NULL);
	*error = report.error;
	return code;
}

void release_and_close_loop(void)
{
	int code = lockshm_release(&held[0], 0);

	CALLS_EXPECT(code == 0, code);
	use_and_close_loop();
}

void release_many_and_close_loop(void)
{
	int code = lockshm_release_many(held, 3);

	CALLS_EXPECT(code == 0, code);
	use_and_close_loop();
}

void cancel_and_close_loop(void)
{
	int code = lockshm_loop_cancel(loop, held);

	CALLS_EXPECT(code == 0, code);
	join_partner();
	use_and_close_loop();
}

/* ---------------------------------------------------------------- a wait of the loop behind a hold of the thread */

static int wait_behind(int64_t ttl)
{
	int code = hold_it();

	if (!code)
		code = act_loop_open(NULL);
	if (!code)
		code = take_in_loop(&held[IN_LOOP], patient(ttl), NULL);
	waits = code == LOCKSHM_PENDING;
	return waits ? 0 : LOCKSHM_SYSTEM;
}

int loop_waits(void)
{
	return wait_behind(LOCKSHM_SECONDS(30));
}

int loop_is_granted(void)
{
	struct pollfd p = { .events = POLLIN };
	int code = loop_waits();

	if (!code)
		code = lockshm_release(&held[0], 0);
	p.fd = code ? -1 : lockshm_loop_fd(loop);
	return code || poll(&p, 1, 20000) == 1 ? code : LOCKSHM_SYSTEM;
}

/* What was granted to the loop has ended, and the thread has it again. */
int loop_has_lost_its_grant(void)
{
	int code = wait_behind(LOCKSHM_MS(10));

	if (!code)
		code = lockshm_release(&held[0], 0);
	return code ? code : take_with(&held[0], patient(LOCKSHM_FOREVER), NULL);
}

int act_loop_cancel(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_loop_cancel(loop, &held[IN_LOOP]);
}

int act_loop_next(struct lockshm_error *unused)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	int n = lockshm_loop_next(loop, &outcome);

	(void)unused;
	return n == 1 ? outcome.status : LOCKSHM_PENDING;
}

/* Its request is appended again.  If there is no memory for it, that is the outcome. */
int act_loop_next_again(struct lockshm_error *error)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	if (!waits) {
		waits = true;
		return take_in_loop(&held[IN_LOOP], patient(LOCKSHM_MS(10)), error);
	}
	if (lockshm_loop_next(loop, &outcome) != 1)
		return LOCKSHM_PENDING;
	waits = false;
	*error = outcome.report->error;
	return outcome.status;
}

void release_and_end_wait(void)
{
	int code = lockshm_loop_cancel(loop, &held[IN_LOOP]);

	CALLS_EXPECT(code == 0, code);
	release_and_close_loop();
}

void release_granted(void)
{
	int code = lockshm_release(&held[IN_LOOP], 0);

	CALLS_EXPECT(code == 0, code);
	use_and_close_loop();
}

/* Whether or not the descriptor could be written to. */
void collect_and_close_loop(void)
{
	struct lockshm_error error;
	int code = act_loop_next(&error);

	CALLS_EXPECT(code == 0, code);
	release_granted();
}
