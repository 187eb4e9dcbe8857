/* SPDX-License-Identifier: MIT */
/*
 * subject.h - a child process with a chosen user, namespace or limit that runs library calls on command
 *
 * The test knows it by the pid that it has outside.  An environment that is not possible here ends the test with 77 and
 * the reason; an unexpected end of a subject is a failure.
 */
#ifndef LOCKSHM_TEST_SUBJECT_H
#define LOCKSHM_TEST_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lockshm.h"
#include "support/acknowledge.h"

#define SUBJECT_HOLDS 4

/* From now on these calls of this process and its children fail with @error; -1 = that is not possible here. */
int subject_forbid(const int *calls, unsigned n, int error);

/* Where a subject lives.  Zeroed = like the test. */
struct environment {
	bool change_user;
	uid_t uid;
	gid_t gid;
	gid_t group;	     /* one more, if not 0 */
	bool pid_namespace;  /* a new one, with a /proc of its own if it has a mount namespace */
	bool mount_proc;
	int64_t time_offset; /* seconds; a time namespace if not 0 */
	int (*inherit)(void *arg); /* anything else, in the process whose child the subject will be; 0 = done */
	int (*prepare)(void *arg); /* anything else, in the subject, as the last step; 0 = done */
	void *arg;
	bool dont_open;
	unsigned open_flags;
};

struct answer {
	int code;
	int64_t at_ns; /* CLOCK_MONOTONIC of the test's namespace, set by the test */
	int64_t remaining_ns;
	int64_t expires_ns;
	uint64_t token;
	pid_t pid, tid; /* as the subject sees them */
	struct lockshm_report report;
};

struct subject {
	pid_t pid;
	pid_t between; /* a process between the test and it, which waits for it */
	int fd;
	bool alive;
	struct subject *next;
	struct answer answer; /* the last one */
	int64_t answered_ns;  /* when it came */
};

enum { SUBJECT_ENDED = 2000 };

/* NULL is never returned.  @answer.code is that of lockshm_open(). */
struct subject *subject_start(const struct environment *where);

/* Calls; each returns the code of the library, or SUBJECT_ENDED.  All requests are robust. */
int subject_acquire(struct subject *p, int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns,
		   unsigned flags);
int subject_release(struct subject *p, int hold);
int subject_check(struct subject *p, int hold);
int subject_renew(struct subject *p, int hold, int64_t ns);
int subject_open(struct subject *p, unsigned flags);
int subject_close(struct subject *p);
int subject_current(struct subject *p);
int subject_destroy(struct subject *p);
int subject_create(struct subject *p, mode_t mode);
/* What it sees of the first holder of @key: answer.expires_ns, answer.token. */
int subject_look(struct subject *p, const char *key);
/* Runs a function of the test in the subject. */
int subject_call(struct subject *p, int (*function)(void));

/* In two steps: an acquire that may wait. */
void subject_begin(struct subject *p, int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns);
int subject_end(struct subject *p);
/* Until @key has that many waiters. */
void env_await_waiters(const char *key, size_t n);

void subject_kill(struct subject *p);
void subject_stop(struct subject *p);
void subject_continue(struct subject *p);

/* The subject's own handle; for prepare() and subject_call(). */
extern lockshm_t *my_segment;
extern lockshm_hold_t my_holds[SUBJECT_HOLDS];

/* Kills all that are left, at the end of the test. */
void subjects_end(void);

#endif
