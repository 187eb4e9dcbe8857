/* SPDX-License-Identifier: MIT */
/*
 * dynlib.h - libraries that are loaded when they are needed first
 *
 * A program that has local locks only needs the C library and nothing else.  One lock is held while something is
 * loaded, and while somebody is inside of a library that has locks of its own: nobody forks meanwhile, because in the
 * child nobody would ever unlock those.
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
	const char *file; /* exactly the version whose header was compiled in */
	const char *needs_it; /* for messages */
	const struct redis_symbol *symbols;
	size_t n_symbols;
	bool loaded;
	char error[DYNLIB_ERROR_SIZE];
};

/* Loads it at the first call; NULL, or why it cannot be loaded. */
const char *dynlib_load(struct dynlib *l);

/*
 * Around calls of a library that has locks of its own, none of which may wait for anything.  false: somebody was inside
 * when this process was cloned past the C library, and what he had locked stays so; then it may not be called any more.
 */
bool dynlib_enter(int *cancel);
void dynlib_leave(int cancel);

/*
 * At the end of the process: until whoever is inside has left.  Not for one that never will, which is the caller
 * himself, in a signal handler, or somebody who is not in this process, which was cloned; and for one second at most.
 */
void dynlib_wait_at_end(void);

/* Around a fork(): nobody loads or is inside meanwhile.  The innermost of the locks. */
void dynlib_before_fork(void);
void dynlib_after_fork(void); /* on both sides */
/* In a child that was made without these: whoever was loading is not here. */
void dynlib_forget(void);

#endif
