/* SPDX-License-Identifier: MIT */
/*
 * operations.h - every public operation of local locks, to be made under failures
 *
 * An operation is prepared, made, made once more if it failed, and cleaned up; after that the segment is as before, and
 * so is the process.  Each round has a process of its own, forked by the test, which has the segment not open then.
 */
#ifndef LOCKSHM_TEST_OPERATIONS_H
#define LOCKSHM_TEST_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "lockshm.h"

/* Flags. */
enum {
	EXPLAINS = 1,    /* it fills @error */
	OF_CHILDREN = 2, /* it is made in a child of the process */
	FRESH = 4,       /* in a process that has not used the library; one operation is */
	FIRST_CALLS = 8, /* OPERATION_CALLS are enough: there are more with each segment of the machine */
};

#define OPERATION_CALLS 25

struct operation {
	const char *name;
	int (*prepare)(void); /* 0 = good; may be NULL */
	int (*act)(struct lockshm_error *error);
	void (*clean_up)(void);
	int good;         /* the code that it returns without a failure */
	int codes[4];     /* those that the header lists for a failure of the system, up to a 0 */
	unsigned flags;
};

extern const struct operation operations[];
extern const unsigned operations_n;

/* Of "time-out". */
extern int64_t operations_time_out;
/* Threads that are no part of the operation under test: their failures are not wanted. */
extern __thread bool operations_bystander;

/* In the process of the round, after @act has returned @code: the second try, the clean-up, and that nothing is left. */
void operation_end(const struct operation *op, int code);
/* In the test: the code and the error are documented ones. */
void operation_check(const struct operation *op, int code, const struct lockshm_error *error);

#endif
