/* SPDX-License-Identifier: MIT */
/*
 * first-lock.c - a process that takes its first lock, releases it and ends: `first-lock KIND NAME`
 *
 * NAME is a segment or the path of a file.  The kinds renewed* print the microseconds of the first renewed lock alone: of a
 * process with one thread, with two, or of a child whose parent had one before.  The others print nothing: their caller
 * times the process.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lockshm.h"

static void check(int failed, const char *what)
{
	if (!failed)
		return;
	perror(what);
	exit(1);
}

static int open_file(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	check(fd < 0, name);
	return fd;
}

static lockshm_t *open_segment(const char *name)
{
	lockshm_t *segment;

	check(lockshm_open(&segment, name, 0, NULL), name);
	return segment;
}

static void take(lockshm_t *segment, unsigned flags)
{
	struct lockshm_request request = LOCKSHM_REQUEST("key");
	lockshm_hold_t hold;

	request.flags = flags;
	check(lockshm_acquire(segment, &request, &hold), "acquire");
	check(lockshm_release(&hold, 0), "release");
}

/* ---------------------------------------------------------------- the whole process */

static void lock_none(const char *name)
{
	(void)name;
}

static void lock_flock(const char *name)
{
	int fd = open_file(name);

	check(flock(fd, LOCK_EX), "flock");
	check(flock(fd, LOCK_UN), "flock");
}

static void lock_fcntl(const char *name)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int fd = open_file(name);

	check(fcntl(fd, F_SETLKW, &lock), "fcntl");
	lock.l_type = F_UNLCK;
	check(fcntl(fd, F_SETLK, &lock), "fcntl");
}

/* Robust, in a file that is mapped.  The first process of a run, which does not count, makes it. */
static void lock_pthread(const char *name)
{
	int fd = open_file(name), new = lseek(fd, 0, SEEK_END) == 0;
	pthread_mutexattr_t attr;
	pthread_mutex_t *mutex;

	check(ftruncate(fd, sizeof(*mutex)), name);
	mutex = mmap(NULL, sizeof(*mutex), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(mutex == MAP_FAILED, "mmap");
	if (new) {
		pthread_mutexattr_init(&attr);
		pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
		pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
		pthread_mutex_init(mutex, &attr);
	}
	check(pthread_mutex_lock(mutex), "mutex");
	check(pthread_mutex_unlock(mutex), "mutex");
}

static void lock_lockshm(const char *name)
{
	lockshm_t *segment = open_segment(name);

	take(segment, 0);
	lockshm_close(segment);
}

static void lock_renewed(const char *name)
{
	lockshm_t *segment = open_segment(name);

	take(segment, LOCKSHM_AUTO_RENEW);
	lockshm_close(segment);
}

/* ---------------------------------------------------------------- the first renewed lock alone */

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void time_renewed(lockshm_t *segment)
{
	struct lockshm_request request = LOCKSHM_REQUEST("key");
	lockshm_hold_t hold;
	double from;

	request.flags = LOCKSHM_AUTO_RENEW;
	from = now_us();
	check(lockshm_acquire(segment, &request, &hold), "acquire");
	printf("%.1f\n", now_us() - from);
	fflush(stdout);
	check(lockshm_release(&hold, 0), "release");
}

static void renewed_alone(const char *name)
{
	time_renewed(open_segment(name));
}

static void *wait_for_ever(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void renewed_threads(const char *name)
{
	pthread_t other;

	check(pthread_create(&other, NULL, wait_for_ever, NULL), "thread");
	time_renewed(open_segment(name));
}

static void renewed_fork(const char *name)
{
	lockshm_t *segment = open_segment(name);
	int status;
	pid_t pid;

	take(segment, LOCKSHM_AUTO_RENEW);
	pid = fork();
	if (pid == 0) {
		time_renewed(segment);
		_exit(0);
	}
	check(pid < 0 || waitpid(pid, &status, 0) != pid || status, "the child");
}

static const struct {
	const char *name;
	void (*run)(const char *name);
} kinds[] = {
	{ "none", lock_none },
	{ "flock", lock_flock },
	{ "fcntl", lock_fcntl },
	{ "pthread", lock_pthread },
	{ "lockshm", lock_lockshm },
	{ "lockshm-renewed", lock_renewed },
	{ "renewed", renewed_alone },
	{ "renewed-threads", renewed_threads },
	{ "renewed-fork", renewed_fork },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(argv[1], kinds[i].name))
			continue;
		kinds[i].run(argv[2]);
		return 0;
	}
	fprintf(stderr, "usage: %s KIND NAME\n", argv[0]);
	return 2;
}
