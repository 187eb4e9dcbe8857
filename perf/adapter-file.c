/* SPDX-License-Identifier: MIT */
/*
 * adapter-file.c - the kernel's file locks: POSIX record locks (fcntl), those of an open file description (ofd), flock
 *
 * Record locks use a byte of the file for each key; flock has no keys.  The locks of an open file description belong to
 * it and not to the process, so each process opens the file for itself.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* F_OFD_SETLKW */
#endif

#include "bench-loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

static char path[64];
static int fd = -1;

static int file_create(const struct bench_need *need)
{
	int made;

	(void)need;
	snprintf(path, sizeof(path), "/dev/shm/lockshm-bench-file-%d", (int)getpid());
	made = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (made < 0)
		return -1;
	close(made);
	return 0;
}

static void file_attach(void)
{
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		bench_fail(path);
}

static void file_detach(void)
{
	close(fd);
}

static void file_destroy(void)
{
	unlink(path);
}

static void record(int command, uint32_t key, short type)
{
	struct flock f = { .l_type = type, .l_whence = SEEK_SET, .l_start = key, .l_len = 1 };

	while (fcntl(fd, command, &f))
		if (errno != EINTR)
			bench_fail("fcntl");
}

static short type_of(enum bench_mode mode)
{
	return mode == BENCH_SHARED ? F_RDLCK : F_WRLCK;
}

static void fcntl_lock(uint32_t key, enum bench_mode mode)
{
	record(F_SETLKW, key, type_of(mode));
}

static void fcntl_unlock(uint32_t key, enum bench_mode mode)
{
	(void)mode;
	record(F_SETLK, key, F_UNLCK);
}

static void ofd_lock(uint32_t key, enum bench_mode mode)
{
	record(F_OFD_SETLKW, key, type_of(mode));
}

static void ofd_unlock(uint32_t key, enum bench_mode mode)
{
	(void)mode;
	record(F_OFD_SETLK, key, F_UNLCK);
}

static void flock_do(int what)
{
	while (flock(fd, what))
		if (errno != EINTR)
			bench_fail("flock");
}

static void flock_lock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	flock_do(mode == BENCH_SHARED ? LOCK_SH : LOCK_EX);
}

static void flock_unlock(uint32_t key, enum bench_mode mode)
{
	(void)key;
	(void)mode;
	flock_do(LOCK_UN);
}

BENCH_PAIRS(fcntl_pairs, bench_nothing_to_make, fcntl_lock, fcntl_unlock)
BENCH_PAIRS(ofd_pairs, bench_nothing_to_make, ofd_lock, ofd_unlock)
BENCH_PAIRS(flock_pairs, bench_nothing_to_make, flock_lock, flock_unlock)

static bool record_try(int command)
{
	struct flock f = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	return fcntl(fd, command, &f) == 0;
}

static bool fcntl_try(void)
{
	return record_try(F_SETLK);
}

static bool ofd_try(void)
{
	return record_try(F_OFD_SETLK);
}

static bool flock_try(void)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

BENCH_TRIES(fcntl_tries, bench_nothing_to_make, fcntl_try)
BENCH_TRIES(ofd_tries, bench_nothing_to_make, ofd_try)
BENCH_TRIES(flock_tries, bench_nothing_to_make, flock_try)

const struct lock_adapter adapter_fcntl = {
	.name = "fcntl",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_FEW,
	.create = file_create,
	.attach = file_attach,
	.lock = fcntl_lock,
	.unlock = fcntl_unlock,
	.detach = file_detach,
	.destroy = file_destroy,
	.pairs = fcntl_pairs,
	.tries = fcntl_tries,
};

const struct lock_adapter adapter_ofd = {
	.name = "ofd",
	.can = LOCK_MANY | LOCK_SHARED | LOCK_FEW,
	.create = file_create,
	.attach = file_attach,
	.lock = ofd_lock,
	.unlock = ofd_unlock,
	.detach = file_detach,
	.destroy = file_destroy,
	.pairs = ofd_pairs,
	.tries = ofd_tries,
};

const struct lock_adapter adapter_flock = {
	.name = "flock",
	.can = LOCK_SHARED,
	.create = file_create,
	.attach = file_attach,
	.lock = flock_lock,
	.unlock = flock_unlock,
	.detach = file_detach,
	.destroy = file_destroy,
	.pairs = flock_pairs,
	.tries = flock_tries,
};
