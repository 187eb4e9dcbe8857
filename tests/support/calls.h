/* SPDX-License-Identifier: MIT */
/*
 * calls.h - an operation of the library in a child process, where one of its system calls fails or is its last
 *
 * A round: the child has two threads.  The caller prepares, then acts under a seccomp filter; the kernel reports each of
 * its system calls, and of the threads and processes that it starts, to the supervisor, which lets all but the n-th run.
 * The n-th fails, or the process is killed before it.  Then the caller cleans up, with all calls allowed, and the
 * supervisor counts what the process has too much.  A test lets n rise until the operation ends before its n-th call.
 */
#ifndef LOCKSHM_TEST_CALLS_H
#define LOCKSHM_TEST_CALLS_H

#include <stdbool.h>

#include "support/fixture.h"

/* In the place of an errno. */
enum {
	CALL_KILLS = 0,   /* the n-th of all calls is not made: the process is killed */
	CALL_FAILS = -1,  /* the n-th of those that can fail does so, with an error that the kernel may give for it */
	CALLS_FAIL = -2,  /* in addition all later ones of the same name */
	SLEEPS_FAIL = -3, /* all that sleep on a word, by the error @choice */
};

struct calls_round {
	int (*prepare)(void);  /* not under the filter; 0 = good; may be NULL */
	int (*act)(struct lockshm_error *error);
	void (*clean_up)(void); /* may be NULL */
	bool fresh;       /* in a process that has not used the library: see calls_resume() */
	bool of_children; /* only calls of processes that @act forks count */
	int fate;         /* an errno for every call, or one of the above */
	unsigned n;
	unsigned choice;  /* which error of those that the call may give; with SLEEPS_FAIL an errno */
	char segment[128]; /* seg_name, for a fresh process */
	/* Results, in memory shared with the child. */
	int nr;           /* the call that was the n-th; -1 = there was none */
	int failed_with;  /* errno that it got */
	unsigned choices; /* how many errors it may give */
	int code;         /* of @act */
	struct lockshm_error error;
	unsigned sleeps;  /* with SLEEPS_FAIL: how many there were */
	int leaked;       /* descriptors, mappings of segments, threads */
	char trouble[256]; /* found by the child itself */
};

/* The present round, also in the child. */
extern struct calls_round *calls_now;

/* Before the first round: is there what it takes?  Not under an emulator, nor under a filter that forbids it. */
bool calls_can_fail(void);
void calls_prepare(void);

/* Make a round.  False = the operation was over before its n-th call. */
bool calls_round(const struct calls_round *round);

/*
 * A fresh round starts the program anew, as "fresh FD".  main() calls this then, which fills calls_now and seg_name;
 * sets prepare, act and clean_up, whose addresses differ; and continues with the other, which does not return.
 */
void calls_resume(const char *fd);
void calls_supervise(void) __attribute__((noreturn));

/* In the child: a condition that the test asserts. */
void calls_expect(bool condition, const char *what, int code);
#define CALLS_EXPECT(condition, code) calls_expect(condition, #condition, code)

/* A condition, with the round in the message. */
#define calls_hold(condition)                                                                                          \
	ck_assert_msg(condition, "call %u (number %d, errno %d): %s; it returned %s: %s", calls_now->n, calls_now->nr, \
		      calls_now->failed_with, #condition, lockshm_code_name(calls_now->code), calls_now->error.message)

#endif
