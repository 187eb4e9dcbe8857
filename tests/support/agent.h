/* SPDX-License-Identifier: MIT */
/*
 * agent.h - scripted processes
 *
 * An agent is a thread of another process that runs commands of the test, one at a time, and replies with the code the
 * library returned.  Commands are asynchronous: the test sends one with agent_begin() and learns either the outcome or
 * that the agent is blocked.  "Blocked" is a fact, not a guess: the segment shows the agent's request as a waiter of
 * that key.  "Died" is the end of the agent's socket.  Seats:
 *
 *   agent_start()    a new process with its own handle        agent_thread(a)  a new thread of a's process
 *   agent_inherit()  a new process using the test's handle    agent_child(a)   a child a makes with fork()
 *
 * All seats of one process share its table of holds (a forked child gets a copy), so that "another thread uses it" and
 * "the child uses the parent's" can be scripted.  Agents die with the test process.
 */
#ifndef LOCKSHM_TEST_AGENT_H
#define LOCKSHM_TEST_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lockshm.h"
#include "support/acknowledge.h"

#define AGENT_HOLDS 24

/* Outcomes in addition to the codes of the library. */
enum { AGENT_BLOCKED = 1000, AGENT_DIED = 1001 };

enum agent_op {
	AGENT_OPEN = 1,	  /* its own handle on segment @key, and not an inherited one */
	AGENT_CLOSE,	  /* lockshm_close(): a detach */
	AGENT_CURRENT,
	AGENT_ACQUIRE,	  /* @key @how=mode @flags @ns=ttl @timeout_ns @tag */
	AGENT_RELEASE,	  /* @ns=cooldown */
	AGENT_RENEW,	  /* @ns */
	AGENT_EXTEND,	  /* @ns */
	AGENT_CHECK,
	AGENT_UPGRADE,
	AGENT_DOWNGRADE,
	AGENT_ACKNOWLEDGE,
	AGENT_MOVE,	  /* @how=to */
	AGENT_NOTIFY,	  /* lockshm_notify() with the process' eventfd; @how=-1: with none */
	AGENT_NOTICE,	  /* waits @timeout_ns for a notice: LOCKSHM_TIMEOUT, or how many came */
	AGENT_CANCEL,	  /* the canceller of hold @hold */
	AGENT_UNCANCEL,	  /* assigns LOCKSHM_CANCELLER_INIT */
	AGENT_THREAD,	  /* used by agent_thread() */
	AGENT_FORK,	  /* used by agent_child() */
	AGENT_EXIT_THREAD, /* pthread_exit(); the answer is AGENT_DIED */
	AGENT_EXIT,	  /* _exit(0) of the process; the answer is AGENT_DIED */
	AGENT_EXEC,	  /* becomes another program, which waits; the answer is AGENT_DIED */
	AGENT_PING	  /* only replies with pid and tid */
};

/* Zeroed fields mean: strict, patient, robust unless it is global, no tag, hold 0. */
struct agent_command {
	int op;
	int hold;
	int how;
	unsigned flags;
	int64_t ns;	    /* 0 for a ttl = LOCKSHM_FOREVER */
	int64_t max_ns;	    /* max_hold_ns */
	int64_t timeout_ns; /* 0 = the test's whole patience; AGENT_TRY = once */
	bool cancellable;   /* use the canceller of the hold */
	int policy;	    /* redis_policy */
	char key[128];
	char tag[64];
};
#define AGENT_TRY (-1)
#define AGENT_PLAIN 0x80000000u /* @flags: not robust */

struct agent_answer {
	int code;
	pid_t pid;
	pid_t tid;
	int64_t at_ns; /* when the call returned */
	int64_t remaining_ns;
	uint64_t token;
	uint64_t lost_to;
	struct lockshm_report report;
};

struct agent {
	pid_t pid;
	pid_t tid;
	int fd;
	bool busy;
	bool direct; /* a child of the test */
	bool alive;  /* the first seat of a process that was not seen to end */
	struct agent_command command; /* the last one */
	struct agent_answer answer;   /* to the last one that was answered */
};

struct agent *agent_start(void);
struct agent *agent_inherit(void);
struct agent *agent_thread(struct agent *of);
struct agent *agent_child(struct agent *of);

/* Sends and returns at once. */
void agent_send(struct agent *a, struct agent_command command);
/* The outcome if there is one by now, else AGENT_BLOCKED. */
int agent_poll(struct agent *a);
/* Waits for the outcome of a sent command. */
int agent_end(struct agent *a);
/* Sends and waits for the outcome. */
int agent_do(struct agent *a, struct agent_command command);
/* Sends an AGENT_ACQUIRE and waits for the outcome or until the segment shows it waiting. */
int agent_begin(struct agent *a, struct agent_command command);

/* The usual ones. */
int agent_acquire(struct agent *a, const char *key, int mode); /* strict, into hold 0, as agent_begin() */
int agent_try(struct agent *a, const char *key, int mode);     /* strict, into hold 0, once */
int agent_take(struct agent *a, const char *key);               /* exclusive, now or in its turn; needs no segment here */
void held_by(struct agent *a, const char *key, int mode);       /* agent_acquire(), which succeeds at once */
int agent_release(struct agent *a);                             /* hold 0 */
int agent_call(struct agent *a, enum agent_op op);              /* any other on hold 0 */

/* Signals; each returns when it has happened. */
void agent_kill(struct agent *a);
void agent_stop(struct agent *a);
void agent_cont(struct agent *a);
/* Waits for the end of an agent after a command to exit. */
void agent_gone(struct agent *a);
/* Frees one that is gone, where a test needs very many. */
void agent_forget(struct agent *a);

/* Is this agent among the waiters of @key? */
bool agent_waits(const struct agent *a, const char *key);

/* Kills all that are left. */
void agents_end(void);

#endif
