/* SPDX-License-Identifier: MIT */
/*
 * descriptor.c - descriptors that the library keeps; see descriptor.h
 *
 * Files, pipes and sockets are told apart by their inode.  All eventfds share one with other files that have no name, so
 * the library keeps a second duplicate of each, away from the first: the kernel compares what two numbers lead to.
 */
#define _GNU_SOURCE
#include "sys/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY 1027 /* Linux 6.10 */
#endif
#define TWIN_AWAY 16 /* a program that opens files anew gets the numbers next to each other */

static bool has_own_inode(const struct stat *st)
{
	return (st->st_mode & S_IFMT) != 0;
}

static int twin_of(int fd)
{
	int twin = fcntl(fd, F_DUPFD_CLOEXEC, fd + TWIN_AWAY);

	return twin >= 0 || errno != EINVAL ? twin : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* True also where the kernel does not tell: before Linux 6.10, if a filter forbids kcmp(). */
static bool same_file(int a, int b)
{
	int same = fcntl(a, F_DUPFD_QUERY, b);
	pid_t me;
	long order;

	if (same >= 0 || errno == EBADF)
		return same == 1;
	me = getpid();
	order = syscall(SYS_kcmp, me, me, KCMP_FILE, a, b);
	return order == 0 || (order < 0 && errno != EBADF);
}

bool descriptor_keep(struct descriptor *d, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return false;
	*d = (struct descriptor){ fd, -1, st.st_dev, st.st_ino };
	if (has_own_inode(&st))
		return true;
	d->twin = twin_of(fd);
	if (d->twin >= 0)
		return true;
	*d = DESCRIPTOR_NONE;
	return false;
}

bool descriptor_duplicate(struct descriptor *d, int fd, int least)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, least), e;

	*d = DESCRIPTOR_NONE;
	if (copy < 0)
		return false;
	if (descriptor_keep(d, copy))
		return true;
	e = errno;
	close(copy);
	errno = e;
	return false;
}

bool descriptor_stat(const struct descriptor *d, struct stat *st)
{
	return d->fd >= 0 && fstat(d->fd, st) == 0 && st->st_dev == d->dev && st->st_ino == d->ino;
}

bool descriptor_is_own(const struct descriptor *d)
{
	struct stat st;

	if (d->fd < 0 || d->twin >= 0)
		return d->fd >= 0 && same_file(d->fd, d->twin);
	/* A filter that refuses the look shows nothing. */
	if (fstat(d->fd, &st) != 0)
		return errno != EBADF;
	return st.st_dev == d->dev && st.st_ino == d->ino;
}

void descriptor_close(struct descriptor *d)
{
	if (descriptor_is_own(d)) {
		close(d->fd);
		if (d->twin >= 0)
			close(d->twin);
	}
	*d = DESCRIPTOR_NONE;
}
