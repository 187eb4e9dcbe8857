/* SPDX-License-Identifier: MIT */
/* loops.c - see loops.h */
#define _GNU_SOURCE
#include "loops.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---------------------------------------------------------------- stalls */

static _Thread_local bool stalled;
static _Thread_local int64_t last_noted;

/* Called more often than each UNCOLLECTED_NS, but by a thread that does not run. */
static void note_time(void)
{
	int64_t now = now_ns();

	if (last_noted && now - last_noted > UNCOLLECTED_NS - LOCKSHM_MS(100))
		stalled = true;
	last_noted = now;
}

void time_was_passed(void)
{
	last_noted = now_ns();
}

bool machine_stalled(void)
{
	note_time();
	if (stalled)
		printf("the test stood still for too long: no result\n");
	return stalled;
}

/* ---------------------------------------------------------------- loops */

lockshm_loop_t *loop_new(void)
{
	struct lockshm_error error = { 0 };
	lockshm_loop_t *loop = NULL;
	int code = lockshm_loop_open(&loop, seg, -1, &error);

	ck_assert_msg(code == 0 && loop, "loop_open: %s: %s", lockshm_code_name(code), error.message);
	note_time();
	return loop;
}

static bool poll_for(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, timeout_ms);

	ck_assert(n >= 0 || errno == EINTR);
	return n == 1 && (p.revents & POLLIN);
}

bool fd_readable(int fd)
{
	return poll_for(fd, 0);
}

bool loop_readable(const lockshm_loop_t *loop)
{
	return fd_readable(lockshm_loop_fd(loop));
}

void fd_await(int fd)
{
	int64_t end = now_ns() + PATIENCE;

	for (note_time(); !poll_for(fd, 100); note_time())
		ck_assert_msg(now_ns() < end, "the descriptor does not become readable");
}

void loop_await(const lockshm_loop_t *loop)
{
	fd_await(lockshm_loop_fd(loop));
}

static bool is_idle(void *arg)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	ck_assert_int_eq(lockshm_loop_next(arg, &outcome), 0);
	return !loop_readable(arg);
}

/* The write for an outcome may come when that has been collected; lockshm_loop_next() empties the descriptor again. */
void loop_idle(lockshm_loop_t *loop)
{
	note_time();
	ck_assert_msg(await(is_idle, loop), "readable without an outcome");
}

/* ---------------------------------------------------------------- tasks */

void task_init(struct task *t, const char *key, int mode)
{
	memset(t, 0, sizeof(*t));
	snprintf(t->key, sizeof(t->key), "%s", key);
	t->request = (struct lockshm_request)LOCKSHM_REQUEST(t->key);
	t->report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	t->request.mode = mode;
	t->request.timeout_ns = PATIENCE;
	t->request.report = &t->report;
}

int task_acquire(lockshm_loop_t *loop, struct task *t)
{
	note_time();
	return lockshm_loop_acquire(loop, &t->request, &t->hold, t);
}

int task_begin(lockshm_loop_t *loop, struct task *t, const char *key, int mode)
{
	task_init(t, key, mode);
	return task_acquire(loop, t);
}

void task_wait(lockshm_loop_t *loop, struct task *t, const char *key, int mode)
{
	ck_code(task_begin(loop, t, key, mode), LOCKSHM_PENDING);
}

int task_release(struct task *t)
{
	return lockshm_release(&t->hold, 0);
}

/* The descriptor may be readable for nothing: a grant that was not collected in time went to another request. */
static int next_outcome(lockshm_loop_t *loop, struct lockshm_outcome *outcome)
{
	int64_t end = now_ns() + PATIENCE;
	int n;

	note_time();
	while ((n = lockshm_loop_next(loop, outcome)) == 0) {
		note_time();
		ck_assert_msg(now_ns() < end, "no outcome comes");
		loop_await(loop);
	}
	note_time();
	return n;
}

struct task *loop_collect(lockshm_loop_t *loop)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	struct task *t;

	ck_assert_int_eq(next_outcome(loop, &outcome), 1);
	t = outcome.user;
	ck_assert_ptr_nonnull(t);
	ck_assert_ptr_eq(outcome.hold, &t->hold);
	/* The loss of a hold, which the program releases. */
	ck_assert_ptr_eq(outcome.report, outcome.status == LOCKSHM_LOST ? NULL : t->request.report);
	ck_assert_uint_eq(outcome.size, sizeof(outcome));
	ck_assert_int_ne(outcome.status, LOCKSHM_PENDING);
	t->outcomes++;
	t->status = outcome.status;
	ck_assert_msg(t->status == LOCKSHM_LOST || (lockshm_token(&t->hold) != 0) == (t->status >= 0 && t->status != LOCKSHM_LOCAL_ONLY), "status %s, token %llu",
		      outcome_name(t->status), (unsigned long long)lockshm_token(&t->hold));
	return t;
}

int task_end(lockshm_loop_t *loop, struct task *t)
{
	struct task *next = loop_collect(loop);

	if (next != t && machine_stalled())
		return TASK_STALLED;
	ck_assert_msg(next == t, "the outcome is that of another task for '%s', %s", next->key,
		      outcome_name(next->status));
	return t->status;
}

/* ---------------------------------------------------------------- processes */

uint32_t *board;

void board_new(void)
{
	board = mmap(NULL, BOARD_PLACES * sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(board != MAP_FAILED);
}

void board_add(unsigned place, uint32_t n)
{
	__atomic_fetch_add(&board[place], n, __ATOMIC_ACQ_REL);
}

uint32_t board_get(unsigned place)
{
	return __atomic_load_n(&board[place], __ATOMIC_ACQUIRE);
}

struct goal {
	unsigned place;
	uint32_t n;
};

static bool is_reached(void *arg)
{
	const struct goal *goal = arg;

	return board_get(goal->place) >= goal->n;
}

void board_await(unsigned place, uint32_t n)
{
	struct goal goal = { place, n };

	ck_assert_msg(await(is_reached, &goal), "place %u of the board has %u, not %u", place, board_get(place), n);
}

pid_t process_start(int (*act)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(act());
	}
	ck_assert_int_ge(pid, 0);
	return pid;
}

int process_end(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void process_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	ck_assert_int_eq(process_end(pid), 1000 + SIGKILL);
}

void process_stop(pid_t pid)
{
	int status;

	kill(pid, SIGSTOP);
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));
}

void process_cont(pid_t pid)
{
	kill(pid, SIGCONT);
}
