/* SPDX-License-Identifier: MIT */
/*
 * time-namespace.c - processes whose monotonic clocks differ agree on leases and deadlines
 *
 * Subjects in time namespaces, an hour ahead and some minutes behind, share a segment with the test.
 */
#define _GNU_SOURCE
#include "env.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#define KEY "key"
#define LEASE LOCKSHM_SECONDS(60)

static bool about(int64_t value, int64_t wanted)
{
	return value > wanted - LOCKSHM_SECONDS(15) && value <= wanted + LOCKSHM_MS(50);
}

static int take(struct subject *p, int64_t ttl, int64_t timeout)
{
	return subject_acquire(p, 0, KEY, LOCKSHM_EXCLUSIVE, ttl, timeout, ACKNOWLEDGES);
}

/* Each sees the lease of the other with its true length. */
static void same_lease(struct subject *a, struct subject *b)
{
	CHECK_CODE(take(a, LEASE, 0), 0);
	CHECK_CODE(subject_check(a, 0), 0);
	CHECK(about(a->answer.remaining_ns, LEASE));
	CHECK_CODE(subject_look(a, KEY), 0);
	CHECK(about(a->answer.expires_ns, LEASE));
	CHECK_CODE(subject_look(b, KEY), 0);
	CHECK(about(b->answer.expires_ns, LEASE));
	CHECK_CODE(take(b, LEASE, 0), LOCKSHM_BUSY);
	CHECK_CODE(take(b, LEASE, LOCKSHM_MS(20)), LOCKSHM_TIMEOUT);
	CHECK(b->answer.report.waited_ns >= LOCKSHM_MS(20) && b->answer.report.waited_ns < LOCKSHM_SECONDS(10));
	CHECK_CODE(subject_release(a, 0), 0);
}

/* A short lease ends for the other one when it ends, neither at once nor in an hour. */
static void overrun(struct subject *a, struct subject *b)
{
	int64_t begun = env_now();

	CHECK_CODE(take(a, LOCKSHM_MS(120), 0), 0);
	CHECK_CODE(take(b, LEASE, LOCKSHM_SECONDS(15)), LOCKSHM_TOOK_OVER_EXPIRED);
	CHECK(b->answered_ns - begun >= LOCKSHM_MS(120));
	CHECK(b->answered_ns - begun < LOCKSHM_SECONDS(10));
	CHECK_CODE(subject_release(a, 0), LOCKSHM_LOST);
	CHECK_CODE(subject_release(b, 0), 0);
}

/* "Only if free in time" compares a deadline with a lease. */
static void booked(struct subject *a, struct subject *b)
{
	CHECK_CODE(take(a, LEASE, 0), 0);
	CHECK_CODE(subject_acquire(b, 0, KEY, LOCKSHM_EXCLUSIVE, LEASE, LOCKSHM_SECONDS(1), LOCKSHM_ONLY_IF_FREE_IN_TIME),
		   LOCKSHM_BUSY);
	CHECK_CODE(subject_release(a, 0), 0);
}

static void all(struct subject *a, struct subject *b)
{
	same_lease(a, b);
	same_lease(b, a);
	overrun(a, b);
	overrun(b, a);
	booked(a, b);
	booked(b, a);
}

/* A process whose children are in another time namespace must not take that for its own. */
static int shift_children(void *seconds)
{
	char text[64];
	int fd, n;

	if (unshare(CLONE_NEWTIME) != 0)
		return -1;
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	n = snprintf(text, sizeof(text), "monotonic %lld 0\n", *(long long *)seconds);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		return -1;
	return close(fd);
}

static void parent_of_others(struct subject *b)
{
	long long seconds = 5000;
	struct environment where = { .prepare = shift_children, .arg = &seconds };
	struct subject *a = subject_start(&where);

	/* Right, or refused. */
	if (a->answer.code == 0)
		all(a, b);
	else
		printf("refused: %s\n", a->answer.report.error.message);
	subject_kill(a);
}

/* A child there, with an inherited handle. */
static int let_child_take(void)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	long long seconds = 5000;
	int status;
	pid_t pid;

	if (shift_children(&seconds) != 0)
		return LOCKSHM_SYSTEM;
	request.key = KEY;
	request.key_len = strlen(KEY);
	request.timeout_ns = LOCKSHM_MS(20);
	pid = fork();
	if (pid == 0)
		_exit(-lockshm_acquire(my_segment, &request, &my_holds[1]));
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? -WEXITSTATUS(status) : LOCKSHM_SYSTEM;
}

static void child_of_another_time(struct subject *b)
{
	struct subject *a = subject_start(NULL);

	CHECK_CODE(take(b, LEASE, 0), 0);
	CHECK_CODE(subject_call(a, let_child_take), LOCKSHM_TIMEOUT);
	CHECK_CODE(subject_release(b, 0), 0);
	subject_kill(a);
}

/* With no descriptor left for /proc the offset cannot be known. */
static int few_descriptors(void *more)
{
	struct rlimit limit = { 0, 0 };
	int fd = dup(0);

	limit.rlim_cur = limit.rlim_max = (rlim_t)(fd + *(int *)more);
	return fd < 0 || close(fd) != 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0 ? -1 : 0;
}

static void without_descriptors(struct subject *b)
{
	int more;

	for (more = 0; more < 3; more++) {
		struct environment where = { .time_offset = 3600, .prepare = few_descriptors, .arg = &more };
		struct subject *a = subject_start(&where);

		/* Right, or refused. */
		printf("%d descriptors: %s %s\n", more, lockshm_code_name(a->answer.code), a->answer.report.error.message);
		if (a->answer.code == 0)
			same_lease(a, b);
		subject_kill(a);
	}
}

int main(void)
{
	struct environment ahead = { .time_offset = 3600 }, behind = { .time_offset = -(int64_t)env_now() / 2000000000 };
	struct subject *a, *b, *c;

	env_need_root();
	env_create(NULL);
	a = subject_start(&ahead);
	b = subject_start(&behind);
	c = subject_start(NULL);
	all(a, c);
	all(b, c);
	all(a, b);
	parent_of_others(c);
	child_of_another_time(c);
	without_descriptors(c);
	env_verify();
	return 0;
}
