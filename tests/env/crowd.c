/* SPDX-License-Identifier: MIT */
/*
 * crowd.c - many processes wait for one key: first come, first served, and all are served
 *
 *   env-crowd [PROCESSES]       150 if not given, 10 if emulated; make check-env runs 1000
 *
 *  1. One after the other: each request starts when the one before it waits, so the order is known.  Every fifth
 *     process is killed while it waits.  The others are granted in the order of their requests.
 *  2. All at once, again and again: the order is that of the tickets, and all are granted.
 */
#define _GNU_SOURCE
#include "env.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CROWD_MAX 1000
#define TURNS 3 /* of each in the second part */

struct board {
	_Atomic int ready;
	/* Written by the holder of the key only. */
	unsigned n;
	uint64_t last_token;
	unsigned order[CROWD_MAX * TURNS];
	char wrong[128];
};
static struct board *board;
static unsigned crowd;
static pid_t pids[CROWD_MAX];
static lockshm_hold_t mine;
static int gate[2]; /* a pipe: open until all may go */

static struct lockshm_request request_for(int64_t timeout)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;

	request.key = "key";
	request.key_len = 3;
	request.ttl_ns = LOCKSHM_FOREVER;
	request.timeout_ns = timeout;
	return request;
}

/* One turn of process @number. */
static void take_turn(lockshm_t *segment, unsigned number)
{
	/* Until the last one is there it may take minutes; a test that hangs is ended by env.c. */
	struct lockshm_request request = request_for(LOCKSHM_FOREVER);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int code;

	request.report = &report;
	code = lockshm_acquire(segment, &request, &hold);
	if (code < 0) {
		snprintf(board->wrong, sizeof(board->wrong), "process %u: %s", number, lockshm_code_name(code));
		_exit(1);
	}
	if (report.token <= board->last_token)
		snprintf(board->wrong, sizeof(board->wrong), "process %u: token does not rise", number);
	board->last_token = report.token;
	board->order[board->n++] = number;
	if (lockshm_release(&hold, 0) != 0)
		snprintf(board->wrong, sizeof(board->wrong), "process %u: release", number);
}

static lockshm_t *open_own(void)
{
	lockshm_t *segment;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (lockshm_open(&segment, env_name, 0, NULL) != 0) {
		snprintf(board->wrong, sizeof(board->wrong), "open");
		_exit(1);
	}
	return segment;
}

static pid_t start(unsigned number, unsigned turns)
{
	pid_t pid = fork();
	lockshm_t *segment;
	char c;

	/* Limits of users and of containers. */
	if (pid < 0 && errno == EAGAIN)
		env_skip("no more than %u processes", number);
	if (pid < 0)
		env_broken("fork");
	if (pid > 0)
		return pid;
	segment = open_own();
	if (turns > 1) {
		close(gate[1]);
		board->ready++;
		if (read(gate[0], &c, 1) != 0)
			_exit(1);
	}
	while (turns-- > 0)
		take_turn(segment, number);
	_exit(0);
}

static void await_end(unsigned number, int signal_wanted)
{
	int status;

	if (waitpid(pids[number], &status, 0) != pids[number])
		env_broken("waitpid");
	if (WIFSIGNALED(status) ? WTERMSIG(status) != signal_wanted : WEXITSTATUS(status) != 0)
		env_fail(__FILE__, __LINE__, "process %u ended with %#x: %s", number, (unsigned)status, board->wrong);
}

static bool killed(unsigned number)
{
	return number % 5 == 2;
}

static void one_after_the_other(void)
{
	struct lockshm_request request = request_for(0);
	unsigned i, served = 0;
	int64_t begun;

	CHECK_CODE(lockshm_acquire(env_segment, &request, &mine), 0);
	for (i = 0; i < crowd; i++) {
		pids[i] = start(i, 1);
		env_await_waiters("key", i + 1);
	}
	for (i = 0; i < crowd; i++)
		if (killed(i)) {
			kill(pids[i], SIGKILL);
			await_end(i, SIGKILL);
		}
	begun = env_now();
	CHECK_CODE(lockshm_release(&mine, 0), 0);
	for (i = 0; i < crowd; i++)
		if (!killed(i))
			await_end(i, 0);
	for (i = 0; i < crowd; i++)
		if (!killed(i))
			CHECK(board->order[served++] == i);
	CHECK(board->n == served);
	CHECK(board->wrong[0] == '\0');
	printf("%u processes in order, %.1f us from one to the next, the last after %.0f ms\n", served,
	       (double)(env_now() - begun) / served / 1000, (double)(env_now() - begun) / 1e6);
}

/* Its share of all memory, the segment's and the program's included; 0 = not known. */
static unsigned long kib_of(pid_t pid)
{
	char path[64], line[128];
	unsigned long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "re");
	while (f && !kib && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %lu", &kib) != 1)
			kib = 0;
	if (f)
		fclose(f);
	return kib;
}

static void print_memory(void)
{
	unsigned long all = 0;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	unsigned i;

	for (i = 0; i < crowd; i++)
		all += kib_of(pids[i]);
	CHECK_CODE(lockshm_stat(env_segment, &stat), 0);
	printf("%.0f KiB of memory for each of %u processes, in a segment of %.1f MiB\n", (double)all / crowd, crowd,
	       (double)stat.bytes / 1048576);
}

static bool all_ready(void *unused)
{
	(void)unused;
	/* A process that has failed does not get ready; its status shows it. */
	return board->ready == (int)crowd || board->wrong[0];
}

static void all_at_once(void)
{
	unsigned i, turns[CROWD_MAX] = { 0 };
	int64_t begun;

	memset(board, 0, sizeof(*board));
	if (pipe2(gate, O_CLOEXEC) != 0)
		env_broken("pipe");
	for (i = 0; i < crowd; i++)
		pids[i] = start(i, TURNS);
	env_await(all_ready, NULL, "all have opened the segment");
	print_memory();
	begun = env_now();
	close(gate[1]);
	for (i = 0; i < crowd; i++)
		await_end(i, 0);
	CHECK(board->wrong[0] == '\0');
	CHECK(board->n == crowd * TURNS);
	for (i = 0; i < board->n; i++)
		turns[board->order[i]]++;
	for (i = 0; i < crowd; i++)
		CHECK(turns[i] == TURNS);
	printf("%u processes at once, %u turns in %.0f ms\n", crowd, board->n, (double)(env_now() - begun) / 1e6);
}

int main(int argc, char **argv)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	crowd = argc > 1 ? (unsigned)atoi(argv[1]) : env_emulated() ? 10 : 150;
	if (crowd < 5 || crowd > CROWD_MAX)
		env_skip("5 to %d processes", CROWD_MAX);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		env_broken("mmap");
	options.keys = 64;
	options.owners = crowd + 8;
	options.requests = 4 * options.owners;
	env_create(&options);
	one_after_the_other();
	env_nothing_left(1);
	all_at_once();
	env_nothing_left(1);
	return 0;
}
