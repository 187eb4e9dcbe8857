/* SPDX-License-Identifier: MIT */
/*
 * env.c - see env.h
 */
#define _GNU_SOURCE
#include "env.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define END_S 900 /* no test takes longer, emulated or with a thousand processes */
#define PLENTY (UINT64_C(512) << 20) /* bytes in /dev/shm */

lockshm_t *env_segment;
char env_name[64];

static char path[96];
static pid_t test_pid;

/* ---------------------------------------------------------------- ends */

static void clean_up(void)
{
	if (getpid() != test_pid)
		return;
	subjects_end();
	unlink(path);
}

/* Processes that inherit the handler end as without it. */
static void on_signal(int sig)
{
	static const char text[] = "FAIL: the test does not come to an end\n";

	if (sig == SIGALRM && write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(1);
	clean_up();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void begin(void)
{
	static const int signals[] = { SIGALRM, SIGHUP, SIGINT, SIGTERM };
	struct sigaction action = { .sa_handler = on_signal };
	size_t i;

	test_pid = getpid();
	snprintf(env_name, sizeof(env_name), "/lockshm-env-%d", (int)test_pid);
	snprintf(path, sizeof(path), "/dev/shm%s", env_name);
	atexit(clean_up);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigaction(signals[i], &action, NULL) != 0)
			env_broken("sigaction");
	alarm(END_S);
}

void env_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: FAIL: ", file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

const char *env_code_name(int code)
{
	return code == SUBJECT_ENDED ? "SUBJECT_ENDED" : lockshm_code_name(code);
}

void env_skip(const char *format, ...)
{
	va_list args;

	printf("skipped: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	exit(77);
}

void env_broken(const char *what)
{
	fprintf(stderr, "the test itself is broken: %s: %s\n", what, strerror(errno));
	exit(99);
}

/* ---------------------------------------------------------------- the test's tools */

const char *env_path(void)
{
	return path;
}

/* Is a lack of room expected here? */
static bool shm_is_small(void)
{
	struct statvfs fs;

	return statvfs("/dev/shm", &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < PLENTY;
}

void env_create(const struct lockshm_create_options *options)
{
	struct lockshm_create_options small = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	int code;

	if (!test_pid)
		begin();
	if (env_segment)
		lockshm_close(env_segment);
	unlink(path);
	small.keys = 64;
	small.requests = 256;
	small.owners = 32;
	code = lockshm_create(&env_segment, env_name, options ? options : &small, &error);
	if (code == LOCKSHM_NO_MEMORY && shm_is_small())
		env_skip("%s", error.message);
	if (code != 0)
		env_fail(__FILE__, __LINE__, "create: %s", error.message);
}

void env_need_root(void)
{
	if (geteuid() != 0)
		env_skip("needs root");
}

bool env_emulated(void)
{
	struct robust_list_head *head;
	size_t len;

	return syscall(SYS_get_robust_list, 0, &head, &len) != 0;
}

void env_need_robust_futexes(void)
{
	if (env_emulated())
		env_skip("no robust futexes: an emulator?");
}

int64_t env_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void env_nap_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

void env_await(bool (*done)(void *arg), void *arg, const char *what)
{
	int64_t until = env_now() + ENV_PATIENCE_MS * INT64_C(1000000);

	while (!done(arg)) {
		if (env_now() > until)
			env_fail(__FILE__, __LINE__, "does not happen: %s", what);
		nanosleep(&(struct timespec){ 0, 100000 }, NULL);
	}
}

static void print_problem(const char *invariant, const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s: %s\n", invariant, text);
}

void env_verify(void)
{
	size_t n;

	if (lockshm_verify(env_segment, print_problem, NULL, &n) != 0)
		env_fail(__FILE__, __LINE__, "verify finds %zu problems", n);
}

void env_nothing_left(uint32_t owners)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	CHECK_CODE(lockshm_sweep(env_segment, NULL), 0);
	CHECK_CODE(lockshm_stat(env_segment, &stat), 0);
	if (stat.keys_busy || stat.keys_left || stat.requests_used || stat.owners_dead || stat.owners_used > owners)
		env_fail(__FILE__, __LINE__, "left: %u locks, %u requests, %u owners, %u dead ones",
			 stat.keys_busy + (unsigned)stat.keys_left,
			 stat.requests_used, stat.owners_used, stat.owners_dead);
	env_verify();
}
