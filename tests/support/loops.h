/* SPDX-License-Identifier: MIT */
/*
 * loops.h - what the suites of event loops share: a task with all that must stay where it is while it waits, and
 * processes that run a function of the test
 *
 * An agent is a thread that blocks; what waits on a loop is a task.  When lockshm_loop_acquire() has returned
 * LOCKSHM_PENDING the task is in the queue, so the order of arrival needs no look at the segment.
 */
#ifndef LOCKSHM_TEST_LOOPS_H
#define LOCKSHM_TEST_LOOPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/fixture.h"

struct task {
	struct lockshm_request request;
	struct lockshm_report report;
	lockshm_hold_t hold;
	char key[128];
	int outcomes; /* collected so far */
	int status;   /* of the last one */
};

/* A loop of the test's segment with a descriptor of its own. */
lockshm_loop_t *loop_new(void);
/* Is the descriptor readable now? */
bool fd_readable(int fd);
bool loop_readable(const lockshm_loop_t *loop);
/* Waits until it is; asserted. */
void fd_await(int fd);
void loop_await(const lockshm_loop_t *loop);
/* Neither an outcome nor a readable descriptor. */
void loop_idle(lockshm_loop_t *loop);

/* A task for @key: plain, lease of 30 s, waits for the test's whole patience.  Change what the case needs. */
void task_init(struct task *t, const char *key, int mode);
/* The code of lockshm_loop_acquire() for a task that is filled. */
int task_acquire(lockshm_loop_t *loop, struct task *t);
/* Both; the second one asserts that it is pending. */
int task_begin(lockshm_loop_t *loop, struct task *t, const char *key, int mode);
void task_wait(lockshm_loop_t *loop, struct task *t, const char *key, int mode);
int task_release(struct task *t);

/* The next outcome, after a wait for the descriptor, which must come: its task. */
struct task *loop_collect(lockshm_loop_t *loop);
/* The next outcome is that of @t: its status. */
int task_end(lockshm_loop_t *loop, struct task *t);

/*
 * A grant that is not collected within a second goes to the next waiter, and then the order is another one.  So where
 * the machine stopped the test for that long between two calls of this file, a case that expects an order ends without
 * a result: see ck_outcome() and ck_queue().
 */
#define UNCOLLECTED_NS LOCKSHM_SECONDS(1)
#define TASK_STALLED 1002
bool machine_stalled(void);
/* The case itself let time pass, with no grant that is not collected. */
void time_was_passed(void);

/* Asserts that the next outcome is that of @t, with @want. */
#define ck_outcome(loop, t, want)                                                                                      \
	do {                                                                                                           \
		int outcome_ = task_end(loop, t);                                                                      \
		if (outcome_ == TASK_STALLED)                                                                          \
			return;                                                                                        \
		ck_code(outcome_, want);                                                                               \
	} while (0)

/* Asserts how many hold and wait. */
#define ck_queue(key, n_holders, n_waiters)                                                                            \
	do {                                                                                                           \
		static struct seen seen_;                                                                              \
		look(key, &seen_);                                                                                     \
		if ((seen_.holders != (size_t)(n_holders) || seen_.waiters != (size_t)(n_waiters)) &&                  \
		    machine_stalled())                                                                                 \
			return;                                                                                        \
		ck_assert_uint_eq(seen_.holders, n_holders);                                                           \
		ck_assert_uint_eq(seen_.waiters, n_waiters);                                                           \
	} while (0)

/*
 * Processes.  @act runs in a child of the test and may assert; what it returns is the exit status.  Parent and children
 * share the board: numbers by which they wait for each other.  Children die with the test.
 */
#define BOARD_PLACES 16
extern uint32_t *board;
void board_new(void);
void board_add(unsigned place, uint32_t n);
uint32_t board_get(unsigned place);
/* Waits until the number is at least @n; asserted. */
void board_await(unsigned place, uint32_t n);

pid_t process_start(int (*act)(void));
/* Waits for its end: the exit status, or 1000 and the signal. */
int process_end(pid_t pid);
void process_kill(pid_t pid);
void process_stop(pid_t pid);
void process_cont(pid_t pid);

#endif
