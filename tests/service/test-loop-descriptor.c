/* SPDX-License-Identifier: MIT */
/* test-loop-descriptor.c - the descriptor of an event loop: the library's own, or one of the program */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static struct agent *a, *b;
static lockshm_loop_t *loop;
static struct task t[3];

static void cast(void)
{
	a = agent_start();
	b = agent_start();
}

static int open_descriptors(void)
{
	int fd, n = 0;

	for (fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int new_fd_loop(int fd)
{
	struct lockshm_error error = { 0 };
	int code = lockshm_loop_open(&loop, seg, fd, &error);

	ck_assert_int_eq(code, error.code);
	ck_assert((code == 0) == (loop != NULL));
	return code;
}

static uint64_t count_of(int fd)
{
	uint64_t n = 0;

	return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* Own descriptor: to be polled and closed at exec; another program shall not have it. */
START_TEST(the_librarys_own)
{
	cast();
	loop = loop_new();
	ck_assert_int_ge(lockshm_loop_fd(loop), 0);
	ck_assert_int_eq(fcntl(lockshm_loop_fd(loop), F_GETFD), FD_CLOEXEC);
	ck_assert(fcntl(lockshm_loop_fd(loop), F_GETFL) & O_NONBLOCK);
	ck_code(lockshm_loop_close(loop), 0);
}
END_TEST

/* An eventfd, a pipe, and a socket: where to read, where to write. */
static void pair_of(int kind, int fds[2])
{
	if (kind == 0) {
		fds[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		fds[1] = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	} else if (kind == 1) {
		ck_assert_int_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	} else {
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	}
	ck_assert_int_ge(fds[0], 0);
	ck_assert_int_ge(fds[1], 0);
}

/* Written when there is an outcome and there was none, by another process' release and by this one's. */
START_TEST(the_callers)
{
	int fds[2], other, i;

	cast();
	pair_of(_i, fds);
	ck_code(new_fd_loop(fds[1]), 0);
	ck_assert_int_ne(lockshm_loop_fd(loop), fds[1]);
	ck_assert_int_eq(fcntl(lockshm_loop_fd(loop), F_GETFD), FD_CLOEXEC);
	close(fds[1]);
	other = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* has the number now */
	held_by(a, "k", X);
	for (i = 0; i < 3; i++) {
		task_wait(loop, &t[0], "k", X);
		ck_assert(!fd_readable(fds[0]));
		ck_code(i ? task_release(&t[1]) : agent_release(a), 0);
		fd_await(fds[0]);
		ck_assert_uint_eq(count_of(fds[0]), 1);
		ck_assert(!fd_readable(fds[0]));
		ck_outcome(loop, &t[0], 0);
		ck_code(task_release(&t[0]), 0);
		ck_assert(!fd_readable(fds[0]));
		ck_code(task_begin(loop, &t[1], "k", X), 0);
	}
	ck_assert(!fd_readable(other));
	ck_code(lockshm_loop_close(loop), 0);
	if (_i) { /* the last writer is gone: its duplicate was closed */
		struct pollfd p = { .fd = fds[0], .events = POLLIN };

		ck_assert_int_eq(poll(&p, 1, (int)(PATIENCE / LOCKSHM_MS(1))), 1);
		ck_assert(p.revents & POLLHUP);
	}
}
END_TEST

static bool both_granted(void *unused)
{
	struct seen seen;

	(void)unused;
	look("k", &seen);
	if (seen.waiters > 0)
		return false;
	look("m", &seen);
	return seen.waiters == 0;
}

/* Several outcomes, one write; the next one when all were collected. */
START_TEST(written_once_for_several)
{
	int fds[2];

	cast();
	pair_of(_i, fds);
	ck_code(new_fd_loop(fds[1]), 0);
	held_by(a, "k", X);
	held_by(b, "m", X);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "m", S);
	task_wait(loop, &t[2], "m", S);
	ck_code(agent_release(a), 0);
	fd_await(fds[0]);
	ck_code(agent_release(b), 0);
	ck_assert(await(both_granted, NULL));
	pass(now_ns() + LOCKSHM_MS(50)); /* for a second write, if there is one */
	ck_assert_uint_eq(count_of(fds[0]), 1);
	ck_assert(!fd_readable(fds[0]));
}
END_TEST

/* The reader is gone: no signal, and outcomes come all the same.  A release of this process writes, and one of another
 * process. */
START_TEST(without_a_reader)
{
	int fds[2], i;

	cast();
	pair_of(_i, fds);
	ck_code(new_fd_loop(fds[1]), 0);
	if (_i)
		close(fds[0]);
	held_by(a, "k", X);
	for (i = 0; i < 4; i++) {
		struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
		int64_t end = now_ns() + PATIENCE;

		task_wait(loop, &t[i % 2], "k", X);
		ck_code(i ? task_release(&t[1 - i % 2]) : agent_release(a), 0);
		while (lockshm_loop_next(loop, &outcome) == 0)
			ck_assert_int_lt(now_ns(), end);
		ck_assert_ptr_eq(outcome.user, &t[i % 2]);
		ck_code(outcome.status, 0);
	}
	/* Nothing waits for ever at the end of it. */
	task_wait(loop, &t[2], "k", X);
	ck_code(lockshm_loop_close(loop), 0);
	verify_clean();
}
END_TEST

/* Full: left out, as its reader has something to read. */
START_TEST(full_already)
{
	char page[4096] = { 0 };
	uint64_t most = UINT64_MAX - 1;
	int fds[2];

	cast();
	pair_of(_i, fds);
	if (_i == 0)
		ck_assert_int_eq(write(fds[1], &most, sizeof(most)), sizeof(most));
	else
		while (write(fds[1], page, sizeof(page)) > 0)
			;
	ck_code(new_fd_loop(fds[1]), 0);
	held_by(a, "k", X);
	task_wait(loop, &t[0], "k", X);
	task_wait(loop, &t[1], "k", X);
	ck_code(agent_release(a), 0);
	ck_assert(fd_readable(fds[0]));
	while (lockshm_loop_next(loop, &(struct lockshm_outcome)LOCKSHM_OUTCOME_INIT) == 0)
		;
	ck_code(lockshm_check(&t[0].hold, NULL), 0);
	ck_code(task_release(&t[0]), 0);
	while (lockshm_loop_next(loop, &(struct lockshm_outcome)LOCKSHM_OUTCOME_INIT) == 0)
		;
	ck_code(lockshm_check(&t[1].hold, NULL), 0);
}
END_TEST

START_TEST(refused_descriptors)
{
	int fds[2], before = open_descriptors(), fd;

	fd = eventfd(0, EFD_CLOEXEC); /* may block */
	ck_code(new_fd_loop(fd), LOCKSHM_INVALID);
	close(fd);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	ck_code(new_fd_loop(fds[1]), LOCKSHM_INVALID);
	ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	ck_code(new_fd_loop(fds[0]), LOCKSHM_INVALID); /* to read from */
	close(fds[0]);
	close(fds[1]);
	ck_code(new_fd_loop(fds[1]), LOCKSHM_INVALID); /* closed */
	ck_code(new_fd_loop(-2), LOCKSHM_INVALID);
	ck_code(new_fd_loop(100000), LOCKSHM_INVALID);
	ck_assert_int_eq(open_descriptors(), before);
	ck_code(new_fd_loop(-1), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, the_librarys_own);
	tcase_add_loop_test(tc, the_callers, 0, 3);
	tcase_add_loop_test(tc, written_once_for_several, 0, 3);
	tcase_add_loop_test(tc, without_a_reader, 1, 3);
	tcase_add_loop_test(tc, full_already, 0, 3);
	tcase_add_test(tc, refused_descriptors);
}

int main(void)
{
	return fixture_main("loop-descriptor", add);
}
