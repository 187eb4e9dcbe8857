/* SPDX-License-Identifier: MIT */
/*
 * subject-life.h - messages between env/subject.c and the process of a subject
 *
 * A message of a socket pair is one greeting, one command or one answer.
 */
#ifndef LOCKSHM_TEST_SUBJECT_LIFE_H
#define LOCKSHM_TEST_SUBJECT_LIFE_H

#include "subject.h"

enum op { ACQUIRE, RELEASE, CHECK_HOLD, RENEW, OPEN, CLOSE, CURRENT, DESTROY, CREATE, LOOK, CALL };

struct command {
	enum op op;
	int hold, mode;
	unsigned flags;
	int64_t ttl_ns, timeout_ns;
	int (*function)(void);
	char key[64];
};

/* One from the process between, if there is one, and one from the subject, in any order. */
struct greeting {
	bool ready; /* from the subject: it is in its environment */
	pid_t pid;  /* from the process between: the subject's, as seen by the test */
	int error;  /* errno: the environment is not possible */
	char what[32];
};

/* The rest of the life of a new process. */
void subject_live(const struct environment *where, int fd) __attribute__((noreturn));
/* The same for a process whose child is to be the subject: only a child enters a new pid or time namespace. */
void subject_stand_between(const struct environment *where, int fd) __attribute__((noreturn));

#endif
