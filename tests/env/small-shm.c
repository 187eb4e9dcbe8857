/* SPDX-License-Identifier: MIT */
/*
 * small-shm.c - /dev/shm that is too small, full, read-only, or missing: an error, and nothing is kept
 *
 * In a mount namespace of its own, so that no other /dev/shm is touched.
 */
#define _GNU_SOURCE
#include "env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NAME "/lockshm-small"
#define SHM "/dev/shm"

static struct lockshm_error error;

static int create(uint32_t locks)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	memset(&error, 0, sizeof(error));
	options.keys = locks;
	options.requests = 64;
	options.owners = 16;
	return lockshm_create(&env_segment, NAME, &options, &error);
}

static void use_and_remove(void)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	request.key = "key";
	request.key_len = 3;
	CHECK_CODE(lockshm_acquire(env_segment, &request, &hold), 0);
	CHECK_CODE(lockshm_release(&hold, 0), 0);
	env_verify();
	CHECK_CODE(lockshm_close(env_segment), 0);
	CHECK_CODE(lockshm_destroy(NAME, &error), 0);
}

static void nothing_is_kept(void)
{
	struct statvfs fs;
	struct dirent *entry;
	DIR *dir = opendir(SHM);
	int n = 0;

	CHECK(dir != NULL);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	CHECK(n == 0);
	CHECK(statvfs(SHM, &fs) == 0);
	CHECK(fs.f_bfree == fs.f_blocks);
}

static void mount_shm(const char *options, unsigned long flags)
{
	if (mount("lockshm-test", SHM, "tmpfs", flags, options) != 0)
		env_skip("no tmpfs can be mounted");
}

static void unmount_shm(void)
{
	CHECK(umount(SHM) == 0);
}

/* The least that a segment takes, found by trying; one page less is refused. */
static void too_small(void)
{
	char options[32];
	unsigned kib, refused = 0;

	for (kib = 64; kib <= 512; kib += 4) {
		int code;

		snprintf(options, sizeof(options), "size=%uk", kib);
		mount_shm(options, 0);
		code = create(64);
		if (code == 0) {
			use_and_remove();
			nothing_is_kept();
			unmount_shm();
			break;
		}
		CHECK_CODE(code, LOCKSHM_NO_MEMORY);
		CHECK(strstr(error.message, SHM) != NULL);
		nothing_is_kept();
		unmount_shm();
		refused++;
	}
	CHECK(refused > 0 && kib <= 512);
	printf("64 locks, 64 requests, 16 owners need %u KiB\n", kib);
}

static void default_in_a_megabyte(void)
{
	mount_shm("size=1m", 0);
	CHECK_CODE(lockshm_create(&env_segment, NAME, NULL, &error), LOCKSHM_NO_MEMORY);
	nothing_is_kept();
	/* A failed creation leaves the room for another one. */
	CHECK_CODE(create(64), 0);
	use_and_remove();
	nothing_is_kept();
	unmount_shm();
}

/* Filled by others while it is in use: the segment has all its memory and notices nothing. */
static void filled_by_others(void)
{
	static char block[65536];
	int fd;

	mount_shm("size=1m", 0);
	CHECK_CODE(create(64), 0);
	fd = open(SHM "/other", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	while (write(fd, block, sizeof(block)) > 0)
		;
	close(fd);
	use_and_remove();
	unlink(SHM "/other");
	nothing_is_kept();
	unmount_shm();
}

static void no_inode(void)
{
	int fd;

	mount_shm("nr_inodes=2", 0);
	fd = open(SHM "/other", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	close(fd);
	CHECK_CODE(create(64), LOCKSHM_NO_MEMORY);
	unlink(SHM "/other");
	nothing_is_kept();
	unmount_shm();
}

static void says_read_only(void)
{
	CHECK(error.sys_errno == EROFS);
	CHECK(strstr(error.message, "mount " SHM " writable") != NULL);
}

static void read_only(void)
{
	mount_shm("size=1m", MS_RDONLY);
	CHECK_CODE(create(64), LOCKSHM_PERMISSION);
	says_read_only();
	CHECK_CODE(lockshm_open(&env_segment, NAME, 0, &error), LOCKSHM_NO_SEGMENT);
	CHECK_CODE(lockshm_destroy(NAME, &error), LOCKSHM_NO_SEGMENT);
	unmount_shm();
}

/* A segment is there: it can be looked at. */
static void made_read_only(void)
{
	mount_shm("size=1m", 0);
	CHECK_CODE(create(64), 0);
	CHECK_CODE(lockshm_close(env_segment), 0);
	CHECK(mount(NULL, SHM, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
	CHECK_CODE(lockshm_open(&env_segment, NAME, 0, &error), LOCKSHM_PERMISSION);
	says_read_only();
	CHECK_CODE(create(64), LOCKSHM_PERMISSION);
	says_read_only();
	CHECK_CODE(lockshm_destroy(NAME, &error), LOCKSHM_PERMISSION);
	says_read_only();
	CHECK_CODE(lockshm_open(&env_segment, NAME, LOCKSHM_OPEN_READ_ONLY, &error), 0);
	CHECK_CODE(lockshm_close(env_segment), 0);
	unmount_shm();
}

/* Another file system is mounted at the place of the segments: no such directory there. */
static void missing(void)
{
	if (mount("lockshm-test", "/dev", "tmpfs", 0, "size=64k") != 0)
		env_skip("no tmpfs can be mounted");
	CHECK_CODE(create(64), LOCKSHM_SYSTEM);
	CHECK(strstr(error.message, SHM) != NULL);
	CHECK_CODE(lockshm_open(&env_segment, NAME, 0, &error), LOCKSHM_NO_SEGMENT);
	CHECK(umount2("/dev", MNT_DETACH) == 0);
}

int main(void)
{
	env_need_root();
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		env_skip("no mount namespaces");
	too_small();
	default_in_a_megabyte();
	filled_by_others();
	no_inode();
	read_only();
	made_read_only();
	missing();
	return 0;
}
