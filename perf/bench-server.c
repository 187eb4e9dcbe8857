/* SPDX-License-Identifier: MIT */
/*
 * bench-server.c - the servers that some locks need: started on unix sockets in a directory of the run, and stopped
 *
 * Some refuse to run as root and then run as an unprivileged user.  They end when the run's first process does, however
 * it ends; after SIGKILL the directory remains.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVERS_MAX 8
#define START_MS 30000
#define STOP_MS 10000

static char dir[64];
static pid_t servers[SERVERS_MAX];
static int count;

static const struct passwd *other_user(void)
{
	return getuid() ? NULL : getpwnam("nobody");
}

const char *server_dir(void)
{
	const struct passwd *user = other_user();

	if (dir[0])
		return dir;
	snprintf(dir, sizeof(dir), "/tmp/lockshm-bench-XXXXXX");
	if (!mkdtemp(dir) || (user && chown(dir, user->pw_uid, user->pw_gid))) {
		bench_why("%s: %s", dir, strerror(errno));
		dir[0] = 0;
		return NULL;
	}
	return dir;
}

const char *server_find(const char *program, const char *other_dir)
{
	static char path[512];
	const char *p = getenv("PATH");
	char all[4096];
	char *rest = all;

	snprintf(all, sizeof(all), "%s:/usr/sbin:/usr/local/sbin:%s", p ? p : "/usr/bin", other_dir ? other_dir : "");
	for (char *one; (one = strsep(&rest, ":"));) {
		snprintf(path, sizeof(path), "%s/%s", one, program);
		if (one[0] && !access(path, X_OK))
			return path;
	}
	bench_why("%s is not installed", program);
	return NULL;
}

/* In the child: switches to that user, with its output in the log of the directory. */
static void __attribute__((noreturn)) become(const char *const argv[], pid_t parent)
{
	const struct passwd *user = other_user();
	char log[96];
	int fd;

	snprintf(log, sizeof(log), "%s/log", dir);
	if (user && (setgroups(0, NULL) || setgid(user->pw_gid) || setuid(user->pw_uid)))
		_exit(126);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || chdir(dir))
		_exit(126);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(126);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	setenv("HOME", dir, 1);
	execv(argv[0], (char *const *)argv);
	_exit(127);
}

static pid_t start(const char *const argv[])
{
	pid_t parent = getpid(), pid;

	if (!server_dir())
		return -1;
	fflush(NULL);
	pid = fork();
	if (!pid)
		become(argv, parent);
	return pid;
}

int server_run(const char *const argv[])
{
	pid_t pid = start(argv);
	int status = 0;

	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			return -1;
	if (status)
		bench_why("%s failed with status 0x%x", argv[0], (unsigned)status);
	return status ? -1 : 0;
}

static bool answers(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool yes;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	yes = fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address));
	if (fd >= 0)
		close(fd);
	return yes;
}

int server_start(const char *const argv[], const char *socket_path)
{
	uint64_t from = bench_ticks(), limit = bench_ticks_of_ns(START_MS * 1e6);
	pid_t pid = count < SERVERS_MAX ? start(argv) : -1;

	if (pid < 0)
		return -1;
	servers[count++] = pid;
	while (!answers(socket_path)) {
		if (waitpid(pid, NULL, WNOHANG) == pid) {
			servers[--count] = 0;
			bench_why("%s ended at once", argv[0]);
			return -1;
		}
		if (bench_ticks() - from > limit) {
			bench_why("%s does not answer", argv[0]);
			return -1;
		}
		usleep(5000);
	}
	return 0;
}

static void stop(pid_t pid)
{
	uint64_t from = bench_ticks(), limit = bench_ticks_of_ns(STOP_MS * 1e6);

	kill(pid, SIGINT); /* for PostgreSQL: does not wait for its clients */
	kill(pid, SIGTERM);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (bench_ticks() - from > limit) {
			bench_kill(pid);
			return;
		}
		usleep(2000);
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

void server_stop_all(void)
{
	while (count)
		stop(servers[--count]);
	if (dir[0])
		nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	dir[0] = 0;
}
