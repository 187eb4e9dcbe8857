/* SPDX-License-Identifier: MIT */
/*
 * remove.c - removing a segment: RETIRED first, then the name
 *
 * A segment that is RETIRED grants nothing any more, so from the moment in which its name is free for another one no
 * process shares locks in it.  The state goes from READY to RETIRED and never back, so every remover may set it again.
 * The caller's permission to remove the name is checked first: a caller without it changes nothing.
 *
 * Crash points:
 *   (1) before RETIRED: nothing has changed
 *   (2) before the name is gone: a retired segment under its name, which cannot be opened; the next lockshm_destroy()
 *       or lockshm_create() of that name removes it
 *   (3) after that: complete
 * A remover stopped at (2) keeps the name, since it holds the file's flock: other removers wait a little and report it.
 */
#define _GNU_SOURCE
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sys/error.h"
#include "sys/futex.h"

#define PATIENCE_MS 200 /* wait for another remover of the same segment */

static int open_for_removal(const char *path)
{
	return open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

bool segment_begins(const void *bytes, size_t n)
{
	static const uint64_t magic = SHM_MAGIC;

	return memcmp(bytes, &magic, n < sizeof(magic) ? n : sizeof(magic)) == 0;
}

/* 0 or an errno. */
static int begins_like_segment(int fd)
{
	uint64_t magic;
	ssize_t n = pread(fd, &magic, sizeof(magic), 0);

	if (n < 0)
		return errno == ESPIPE ? EMEDIUMTYPE : errno;
	return segment_begins(&magic, (size_t)n) ? 0 : EMEDIUMTYPE;
}

/* Without memory, and without access to a page that the file may lose meanwhile. */
static bool write_retired(int fd)
{
	const uint64_t retired = SEGMENT_RETIRED;
	const off_t at = offsetof(struct shm_header, state);
	struct rlimit limit;
	ssize_t n;

	/* Writing past the limit would send SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < (rlim_t)at + sizeof(retired))
		return false;
	do
		n = pwrite(fd, &retired, sizeof(retired), at);
	while (n < 0 && errno == EINTR);
	/* The two states differ in the first byte only: one byte is as good as all of them. */
	return n > 0;
}

static bool map_retired(int fd)
{
	struct shm_header *h = mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (h == MAP_FAILED)
		return false;
	(void)cas_from(&h->state, SEGMENT_READY, SEGMENT_RETIRED);
	munmap(h, sizeof(*h));
	return true;
}

/* Threads that sleep until then, see segment_watch().  Killed before it, or without memory: they look twice a second. */
static void wake_sleepers(int fd)
{
	struct shm_header *h = mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (h == MAP_FAILED)
		return;
	futex_wake((const uint32_t *)(const void *)&h->state, INT_MAX);
	munmap(h, sizeof(*h));
}

/* Retire the segment for every process that has it open.  0 or an errno. */
static int retire(int fd)
{
	uint64_t state = 0;

	if (pread(fd, &state, sizeof(state), offsetof(struct shm_header, state)) < 0)
		return errno;
	/* Damaged, or cut off: every other value than READY is taken for RETIRED. */
	if (state != SEGMENT_READY)
		return 0;
	if (!write_retired(fd) && !map_retired(fd))
		return errno;
	wake_sleepers(fd);
	return 0;
}

/*
 * May the caller remove the name @path of a file?  The kernel is asked to remove a directory of that name: it checks
 * the permission, as for a file, and only then finds that there is none.  0 or an errno.
 */
static int may_unlink(const char *path)
{
	if (unlinkat(AT_FDCWD, path, AT_REMOVEDIR) == 0)
		return ENOENT; /* the name was of something else by now: an empty directory */
	return errno == ENOTDIR ? 0 : errno;
}

/* A file that is mounted by itself, as into a container: its name stays, so it must not be retired. */
static bool is_mount_point(const char *path)
{
#ifdef STATX_ATTR_MOUNT_ROOT
	struct statx st;

	return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, 0, &st) == 0 && (st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
#else
	(void)path;
	return false;
#endif
}

/* 0 or an errno. */
static int take_turn(int fd)
{
	int tries;

	for (tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
		struct timespec ts = { 0, 1000000 };

		if ((errno != EWOULDBLOCK && errno != EINTR) || tries >= PATIENCE_MS)
			return errno;
		nanosleep(&ts, NULL);
	}
	return 0;
}

/* The lock by itself, too: a child that was forked meanwhile has the descriptor, and would keep it. */
static void end_turn(int fd)
{
	(void)flock(fd, LOCK_UN);
	close(fd);
}

/*
 * Retire the segment of @fd and remove its name @path, if that still leads to it.  A remover holds the file's flock, so
 * the newer segment of another remover or creator is never hit.  The flock ends with a killed process, unless it had
 * forked a child meanwhile, which then keeps it.  0 or an errno;
 * @retired: only the name could not be removed.
 */
static int remove_same(int fd, const char *path, bool *retired)
{
	struct stat mine, named;
	int e = take_turn(fd);

	*retired = false;
	if (e)
		return e;
	if (fstat(fd, &mine) != 0 || lstat(path, &named) != 0)
		return errno;
	if (mine.st_dev != named.st_dev || mine.st_ino != named.st_ino)
		return ENOENT;
	e = is_mount_point(path) ? EBUSY : may_unlink(path);
	if (!e)
		e = retire(fd);
	if (e)
		return e;
	*retired = true;
	return unlink(path) == 0 || errno == ENOENT ? 0 : errno;
}

int segment_clear_retired(const char *name)
{
	char path[LOCKSHM_NAME_MAX + 16];
	struct shm_header h;
	bool retired;
	int fd, e = 0;

	segment_path(path, name);
	fd = open_for_removal(path);
	if (fd < 0)
		return 0;
	if (pread(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) && h.magic == SHM_MAGIC && h.state == SEGMENT_RETIRED)
		e = remove_same(fd, path, &retired);
	end_turn(fd);
	return e == ENOENT ? 0 : e;
}

static int removal_error(int e, const char *name, struct lockshm_error *error)
{
	char what[LOCKSHM_NAME_MAX + 32];

	snprintf(what, sizeof(what), "cannot remove segment %s", name);
	switch (e) {
	case ENOENT:
		return error_set(error, LOCKSHM_NO_SEGMENT, "no segment %s", name);
	case EPERM:
		return error_system(error, LOCKSHM_PERMISSION, e, what);
	case EACCES:
	case EROFS:
		return segment_refused(e, what, error);
	case ELOOP:
		return error_set(error, LOCKSHM_PERMISSION, "%s is a symbolic link, which is never followed", name);
	case EMEDIUMTYPE:
		return error_set(error, LOCKSHM_BAD_SEGMENT,
				 "%s is no lockshm segment: if it is yours, remove the file by hand", name);
	default:
		return error_system(error, LOCKSHM_SYSTEM, e, what);
	}
}

static int name_stays(int e, const char *name, struct lockshm_error *error)
{
	char what[LOCKSHM_NAME_MAX + 64];

	snprintf(what, sizeof(what), "retired, but its name stays, remove it again: %s", name);
	return error_system(error, LOCKSHM_SYSTEM, e, what);
}

LOCKSHM_EXPORT int lockshm_destroy(const char *name, struct lockshm_error *error)
{
	char full[LOCKSHM_NAME_MAX + 2], path[LOCKSHM_NAME_MAX + 16];
	bool retired = false;
	int fd, e;

	error_set(error, 0, "%s", "");
	if (!segment_name(full, name))
		return segment_bad_name(error);
	segment_path(path, full);
	fd = open_for_removal(path);
	if (fd < 0)
		return removal_error(errno, full, error);
	/* A foreign file is not the library's to remove; a damaged segment is, if it still begins like one. */
	e = begins_like_segment(fd);
	if (!e)
		e = remove_same(fd, path, &retired);
	end_turn(fd);
	if (!e)
		return 0;
	return retired ? name_stays(e, full, error) : removal_error(e, full, error);
}
