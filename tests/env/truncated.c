/* SPDX-License-Identifier: MIT */
/*
 * truncated.c - the file of a segment in use is truncated
 *
 * To touch a page that the file has lost is SIGBUS, for this as for any mapped file; the kernel offers no seal against
 * it for a file with a name in /dev/shm.  Shown here: an access gives this signal, and no other effect; the rest of the
 * file cannot be opened; it can be removed and made anew; a program that must survive can, by a handler that maps an
 * empty page in the place of the lost one: then the segment looks retired, and every call returns NO_SEGMENT.
 */
#define _GNU_SOURCE
#include "env.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int strict(struct subject *p, int hold, const char *key, int64_t timeout)
{
	return subject_acquire(p, hold, key, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, timeout, 0);
}

static void truncate_to(off_t size)
{
	CHECK(truncate(env_path(), size) == 0);
}

/* No seal: a segment has a name, and tmpfs seals only what memfd_create() made. */
static void no_seal(void)
{
	int fd = open(env_path(), O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	errno = 0;
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == -1 && (errno == EPERM || errno == EINVAL));
	close(fd);
}

/* A sanitizer has a handler of its own. */
static int no_handler(void *unused)
{
	(void)unused;
	return signal(SIGBUS, SIG_DFL) == SIG_ERR ? -1 : 0;
}

static const struct environment bare = { .prepare = no_handler };

static int signal_of(struct subject *p)
{
	int status;

	if (waitpid(p->pid, &status, 0) != p->pid)
		env_broken("waitpid");
	p->alive = false;
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void cannot_be_opened(struct subject *p)
{
	CHECK_CODE(subject_open(p, 0), LOCKSHM_BAD_SEGMENT);
	CHECK(strstr(p->answer.report.error.message, "truncated") != NULL);
	CHECK_CODE(subject_open(p, LOCKSHM_OPEN_READ_ONLY), LOCKSHM_BAD_SEGMENT);
	CHECK_CODE(subject_create(p, 0600), LOCKSHM_EXISTS);
}

static void remove_and_make_anew(struct subject *p)
{
	CHECK_CODE(subject_destroy(p), 0);
	CHECK_CODE(subject_create(p, 0600), 0);
	CHECK_CODE(strict(p, 0, "key", 0), 0);
	CHECK_CODE(subject_release(p, 0), 0);
}

static void who_touches_it(off_t size)
{
	struct subject *user, *other;

	env_create(NULL);
	no_seal();
	user = subject_start(&bare);
	other = subject_start(&bare);
	CHECK_CODE(strict(user, 0, "key", 0), 0);
	truncate_to(size);
	cannot_be_opened(other);
	CHECK(subject_release(user, 0) == SUBJECT_ENDED);
	CHECK(signal_of(user) == SIGBUS);
	remove_and_make_anew(other);
	subject_kill(other);
}

/* A waiter sleeps on a page that goes. */
static void who_sleeps_on_it(void)
{
	struct subject *user, *waiter;

	env_create(NULL);
	user = subject_start(&bare);
	waiter = subject_start(&bare);
	CHECK_CODE(strict(user, 0, "key", 0), 0);
	subject_begin(waiter, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	truncate_to(0);
	CHECK(subject_end(waiter) == SUBJECT_ENDED);
	CHECK(signal_of(waiter) == SIGBUS);
	subject_kill(user);
}

/* ---------------------------------------------------------------- a program that survives */

static void put_empty_page(int sig, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)4095;

	(void)sig;
	(void)context;
	if (info->si_code != BUS_ADRERR ||
	    mmap((void *)page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		_exit(5);
}

static int install_handler(void *unused)
{
	struct sigaction action = { .sa_sigaction = put_empty_page, .sa_flags = SA_SIGINFO };

	(void)unused;
	return sigaction(SIGBUS, &action, NULL);
}

static int look_around(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code;

	lockshm_stat(my_segment, &stat);
	EACH_ROW(row, code, my_segment, LOCKSHM_LIST_BUSY, NULL, 0)
		continue;
	lockshm_verify(my_segment, NULL, NULL, NULL);
	lockshm_sweep(my_segment, NULL);
	return lockshm_current(my_segment);
}

/* @size: what is left of the file.  Without its header the segment is retired; else it is damaged. */
static void who_survives(off_t size)
{
	struct environment where = { .prepare = install_handler };
	struct subject *holder, *waiter;
	int code;

	env_create(NULL);
	holder = subject_start(&where);
	waiter = subject_start(&where);
	CHECK_CODE(strict(holder, 0, "key", 0), 0);
	subject_begin(waiter, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_SECONDS(2));
	env_await_waiters("key", 1);
	truncate_to(size);
	/* It sees its own copies of the lost pages, without other owners. */
	code = subject_end(waiter);
	CHECK(code == LOCKSHM_NO_SEGMENT || code == LOCKSHM_BAD_SEGMENT || (size > 0 && code != SUBJECT_ENDED));
	code = subject_release(holder, 0);
	CHECK(code == LOCKSHM_LOST || (size > 0 && code != SUBJECT_ENDED));
	if (size == 0) {
		CHECK_CODE(strict(holder, 1, "other", 0), LOCKSHM_NO_SEGMENT);
		CHECK_CODE(subject_call(holder, look_around), LOCKSHM_NO_SEGMENT);
	} else {
		CHECK(subject_call(holder, look_around) != SUBJECT_ENDED);
		CHECK(strict(holder, 1, "other", 0) != SUBJECT_ENDED);
	}
	CHECK_CODE(subject_close(holder), 0);
	CHECK_CODE(subject_close(waiter), 0);
	cannot_be_opened(holder);
	remove_and_make_anew(holder);
	CHECK_CODE(subject_open(waiter, 0), 0);
	CHECK_CODE(strict(waiter, 0, "key", 0), 0);
	subject_kill(holder);
	subject_kill(waiter);
}

/* The test's own handle must not be touched once the file is short: it is left behind. */
static lockshm_t *left_behind[8];
static unsigned n_left_behind;

static void leave_it(void)
{
	CHECK(n_left_behind < 8);
	left_behind[n_left_behind++] = env_segment;
	env_segment = NULL;
}

int main(void)
{
	static const off_t left[] = { 0, 4096, 8192 };
	unsigned i;

	for (i = 0; i < 3; i++) {
		who_touches_it(left[i]);
		leave_it();
		who_survives(left[i]);
		leave_it();
	}
	who_sleeps_on_it();
	leave_it();
	return 0;
}
