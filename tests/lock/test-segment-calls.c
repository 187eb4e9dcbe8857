/* SPDX-License-Identifier: MIT */
/*
 * test-segment-calls.c - making, opening and removing a segment, where each system call fails or is the last
 *
 * The test process has the segment open all the time and checks what a child leaves that makes the call, see
 * support/calls.h.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "support/calls.h"

static const char *name; /* of the segment that comes and goes */

#define holds calls_hold
#define now calls_now

/* The first three for any call, also an unlikely one; then each that the kernel may give. */
static const int errors[] = { EIO, ENOMEM, EPERM, CALL_FAILS, CALL_FAILS, CALL_FAILS, CALL_FAILS, CALLS_FAIL };
#define ERRORS (sizeof(errors) / sizeof(errors[0]))

/* One round.  False = the call was over before its n-th system call. */
static bool meets_fate(int (*act)(struct lockshm_error *error), int fate, unsigned n, unsigned choice)
{
	const struct calls_round round = { .act = act, .fate = fate, .n = n, .choice = choice };
	bool did = calls_round(&round);

	ck_assert_uint_le(now->choices, 4); /* as many as errors[] goes through */
	return did;
}

/* @error: an index of errors[]. */
static bool meets(int (*act)(struct lockshm_error *error), int error, unsigned n)
{
	return meets_fate(act, errors[error], n, n + (unsigned)error);
}

static bool killed_at(int (*act)(struct lockshm_error *error), unsigned n)
{
	return meets_fate(act, CALL_KILLS, n, 0);
}

static int create_it(unsigned flags, struct lockshm_error *error)
{
	struct lockshm_create_options o = LOCKSHM_CREATE_INIT;

	o.keys = 64;
	o.requests = 16;
	o.owners = 4;
	o.flags = flags;
	return lockshm_create(NULL, name, &o, error);
}

static int create(struct lockshm_error *error)
{
	return create_it(0, error);
}

static int create_or_open(struct lockshm_error *error)
{
	return create_it(LOCKSHM_CREATE_OR_OPEN, error);
}

static int destroy(struct lockshm_error *error)
{
	return lockshm_destroy(name, error);
}

static int open_and_close(struct lockshm_error *error)
{
	lockshm_t *s;
	int code = lockshm_open(&s, name, 0, error);

	return code ? code : lockshm_close(s);
}

static bool is_there(void)
{
	return access(path_of(name), F_OK) == 0;
}

/* The test's own handle gives out locks. */
static int use(lockshm_t *s)
{
	struct lockshm_request request = request_for("key", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;
	int code = lockshm_acquire(s, &request, &hold);

	return code ? code : lockshm_release(&hold, 0);
}

/* A handle whose thread takes part already no longer reads the file. */
static lockshm_t *used_segment(void)
{
	lockshm_t *s;

	ck_code(create_it(0, NULL), 0);
	ck_code(lockshm_open(&s, name, 0, NULL), 0);
	ck_code(use(s), 0);
	return s;
}

/* After an unfinished removal and after a finished one: no lock is shared with a later segment. */
static void told_before_replaced(lockshm_t *old)
{
	bool gone = !is_there();

	if (gone)
		holds(use(old) == LOCKSHM_NO_SEGMENT);
	now->code = create(&now->error);
	holds(now->code == 0 || (now->code == LOCKSHM_EXISTS && !gone));
	holds(use(old) == (now->code == 0 ? LOCKSHM_NO_SEGMENT : 0));
	holds(create_or_open(NULL) == 0);
	holds(destroy(NULL) == 0);
	holds(!is_there() && use(old) == LOCKSHM_NO_SEGMENT);
	ck_code(lockshm_close(old), 0);
}

START_TEST(destroy_is_killed_at_each_call)
{
	unsigned n;
	bool more = true;

	for (n = 0; more; n++) {
		lockshm_t *old = used_segment();

		more = killed_at(destroy, n);
		told_before_replaced(old);
	}
	ck_assert_uint_gt(n, 4);
}
END_TEST

START_TEST(destroy_fails_at_each_call)
{
	unsigned n;
	bool more = true;

	for (n = 0; more; n++) {
		lockshm_t *old = used_segment();

		more = meets(destroy, _i, n);
		holds(now->leaked == 0);
		if (now->code == 0)
			holds(!is_there() && use(old) == LOCKSHM_NO_SEGMENT);
		else
			holds(now->code == LOCKSHM_SYSTEM || now->code == LOCKSHM_PERMISSION);
		/* Half removed, it returns NO_SEGMENT. */
		if (now->code != 0)
			holds(is_there() && (use(old) == 0 || (now->code == LOCKSHM_SYSTEM &&
							       strstr(now->error.message, "retired") && use(old) == LOCKSHM_NO_SEGMENT)));
		told_before_replaced(old);
	}
}
END_TEST

/* lockshm_close() keeps a descriptor unless it is known to be still its own. */
static bool is_all_given_back(void)
{
	return now->leaked <= (now->code == 0);
}

/* The code of a call that makes or opens. */
static bool is_documented(int code)
{
	return code == 0 || code == LOCKSHM_SYSTEM || code == LOCKSHM_NO_MEMORY || code == LOCKSHM_PERMISSION;
}

START_TEST(create_fails_at_each_call)
{
	int (*act)(struct lockshm_error *error) = _i % 2 ? create_or_open : create;
	unsigned n;

	for (n = 0; meets(act, _i / 2, n); n++) {
		holds(is_all_given_back() && is_documented(now->code));
		holds(is_there() == (now->code == 0));
		holds(now->code != 0 || destroy(NULL) == 0);
		holds(create(NULL) == 0);
		ck_code(destroy(NULL), 0);
	}
	holds(n > 4 && now->code == 0 && destroy(NULL) == 0);
}
END_TEST

START_TEST(create_is_killed_at_each_call)
{
	unsigned n;

	for (n = 0; killed_at(create, n); n++) {
		holds(create_or_open(NULL) == 0);
		ck_code(destroy(NULL), 0);
	}
	ck_code(destroy(NULL), 0);
}
END_TEST

/* What a killed remover has left is no hindrance. */
START_TEST(create_where_one_was_left_fails_at_each_call)
{
	int (*act)(struct lockshm_error *error) = _i % 2 ? create_or_open : create;
	unsigned n;
	bool more = true;

	for (n = 0; more; n++) {
		lockshm_t *old = used_segment();

		store_relaxed(&old->header->state, SEGMENT_RETIRED);
		more = meets(act, _i / 2, n);
		holds(is_all_given_back());
		holds(is_documented(now->code) || now->code == (_i % 2 ? LOCKSHM_NO_SEGMENT : LOCKSHM_EXISTS));
		holds(now->code != 0 || destroy(NULL) == 0);
		holds(use(old) == LOCKSHM_NO_SEGMENT && create(NULL) == 0 && destroy(NULL) == 0);
		ck_code(lockshm_close(old), 0);
	}
}
END_TEST

START_TEST(open_fails_at_each_call)
{
	unsigned n;

	ck_code(create(NULL), 0);
	for (n = 0; meets(open_and_close, _i, n); n++)
		holds(is_all_given_back() && is_documented(now->code));
	ck_code(destroy(NULL), 0);
}
END_TEST

/* ---------------------------------------------------------------- no room to map */

static int in_child_with(rlim_t address_space, rlim_t file_size, int (*act)(struct lockshm_error *error))
{
	struct rlimit memory = { address_space, address_space }, size = { file_size, file_size };
	int status;
	pid_t pid;

	*now = (struct calls_round){ .nr = -1 };
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_FSIZE, &size);
		setrlimit(RLIMIT_AS, &memory);
		now->code = act(&now->error);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	return now->code;
}

/* Neither to map the header nor, past the limit of file sizes, to write it; and both. */
START_TEST(destroy_without_room_to_map)
{
	static const struct {
		rlim_t memory, size;
		int code;
	} cases[] = { { 4096, RLIM_INFINITY, 0 }, { RLIM_INFINITY, 1, 0 }, { 4096, 1, LOCKSHM_SYSTEM } };
	lockshm_t *old = used_segment();

	ck_code(in_child_with(cases[_i].memory, cases[_i].size, destroy), cases[_i].code);
	holds(is_there() == (now->code != 0));
	holds(use(old) == (now->code == 0 ? LOCKSHM_NO_SEGMENT : 0));
	told_before_replaced(old);
}
END_TEST

static int create_large(struct lockshm_error *error)
{
	struct lockshm_create_options o = LOCKSHM_CREATE_INIT;

	o.owners = 50000;
	return lockshm_create(NULL, name, &o, error);
}

START_TEST(create_without_room_to_map_leaves_nothing)
{
	ck_code(in_child_with(100 << 20, RLIM_INFINITY, create_large), LOCKSHM_NO_MEMORY);
	holds(!is_there());
	ck_code(create(NULL), 0);
	ck_code(destroy(NULL), 0);
}
END_TEST

static void prepare(void)
{
	calls_prepare();
	name = other_name("calls");
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, prepare, NULL);
	if (!emulated()) {
		tcase_add_loop_test(tc, destroy_without_room_to_map, 0, 3);
		tcase_add_test(tc, create_without_room_to_map_leaves_nothing);
	}
	if (!calls_can_fail()) {
		printf("left out: no seccomp listener here\n");
		return;
	}
	tcase_add_test(tc, destroy_is_killed_at_each_call);
	tcase_add_loop_test(tc, destroy_fails_at_each_call, 0, ERRORS);
	tcase_add_loop_test(tc, create_fails_at_each_call, 0, 2 * ERRORS);
	tcase_add_test(tc, create_is_killed_at_each_call);
	tcase_add_loop_test(tc, create_where_one_was_left_fails_at_each_call, 0, 2 * ERRORS);
	tcase_add_loop_test(tc, open_fails_at_each_call, 0, ERRORS);
}

int main(void)
{
	return fixture_main("segment-calls", add);
}
