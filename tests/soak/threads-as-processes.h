/* SPDX-License-Identifier: MIT */
/*
 * threads-as-processes.h - what the operations and the threads that do them share
 */
#ifndef LOCKSHM_TEST_THREADS_AS_PROCESSES_H
#define LOCKSHM_TEST_THREADS_AS_PROCESSES_H

#include <lockshm.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define KEYS 3
#define PATIENCE LOCKSHM_SECONDS(60)

/* What is done, and how often; each must have happened at the end, or the run has proved nothing. */
enum deed {
	EXCLUSIVE, SHARED, TRIED, UPGRADED, DOWNGRADED, RENEWED, COOLED, TIMED_OUT, CANCELLED, MANY, LEASE_LOST, MOVED,
	AUTO_RENEWED, DEADLOCKED, DIED, TAKEN_OVER, OBJECTS, CROWDED, VERIFIED, DEEDS
};
extern _Atomic uint64_t deeds[DEEDS];

/* Touched by plain loads and stores, on purpose. */
struct guarded {
	uint64_t value;
	uint64_t twin;
};
extern struct guarded guarded[KEYS];
extern _Atomic uint64_t updates[KEYS];

struct worker {
	pthread_t thread;
	uint64_t random;
	pthread_mutex_t lock; /* guards the two below */
	lockshm_canceller_t canceller;
	int cancellable;
};

/* A hold that one worker moved to the process and another may take. */
struct mailbox {
	pthread_mutex_t lock;
	lockshm_hold_t hold;
	int full;
};
extern struct mailbox mailbox;

extern lockshm_t *locks;

/* One thing a worker does; it is done when it returns. */
typedef void operation_fn(struct worker *w);
extern operation_fn *const operations[];
extern const unsigned n_operations;

/* Readers of one key, so many that those woken first wake the others. */
#define CROWD 100
void wake_crowds(void);

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void did(enum deed d);
void nap(long ns);
uint64_t next_random(struct worker *w);
struct lockshm_request request_for(const char *key, int mode);
/* @status must be one of those listed; the list ends with INT32_MIN. */
void expect(const char *what, int status, ...);
#define EXPECT(what, status, ...) expect(what, status, __VA_ARGS__, INT32_MIN)

#endif
