/* SPDX-License-Identifier: MIT */
/*
 * subject.h - a process that is put into its circumstances and then makes the calls it is told to
 *
 * The test knows it by the pid that it has outside.  Circumstances that cannot be made here end the test with 77 and
 * the reason; a person that ends in any other way than the test has asked for is a failure.
 */
#ifndef LOCKSHM_TEST_PERSON_H
#define LOCKSHM_TEST_PERSON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lockshm.h"

#define PERSON_HOLDS 4

/* From now on these calls of this process and its children fail with @error; -1 = that is not possible here. */
int person_forbid(const int *calls, unsigned n, int error);

/* Where a person lives.  Zeroed = like the test. */
struct circumstances {
	bool change_user;
	uid_t uid;
	gid_t gid;
	gid_t group;	     /* one more, if not 0 */
	bool pid_namespace;  /* a new one, with a /proc of its own if it has a mount namespace */
	bool mount_proc;
	int64_t time_offset; /* seconds; a time namespace if not 0 */
	int (*inherit)(void *arg); /* anything else, in the process whose child the person will be; 0 = done */
	int (*prepare)(void *arg); /* anything else, in the person, as the last step; 0 = done */
	void *arg;
	bool dont_open;
	unsigned open_flags;
};

struct answer {
	int code;
	int64_t at_ns; /* CLOCK_MONOTONIC of the test's namespace is told by the test */
	int64_t remaining_ns;
	int64_t expires_ns;
	uint64_t token;
	pid_t pid, tid; /* as the person sees them */
	struct lockshm_report report;
};

struct person {
	pid_t pid;
	pid_t between; /* a process between us and it, which waits for it */
	int fd;
	bool alive;
	struct person *next;
	struct answer answer; /* the last one */
	int64_t answered_ns;  /* when it came */
};

enum { PERSON_ENDED = 2000 };

/* NULL is never returned.  @answer.code is that of lockshm_open(). */
struct person *person_start(const struct circumstances *where);

/* Calls; each returns the code of the library, or PERSON_ENDED. */
int person_acquire(struct person *p, int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns,
		   unsigned flags);
int person_release(struct person *p, int hold);
int person_check(struct person *p, int hold);
int person_renew(struct person *p, int hold, int64_t ns);
int person_open(struct person *p, unsigned flags);
int person_close(struct person *p);
int person_current(struct person *p);
int person_destroy(struct person *p);
int person_create(struct person *p, mode_t mode);
/* What it sees of the first holder of @key: answer.expires_ns, answer.token. */
int person_look(struct person *p, const char *key);
/* Runs a function of the test in the person. */
int person_call(struct person *p, int (*function)(void));

/* In two steps: an acquire that may wait. */
void person_begin(struct person *p, int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns);
int person_end(struct person *p);
/* Until @key has that many waiters. */
void env_await_waiters(const char *key, size_t n);

void person_kill(struct person *p);
void person_stop(struct person *p);
void person_continue(struct person *p);

/* The person's own handle; for prepare() and person_call(). */
extern lockshm_t *my_segment;
extern lockshm_hold_t my_holds[PERSON_HOLDS];

/* Kills all that are left, at the end of the test. */
void persons_end(void);

#endif
