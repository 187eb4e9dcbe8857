/* SPDX-License-Identifier: MIT */
/* fixture.c - see fixture.h */
#define _GNU_SOURCE
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

#define SHM_DIR "/dev/shm"

lockshm_t *seg;
char seg_name[128];

static pid_t runner;
static unsigned n_segments;

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

bool emulated(void)
{
	void *head;
	size_t len;

	return syscall(SYS_get_robust_list, 0, &head, &len) != 0 && errno == ENOSYS;
}

static void nap(int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	nanosleep(&ts, NULL);
}

bool await(bool (*done)(void *arg), void *arg)
{
	int64_t end = ran_ns() + PATIENCE;

	while (!done(arg)) {
		if (ran_ns() > end)
			return false;
		nap(50000);
	}
	return true;
}

void pass(int64_t when_ns)
{
	int64_t left;

	while ((left = when_ns - now_ns()) >= 0)
		nap(left + 1000);
}

static void prefix_of(pid_t pid, char *out, size_t size)
{
	snprintf(out, size, "lockshm-test-%d-", (int)pid);
}

static void new_name(void)
{
	char prefix[64];

	prefix_of(runner, prefix, sizeof(prefix));
	snprintf(seg_name, sizeof(seg_name), "/%s%d-%u", prefix, (int)getpid(), n_segments++);
}

const char *other_name(const char *suffix)
{
	static char names[4][256];
	static unsigned next;
	char *name = names[next++ % 4];

	snprintf(name, sizeof(names[0]), "%s-%s", seg_name, suffix);
	return name;
}

const char *path_of(const char *name)
{
	static char path[300];

	snprintf(path, sizeof(path), SHM_DIR "/%s", name + (name[0] == '/'));
	return path;
}

static void make(const struct lockshm_create_options *options)
{
	struct lockshm_error error = { 0 };
	int code;

	new_name();
	code = lockshm_create(&seg, seg_name, options, &error);
	ck_assert_msg(code == 0, "create: %s: %s", lockshm_code_name(code), error.message);
}

static void unmake(void)
{
	if (!seg)
		return;
	lockshm_close(seg);
	lockshm_destroy(seg_name, NULL);
	seg = NULL;
}

void segment_with(uint32_t locks, uint32_t requests, uint32_t owners)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	unmake();
	options.keys = locks;
	options.requests = requests;
	options.owners = owners;
	make(&options);
}

static void setup(void)
{
	segment_with(256, 2048, 128);
}

static void teardown(void)
{
	agents_end();
	unmake();
}

/* Files of failed tests: their processes ended before the teardown. */
static void remove_leftovers(void)
{
	char prefix[64], path[600];
	struct dirent *entry;
	DIR *dir = opendir(SHM_DIR);

	if (!dir)
		return;
	prefix_of(runner, prefix, sizeof(prefix));
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		snprintf(path, sizeof(path), SHM_DIR "/%s", entry->d_name);
		unlink(path);
	}
	closedir(dir);
}

int fixture_main(const char *name, void (*add)(TCase *tc))
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create(name);
	SRunner *sr = srunner_create(suite);
	int failed;

	runner = getpid();
	stalls_watch();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 180);
	add(tc);
	suite_add_tcase(suite, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	remove_leftovers();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

struct lockshm_request request_for(const char *key, int mode)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;

	request.key = key;
	request.key_len = strlen(key);
	request.mode = mode;
	request.ttl_ns = LOCKSHM_FOREVER;
	request.timeout_ns = 0;
	return request;
}

void object_for(lockshm_lock_t *lock, const char *key)
{
	struct lockshm_request request = LOCKSHM_REQUEST(key);

	ck_code(lockshm_lock_init(lock, seg, &request), 0);
}

int take(lockshm_hold_t *hold, const char *key, int mode)
{
	return take_for(hold, key, mode, LOCKSHM_FOREVER);
}

int take_for(lockshm_hold_t *hold, const char *key, int mode, int64_t ttl_ns)
{
	struct lockshm_request request = request_for(key, mode);

	request.ttl_ns = ttl_ns;
	return lockshm_acquire(seg, &request, hold);
}

int take_robust(lockshm_hold_t *hold, const char *key, int mode)
{
	struct lockshm_request request = request_for(key, mode);

	request.flags = LOCKSHM_ROBUST;
	return lockshm_acquire(seg, &request, hold);
}

void look(const char *key, struct seen *out)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	size_t n = 0;
	int code;

	memset(out, 0, sizeof(*out));
	EACH_ROW(row, code, seg, LOCKSHM_LIST_KEY, key, strlen(key))
	{
		if (row.request.state == 0) {
			out->mode = row.mode;
			out->damaged = row.damage.status != 0;
			out->key_len = row.key_len;
			out->holders = row.holders;
			out->waiters = row.waiters;
			out->damage = row.damage;
		} else if (n < SEEN_MAX) {
			out->requests[n] = row.request;
			out->alive[n] = row.alive;
			out->global[n++] = row.global;
		}
	}
	ck_code(code, 0);
}

struct lockshm_stat stat_now(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	ck_code(lockshm_stat(seg, &stat), 0);
	return stat;
}

static void print_problem(const char *invariant, const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "verify: %s: %s\n", invariant, text);
}

void verify_clean_of(lockshm_t *segment)
{
	size_t n;
	int code = lockshm_verify(segment, print_problem, NULL, &n);

	ck_assert_msg(code == 0 && n == 0, "verify returns %s, %zu problems", lockshm_code_name(code), n);
}

void verify_clean(void)
{
	verify_clean_of(seg);
}

const char *outcome_name(int code)
{
	if (code == AGENT_BLOCKED)
		return "blocked";
	if (code == AGENT_DIED)
		return "died";
	return lockshm_code_name(code);
}

int as_user(uid_t uid, int (*test)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (setgid(uid) != 0 || setuid(uid) != 0)
			_exit(100);
		_exit(test());
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

bool not_root(void)
{
	if (geteuid() == 0)
		return false;
	fprintf(stderr, "not root: case left out\n");
	return true;
}
