/* SPDX-License-Identifier: MIT */
/* step-trace.h - looking at and steering a traced process: registers, break points, sleep; and the way to a point */
#ifndef LOCKSHM_TEST_STEP_TRACE_H
#define LOCKSHM_TEST_STEP_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "step.h"

/* Break points of the tracer's are not written for other machines yet: there every point is reached on foot. */
#if defined(__x86_64__)
#define CAN_BREAK true
#else
#define CAN_BREAK false
#endif

struct user_regs_struct;

/* The instructions of program and library; or other memory. */
struct text {
	uintptr_t from;
	uintptr_t to;
};
struct text text_of_library(void);

struct break_point {
	uintptr_t pc;
	unsigned char byte; /* that was there */
	bool set;
};
void set_break(pid_t pid, struct break_point *b, uintptr_t pc);
void clear_break(pid_t pid, struct break_point *b);
/* The victim has just stopped with SIGTRAP.  If that was @b, it is put back to the instruction itself. */
bool is_at_break(pid_t pid, const struct break_point *b);
/* It has run into its own break point: on to the next instruction. */
void step_over_break_point(pid_t pid);

/* A thread that is no tracee yet; one that is. */
void seize_thread(pid_t tid);
void interrupt_thread(pid_t tid);
void take_pending_trap(pid_t tid);
/* The one that is not the main thread. */
pid_t other_thread_of(pid_t pid);

void registers_of(pid_t pid, struct user_regs_struct *regs);
uintptr_t pc_of(pid_t pid);
bool is_system_call(pid_t pid, uintptr_t pc);
/* A function of the C library that never touches the segment and takes very many steps... */
bool is_private(uintptr_t pc);
/* ... and the victim is at its first instruction: let it run until it returns. */
void run_through_call(pid_t pid);

/* Has the segment changed since the last look? */
bool segment_changed(void);

/* The letter of /proc. */
char state_of(pid_t pid);
/* The instruction behind the system call that it sleeps in; 0 = it is awake. */
uintptr_t sleeps_at(pid_t pid);
/* Waits for the next stop.  False = it sleeps in the kernel. */
bool next_stop(pid_t pid, bool may_sleep, int *status);

/* A round under way. */
struct stepper {
	const struct step_op *op;
	struct scene *scene;
	struct caught c;
	struct text text;
	unsigned target;
	unsigned at; /* all points passed, alike or not */
	unsigned alike; /* behind the one that counts, to go; 0 = has not come to that */
	int signal; /* to pass on with the next step */
	bool unblocked;
	bool over; /* the service thread sleeps again */
	bool granted, entered; /* the watched request has been seen so */
	unsigned granted_at; /* points passed */
};

/* A round begins; the victim is about to make a step, with an instruction of the program or a system call; it has made
 * it: is it behind something that others, or it, can see? */
void touch_begin(const struct stepper *t);
void touch_before(const struct stepper *t, bool ours, bool call);
bool touch_after(const struct stepper *t);
/* What the instruction at @code loads or stores; returns how many operands. */
unsigned touched_by(const unsigned char *code, const struct user_regs_struct *r, uintptr_t out[2]);

/* The test lets the victim go on, if it has not yet. */
void unblock_once(struct stepper *t);
/* Where the call of the victim is over. */
void step_end(void);

/* The victim has come to a point, or is behind what makes it count: true = caught. */
bool passes(struct stepper *t, bool point, bool behind);
/* The victim is about to make the next step; it sleeps. */
void path_note(const struct stepper *t);
void path_note_sleep(const struct stepper *t);
/* How many points are alike, from the @n-th one that counts, as far as the path is known. */
unsigned path_alike(unsigned n);
/* Runs ahead at full speed, to a point not behind the wanted one.  True = caught there. */
bool path_skip(struct stepper *t);

#endif
