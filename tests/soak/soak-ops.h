/* SPDX-License-Identifier: MIT */
/* soak-ops.h - a worker's operations on locks, each with its record; soak-worker.c calls them */
#ifndef LOCKSHM_TEST_SOAK_OPS_H
#define LOCKSHM_TEST_SOAK_OPS_H

#include <pthread.h>

#include "history/history.h"
#include "soak.h"

#define SOAK_HOLDS 4 /* of one thread */
#define SOAK_SHELF 6 /* of a process */
#define SOAK_THREADS 8
#define SOAK_WAITS 8 /* of one loop */

/* An open segment, used by some threads of the process. */
struct seat {
	lockshm_t *segment;
	uint16_t realm;
	unsigned users;
	bool stale; /* removed: leave it when nothing is held there any more */
};

static inline bool seat_is_stale(const struct seat *seat)
{
	return __atomic_load_n(&seat->stale, __ATOMIC_RELAXED);
}

struct soak_hold {
	lockshm_hold_t hold;
	struct seat *seat; /* only to compare */
	uint16_t realm;
	uint32_t acquire; /* number of its record */
	uint32_t key;
	int mode;
	bool strict;
	bool of_process; /* depends on the life of the process, not of a thread */
};

struct soak_wait;

/* Several locks of one call. */
struct bundle {
	size_t n;
	struct history_record *records[SOAK_HOLDS];
	struct lockshm_key keys[SOAK_HOLDS];
	unsigned char bytes[SOAK_HOLDS][SOAK_KEY_MAX];
	lockshm_hold_t holds[SOAK_HOLDS];
};

struct soak_thread {
	struct soak_process *process;
	struct history_writer writer;
	struct soak_random random;
	struct seat *seat;
	struct soak_hold *holds[SOAK_HOLDS];
	unsigned n_holds;
	lockshm_loop_t *loop; /* NULL = none */
	struct soak_wait *waits[SOAK_WAITS];
	unsigned n_waits;
	int64_t polled; /* since then it does nothing but poll; 0 = it does something else */
	char tag[LOCKSHM_TAG_MAX + 1];
	int schedstat; /* /proc file with the time this thread was kept from running */
	pthread_mutex_t cancel_lock; /* guards the two below */
	lockshm_canceller_t canceller;
	uint32_t cancellable; /* number of the record of the wait that uses it, plus 1 */
	bool forked; /* the only thread of a forked child */
	pthread_t id;
	unsigned number;
	unsigned lives; /* threads that had this seat */
	int state; /* manager's */
};

struct soak_process {
	struct history history;
	struct soak_config config;
	const char *name;
	uint32_t number, image;
	uint64_t life; /* the driver's name for it, the same in every run with that seed */
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t changed;
	struct seat *seat; /* the current one */
	struct soak_hold *shelf[SOAK_SHELF]; /* holds of the process */
	unsigned n_shelf;
	struct soak_thread threads[SOAK_THREADS];
	unsigned n_threads;
	unsigned n_loops; /* its first threads have one */
};

void ops_begin(struct soak_thread *t, struct soak_process *p, uint32_t parent);
void ops_end(struct soak_thread *t);

/* A record for a call on @h, or for one that concerns no hold. */
struct history_record *ops_record(struct soak_thread *t, const struct soak_hold *h);
uint32_t ops_number(const struct soak_thread *t, const struct history_record *r);
void ops_dawdle(struct soak_thread *t);

/* soak-acquire.c */
int64_t ops_any_ttl(struct soak_thread *t);
void ops_acquire(struct soak_thread *t);
void ops_many(struct soak_thread *t);
void ops_acknowledge(struct soak_thread *t, struct soak_hold *h);
/* @hold is @h's, which needs to have no more than what the record says. */
void ops_previous(struct soak_thread *t, const struct soak_hold *h, const lockshm_hold_t *hold);

uint32_t ops_any_key(struct soak_thread *t);
void ops_any_request(struct soak_thread *t, struct lockshm_request *q, struct history_record *r);
/* The keys of a bundle whose first record is filled; and what becomes of them at the end of the call, or of the wait. */
void ops_fill_bundle(struct soak_thread *t, struct bundle *b, struct lockshm_request *q);
void ops_use_up(struct soak_thread *t, struct bundle *b, int64_t now, int code);
void ops_keep(struct soak_thread *t, struct soak_hold *h, uint32_t acquire, uint32_t key, int mode, bool strict);
/* Was that because the segment has been removed? */
void ops_removed(struct soak_thread *t, int code);
int64_t ops_run_delay(const struct soak_thread *t);

/* soak-loop.c */

/* A random operation on the thread's loop; false = it has none, or none was made. */
bool ops_loop_step(struct soak_thread *t);
/* Do nothing but poll and collect, until nothing waits or that time is over. */
void ops_loop_drain(struct soak_thread *t, int64_t ns);
/* Its waits end; @w is the caller's. */
void ops_loop_close(struct soak_thread *t, struct history_writer *w);
/* In a child: it is the parent's. */
void ops_loop_forget(struct soak_thread *t);

/* One random operation, by what is held. */
void ops_step(struct soak_thread *t);
void ops_release_all(struct soak_thread *t);
/* Everything in the process that is held in a segment that is to be closed, is forgotten. */
void ops_forget_shelf(struct soak_process *p, const struct seat *seat);
/* @t has ended, @w is the caller's: its holds are not held now, which a call on each must return; those of the process
 * are released. */
void ops_disown(struct soak_thread *t, struct history_writer *w);
/* The caller holds none of them any more: the handle was closed, or they are the parent's. */
void ops_forget(struct soak_thread *t);

#endif
