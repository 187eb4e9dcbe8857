/* SPDX-License-Identifier: MIT */
/* chaos-stopped.h - processes that hold and wait on orders of chaos-stopped.c */
#ifndef LOCKSHM_TEST_CHAOS_STOPPED_H
#define LOCKSHM_TEST_CHAOS_STOPPED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lockshm.h"

/* What a holder does until it is stopped or gets another order. */
enum habit { SITS, RENEWS, RELEASES, CHANGES_MODE, CHECKS, AUTO_RENEWS, HABITS };

struct order {
	char key[32]; /* empty: only end what the last order was */
	int mode;
	int habit; /* of the holder; HABITS = a waiter, which releases at once */
	bool by_loop; /* the request waits for an event loop, which the actor polls */
	int64_t ttl_ns, timeout_ns;
};

struct answer {
	int code;
	int64_t at;
};

struct actor {
	pid_t pid;
	int fd;
	bool busy; /* has an order and has not answered yet */
	bool stopped, hurried, cancelled; /* may end otherwise than by a grant */
	struct order order;
	struct answer answer; /* the last one */
	int schedstat; /* file with the time it was ready and not run */
	int64_t delay; /* that, when the round began */
};

/* Used by all, also by the actors: inherited. */
extern lockshm_t *chaos_locks;

int64_t chaos_now(void);
/* Ends the program with an error that is not one of the locks. */
_Noreturn void chaos_broken(const char *what);

/* A new process, at the place of none or of one that was dismissed. */
void actor_hire(struct actor *a);
/* Killed, wherever it is. */
void actor_dismiss(struct actor *a);
void actor_give(struct actor *a, const struct order *o);
/* True = it has answered, and a->answer is that. */
bool actor_hear(struct actor *a);
/* Returns when it stands still. */
void actor_stop(struct actor *a);
void actor_let_run(struct actor *a);
/* A wait that the order began ends as soon as the signal is taken. */
void actor_cancel(struct actor *a);
int64_t actor_run_delay(const struct actor *a);

#endif
