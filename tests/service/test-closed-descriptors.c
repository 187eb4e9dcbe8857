/* SPDX-License-Identifier: MIT */
/*
 * test-closed-descriptors.c - a program closes descriptors that it did not open, and opens files of its own
 *
 * The files get the numbers that the library has kept.  It must write nothing to them, read nothing of them, and close
 * none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segment/segment.h"
#include "hold/renewal.h"
#include "support/agent.h"
#include "support/fixture.h"
#include "support/loops.h"

#define X LOCKSHM_EXCLUSIVE
#define FIRST 3
#define FILES 96 /* more than the library and its user have */

enum kind { FILE_OF_DISK, PIPES, SOCKETS, EVENTFDS, KINDS };

/* Check writes to a descriptor with each of its assertions. */
#define need(fd, what)                                                                                                 \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "descriptor %d: not so: %s\n", fd, #what);                                     \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

static lockshm_hold_t hold;

/* ---------------------------------------------------------------- the program's files */

static enum kind kind;

/* Does the kernel tell two eventfds apart? */
static bool eventfds_differ(void)
{
	int fd = eventfd(0, EFD_CLOEXEC), same = fcntl(fd, 1027 /* F_DUPFD_QUERY */, fd);
	bool differ = same == 1 || syscall(SYS_kcmp, getpid(), getpid(), 0, fd, fd) == 0;

	close(fd);
	return differ;
}

static void open_two(int fd[2])
{
	switch (kind) {
	case FILE_OF_DISK:
		fd[0] = memfd_create("a", 0);
		fd[1] = memfd_create("b", 0);
		break;
	case PIPES:
		need(-1, pipe2(fd, O_NONBLOCK) == 0);
		need(-1, write(fd[1], "x", 1) == 1);
		break;
	case SOCKETS:
		need(-1, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
		need(-1, write(fd[0], "x", 1) == 1);
		need(-1, write(fd[1], "x", 1) == 1);
		break;
	default:
		fd[0] = eventfd(5, EFD_NONBLOCK);
		fd[1] = eventfd(5, EFD_NONBLOCK);
	}
}

static bool take_two_numbers(int first)
{
	int fd[2];

	open_two(fd);
	if (fd[0] == first && fd[1] == first + 1)
		return true;
	close(fd[0]);
	close(fd[1]);
	return false;
}

/* Closes the library's descriptors, and all others.  The service opens a file of /proc for a moment. */
static void take_all_numbers(void)
{
	int i;

	for (i = FIRST; i < 1024; i++)
		close(i);
	for (i = FIRST; i < FIRST + FILES; i += 2)
		while (!take_two_numbers(i))
			sched_yield();
}

static void untouched(int fd)
{
	uint64_t n = 0;
	struct stat st;
	int bytes = -1;

	need(fd, fcntl(fd, F_GETFD) >= 0);
	switch (kind) {
	case FILE_OF_DISK:
		need(fd, fstat(fd, &st) == 0);
		need(fd, st.st_size == 0 && lseek(fd, 0, SEEK_CUR) == 0);
		break;
	case EVENTFDS:
		need(fd, read(fd, &n, sizeof(n)) == sizeof(n));
		need(fd, n == 5);
		need(fd, write(fd, &n, sizeof(n)) == sizeof(n));
		break;
	default:
		need(fd, ioctl(fd, FIONREAD, &bytes) == 0);
		need(fd, bytes == 1);
	}
}

static void all_untouched(void)
{
	int i;

	for (i = FIRST; i < FIRST + FILES; i++)
		untouched(i);
}

/* ---------------------------------------------------------------- what the library keeps */

/* For lockshm_loop_open() the library's own, or one of the program. */
static int own(void)
{
	return -1;
}

static int an_eventfd(void)
{
	return eventfd(0, EFD_NONBLOCK);
}

static int a_pipe(void)
{
	int fd[2];

	ck_assert_int_eq(pipe2(fd, O_NONBLOCK), 0);
	return fd[1];
}

static int a_socket(void)
{
	int fd[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	return fd[1];
}

static int (*const given[])(void) = { own, an_eventfd, a_pipe, a_socket };
#define GIVEN 4
static int (*give)(void);

static bool take_case(int i)
{
	kind = (enum kind)(i % KINDS);
	give = given[i / KINDS];
	if (kind != EVENTFDS || eventfds_differ())
		return true;
	printf("left out: eventfds cannot be told apart here\n");
	return false;
}

/* ---------------------------------------------------------------- a loop */

static bool is_collected(void *loop)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	return lockshm_loop_next(loop, &outcome) == 1;
}

static int waits(void)
{
	static struct task t[2];
	lockshm_loop_t *loop;

	ck_code(lockshm_loop_open(&loop, seg, give(), NULL), 0);
	/* One is granted, and its descriptor written to, before the numbers are taken; one after that. */
	task_wait(loop, &t[0], "first", X);
	task_wait(loop, &t[1], "second", X);
	board_add(0, 1);
	board_await(1, 1);
	take_all_numbers();
	board_add(0, 1);
	need(-1, await(is_collected, loop));
	need(-1, await(is_collected, loop));
	all_untouched();
	need(-1, lockshm_loop_fd(loop) == LOCKSHM_SYSTEM);
	need(-1, lockshm_loop_close(loop) == 0);
	all_untouched();
	need(-1, lockshm_close(seg) == 0);
	all_untouched();
	return 0;
}

START_TEST(loop)
{
	struct agent *a = agent_start(), *b = agent_start();
	pid_t pid;

	if (!take_case(_i))
		return;
	board_new();
	held_by(a, "first", X);
	held_by(b, "second", X);
	pid = process_start(waits);
	board_await(0, 1);
	ck_code(agent_release(a), 0);
	board_add(1, 1);
	board_await(0, 2);
	ck_code(agent_release(b), 0);
	ck_assert_int_eq(process_end(pid), 0);
}
END_TEST

/* ---------------------------------------------------------------- a notice */

static bool is_noticed(void *unused)
{
	struct renewal *r;
	bool lost = false;

	(void)unused;
	renewals_lock(seg);
	cds_list_for_each_entry(r, &seg->renewals->watched, of_watched)
		lost |= r->lost;
	renewals_unlock(seg);
	return lost;
}

static int loses(void)
{
	ck_code(take_for(&hold, "k", X, LOCKSHM_MS(1)), 0);
	(void)lockshm_notify(&hold, give());
	take_all_numbers();
	board_add(0, 1);
	need(-1, await(is_noticed, NULL));
	all_untouched();
	need(-1, lockshm_release(&hold, 0) == LOCKSHM_LOST);
	need(-1, lockshm_close(seg) == 0);
	all_untouched();
	return 0;
}

START_TEST(notice)
{
	struct agent *a = agent_start();
	pid_t pid;

	if (!take_case(_i))
		return;
	board_new();
	pid = process_start(loses);
	board_await(0, 1);
	ck_assert_int_ge(agent_acquire(a, "k", X), 0);
	ck_assert_int_eq(process_end(pid), 0);
}
END_TEST

static void add(TCase *tc)
{
	if (emulated())
		return;
	tcase_add_loop_test(tc, loop, 0, GIVEN * KINDS);
	tcase_add_loop_test(tc, notice, KINDS, GIVEN * KINDS);
}

int main(void)
{
	return fixture_main("closed-descriptors", add);
}
