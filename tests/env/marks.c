/* SPDX-License-Identifier: MIT */
/*
 * marks.c - killed workers on unique keys: what they leave in the table
 *
 *   env-marks [WORKERS]       3000 if not given, 300 if emulated
 *
 * Each worker takes a key of its own and is killed with it.  Plain keys leave nothing, however many they are.  Robust
 * keys leave a mark each, none of which is lost; details of some are.  Once marks fill the table, an acquire of a new key
 * returns FULL and names the command that acknowledges them; after that the table takes keys again.
 */
#define _GNU_SOURCE
#include "env.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCKS 256 /* so the pool of details has room for 64 */
#define PLACES (4 * LOCKS) /* more than the table has */

static struct lockshm_request request_of(char key[32], const char *kind, unsigned n)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;

	snprintf(key, 32, "%s-%u", kind, n);
	request.key = key;
	request.key_len = strlen(key);
	request.timeout_ns = 0;
	request.tag = key;
	return request;
}

/* What its acquire returned; with 0 it was killed inside. */
static int let_die(const char *kind, unsigned n, unsigned flags, pid_t *died)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	char key[32];
	struct lockshm_request request = request_of(key, kind, n);
	int status;

	request.flags = flags;
	*died = fork();
	if (*died < 0)
		env_broken("fork");
	if (*died == 0) {
		int code = lockshm_acquire(env_segment, &request, &hold);

		if (code == 0)
			kill(getpid(), SIGKILL);
		_exit(code == LOCKSHM_FULL ? 100 : 101);
	}
	if (waitpid(*died, &status, 0) != *died)
		env_broken("waitpid");
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 100)
		return LOCKSHM_FULL;
	env_fail(__FILE__, __LINE__, "%s: status %#x", key, (unsigned)status);
}

static struct lockshm_stat stat_now(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	CHECK_CODE(lockshm_stat(env_segment, &stat), 0);
	return stat;
}

static void plain_keys_leave_nothing(unsigned workers)
{
	unsigned i;
	pid_t pid;

	for (i = 0; i < workers; i++)
		CHECK_CODE(let_die("plain", i, 0, &pid), 0);
	CHECK(lockshm_sweep(env_segment, NULL) >= 0);
	CHECK(stat_now().keys_damaged == 0 && stat_now().keys_busy == 0);
	env_nothing_left(1);
}

/* Until the table is full, or has @most; their pids. */
static unsigned fill(pid_t pids[PLACES], unsigned most)
{
	unsigned n = 0;
	pid_t pid;

	while (n < most && let_die("robust", n, LOCKSHM_ROBUST, &pid) == 0) {
		CHECK(n < PLACES);
		pids[n++] = pid;
	}
	return n;
}

/* The mark of each is there; what it says is true.  Return: how many say which process it was. */
static unsigned see_all(const pid_t *pids, unsigned n)
{
	unsigned i, known = 0;

	for (i = 0; i < n; i++) {
		lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
		struct lockshm_report report = LOCKSHM_REPORT_INIT;
		char key[32];
		struct lockshm_request request = request_of(key, "robust", i);
		const struct lockshm_damage *damage = &report.damage;

		request.flags = i % 2 ? LOCKSHM_ROBUST : 0;
		request.report = &report;
		CHECK_CODE(lockshm_acquire(env_segment, &request, &hold), i % 2 ? LOCKSHM_OWNER_DIED : 0);
		CHECK_CODE(damage->status, LOCKSHM_OWNER_DIED);
		CHECK(damage->token > 0 && damage->token < lockshm_token(&hold));
		if (damage->pid) {
			known++;
			CHECK(damage->pid == pids[i] && strcmp(damage->tag, key) == 0);
		}
		CHECK_CODE(lockshm_release(&hold, 0), 0);
	}
	return known;
}

static void table_is_full(void)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	char key[32];
	struct lockshm_request request = request_of(key, "robust", LOCKS);
	unsigned i;

	/* A key has its place in a part of the table: some part has none left. */
	request.report = &report;
	for (i = 0; i < PLACES; i++) {
		int code;

		request.key_len = (size_t)snprintf(key, sizeof(key), "more-%u", i);
		code = lockshm_acquire(env_segment, &request, &hold);
		if (code == LOCKSHM_FULL)
			break;
		CHECK_CODE(code, 0);
		CHECK_CODE(lockshm_release(&hold, 0), 0);
	}
	CHECK_CODE(report.error.code, LOCKSHM_FULL);
	if (!strstr(report.error.message, "lockctl ack"))
		env_fail(__FILE__, __LINE__, "FULL, \"%s\"", report.error.message);
}

static void robust_keys_keep_their_marks(void)
{
	static pid_t pids[PLACES];
	unsigned n = fill(pids, UINT_MAX), known;
	size_t cleared = 0;

	known = see_all(pids, n);
	CHECK(stat_now().keys_damaged == n);
	CHECK(known > 0);
	table_is_full();
	CHECK_CODE(clear_all_marks(env_segment, &cleared), 0);
	CHECK(cleared == n);
	CHECK(stat_now().keys_damaged == 0);
	/* Other marks of the same keys, most of which are where they were. */
	CHECK(fill(pids, LOCKS / 2) == LOCKS / 2);
	(void)see_all(pids, LOCKS / 2);
	CHECK_CODE(clear_all_marks(env_segment, &cleared), 0);
	CHECK(cleared == LOCKS / 2);
	plain_keys_leave_nothing(LOCKS);
	printf("the table of %u keys was full with %u marks, %u of them with details\n", LOCKS, n, known);
}

int main(int argc, char **argv)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	unsigned workers = argc > 1 ? (unsigned)atoi(argv[1]) : env_emulated() ? 300 : 3000;

	options.keys = LOCKS;
	options.requests = 256;
	options.owners = 64;
	env_create(&options);
	plain_keys_leave_nothing(workers);
	printf("%u killed workers on unique plain keys left nothing\n", workers);
	robust_keys_keep_their_marks();
	env_nothing_left(1);
	return 0;
}
