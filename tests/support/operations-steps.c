/* SPDX-License-Identifier: MIT */
/* operations-steps.c - a handle, its locks, and another thread, before and after an operation */
#define _GNU_SOURCE
#include "support/operations-internal.h"
#include "support/acknowledge.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

lockshm_t *handle;
lockshm_hold_t held[MANY];
lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;
int partner_code;
__thread bool operations_bystander;

static lockshm_hold_t partners[2];

/* ---------------------------------------------------------------- steps */

int take_with(lockshm_hold_t *hold, struct lockshm_request request, struct lockshm_error *error)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	int code;

	request.report = &report;
	code = lockshm_acquire(handle, &request, hold);
	if (error)
		*error = report.error;
	return code;
}

int take_key(lockshm_hold_t *hold, const char *key, struct lockshm_error *error)
{
	return take_with(hold, request_for(key, LOCKSHM_EXCLUSIVE), error);
}

int take_guarded(lockshm_hold_t *hold, const char *key, unsigned flags, struct lockshm_error *error)
{
	struct lockshm_request request = request_for(key, LOCKSHM_EXCLUSIVE);

	request.flags = LOCKSHM_ROBUST | flags;
	return take_with(hold, request, error);
}

int open_it(void)
{
	return lockshm_open(&handle, seg_name, 0, NULL);
}

/* The thread takes part already. */
int join_it(void)
{
	int code = open_it();

	if (!code)
		code = take_key(&held[0], "first", NULL);
	return code ? code : lockshm_release(&held[0], 0);
}

int hold_it(void)
{
	int code = join_it();

	return code ? code : take_key(&held[0], "key", NULL);
}

int hold_shared(void)
{
	int code = join_it();

	return code ? code : take_with(&held[0], request_for("key", LOCKSHM_SHARED), NULL);
}

/* A process that died as a holder. */
int leave_dead(void)
{
	struct lockshm_request request = request_for("dead", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;
	int status, code;
	pid_t pid = fork();

	request.flags = LOCKSHM_ROBUST;
	if (pid == 0) {
		code = open_it();
		if (!code)
			code = lockshm_acquire(handle, &request, &hold);
		_exit(code ? 1 : 0);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : LOCKSHM_SYSTEM;
}

int open_beside_dead(void)
{
	int code = open_it();

	return code ? code : leave_dead();
}

int join_beside_dead(void)
{
	int code = join_it();

	return code ? code : leave_dead();
}

/* The locks work, through @handle and as others see it. */
void use_and_close(void)
{
	lockshm_hold_t hold;
	int code = take_key(&hold, "use", NULL);

	CALLS_EXPECT(code == 0, code);
	code = lockshm_check(&hold, NULL);
	CALLS_EXPECT(code == 0, code);
	code = lockshm_release(&hold, 0);
	CALLS_EXPECT(code == 0, code);
	code = acknowledge_told(take_guarded(&hold, "dead", 0, NULL), &hold);
	CALLS_EXPECT(code >= 0 && lockshm_release(&hold, 0) == 0, code);
	code = lockshm_sweep(handle, NULL);
	CALLS_EXPECT(code == 0, code);
	code = lockshm_current(handle);
	CALLS_EXPECT(code == 0, code);
	code = lockshm_close(handle);
	CALLS_EXPECT(code == 0, code);
}

void release_and_close(void)
{
	int code = lockshm_check(&held[0], NULL);

	CALLS_EXPECT(code == 0, code);
	code = lockshm_release(&held[0], 0);
	CALLS_EXPECT(code == 0, code);
	use_and_close();
}

/* ---------------------------------------------------------------- the partner, another thread */

static pthread_t partner;
static int partner_state; /* 0 = begins, 1 = as wanted, 2 = to stop */

static void partner_shows(int state)
{
	__atomic_store_n(&partner_state, state, __ATOMIC_SEQ_CST);
}

static bool partner_is(int state)
{
	return __atomic_load_n(&partner_state, __ATOMIC_SEQ_CST) == state;
}

static int start_partner(void *(*run)(void *))
{
	partner_shows(0);
	return pthread_create(&partner, NULL, run, NULL) == 0 ? 0 : LOCKSHM_SYSTEM;
}

static void await_partner(void)
{
	while (partner_is(0))
		sched_yield();
}

void join_partner(void)
{
	partner_shows(2);
	CALLS_EXPECT(pthread_join(partner, NULL) == 0, 0);
}

static size_t waiters_of(const char *key)
{
	struct lockshm_row row;

	return key_row(handle, key, strlen(key), &row) == 0 ? row.waiters : 0;
}

/* Holds "key", and releases it whenever another thread waits. */
static void *holds_until_awaited(void *unused)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);

	operations_bystander = true;
	request.timeout_ns = LOCKSHM_FOREVER;
	while (!partner_is(2)) {
		partner_code = take_with(&partners[0], request, NULL);
		if (partner_is(0))
			partner_shows(1);
		while (!partner_is(2) && waiters_of("key") == 0)
			sched_yield();
		(void)lockshm_release(&partners[0], 0);
	}
	return unused;
}

static void *holds_to_the_end(void *unused)
{
	operations_bystander = true;
	partner_code = take_key(&partners[0], "key", NULL);
	partner_shows(1);
	while (!partner_is(2))
		sched_yield();
	(void)lockshm_release(&partners[0], 0);
	return unused;
}

/* Waits for "key", which the caller holds; holds "other". */
static void *waits(void *unused)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);

	operations_bystander = true;
	request.timeout_ns = LOCKSHM_FOREVER;
	request.canceller = &canceller;
	(void)take_key(&partners[1], "other", NULL);
	partner_shows(1);
	partner_code = take_with(&partners[0], request, NULL);
	if (partner_code == 0)
		(void)lockshm_release(&partners[0], 0);
	(void)lockshm_release(&partners[1], 0);
	return unused;
}

int beside_a_holder(void)
{
	int code = join_it();

	if (!code)
		code = start_partner(holds_to_the_end);
	if (!code)
		await_partner();
	return code;
}

int beside_a_patient_holder(void)
{
	int code = join_it();

	if (!code)
		code = start_partner(holds_until_awaited);
	if (!code)
		await_partner();
	return code;
}

int before_a_waiter(void)
{
	int code = hold_it();

	canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	if (!code)
		code = start_partner(waits);
	while (!code && waiters_of("key") == 0)
		sched_yield();
	return code;
}

void end_partner(void)
{
	join_partner();
	use_and_close();
}

void release_and_end_partner(void)
{
	int code = lockshm_check(&held[0], NULL);

	CALLS_EXPECT(code == 0, code);
	code = lockshm_release(&held[0], 0);
	CALLS_EXPECT(code == 0, code);
	end_partner();
}

void release_to_partner(void)
{
	int code = lockshm_release(&held[0], 0);

	CALLS_EXPECT(code == 0, code);
	join_partner();
	/* DEADLOCK: its own search may have found the same circle. */
	CALLS_EXPECT(partner_code == 0 || partner_code == LOCKSHM_DEADLOCK, partner_code);
	use_and_close();
}
