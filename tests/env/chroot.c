/* SPDX-License-Identifier: MIT */
/*
 * chroot.c - workers that have gone into an empty directory after they opened the segment
 *
 * No /proc, no /dev/shm, and later no rights either: an open segment keeps working, deaths are noticed in both
 * directions, and so is the removal of the segment, although its name cannot be looked up.
 */
#define _GNU_SOURCE
#include "env.h"

#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/lockshm-env-chroot-XXXXXX";

static void remove_directory(void)
{
	rmdir(directory);
}

static int go_in(void)
{
	return chroot(directory) == 0 && chdir("/") == 0 && setgid(54321) == 0 && setuid(54321) == 0 ? 0 : LOCKSHM_SYSTEM;
}

static int strict(struct subject *p, int hold, const char *key)
{
	return subject_acquire(p, hold, key, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, 0, ACKNOWLEDGES);
}

static void hand_over(struct subject *from, struct subject *to)
{
	CHECK_CODE(strict(from, 0, "key"), 0);
	subject_begin(to, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	subject_kill(from);
	CHECK_CODE(subject_end(to), LOCKSHM_OWNER_DIED);
	CHECK(to->answer.report.damage.pid == from->answer.pid);
	CHECK_CODE(subject_release(to, 0), 0);
	CHECK_CODE(strict(to, 0, "key"), LOCKSHM_OWNER_DIED);
	CHECK_CODE(subject_release(to, 0), 0);
}

static struct subject *inside(void)
{
	struct subject *p = subject_start(NULL);

	if (subject_call(p, go_in) == LOCKSHM_SYSTEM)
		env_skip("not possible here: chroot() and another user");
	CHECK_CODE(p->answer.code, 0);
	return p;
}

/* The thread joins before the chroot, or after it. */
static void deaths(void)
{
	struct subject *a, *b, *c;

	env_create(NULL);
	a = inside();
	b = subject_start(NULL);
	hand_over(a, b);
	c = inside();
	hand_over(b, c);
	b = inside();
	hand_over(c, b);
	a = subject_start(NULL);
	CHECK_CODE(strict(a, 1, "mine"), 0);
	CHECK_CODE(subject_call(a, go_in), 0);
	CHECK_CODE(subject_check(a, 1), 0);
	CHECK_CODE(strict(b, 1, "mine"), LOCKSHM_BUSY);
	hand_over(a, b);
	CHECK_CODE(strict(b, 1, "mine"), LOCKSHM_OWNER_DIED);
	subject_kill(b);
	env_nothing_left(1);
}

/* Many come and go inside: slots must be found free without /proc. */
static void slots(void)
{
	int i;

	env_create(NULL);
	for (i = 0; i < 40; i++) {
		struct subject *p = inside();

		CHECK_CODE(strict(p, 0, "key"), i ? LOCKSHM_OWNER_DIED : 0);
		subject_kill(p);
	}
	env_nothing_left(1);
}

static void removed(void)
{
	struct subject *a, *b;

	env_create(NULL);
	a = inside();
	b = inside();
	CHECK_CODE(strict(a, 0, "key"), 0);
	CHECK_CODE(subject_current(a), 0);
	subject_begin(b, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	/* By rm: only the link count of the file shows it. */
	CHECK(unlink(env_path()) == 0);
	CHECK_CODE(subject_end(b), LOCKSHM_NO_SEGMENT);
	CHECK_CODE(subject_current(a), LOCKSHM_NO_SEGMENT);
	CHECK_CODE(subject_check(a, 0), 0);
	CHECK_CODE(subject_release(a, 0), 0);
	CHECK_CODE(strict(a, 0, "key"), LOCKSHM_NO_SEGMENT);
	CHECK_CODE(subject_open(a, 0), LOCKSHM_NO_SEGMENT);
	subject_kill(a);
	subject_kill(b);
}

int main(void)
{
	env_need_root();
	/* Inside, the kernel's report of a death is the only one. */
	env_need_robust_futexes();
	if (!mkdtemp(directory) || chmod(directory, 0755) != 0)
		env_broken("mkdtemp");
	atexit(remove_directory);
	deaths();
	slots();
	removed();
	return 0;
}
