/* SPDX-License-Identifier: MIT */
/*
 * removed.c - the name goes while workers use the segment, and another segment takes it
 *
 * By rm, by lockshm_destroy(), and by rm and a new segment at once.  No lock is shared across two segments: a process
 * that gets NO_SEGMENT opens again and meets the others there.
 */
#include "env.h"

#include <stdio.h>
#include <unistd.h>

static int strict(struct subject *p, int hold, const char *key, int64_t timeout)
{
	return subject_acquire(p, hold, key, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, timeout, 0);
}

static void by_rm(void)
{
	CHECK(unlink(env_path()) == 0);
}

static void by_destroy(void)
{
	CHECK_CODE(lockshm_destroy(env_name, NULL), 0);
}

static void make_another(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	options.keys = options.requests = 64;
	options.owners = 16;
	CHECK_CODE(lockshm_create(NULL, env_name, &options, NULL), 0);
}

static void by_rm_and_create(void)
{
	by_rm();
	make_another();
}

/* One writes a new file over the name, as some tools do. */
static void by_rename(void)
{
	char name[96], path[128];

	snprintf(name, sizeof(name), "%s-other", env_name);
	snprintf(path, sizeof(path), "/dev/shm%s", name);
	CHECK_CODE(lockshm_create(NULL, name, NULL, NULL), 0);
	CHECK(rename(path, env_path()) == 0);
}

static void goes(void (*away)(void), bool again)
{
	struct subject *holder, *waiter, *idle, *newcomer;
	uint64_t token;

	env_create(NULL);
	holder = subject_start(NULL);
	waiter = subject_start(NULL);
	idle = subject_start(NULL);
	CHECK_CODE(strict(holder, 0, "key", 0), 0);
	token = holder->answer.token;
	subject_begin(waiter, 0, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
	env_await_waiters("key", 1);
	away();
	if (!again)
		make_another();

	/* Holds stay good and can be released; nothing new is granted. */
	CHECK_CODE(subject_end(waiter), LOCKSHM_NO_SEGMENT);
	CHECK_CODE(subject_check(holder, 0), 0);
	CHECK_CODE(strict(idle, 0, "other", 0), LOCKSHM_NO_SEGMENT);
	CHECK_CODE(subject_current(idle), LOCKSHM_NO_SEGMENT);
	CHECK_CODE(subject_release(holder, 0), 0);

	/* All meet again in the new one, with larger tokens. */
	CHECK_CODE(subject_close(idle), 0);
	CHECK_CODE(subject_open(idle, 0), 0);
	CHECK_CODE(strict(idle, 0, "key", 0), 0);
	CHECK(idle->answer.token > token);
	newcomer = subject_start(NULL);
	CHECK_CODE(strict(newcomer, 0, "key", 0), LOCKSHM_BUSY);
	CHECK_CODE(subject_close(waiter), 0);
	CHECK_CODE(subject_open(waiter, 0), 0);
	CHECK_CODE(strict(waiter, 0, "key", LOCKSHM_MS(20)), LOCKSHM_TIMEOUT);
	CHECK_CODE(subject_release(idle, 0), 0);
	subject_kill(holder);
	subject_kill(waiter);
	subject_kill(idle);
	subject_kill(newcomer);
	by_destroy();
	lockshm_close(env_segment);
	env_segment = NULL;
}

int main(void)
{
	goes(by_rm, false);
	goes(by_destroy, false);
	goes(by_rm_and_create, true);
	goes(by_rename, true);
	return 0;
}
