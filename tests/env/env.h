/* SPDX-License-Identifier: MIT */
/*
 * env.h - the library in other environments: users, namespaces, limits, filters, crowds
 *
 * One test, one segment, and subjects (env/subject.h).  No subject and no segment is left behind, also if a signal, or
 * the alarm for a test that hangs, ends the test.
 */
#ifndef LOCKSHM_TEST_ENV_H
#define LOCKSHM_TEST_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockshm.h"
#include "subject.h"
#include "support/rows.h"

#define ENV_PATIENCE_MS 60000 /* no answer takes longer on a machine with a load of 100 */

/* Ends the test with a reason.  Statuses: 1, 77, 99. */
void env_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));
void env_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void env_broken(const char *what) __attribute__((noreturn));
const char *env_code_name(int code);

#define CHECK(condition) ((condition) ? (void)0 : env_fail(__FILE__, __LINE__, "%s", #condition))
#define CHECK_CODE(got, want)                                                                                          \
	do {                                                                                                           \
		int got_ = (got), want_ = (want);                                                                      \
		if (got_ != want_)                                                                                     \
			env_fail(__FILE__, __LINE__, "%s is %s, not %s", #got, env_code_name(got_),                    \
				 env_code_name(want_));                                                                \
	} while (0)

/* The test's own handle and the name of its segment. */
extern lockshm_t *env_segment;
extern char env_name[64];
/* Make it, in place of the one before; NULL = small, 0600. */
void env_create(const struct lockshm_create_options *options);
/* The file behind it. */
const char *env_path(void);
/* In qemu's user emulation everything is slow, and a death is found by looking at /proc every 10 ms. */
bool env_emulated(void);
/* Each skips the test if there is none. */
void env_need_root(void);
void env_need_robust_futexes(void);

int64_t env_now(void);
void env_nap_ms(long ms);
/* Polls until @done(@arg); fails past ENV_PATIENCE_MS. */
void env_await(bool (*done)(void *arg), void *arg, const char *what);

/* Nothing in use but what @owners threads, this one included, keep: after a sweep. */
void env_nothing_left(uint32_t owners);
void env_verify(void);

#endif
