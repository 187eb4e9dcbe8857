/* SPDX-License-Identifier: MIT */
/*
 * fixture.h - what every test file shares: one segment per test, a main(), and short ways to ask the library
 *
 * Each test runs in a process of its own with a new segment of a unique name, opened as `seg`.  The segment goes away
 * in the teardown; what a failed test leaves is removed by the runner.  No test sleeps to let something happen: it
 * waits for a condition with await(), which has a bound.
 */
#ifndef LOCKSHM_TEST_FIXTURE_H
#define LOCKSHM_TEST_FIXTURE_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "lockshm.h"
#include "rows.h"
#include "stalls.h"

/* No condition a test waits for takes longer on a slow, loaded machine, in ran_ns(); past it the test fails.  Less than
 * the leases of 30 s that end by themselves what a test waits for. */
#define PATIENCE LOCKSHM_SECONDS(20)

/* The test's own handle and the name of its segment. */
extern lockshm_t *seg;
extern char seg_name[128];

/* Runs the cases that @add puts into the test case; the exit status is that of the program. */
int fixture_main(const char *name, void (*add)(TCase *tc));

/*
 * qemu's user emulation has no robust futexes, so that a death is found by looking at /proc; it is slow, and it may
 * crash when a process with threads forks.  Cases that need better are added so that they are left out there.
 */
bool emulated(void);
#define tcase_add_native(tc, test)                                                                                     \
	do {                                                                                                           \
		if (emulated())                                                                                        \
			printf("left out under emulation: %s\n", #test);                                               \
		else                                                                                                   \
			tcase_add_test(tc, test);                                                                      \
	} while (0)

/* Replaces the segment by one with these capacities. */
void segment_with(uint32_t locks, uint32_t requests, uint32_t owners);
/* A second name that is cleaned up like the first; @suffix is a word. */
const char *other_name(const char *suffix);
/* The file behind a segment's name. */
const char *path_of(const char *name);

int64_t now_ns(void);
/* Polls @done(@arg) until it is true; false when PATIENCE is over. */
bool await(bool (*done)(void *arg), void *arg);
/* Lets the clock pass @when_ns: for leases that must have run out. */
void pass(int64_t when_ns);

/* A request for the text key @key: strict, tried once.  Change what the case needs. */
struct lockshm_request request_for(const char *key, int mode);
/* The same, in the calling thread. */
int take(lockshm_hold_t *hold, const char *key, int mode);
/* A lock object of the test's segment with the defaults of a request. */
void object_for(lockshm_lock_t *lock, const char *key);
/* With a lease. */
int take_for(lockshm_hold_t *hold, const char *key, int mode, int64_t ttl_ns);
int take_robust(lockshm_hold_t *hold, const char *key, int mode); /* strict, once, LOCKSHM_ROBUST */

/* Runs @test in a child as that user; the child's exit status. */
int as_user(uid_t uid, int (*test)(void));
/* Says so, and is true, where a case needs root and is not. */
bool not_root(void);

/* The rows of a key and of its requests. */
#define SEEN_MAX 128
struct seen {
	int mode;
	int damaged;
	size_t key_len;
	size_t holders;
	size_t waiters;
	struct lockshm_damage damage;
	struct lockshm_blocker requests[SEEN_MAX];
	int alive[SEEN_MAX];
	int global[SEEN_MAX];
};
void look(const char *key, struct seen *out);

/* Counts from lockshm_stat(), asserted to succeed. */
struct lockshm_stat stat_now(void);

/* Asserts that lockshm_verify() finds nothing; prints what it found. */
void verify_clean(void);
void verify_clean_of(lockshm_t *segment);

/* Asserts on codes with their names in the message. */
#define ck_code(got, want)                                                                                             \
	do {                                                                                                           \
		int got_ = (got), want_ = (want);                                                                      \
		ck_assert_msg(got_ == want_, "%s is %s (%d), not %s (%d)", #got, outcome_name(got_), got_,             \
			      outcome_name(want_), want_);                                                             \
	} while (0)
/* Library codes and the agents' own outcomes. */
const char *outcome_name(int code);

#endif
