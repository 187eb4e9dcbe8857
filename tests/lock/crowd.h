/* SPDX-License-Identifier: MIT */
/* crowd.h - many owners at once: a process with a thread for each, which are killed together */
#ifndef LOCKSHM_TEST_CROWD_H
#define LOCKSHM_TEST_CROWD_H

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fixture.h"

/* A process with a thread for each owner. */
struct crowd {
	pid_t pid;
	unsigned *there; /* threads that hold, or are about to wait */
};

static struct {
	unsigned *there;
	const char *key; /* NULL = each its own */
	int mode;
	bool waits;
} plan;

static inline void *member(void *number)
{
	char own[32];
	struct lockshm_request request;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	snprintf(own, sizeof(own), "own %lu", (unsigned long)(uintptr_t)number);
	request = request_for(plan.key ? plan.key : own, plan.mode);
	request.timeout_ns = LOCKSHM_FOREVER;
	if (plan.waits)
		__atomic_fetch_add(plan.there, 1, __ATOMIC_SEQ_CST);
	if (lockshm_acquire(seg, &request, &hold) == 0)
		__atomic_fetch_add(plan.there, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return NULL;
}

static inline void run_members(unsigned n)
{
	pthread_attr_t attr;
	pthread_t thread;
	uintptr_t i;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	for (i = 0; i < n; i++)
		if (pthread_create(&thread, &attr, member, (void *)i) != 0)
			_exit(1);
	for (;;)
		pause();
}

static inline bool all_there(void *n)
{
	return __atomic_load_n(plan.there, __ATOMIC_SEQ_CST) == *(unsigned *)n;
}

/* Beside one that holds. */
static inline bool all_wait(void *n)
{
	return stat_now().requests_used == *(unsigned *)n + 1;
}

/* @n threads that hold @key, or a key each, or wait for it. */
static inline struct crowd crowd_of(unsigned n, const char *key, int mode, bool waits)
{
	struct crowd c = { .there = mmap(NULL, sizeof(*c.there), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) };

	ck_assert_ptr_ne(c.there, MAP_FAILED);
	plan.there = c.there;
	plan.key = key;
	plan.mode = mode;
	plan.waits = waits;
	c.pid = fork();
	ck_assert_int_ge(c.pid, 0);
	if (c.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_members(n);
	}
	ck_assert_msg(await(all_there, &n), "%u of %u threads", *c.there, n);
	ck_assert(!waits || await(all_wait, &n));
	return c;
}

/* All at once: none of them clears away after another. */
static inline void die(struct crowd c)
{
	int status;

	kill(c.pid, SIGSTOP);
	ck_assert_int_eq(waitpid(c.pid, &status, WUNTRACED), c.pid);
	kill(c.pid, SIGKILL);
	ck_assert_int_eq(waitpid(c.pid, &status, 0), c.pid);
	munmap(c.there, sizeof(*c.there));
}

#endif
