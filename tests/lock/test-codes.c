/* SPDX-License-Identifier: MIT */
/* test-codes.c - codes that the header lists for a call and that no other suite gets from it */
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "segment/words.h"
#include "support/agent.h"
#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static int event;

static void make_event(void)
{
	event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ck_assert_int_ge(event, 0);
}

static int move_to_process(lockshm_hold_t *hold)
{
	return lockshm_move(hold, LOCKSHM_TO_PROCESS);
}

static int move_to_caller(lockshm_hold_t *hold)
{
	return lockshm_move(hold, LOCKSHM_TO_CALLER);
}

static int notify(lockshm_hold_t *hold)
{
	return lockshm_notify(hold, event);
}

static int previous(lockshm_hold_t *hold)
{
	struct lockshm_damage mark;
	int code;

	memset(&mark, 0x5a, sizeof(mark));
	code = lockshm_damage(hold, &mark);
	ck_assert(code == 0 || (mark.status == 0 && mark.pid == 0 && mark.token == 0));
	return code;
}

static int previous_without_room(lockshm_hold_t *hold)
{
	return lockshm_damage(hold, NULL);
}

static const struct {
	const char *name;
	int (*make)(lockshm_hold_t *hold);
	int late; /* code after the end of the lease; previous() does not tell */
} calls[] = {
	{ "downgrade", lockshm_downgrade, LOCKSHM_LATE },
	{ "upgrade", lockshm_upgrade, LOCKSHM_LATE },
	{ "move to the process", move_to_process, LOCKSHM_LATE },
	{ "move to the caller", move_to_caller, LOCKSHM_LATE },
	{ "notify", notify, LOCKSHM_LATE },
	{ "damage", previous, 0 },
	{ "previous without room", previous_without_room, 0 },
	{ "acknowledge", lockshm_acknowledge, 0 },
};
#define N_CALLS (int)(sizeof(calls) / sizeof(calls[0]))

/* A hold whose lease is over. */
static void overrun(lockshm_hold_t *hold)
{
	ck_code(take_for(hold, "k", X, LOCKSHM_MS(20)), 0);
	pass(now_ns() + LOCKSHM_MS(30));
}

START_TEST(late)
{
	lockshm_hold_t hold;
	int code;

	make_event();
	overrun(&hold);
	code = calls[_i].make(&hold);
	ck_assert_msg(code == calls[_i].late, "%s: %s", calls[_i].name, outcome_name(code));
	ck_code(lockshm_release(&hold, 0), LOCKSHM_LATE);
}
END_TEST

START_TEST(lost)
{
	struct agent *a = agent_start();
	lockshm_hold_t hold;
	int code;

	make_event();
	overrun(&hold);
	ck_code(agent_acquire(a, "k", X), 0);
	code = calls[_i].make(&hold);
	ck_assert_msg(code == LOCKSHM_LOST, "%s: %s", calls[_i].name, outcome_name(code));
	ck_code(agent_release(a), 0);
}
END_TEST

START_TEST(no_hold)
{
	int code = calls[_i].make(NULL);

	ck_assert_msg(code == LOCKSHM_INVALID, "%s: %s", calls[_i].name, outcome_name(code));
}
END_TEST

/* A notice needs none; the service thread of a moved hold, or the sweeping one, does. */
START_TEST(no_owner_slot)
{
	lockshm_hold_t hold;
	size_t freed = 7;
	int status;
	pid_t pid;

	segment_with(64, 64, 1);
	make_event();
	ck_code(take(&hold, "k", X), 0);
	ck_code(lockshm_notify(&hold, event), 0);
	ck_code(lockshm_move(&hold, LOCKSHM_TO_PROCESS), LOCKSHM_FULL);
	ck_code(lockshm_check(&hold, NULL), 0);
	pid = fork();
	if (pid == 0)
		_exit(lockshm_sweep(seg, &freed) == LOCKSHM_FULL && freed == 0 ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

/* An upgrade needs a ticket. */
START_TEST(no_ticket)
{
	lockshm_hold_t hold;
	uint32_t i;

	ck_code(take(&hold, "k", S), 0);
	for (i = 0; i < seg->n_locks; i++)
		if (tail_index(seg->entries[i].tail) != 0)
			seg->entries[i].tail = tail_make(TICKET_MAX - 1, tail_index(seg->entries[i].tail));
	ck_code(lockshm_upgrade(&hold), LOCKSHM_FULL);
	ck_code(lockshm_check(&hold, NULL), 0);
}
END_TEST

START_TEST(destroy_of_what_is_no_segment)
{
	const char *name = other_name("file");
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct lockshm_error error;

	ck_assert_int_eq(write(fd, "no segment", 10), 10);
	close(fd);
	ck_code(lockshm_destroy(name, &error), LOCKSHM_BAD_SEGMENT);
	ck_assert_int_eq(error.code, LOCKSHM_BAD_SEGMENT);
	ck_assert_int_eq(unlink(path_of(name)), 0);
}
END_TEST

START_TEST(requests_of_a_parents_loop)
{
	struct lockshm_request request = request_for("k", X);
	struct lockshm_key key = LOCKSHM_MANY_KEY("k", X);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	lockshm_loop_t *loop;
	int status;
	pid_t pid;

	ck_code(lockshm_loop_open(&loop, seg, -1, NULL), 0);
	request.report = &report;
	pid = fork();
	if (pid == 0)
		_exit(lockshm_loop_acquire(loop, &request, &hold, NULL) != LOCKSHM_NOT_HELD ||
		      report.error.code != LOCKSHM_NOT_HELD ||
		      lockshm_loop_acquire_many(loop, &request, &key, 1, &hold, NULL) != LOCKSHM_NOT_HELD ||
		      lockshm_loop_fd(loop) != LOCKSHM_NOT_HELD);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_code(lockshm_loop_close(loop), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, late, 0, N_CALLS);
	tcase_add_loop_test(tc, lost, 0, N_CALLS);
	tcase_add_loop_test(tc, no_hold, 0, N_CALLS);
	tcase_add_test(tc, no_owner_slot);
	tcase_add_test(tc, no_ticket);
	tcase_add_test(tc, destroy_of_what_is_no_segment);
	tcase_add_native(tc, requests_of_a_parents_loop);
}

int main(void)
{
	return fixture_main("codes", add);
}
