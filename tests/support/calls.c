/* SPDX-License-Identifier: MIT */
/*
 * calls.c - see calls.h
 *
 * close() and munmap() always run: a failure of theirs would itself leave something.  So do the calls with which the C
 * library makes its own locks and threads, since it ends the process if these fail.
 */
#define _GNU_SOURCE
#include "support/calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/asan.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

#define CALLS_MAX 100000 /* no operation makes as many */
/* Calls of the caller that no other code makes. */
#define ACT_ENDS SYS_sched_get_priority_max
#define ALL_ENDS SYS_sched_get_priority_min

struct calls_round *calls_now;
static int listener, memory;
static pid_t caller_tid;

/* ---------------------------------------------------------------- which call may fail, and how */

#define ERRORS_MAX 5
struct failure {
	int nr;
	int errors[ERRORS_MAX + 1]; /* up to a 0 */
};

/* Without the errors that are a fact and no failure: no such file, no such process. */
static const struct failure failures[] = {
	{ SYS_openat, { EMFILE, ENOMEM, EACCES, ENFILE } },
	{ SYS_newfstatat, { ENOMEM, EACCES } },
	{ SYS_fstat, { EIO } },
	{ SYS_statx, { ENOMEM, ENOSYS } },
	{ SYS_readlinkat, { ENOMEM, EACCES } },
	{ SYS_read, { EIO, EINTR } },
	{ SYS_pread64, { EIO, ENOMEM } },
	{ SYS_write, { ENOSPC, EINTR, EIO } },
	{ SYS_pwrite64, { ENOSPC, EINTR, EPERM } },
	{ SYS_getdents64, { ENOMEM, EIO } },
	{ SYS_mmap, { ENOMEM, EPERM, EAGAIN } },
	{ SYS_mprotect, { ENOMEM } },
	{ SYS_mremap, { ENOMEM } },
	{ SYS_madvise, { ENOMEM, EINVAL } },
	{ SYS_brk, { ENOMEM } },
	{ SYS_fallocate, { ENOSPC, EINTR, EIO, ENOMEM } },
	{ SYS_fchmod, { EPERM, EIO } },
	{ SYS_fchown, { EPERM } },
	{ SYS_linkat, { ENOSPC, EACCES, EPERM } },
	{ SYS_unlinkat, { EPERM, EROFS } },
	{ SYS_flock, { ENOLCK, EINTR } },
	{ SYS_fcntl, { EMFILE, EPERM } },
	{ SYS_getrandom, { ENOSYS, EINTR } },
	{ SYS_prlimit64, { EPERM } },
	{ SYS_clone, { EAGAIN, ENOMEM } },
	{ SYS_clone3, { EAGAIN, ENOMEM, EPERM } },
	{ SYS_futex_waitv, { ENOMEM, EAGAIN, EINTR, EPERM, ENOSYS } },
	{ SYS_membarrier, { EPERM, ENOSYS } },
	{ SYS_get_robust_list, { EPERM, ENOSYS } },
	{ SYS_set_robust_list, { ENOSYS } },
	{ SYS_sched_getaffinity, { EPERM } },
	{ SYS_sysinfo, { EPERM } },
	{ SYS_tgkill, { EPERM } },
	{ SYS_tkill, { EPERM } },
	{ SYS_nanosleep, { EPERM } },
	{ SYS_clock_nanosleep, { EPERM } },
#ifdef SYS_open /* machines with calls of former times */
	{ SYS_open, { EMFILE, ENOMEM, EACCES, ENFILE } },
	{ SYS_stat, { ENOMEM, EACCES } },
	{ SYS_lstat, { ENOMEM, EACCES } },
	{ SYS_readlink, { ENOMEM, EACCES } },
	{ SYS_unlink, { EPERM, EROFS } },
#endif
};

/* The library's own sleeps and wakes have this form.  The C library wakes one at a time. */
static const struct failure sleep_failure = { SYS_futex, { EAGAIN, EINTR, EPERM } };
static const struct failure wake_failure = { SYS_futex, { EPERM } };

static bool is_for_memory(const struct seccomp_data *call)
{
	return call->nr == SYS_brk || (call->nr == SYS_mmap && (int)call->args[4] == -1);
}

static const struct failure *failure_of(const struct seccomp_data *call)
{
	size_t i;

	if (call->nr == SYS_futex && call->args[1] == FUTEX_WAIT_BITSET)
		return &sleep_failure;
	if (call->nr == SYS_futex && call->args[1] == FUTEX_WAKE && call->args[2] == INT_MAX)
		return &wake_failure;
#ifdef OTHERS_MALLOC
	/* A sanitizer ends the process if one of its own calls fails. */
	if (is_for_memory(call) || call->nr == SYS_mprotect || call->nr == SYS_madvise || call->nr == SYS_sched_getaffinity)
		return NULL;
#endif
	if (call->nr == SYS_fcntl && call->args[1] != F_DUPFD_CLOEXEC)
		return NULL;
	for (i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
		if (failures[i].nr == call->nr)
			return &failures[i];
	return NULL;
}

/* ---------------------------------------------------------------- the child */

/* For all calls of this thread.  The descriptor to be asked on, or -1. */
static int filter(unsigned action)
{
	struct sock_filter all[] = { BPF_STMT(BPF_RET | BPF_K, action) };
	struct sock_fprog program = { 1, all };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

void calls_expect(bool condition, const char *what, int code)
{
	if (!condition && !calls_now->trouble[0])
		snprintf(calls_now->trouble, sizeof(calls_now->trouble), "%s: %s", what, lockshm_code_name(code));
}

static void *caller(void *unused)
{
	int fd, code = calls_now->prepare ? calls_now->prepare() : 0;

	calls_expect(code == 0, "prepare", code);
	caller_tid = (pid_t)syscall(SYS_gettid);
	fd = filter(SECCOMP_RET_USER_NOTIF);
	__atomic_store_n(&listener, fd, __ATOMIC_RELEASE);
	calls_now->code = calls_now->act(&calls_now->error);
	syscall(ACT_ENDS);
	if (calls_now->clean_up)
		calls_now->clean_up();
	syscall(ALL_ENDS);
	return unused;
}

static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static int threads(void)
{
	return entries("/proc/self/task");
}

/* Descriptors, and mappings of files in /dev/shm. */
static int belongings(void)
{
	char line[512];
	int n = entries("/proc/self/fd");
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, "/dev/shm/") != NULL;
	if (maps)
		fclose(maps);
	return n;
}

static int had_before, threads_before;

/* A thread that was joined may still be listed for a moment. */
static bool threads_are_gone(void *unused)
{
	(void)unused;
	return threads() - threads_before <= 1; /* the caller */
}

static void count_leaks(void)
{
	if (!await(threads_are_gone, NULL))
		calls_now->leaked = threads() - threads_before - 1;
	calls_now->leaked += belongings() - had_before - 1; /* the listener */
}

/* May this be the n-th call? */
static bool counts(const struct seccomp_notif *asked, const struct failure *failure)
{
	if (calls_now->of_children && (pid_t)asked->pid == caller_tid)
		return false;
	/* With a given errno: not those of malloc(), which differ with its state. */
	if (calls_now->fate > 0)
		return failure && !is_for_memory(&asked->data) && asked->data.nr != SYS_futex;
	return calls_now->fate == CALL_KILLS || failure;
}

static void refuse_sleep(const struct seccomp_notif *asked, struct seccomp_notif_resp *answer)
{
	if (asked->data.nr != SYS_futex_waitv && failure_of(&asked->data) != &sleep_failure)
		return;
	/* The first look for futex_waitv() is no sleep. */
	calls_now->sleeps += asked->data.args[1] != 0;
	if (asked->data.args[1] == 0)
		return;
	answer->flags = 0;
	answer->error = -(int)calls_now->choice;
}

static void refuse(const struct seccomp_notif *asked, const struct failure *failure, struct seccomp_notif_resp *answer)
{
	unsigned n = 0;

	while (failure->errors[n])
		n++;
	calls_now->choices = n;
	calls_now->failed_with = calls_now->fate > 0 ? calls_now->fate : failure->errors[calls_now->choice % n];
	/* No call is interrupted for ever. */
	if (calls_now->fate == CALLS_FAIL && calls_now->failed_with == EINTR)
		calls_now->failed_with = failure->errors[0];
	answer->flags = 0;
	/* brk() has no errors: it returns the break as it is. */
	if (asked->data.nr == SYS_brk)
		answer->val = (int64_t)(uintptr_t)sbrk(0);
	else
		answer->error = -calls_now->failed_with;
}

/* The caller, or a thread or process of it, is about to make a system call, its @*i-th. */
static void decide(const struct seccomp_notif *asked, struct seccomp_notif_resp *answer, unsigned *i)
{
	const struct failure *failure = failure_of(&asked->data);
	unsigned me;

	answer->id = asked->id;
	answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	if (calls_now->fate == SLEEPS_FAIL)
		refuse_sleep(asked, answer);
	if (calls_now->fate == SLEEPS_FAIL || !counts(asked, failure))
		return;
	me = (*i)++;
	if (calls_now->fate == CALLS_FAIL && me > calls_now->n && calls_now->nr == asked->data.nr)
		refuse(asked, failure, answer);
	if (me != calls_now->n)
		return;
	calls_now->nr = asked->data.nr;
	if (calls_now->fate == CALL_KILLS)
		kill(getpid(), SIGKILL);
	refuse(asked, failure, answer);
}

/* False = the asking thread has been killed meanwhile, or the other end has closed. */
static bool supervise_one(int fd, bool *act, unsigned *i)
{
	struct seccomp_notif asked;
	struct seccomp_notif_resp answer;

	memset(&asked, 0, sizeof(asked));
	memset(&answer, 0, sizeof(answer));
	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
		return errno == ENOENT || errno == EINTR;
	answer.id = asked.id;
	answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	if (asked.data.nr == ALL_ENDS) {
		count_leaks();
		_exit(0);
	}
	if (asked.data.nr == ACT_ENDS)
		*act = false;
	else if (*act)
		decide(&asked, &answer, i);
	return ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 || errno == ENOENT;
}

void calls_supervise(void)
{
	pthread_t thread;
	bool act = true;
	unsigned i = 0, n;
	int fd;

	had_before = belongings();
	threads_before = threads();
	if (pthread_create(&thread, NULL, caller, NULL) != 0)
		_exit(99);
	while ((fd = __atomic_load_n(&listener, __ATOMIC_ACQUIRE)) == 0)
		sched_yield();
	for (n = 0; n < CALLS_MAX && supervise_one(fd, &act, &i); n++)
		;
	_exit(99);
}

/* ---------------------------------------------------------------- the test */

static bool map_memory(void)
{
	calls_now = mmap(NULL, sizeof(*calls_now), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	return calls_now != MAP_FAILED;
}

void calls_prepare(void)
{
	memory = memfd_create("round", 0);
	ck_assert(memory >= 0 && ftruncate(memory, sizeof(*calls_now)) == 0 && map_memory());
}

static void begin_anew(void)
{
	char fd[16];

	snprintf(fd, sizeof(fd), "%d", memory);
	execl("/proc/self/exe", "test", "fresh", fd, (char *)NULL);
	_exit(99);
}

void calls_resume(const char *fd)
{
	memory = atoi(fd);
	if (!map_memory())
		_exit(99);
	snprintf(seg_name, sizeof(seg_name), "%s", calls_now->segment);
}

bool calls_round(const struct calls_round *round)
{
	int status;
	pid_t pid;

	*calls_now = *round;
	calls_now->nr = -1;
	snprintf(calls_now->segment, sizeof(calls_now->segment), "%s", seg_name);
	pid = fork();
	if (pid == 0 && round->fresh)
		begin_anew();
	if (pid == 0)
		calls_supervise();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (calls_now->nr >= 0 && round->fate == CALL_KILLS)
		calls_hold(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	else
		ck_assert_msg(status == 0, "call %u (number %d, errno %d): the process ended with status 0x%x",
			      round->n, calls_now->nr, calls_now->failed_with, (unsigned)status);
	ck_assert_msg(!calls_now->trouble[0], "call %u (number %d, errno %d): it returned %s: %s; %s", round->n,
		      calls_now->nr, calls_now->failed_with, lockshm_code_name(calls_now->code),
		      calls_now->error.message, calls_now->trouble);
	return calls_now->nr >= 0;
}

bool calls_can_fail(void)
{
	int status;
	pid_t pid;

	if (emulated())
		return false;
	pid = fork();
	if (pid == 0)
		_exit(filter(SECCOMP_RET_ALLOW) >= 0 ? 0 : 1);
	return waitpid(pid, &status, 0) == pid && status == 0;
}
