/* SPDX-License-Identifier: MIT */
/*
 * test-calls.c - every operation of local locks, where each system call fails
 *
 * The code is a documented one, with a message that names the refused call; nothing is left; the next try works; and an
 * operation that succeeds in spite of the failure has done all it promises.  Each call fails with every error that it
 * may give, with one of them under AddressSanitizer, and with the first also for the rest of the operation.
 *
 * Making and removing segments is in test-segment-calls.c.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>

#include "support/asan.h"
#include "support/calls.h"
#include "support/operations.h"

static const struct operation *op;

static void end(void)
{
	operation_end(op, calls_now->code);
}

/* lockshm_close() keeps a descriptor unless it is known to be still its own. */
static int may_leak(void)
{
	return (calls_now->nr == SYS_newfstatat || calls_now->nr == SYS_fstat) && strstr(op->name, "close");
}

/* False = it was over before its n-th call. */
static bool fails_at(unsigned n, int fate, unsigned choice)
{
	const struct calls_round round = { .prepare = op->prepare,
					   .act = op->act,
					   .clean_up = end,
					   .of_children = op->flags & OF_CHILDREN,
					   .fresh = op->flags & FRESH,
					   .fate = fate,
					   .n = n,
					   .choice = choice };
	bool did = calls_round(&round);

	operation_check(op, calls_now->code, &calls_now->error);
	ck_assert_msg(calls_now->leaked <= may_leak(), "%s: call %u (number %d, errno %d) leaves %d: %s", op->name, n,
		      calls_now->nr, calls_now->failed_with, calls_now->leaked, lockshm_code_name(calls_now->code));
	return did;
}

START_TEST(fails_at_each_call)
{
	unsigned n, choice, most;

	op = &operations[_i];
	most = op->flags & FIRST_CALLS ? OPERATION_CALLS : UINT_MAX;
	for (n = 0; n < most && fails_at(n, CALL_FAILS, n); n++) {
		/* Which error it was decides about codes and messages, hardly about memory; a fork costs much there. */
		for (choice = 1; choice < calls_now->choices && !UNDER_ASAN; choice++)
			(void)fails_at(n, CALL_FAILS, n + choice);
		if (!(op->flags & OF_CHILDREN))
			(void)fails_at(n, CALLS_FAIL, n);
	}
	printf("%s: %u calls\n", op->name, n);
}
END_TEST

/* A waiter whose sleep is refused does not use up a processor. */
START_TEST(refused_sleep_is_no_spin)
{
	static const unsigned errors[] = { EPERM, ENOMEM };

	for (op = operations; strcmp(op->name, "time-out") != 0;)
		op++;
	operations_time_out = LOCKSHM_MS(300);
	(void)fails_at(0, SLEEPS_FAIL, errors[_i]);
	ck_assert_uint_gt(calls_now->sleeps, 1);
	/* One in a millisecond, and some more. */
	ck_assert_uint_lt(calls_now->sleeps, 600);
}
END_TEST

/* Each process of a round opens the segment itself. */
static void prepare(void)
{
	calls_prepare();
	ck_code(lockshm_close(seg), 0);
	seg = NULL;
}

static void remove_segment(void)
{
	ck_code(lockshm_destroy(seg_name, NULL), 0);
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, prepare, remove_segment);
	if (!calls_can_fail()) {
		printf("left out: no seccomp listener here\n");
		return;
	}
	tcase_add_loop_test(tc, fails_at_each_call, 0, (int)operations_n);
	tcase_add_loop_test(tc, refused_sleep_is_no_spin, 0, 2);
}

/* One of the fresh operations has the rest of its round in a new process. */
static void resume(const char *fd)
{
	calls_resume(fd);
	for (op = operations; !(op->flags & FRESH);)
		op++;
	calls_now->prepare = op->prepare;
	calls_now->act = op->act;
	calls_now->clean_up = end;
	calls_supervise();
}

int main(int argc, char **argv)
{
	if (argc == 3)
		resume(argv[2]);
	return fixture_main("calls", add);
}
