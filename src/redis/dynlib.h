/* SPDX-License-Identifier: MIT */
/*
 * dynlib.h - libraries that are loaded at their first use
 *
 * A program with local locks only needs nothing but the C library.  One lock is held while a library is loaded, and
 * during calls of a library that has locks of its own.  fork() takes it, too: a library lock that is held during a fork
 * would stay locked in the child.
 */
#ifndef LOCKSHM_REDIS_DYNLIB_H
#define LOCKSHM_REDIS_DYNLIB_H

#include <stdbool.h>
#include <stddef.h>

#define DYNLIB_ERROR_SIZE 240

struct redis_symbol {
	const char *name;
	void *to; /* a pointer to a function, which gets its address */
};

struct dynlib {
	const char *file; /* exactly the version of the header used for the build */
	const char *needs_it; /* for messages */
	const struct redis_symbol *symbols;
	size_t n_symbols;
	bool loaded;
	char error[DYNLIB_ERROR_SIZE];
};

/* Loads it at the first call; NULL, or why it cannot be loaded. */
const char *dynlib_load(struct dynlib *l);

/*
 * Around calls of a library that has locks of its own; none of the calls may wait.  False: this process was cloned,
 * without fork()'s handlers, while a thread was inside; the library stays locked and must not be called any more.
 */
bool dynlib_enter(int *cancel);
void dynlib_leave(int cancel);

/*
 * At the end of the process: waits until the thread inside has left.  Not for a thread that never will: the caller
 * itself, in a signal handler, or one that is not in this process, which was cloned.  One second at most.
 */
void dynlib_wait_at_end(void);

/* Around a fork(): no thread is loading or inside meanwhile.  The innermost of the locks. */
void dynlib_before_fork(void);
void dynlib_after_fork(void); /* in parent and child */
/* In a child created without these handlers: a thread that was loading is not here. */
void dynlib_forget(void);

#endif
