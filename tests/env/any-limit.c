/* SPDX-License-Identifier: MIT */
/*
 * any-limit.c - small programs under every limit of address space, stack, descriptors and threads, from none to enough
 *
 * The test starts itself as each of them.  None crashes or hangs, a failure is NO_MEMORY or SYSTEM, nothing is left,
 * and each works from some limit on.  A limit under which a program that makes no call of the library does not even
 * begin is the loader's: the kernel or ld.so ends it.
 */
#define _GNU_SOURCE
#include "env.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/asan.h"

#define FAILED 100 /* exit status: minus the code is added */

/* ---------------------------------------------------------------- the programs */

static int nothing(const char *unused)
{
	return unused ? 0 : LOCKSHM_SYSTEM;
}

static int create(const char *name)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	char other[80];
	int code;

	snprintf(other, sizeof(other), "%s-made", name);
	options.keys = options.requests = 64;
	options.owners = 8;
	code = lockshm_create(NULL, other, &options, NULL);
	return code ? code : lockshm_destroy(other, NULL);
}

static int take(lockshm_t *s, unsigned flags)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold;
	int code;

	request.key = "key";
	request.key_len = 3;
	request.flags = flags;
	request.timeout_ns = LOCKSHM_FOREVER;
	code = lockshm_acquire(s, &request, &hold);
	return code ? code : lockshm_release(&hold, 0);
}

static int once(const char *name, int (*run)(lockshm_t *s))
{
	lockshm_t *s;
	int code = lockshm_open(&s, name, LOCKSHM_OPEN_ANY_OWNER, NULL);

	if (code)
		return code;
	code = run(s);
	CHECK_CODE(lockshm_close(s), 0);
	return code;
}

static int take_plain(lockshm_t *s)
{
	return take(s, 0);
}

static int acquire(const char *name)
{
	return once(name, take_plain);
}

static int take_renewed(lockshm_t *s)
{
	return take(s, LOCKSHM_AUTO_RENEW);
}

static int renew(const char *name)
{
	return once(name, take_renewed);
}

static void *take_in_thread(void *segment)
{
	return (void *)(intptr_t)take(segment, 0);
}

/* A thread that the program cannot start is the program's. */
static int take_in_threads(lockshm_t *s)
{
	pthread_t threads[4];
	void *result;
	int i, n = 0, code = 0;

	while (n < 4 && pthread_create(&threads[n], NULL, take_in_thread, s) == 0)
		n++;
	for (i = 0; i < n; i++) {
		CHECK(pthread_join(threads[i], &result) == 0);
		code = result ? (int)(intptr_t)result : code;
	}
	return n < 4 && !code ? LOCKSHM_SYSTEM : code;
}

static int use_threads(const char *name)
{
	return once(name, take_in_threads);
}

static int look_at(lockshm_t *s)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code;

	EACH_ROW(row, code, s, LOCKSHM_LIST_BUSY, NULL, 0)
		continue;
	return code ? code : lockshm_verify(s, NULL, NULL, NULL);
}

static int look(const char *name)
{
	return once(name, look_at);
}

static const struct program {
	const char *name;
	int (*run)(const char *segment);
} programs[] = {
	{ "nothing", nothing }, { "create", create }, { "acquire", acquire },
	{ "renew", renew },	{ "threads", use_threads }, { "look", look },
};
#define PROGRAMS (sizeof(programs) / sizeof(programs[0]))

static int be_program(const char *name, const char *segment)
{
	size_t i;
	int code;

	for (i = 0; i < PROGRAMS; i++) {
		if (strcmp(programs[i].name, name) != 0)
			continue;
		code = programs[i].run(segment);
		return code ? FAILED - code : 0;
	}
	return 99;
}

/* ---------------------------------------------------------------- under a limit */

static const struct limit {
	const char *name;
	int what;
	rlim_t first, step, last;
} limits[] = {
	{ "address space", RLIMIT_AS, 512 << 10, 16 << 10, 48 << 20 },
	{ "stack", RLIMIT_STACK, 64 << 10, 16 << 10, 512 << 10 },
	{ "descriptors", RLIMIT_NOFILE, 0, 1, 16 },
};
#define LIMITS (sizeof(limits) / sizeof(limits[0]))

static void restrict_to(const struct limit *l, rlim_t value)
{
	/* Threads have stacks of this size. */
	struct rlimit stack = { 8 << 20, 8 << 20 }, none = { 0, 0 }, limit = { value, value };

	if (setrlimit(RLIMIT_CORE, &none) != 0 || (l->what != RLIMIT_STACK && setrlimit(RLIMIT_STACK, &stack) != 0) ||
	    setrlimit((__rlimit_resource_t)l->what, &limit) != 0)
		_exit(99);
}

/* Its wait status. */
static int run_under(const struct program *p, const struct limit *l, rlim_t value)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		env_broken("fork");
	if (pid == 0) {
		restrict_to(l, value);
		/* The loader writes why, which does not matter here. */
		if (!freopen("/dev/null", "w", stderr))
			_exit(99);
		execl("/proc/self/exe", "any-limit", p->name, env_name, (char *)NULL);
		_exit(98);
	}
	if (waitpid(pid, &status, 0) != pid)
		env_broken("waitpid");
	return status;
}

/* False = it fails, and says so. */
static bool works(const struct program *p, const struct limit *l, rlim_t value)
{
	int status = run_under(p, l, value), code = FAILED - (WIFEXITED(status) ? WEXITSTATUS(status) : 0);

	if (status == 0)
		return true;
	if (!WIFEXITED(status) || WEXITSTATUS(status) < FAILED)
		env_fail(__FILE__, __LINE__, "%s with %llu of %s: status 0x%x", p->name, (unsigned long long)value,
			 l->name, (unsigned)status);
	if (code != LOCKSHM_NO_MEMORY && code != LOCKSHM_SYSTEM)
		env_fail(__FILE__, __LINE__, "%s with %llu of %s: %s", p->name, (unsigned long long)value, l->name,
			 env_code_name(code));
	return false;
}

/* The first value with which a process begins. */
static rlim_t least(const struct limit *l)
{
	rlim_t value = l->first;

	while (value <= l->last && run_under(&programs[0], l, value) != 0)
		value += l->step;
	return value;
}

static void all_values(const struct program *p, const struct limit *l, rlim_t first)
{
	rlim_t value = first;
	char made[128];
	unsigned i;

	/* Fine steps where most of it happens, and coarse ones where only another stack has to fit. */
	for (i = 0; value <= l->last && !works(p, l, value); i++)
		value += l->step * (1 + i / 16);
	env_nothing_left(1);
	snprintf(made, sizeof(made), "%s-made", env_path());
	CHECK(access(made, F_OK) != 0);
	if (value > l->last)
		env_fail(__FILE__, __LINE__, "%s does not work with %llu of %s", p->name, (unsigned long long)l->last,
			 l->name);
	printf("%-14s %-8s begins with %llu, works with %llu\n", l->name, p->name, (unsigned long long)first,
	       (unsigned long long)value);
}

int main(int argc, char **argv)
{
	rlim_t first;
	size_t i, k;

	if (argc == 3)
		return be_program(argv[1], argv[2]);
	if (UNDER_ASAN || env_emulated())
		env_skip("needs more memory than any limit here");
	env_create(NULL);
	for (i = 0; i < LIMITS; i++)
		for (k = 1, first = least(&limits[i]); k < PROGRAMS; k++)
			all_values(&programs[k], &limits[i], first);
	return 0;
}
