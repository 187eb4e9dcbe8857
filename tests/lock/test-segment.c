/* SPDX-License-Identifier: MIT */
/* test-segment.c - making and removing segments, and noticing a removal; wrong files are in test-segment-open.c */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "support/agent.h"
#include "support/fixture.h"

START_TEST(create_makes_what_was_asked_for_whatever_the_umask)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	const char *name = other_name("made");
	lockshm_t *s;
	struct stat st;
	mode_t old = umask(_i ? 0777 : 0);

	options.keys = 100;
	options.requests = 77;
	options.owners = 5;
	options.permissions = 0660;
	options.token_floor = UINT64_C(1) << 52;
	ck_code(lockshm_create(&s, name, &options, NULL), 0);
	umask(old);
	ck_code(lockshm_stat(s, &stat), 0);
	ck_assert_uint_ge(stat.keys, 100);
	ck_assert_uint_eq(stat.keys % 64, 0);
	ck_assert_uint_ge(stat.requests, 77);
	ck_assert_uint_eq(stat.owners, 5);
	ck_assert_uint_ge(stat.token_base, UINT64_C(1) << 52);
	ck_assert_int_eq(lstat(path_of(name), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0660);
	ck_assert_uint_eq((uint64_t)st.st_size, stat.bytes);
	ck_assert_uint_ge((uint64_t)st.st_blocks * 512, stat.bytes); /* reserved now, not when it is touched */
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_destroy(name, NULL), 0);
}
END_TEST

START_TEST(create_gives_the_segment_to_a_group)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	const char *name = other_name("group");
	struct stat st;

	if (not_root())
		return;
	options.group = 1;
	options.permissions = 0660;
	ck_code(lockshm_create(NULL, name, &options, NULL), 0);
	ck_assert_int_eq(lstat(path_of(name), &st), 0);
	ck_assert_uint_eq(st.st_gid, 1);
	ck_assert_uint_eq(st.st_mode & 07777, 0660);
	ck_code(lockshm_destroy(name, NULL), 0);
}
END_TEST

static int create_for_group_0(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	const char *name = other_name("theirs");

	options.group = 0;
	if (lockshm_create(NULL, name, &options, NULL) != LOCKSHM_PERMISSION)
		return 1;
	return access(path_of(name), F_OK) == 0 ? 2 : 0;
}

START_TEST(create_for_a_foreign_group_is_refused)
{
	if (!not_root())
		ck_assert_int_eq(as_user(65534, create_for_group_0), 0);
}
END_TEST

START_TEST(create_existing_is_refused_or_opened)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	lockshm_t *s;

	ck_code(lockshm_create(&s, seg_name, NULL, &error), LOCKSHM_EXISTS);
	ck_assert_ptr_null(s);
	ck_assert_msg(strstr(error.message, seg_name), "%s", error.message);
	options.flags = LOCKSHM_CREATE_OR_OPEN;
	options.keys = 64000;
	ck_code(lockshm_create(&s, seg_name, &options, &error), 0);
	ck_code(lockshm_stat(s, &stat), 0);
	ck_assert_uint_eq(stat.keys, 256); /* the old one, as it was */
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_create(NULL, other_name("new"), &options, &error), 0);
	ck_code(lockshm_destroy(other_name("new"), NULL), 0);
}
END_TEST

START_TEST(names_are_checked)
{
	static const char *const bad[] = { "", "/", "a/b", "/a/b", "..", ".hidden", "/.hidden", "a b", "a\n", "\xc3\xa4",
					   "//a", "a%", "a\\" };
	char longest[LOCKSHM_NAME_MAX + 3];
	struct lockshm_error error;
	lockshm_t *s;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_code(lockshm_create(&s, bad[i], NULL, &error), LOCKSHM_INVALID);
		ck_assert_msg(strstr(error.message, "name"), "%s", error.message);
		ck_code(lockshm_open(&s, bad[i], 0, &error), LOCKSHM_INVALID);
		ck_code(lockshm_destroy(bad[i], &error), LOCKSHM_INVALID);
	}
	ck_code(lockshm_create(&s, NULL, NULL, &error), LOCKSHM_INVALID);
	ck_code(lockshm_open(&s, NULL, 0, &error), LOCKSHM_INVALID);
	ck_code(lockshm_destroy(NULL, &error), LOCKSHM_INVALID);
	memset(longest, 'n', sizeof(longest));
	longest[0] = '/';
	longest[LOCKSHM_NAME_MAX + 2] = '\0';
	ck_code(lockshm_create(&s, longest, NULL, &error), LOCKSHM_INVALID);
	snprintf(longest + 1, sizeof(longest) - 1, "%s-%0*d", seg_name + 1, (int)(LOCKSHM_NAME_MAX - strlen(seg_name)), 0);
	ck_assert_uint_eq(strlen(longest), LOCKSHM_NAME_MAX + 1);
	ck_code(lockshm_create(&s, longest + 1, NULL, &error), 0);
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_open(&s, longest, 0, &error), 0); /* with and without the slash is the same name */
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_destroy(longest, &error), 0);
}
END_TEST

START_TEST(options_are_checked)
{
	static const struct {
		const char *word;
		uint32_t locks, requests, owners;
		mode_t mode;
		unsigned flags;
		size_t size;
	} cases[] = {
		{ "keys", 0, 64, 4, 0600, 0, 0 },	   { "keys", UINT32_MAX, 64, 4, 0600, 0, 0 },
		{ "requests", 64, 0, 4, 0600, 0, 0 },	   { "requests", 64, 262144, 4, 0600, 0, 0 },
		{ "owners", 64, 64, 0, 0600, 0, 0 },	   { "owners", 64, 64, UINT32_MAX, 0600, 0, 0 },
		{ "permissions", 64, 64, 4, 0400, 0, 0 },	   { "permissions", 64, 64, 4, 0, 0, 0 },
		{ "permissions", 64, 64, 4, 04600, 0, 0 },	   { "flags", 64, 64, 4, 0600, 0x80000000, 0 },
		{ "size", 64, 64, 4, 0600, 0, 16 },
	};
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	const char *name = other_name("bad");
	struct lockshm_error error;

	options.keys = cases[_i].locks;
	options.requests = cases[_i].requests;
	options.owners = cases[_i].owners;
	options.permissions = cases[_i].mode;
	options.flags = cases[_i].flags;
	options.size -= cases[_i].size;
	ck_code(lockshm_create(NULL, name, &options, &error), LOCKSHM_INVALID);
	ck_assert_msg(strstr(error.message, cases[_i].word), "no '%s' in: %s", cases[_i].word, error.message);
	ck_assert_int_ne(access(path_of(name), F_OK), 0);
}
END_TEST

START_TEST(open_missing_is_no_segment)
{
	struct lockshm_error error;
	const char *name = other_name("missing");
	lockshm_t *s;

	ck_code(lockshm_open(&s, name, 0, &error), LOCKSHM_NO_SEGMENT);
	ck_assert_msg(strstr(error.message, name), "%s", error.message);
	ck_code(lockshm_destroy(name, &error), LOCKSHM_NO_SEGMENT);
	ck_code(lockshm_open(&s, seg_name, 0xff00, &error), LOCKSHM_INVALID);
	ck_code(lockshm_open(NULL, seg_name, 0, &error), LOCKSHM_INVALID);
}
END_TEST

START_TEST(retired_handle_gets_no_segment)
{
	struct lockshm_request request = request_for("other", LOCKSHM_EXCLUSIVE);
	struct agent *h = agent_start(), *w = agent_start();
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t mine, hold;
	lockshm_t *fresh;

	request.report = &report;
	ck_code(take(&mine, "mine", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(h, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(w, "k", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	ck_code(agent_end(w), LOCKSHM_NO_SEGMENT); /* waiters too */
	ck_code(lockshm_current(seg), LOCKSHM_NO_SEGMENT);
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_NO_SEGMENT);
	ck_code(report.error.code, LOCKSHM_NO_SEGMENT);
	ck_code(lockshm_renew(&mine, LOCKSHM_SECONDS(5)), 0); /* holds go on to their end */
	ck_code(lockshm_check(&mine, NULL), 0);
	ck_code(lockshm_release(&mine, 0), 0);
	ck_code(agent_release(h), 0);
	ck_code(lockshm_open(&fresh, seg_name, 0, NULL), LOCKSHM_NO_SEGMENT);
}
END_TEST

static bool is_asleep(void *pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", *(pid_t *)pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%*d %*s %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

/* Threads that wait for another thing than a request's word, as for the lease of a host. */
START_TEST(removal_wakes_sleepers)
{
	struct futex_watch watch = segment_watch(seg);
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		futex_wait_any(&watch, 1, INT64_MAX);
		_exit(0);
	}
	ck_assert(await(is_asleep, &pid));
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(segment_made_anew_is_another_one)
{
	lockshm_t *old = seg, *fresh;
	lockshm_hold_t mine, theirs;
	uint64_t token;

	ck_code(take(&mine, "k", LOCKSHM_EXCLUSIVE), 0);
	token = lockshm_token(&mine);
	ck_code(lockshm_destroy(seg_name, NULL), 0);
	ck_code(lockshm_create(&fresh, seg_name, NULL, NULL), 0);
	ck_code(lockshm_current(old), LOCKSHM_NO_SEGMENT);
	ck_code(lockshm_current(fresh), 0);
	seg = fresh;
	ck_code(take(&theirs, "k", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_gt(lockshm_token(&theirs), token); /* so that a store shows in one of the two */
	ck_code(lockshm_release(&mine, 0), 0);
	ck_code(lockshm_check(&theirs, NULL), 0);
	ck_code(lockshm_close(old), 0);
	ck_code(lockshm_release(&theirs, 0), 0);
}
END_TEST

START_TEST(name_removed_by_hand_is_noticed)
{
	struct agent *a = agent_start();
	lockshm_t *fresh;

	ck_code(agent_call(a, AGENT_CURRENT), 0);
	ck_assert_int_eq(unlink(path_of(seg_name)), 0);
	ck_code(agent_call(a, AGENT_CURRENT), LOCKSHM_NO_SEGMENT);
	ck_code(lockshm_create(&fresh, seg_name, NULL, NULL), 0);
	ck_code(agent_call(a, AGENT_CURRENT), LOCKSHM_NO_SEGMENT);
	ck_code(lockshm_current(seg), LOCKSHM_NO_SEGMENT);
	ck_code(lockshm_close(seg), 0);
	seg = fresh;
}
END_TEST

START_TEST(create_or_open_replaces_a_half_removed_segment)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct shm_header *h = seg->header;
	lockshm_t *fresh;

	h->state = SEGMENT_RETIRED; /* as left by a remover killed after its first step */
	ck_code(lockshm_open(&fresh, seg_name, 0, NULL), LOCKSHM_NO_SEGMENT);
	options.flags = LOCKSHM_CREATE_OR_OPEN;
	ck_code(lockshm_create(&fresh, seg_name, &options, NULL), 0);
	ck_code(lockshm_current(fresh), 0);
	ck_code(lockshm_close(seg), 0);
	seg = fresh;
}
END_TEST

#define ROUNDS 60
#define CREATORS 3

/* One creator of one round: 0 = its segment is the old one or is there to stay. */
static void create_or_open_and_look(uint64_t old_created, int gate)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	lockshm_t *s;
	char go;

	options.flags = LOCKSHM_CREATE_OR_OPEN;
	options.keys = options.requests = options.owners = 64;
	if (read(gate, &go, 1) != 1 || lockshm_create(&s, seg_name, &options, NULL) != 0 || lockshm_stat(s, &stat) != 0)
		_exit(1);
	if (read(gate, &go, 1) != 1) /* all others have finished, too */
		_exit(2);
	_exit(stat.created_unix_ns == old_created || lockshm_current(s) == 0 ? 0 : 3);
}

/* One removal a round may end the old segment, never one that a creator has just made. */
START_TEST(create_or_open_never_removes_a_fresh_segment)
{
	int round, i, status, gates[CREATORS][2];

	for (round = 0; round < ROUNDS; round++) {
		uint64_t old = stat_now().created_unix_ns;

		for (i = 0; i < CREATORS; i++) {
			ck_assert_int_eq(pipe2(gates[i], O_CLOEXEC), 0);
			if (fork() == 0)
				create_or_open_and_look(old, gates[i][0]);
		}
		for (i = 0; i < CREATORS; i++)
			ck_assert_int_eq(write(gates[i][1], "g", 1), 1);
		lockshm_destroy(seg_name, NULL);
		pass(now_ns() + LOCKSHM_MS(3));
		for (i = 0; i < CREATORS; i++) {
			ck_assert_int_eq(write(gates[i][1], "l", 1), 1);
			ck_assert_int_gt(wait(&status), 0);
			ck_assert_int_eq(status, 0);
			close(gates[i][0]);
			close(gates[i][1]);
		}
		lockshm_close(seg);
		lockshm_destroy(seg_name, NULL);
		ck_code(lockshm_create(&seg, seg_name, NULL, NULL), 0);
	}
}
END_TEST

/* A small private /dev/shm. */
static int create_without_room(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	struct stat st;

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/dev/shm", "tmpfs", 0, "size=1m") != 0)
		return 77;
	if (lockshm_create(NULL, "full", NULL, &error) != LOCKSHM_NO_MEMORY || !strstr(error.message, "/dev/shm"))
		return 1;
	if (access("/dev/shm/full", F_OK) == 0)
		return 2;
	options.keys = options.requests = 64; /* nothing was kept: a small one fits */
	options.owners = 8;
	if (lockshm_create(NULL, "full", &options, &error) != 0)
		return 3;
	return stat("/dev/shm/full", &st) == 0 && st.st_blocks * 512 >= st.st_size ? 0 : 4;
}

START_TEST(full_shm_is_no_memory_and_keeps_nothing)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(create_without_room());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		fprintf(stderr, "no right to mount: case left out\n");
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

START_TEST(file_size_limit_is_no_memory_and_no_signal)
{
	struct rlimit limit = { 65536, 65536 };
	struct lockshm_error error;
	const char *name = other_name("limited");
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(lockshm_create(NULL, name, NULL, &error) == LOCKSHM_NO_MEMORY ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_ne(access(path_of(name), F_OK), 0);
}
END_TEST

/* A sanitizer's mlockall() does nothing. */
static bool memory_is_locked(size_t limit)
{
	return mmap(NULL, 2 * limit, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

/* A process that locks its memory, without the right to more than the limit: the codes and messages of open and create. */
static int open_locked(const char *name)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0, 0, 0 } };
	struct rlimit limit = { 8 << 20, 8 << 20 };
	struct lockshm_error error;
	lockshm_t *s;
	int i;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_capset, &header, none) != 0 ||
	    mlockall(MCL_FUTURE) != 0 || !memory_is_locked(limit.rlim_cur))
		return 77;
	for (i = 0; i < 2; i++) {
		int code = i ? lockshm_create(&s, "lockshm-test-not-made", NULL, &error) : lockshm_open(&s, name, 0, &error);

		if (code == LOCKSHM_SYSTEM && error.sys_errno == EPERM)
			return 77;
		if (code != LOCKSHM_NO_MEMORY || error.sys_errno != EAGAIN || !strstr(error.message, "ulimit -l") ||
		    !strstr(error.message, "8388608"))
			return fprintf(stderr, "%d: %s\n", code, error.message), 1;
	}
	return 0;
}

START_TEST(locked_memory_is_no_memory_with_limit_and_need)
{
	const char *name = other_name("locked");
	lockshm_t *s;
	int status;
	pid_t pid;

	ck_code(lockshm_create(&s, name, NULL, NULL), 0);
	ck_code(lockshm_close(s), 0);
	pid = fork();
	if (pid == 0)
		_exit(open_locked(name));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		fprintf(stderr, "no memory is locked here: case left out\n");
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

START_TEST(a_list_of_segments_has_it)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int found = 0, code;

	((struct shm_header *)seg->header)->format++; /* of any version, damaged or not */
	EACH_ROW(row, code, NULL, LOCKSHM_LIST_SEGMENTS, NULL, 0)
		found += strcmp(row.segment, seg_name) == 0 && row.permissions == 0600 && row.uid == geteuid();
	ck_code(code, 0);
	ck_assert_int_eq(found, 1);
	((struct shm_header *)seg->header)->format--;
}
END_TEST

START_TEST(handles_are_checked)
{
	lockshm_t *s;

	ck_code(lockshm_close(NULL), 0);
	ck_code(lockshm_current(NULL), LOCKSHM_INVALID);
	ck_code(lockshm_open(&s, seg_name, 0, NULL), 0);
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_open(&s, seg_name, 0, NULL), 0); /* again and again, in addition to the test's own */
	ck_code(lockshm_current(s), 0);
	ck_code(lockshm_close(s), 0);
	ck_code(lockshm_current(seg), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, create_makes_what_was_asked_for_whatever_the_umask, 0, 2);
	tcase_add_test(tc, create_gives_the_segment_to_a_group);
	tcase_add_test(tc, create_for_a_foreign_group_is_refused);
	tcase_add_test(tc, create_existing_is_refused_or_opened);
	tcase_add_test(tc, names_are_checked);
	tcase_add_loop_test(tc, options_are_checked, 0, 11);
	tcase_add_test(tc, open_missing_is_no_segment);
	tcase_add_test(tc, retired_handle_gets_no_segment);
	tcase_add_test(tc, removal_wakes_sleepers);
	tcase_add_test(tc, segment_made_anew_is_another_one);
	tcase_add_test(tc, name_removed_by_hand_is_noticed);
	tcase_add_test(tc, create_or_open_replaces_a_half_removed_segment);
	tcase_add_test(tc, create_or_open_never_removes_a_fresh_segment);
	tcase_add_test(tc, full_shm_is_no_memory_and_keeps_nothing);
	tcase_add_test(tc, file_size_limit_is_no_memory_and_no_signal);
	tcase_add_native(tc, locked_memory_is_no_memory_with_limit_and_need);
	tcase_add_test(tc, a_list_of_segments_has_it);
	tcase_add_test(tc, handles_are_checked);
}

int main(void)
{
	return fixture_main("segment", add);
}
