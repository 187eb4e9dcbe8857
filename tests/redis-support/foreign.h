/* SPDX-License-Identifier: MIT */
/*
 * foreign.h - the lock "lock" used by another program's library
 *
 * The other program reads "lock MS", "wait MS" (retries for a long time), "unlock" and "extend MS", one a line, and
 * replies "yes" or "no".  Its arguments are the server's socket and the name of the lock.
 */
#ifndef LOCKSHM_TEST_REDIS_FOREIGN_H
#define LOCKSHM_TEST_REDIS_FOREIGN_H

#include <stdbool.h>

struct foreign {
	const char *name;
	const char *probe; /* a shell command that fails where it is not installed */
	const char *run; /* shell command that gets the script and its arguments */
	const char *script;
	const char *missing; /* reason for the skip */
};

extern const struct foreign foreign_redis_py, foreign_redlock;

bool foreign_is_there(const struct foreign *f);

/* One at a time. */
void foreign_start(const struct foreign *f);
void foreign_end(void);
void foreign_tell(const char *line);
bool foreign_hear(void);
bool foreign_ask(const char *line);

/* Runs the suite of redis-support/foreign.c; status 77 with the reason if it is not installed. */
int foreign_main(const char *name, const struct foreign *f);

#endif
