/* SPDX-License-Identifier: MIT */
/*
 * limits.c - limits of resources: a clear error, or everything works; never a signal, never a leftover
 */
#define _GNU_SOURCE
#include "env.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int limit(int what, rlim_t value)
{
	struct rlimit l = { value, value };

	return setrlimit(what, &l);
}

static int strict(struct subject *p, int hold, const char *key, unsigned flags)
{
	return subject_acquire(p, hold, key, LOCKSHM_EXCLUSIVE, flags & LOCKSHM_AUTO_RENEW ? LOCKSHM_SECONDS(1) : LOCKSHM_FOREVER,
			      0, flags | ACKNOWLEDGES);
}

/* A death hands over, a release frees: under every limit. */
static void works(struct subject *p)
{
	struct subject *other = subject_start(NULL);

	CHECK_CODE(strict(p, 0, "key", 0), 0);
	subject_begin(other, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	CHECK_CODE(subject_release(p, 0), 0);
	CHECK_CODE(subject_end(other), 0);
	subject_begin(p, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	subject_kill(other);
	CHECK_CODE(subject_end(p), LOCKSHM_OWNER_DIED);
	other = subject_start(NULL);
	subject_begin(other, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	subject_kill(p);
	CHECK_CODE(subject_end(other), LOCKSHM_OWNER_DIED);
	subject_kill(other);
	env_nothing_left(1);
}

/* ---------------------------------------------------------------- files */

static int largest_descriptor(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int max = 0;

	while (dir && (entry = readdir(dir)))
		if (atoi(entry->d_name) > max && atoi(entry->d_name) != dirfd(dir))
			max = atoi(entry->d_name);
	if (dir)
		closedir(dir);
	return max;
}

/* All below the largest are filled, so that @more are left. */
static int few_descriptors(void *more)
{
	int top = largest_descriptor(), fd;

	do
		fd = dup(0);
	while (fd >= 0 && fd < top);
	if (fd > top)
		close(fd);
	return limit(RLIMIT_NOFILE, (rlim_t)(top + 1 + *(int *)more));
}

static void descriptors(void)
{
	int more, worked = 0;

	for (more = 0; more < 5; more++) {
		struct environment where = { .prepare = few_descriptors, .arg = &more };
		struct subject *p;

		env_create(NULL);
		p = subject_start(&where);
		if (p->answer.code == 0) {
			worked++;
			works(p);
			continue;
		}
		CHECK_CODE(p->answer.code, LOCKSHM_SYSTEM);
		CHECK(strstr(p->answer.report.error.message, "open files") != NULL);
		subject_kill(p);
		env_nothing_left(1);
	}
	CHECK(worked > 0);
}

static int small_files(void *bytes)
{
	return limit(RLIMIT_FSIZE, *(rlim_t *)bytes);
}

static void file_size(void)
{
	rlim_t bytes = 4096;
	struct environment where = { .prepare = small_files, .arg = &bytes, .dont_open = true };
	struct subject *p;

	env_create(NULL);
	lockshm_close(env_segment);
	unlink(env_path());
	env_segment = NULL;
	p = subject_start(&where);
	CHECK_CODE(subject_create(p, 0600), LOCKSHM_NO_MEMORY);
	CHECK(strstr(p->answer.report.error.message, "ulimit -f") != NULL);
	CHECK(access(env_path(), F_OK) != 0);
	subject_kill(p);
	/* An existing segment works all the same. */
	env_create(NULL);
	p = subject_start(&where);
	CHECK_CODE(subject_open(p, 0), 0);
	works(p);
}

/* ---------------------------------------------------------------- memory */

static size_t mapped(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int little_memory(void *more)
{
	size_t now = mapped();

	return now ? limit(RLIMIT_AS, now + *(size_t *)more) : -1;
}

/* An emulator needs memory of its own and ignores the limit. */
static bool limits_address_space(void)
{
	size_t none = 0;
	int status;
	pid_t pid = fork();

	if (pid < 0)
		env_broken("fork");
	if (pid == 0)
		_exit(little_memory(&none) == 0 && mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	if (waitpid(pid, &status, 0) != pid)
		env_broken("waitpid");
	return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void address_space(void)
{
	size_t kib, more;
	int worked = 0, refused = 0;

	if (!limits_address_space()) {
		printf("not tried: RLIMIT_AS has no effect here\n");
		return;
	}
	for (kib = 0; kib <= 1024; kib += 32) {
		struct environment where = { .prepare = little_memory, .arg = &more };
		struct subject *p;
		int code;

		more = kib * 1024;
		env_create(NULL);
		p = subject_start(&where);
		code = p->answer.code ? p->answer.code : strict(p, 0, "key", 0);
		if (code == 0) {
			CHECK_CODE(subject_release(p, 0), 0);
			works(p);
			worked++;
			continue;
		}
		CHECK_CODE(code, LOCKSHM_NO_MEMORY);
		subject_kill(p);
		env_nothing_left(1);
		refused++;
	}
	CHECK(worked > 0 && refused > 0);
}

static int no_locked_memory(void *unused)
{
	(void)unused;
	return limit(RLIMIT_MEMLOCK, 0);
}

static void locked_memory(void)
{
	struct environment where = { .prepare = no_locked_memory };

	env_create(NULL);
	works(subject_start(&where));
}

/* ---------------------------------------------------------------- threads */

static int no_threads(void *unused)
{
	(void)unused;
	return limit(RLIMIT_NPROC, 1);
}

static int move_it(void)
{
	return lockshm_move(&my_holds[0], LOCKSHM_TO_PROCESS);
}

/* Auto-renewal and a hold of the process need the service thread.  Without it the calls fail and change nothing. */
static void processes(void)
{
	struct environment where = { .change_user = true, .uid = 54321, .gid = 54321, .prepare = no_threads,
				       .open_flags = LOCKSHM_OPEN_ANY_OWNER };
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct subject *p;

	if (geteuid() != 0) {
		printf("not root: RLIMIT_NPROC is not tried\n");
		return;
	}
	options.keys = options.requests = 64;
	options.owners = 16;
	options.permissions = 0666;
	env_create(&options);
	p = subject_start(&where);
	CHECK_CODE(p->answer.code, 0);
	CHECK_CODE(strict(p, 0, "renewed", LOCKSHM_AUTO_RENEW), LOCKSHM_SYSTEM);
	CHECK(strstr(p->answer.report.error.message, "service thread") != NULL);
	CHECK_CODE(strict(p, 0, "key", 0), 0);
	CHECK_CODE(subject_call(p, move_it), LOCKSHM_SYSTEM);
	CHECK_CODE(subject_check(p, 0), 0);
	CHECK_CODE(strict(p, 1, "renewed", 0), 0);
	CHECK_CODE(subject_release(p, 1), 0);
	CHECK_CODE(subject_release(p, 0), 0);
	works(p);
}

int main(void)
{
	descriptors();
	file_size();
	address_space();
	locked_memory();
	processes();
	return 0;
}
