/* SPDX-License-Identifier: MIT */
/*
 * test-segment-calls.c - making, opening and removing a segment, where each system call fails or is the last
 *
 * A child process has two threads.  The caller makes the call of the library under a seccomp filter; the kernel reports
 * each of its system calls to the supervisor, which lets all but the n-th run.  The n-th fails with the error of the
 * round, or the process is killed before it.  n rises from round to round until the call returns before its n-th system
 * call, so every system call and every gap between two is covered.  The test process has the segment open all the time
 * and checks the rest.
 *
 * close() and munmap() always run: a failure of theirs would itself leave something.  The same goes for futex() and
 * mmap() without a file, which are not the library's: malloc() may end the process when that fails.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "support/fixture.h"

#define CALLS_MAX 400 /* no operation makes as many */
#define THE_END SYS_sched_get_priority_max /* the caller's last call: no other code makes it */

enum { KILLED = 0 }; /* in the place of an errno */

/* A round and its results; shared with the child. */
struct round {
	int (*act)(struct lockshm_error *error);
	int fate; /* errno of the n-th call, or KILLED */
	unsigned n;
	int nr; /* which call that was; -1 = there was none */
	int code;
	struct lockshm_error error;
	int leaked; /* descriptors and mappings */
};
static struct round *now;
static const char *name; /* of the segment that comes and goes */
static int listener;

/* ---------------------------------------------------------------- the child */

/* For all calls of this thread.  The descriptor to be asked on, or -1. */
static int filter(unsigned action)
{
	struct sock_filter all[] = { BPF_STMT(BPF_RET | BPF_K, action) };
	struct sock_fprog program = { 1, all };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void *caller(void *unused)
{
	__atomic_store_n(&listener, filter(SECCOMP_RET_USER_NOTIF), __ATOMIC_RELEASE);
	now->code = now->act(&now->error);
	syscall(THE_END);
	return unused;
}

/* Descriptors, and mappings of files in /dev/shm. */
static int belongings(void)
{
	struct dirent *entry;
	char line[512];
	int n = 0;
	DIR *dir = opendir("/proc/self/fd");
	FILE *maps = fopen("/proc/self/maps", "re");

	while (dir && (entry = readdir(dir)))
		n++;
	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, "/dev/shm/") != NULL;
	if (maps)
		fclose(maps);
	if (dir)
		closedir(dir);
	return n;
}

static bool may_fail(const struct seccomp_data *call)
{
	if (call->nr == SYS_mmap && (int)call->args[4] == -1)
		return false;
	return call->nr != SYS_close && call->nr != SYS_munmap && call->nr != SYS_futex;
}

/* The caller is about to make its @i-th system call. */
static void decide(const struct seccomp_notif *asked, struct seccomp_notif_resp *answer, unsigned i)
{
	answer->id = asked->id;
	answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	if (i != now->n)
		return;
	now->nr = asked->data.nr;
	if (now->fate == KILLED)
		kill(getpid(), SIGKILL);
	if (!may_fail(&asked->data))
		return;
	answer->flags = 0;
	answer->error = -now->fate;
}

static void supervise(void)
{
	struct seccomp_notif asked;
	struct seccomp_notif_resp answer;
	pthread_t thread;
	unsigned i;
	int fd, before = belongings();

	if (pthread_create(&thread, NULL, caller, NULL) != 0)
		_exit(99);
	while ((fd = __atomic_load_n(&listener, __ATOMIC_ACQUIRE)) == 0)
		sched_yield();
	for (i = 0; i < CALLS_MAX; i++) {
		memset(&asked, 0, sizeof(asked));
		memset(&answer, 0, sizeof(answer));
		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
			_exit(99);
		if (asked.data.nr == THE_END) {
			now->leaked = belongings() - before - 1; /* the listener */
			_exit(0);
		}
		decide(&asked, &answer, i);
		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) != 0)
			_exit(99);
	}
	_exit(99);
}

/* ---------------------------------------------------------------- the test */

/* A condition, with the round in the message. */
#define holds(condition)                                                                                               \
	ck_assert_msg(condition, "call %u (number %d, errno %d): %s; it returned %s: %s", now->n, now->nr, now->fate,  \
		      #condition, lockshm_code_name(now->code), now->error.message)

/* One round.  False = the call was over before its n-th system call. */
static bool meets(int (*act)(struct lockshm_error *error), int fate, unsigned n)
{
	int status;
	pid_t pid;

	*now = (struct round){ .act = act, .fate = fate, .n = n, .nr = -1 };
	pid = fork();
	if (pid == 0)
		supervise();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (now->nr >= 0 && fate == KILLED)
		holds(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	else
		holds(status == 0);
	return now->nr >= 0;
}

static int create_it(unsigned flags, struct lockshm_error *error)
{
	struct lockshm_create_options o = LOCKSHM_CREATE_INIT;

	o.locks = 64;
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

		more = meets(destroy, KILLED, n);
		told_before_replaced(old);
	}
	ck_assert_uint_gt(n, 4);
}
END_TEST

static const int errors[] = { EIO, ENOMEM, EPERM };
#define ERRORS (sizeof(errors) / sizeof(errors[0]))

START_TEST(destroy_fails_at_each_call)
{
	unsigned n;
	bool more = true;

	for (n = 0; more; n++) {
		lockshm_t *old = used_segment();

		more = meets(destroy, errors[_i], n);
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

	for (n = 0; meets(act, errors[_i / 2], n); n++) {
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

	for (n = 0; meets(create, KILLED, n); n++) {
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
		more = meets(act, errors[_i / 2], n);
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
	for (n = 0; meets(open_and_close, errors[_i], n); n++)
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

	*now = (struct round){ .nr = -1 };
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
	now = mmap(NULL, sizeof(*now), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(now != MAP_FAILED);
	name = other_name("calls");
}

/* Not under an emulator, nor under a filter that forbids it. */
static bool can_listen(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(filter(SECCOMP_RET_ALLOW) >= 0 ? 0 : 1);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, prepare, NULL);
	if (!emulated()) {
		tcase_add_loop_test(tc, destroy_without_room_to_map, 0, 3);
		tcase_add_test(tc, create_without_room_to_map_leaves_nothing);
	}
	if (emulated() || !can_listen()) {
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
