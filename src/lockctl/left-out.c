/* SPDX-License-Identifier: MIT */
/* left-out.c - why lockctl ls has no list, or not all that is there */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockctl/lockctl.h"

#define SHM_DIR "/dev/shm"

static bool is_unreadable(int dir, const char *name)
{
	struct stat st;

	return name[0] != '.' && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       faccessat(dir, name, R_OK, AT_EACCESS) < 0 && errno == EACCES;
}

void message_left_out(void)
{
	DIR *dir = opendir(SHM_DIR);
	unsigned n = 0;

	if (!dir)
		return;
	for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
		n += is_unreadable(dirfd(dir), entry->d_name);
	closedir(dir);
	if (n)
		message("left out: %u file%s in " SHM_DIR " that you may not read; root sees all, and lockctl create "
			"--permissions 0644 makes a segment that every user may look at", n, n == 1 ? "" : "s");
}

int failed_listing(int code)
{
	if (code != LOCKSHM_SYSTEM || access(SHM_DIR, R_OK | X_OK) == 0)
		return failed(code, NULL);
	if (errno == ENOENT)
		message("no " SHM_DIR " here, mount a tmpfs there");
	else
		message("cannot read " SHM_DIR ": %s", strerror(errno));
	return EXIT_FAILED;
}
