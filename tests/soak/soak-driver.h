/* SPDX-License-Identifier: MIT */
/* soak-driver.h - the driver's side of the soak: its processes, and its own calls on the segment */
#ifndef LOCKSHM_TEST_SOAK_DRIVER_H
#define LOCKSHM_TEST_SOAK_DRIVER_H

#include <pthread.h>
#include <sys/types.h>

#include "history/history.h"
#include "soak.h"

#define SOAK_WORKERS 16

struct soak_worker {
	pid_t pid; /* 0 = none */
	uint32_t process;
	uint32_t lives; /* processes that had this seat in this round */
	int64_t resume_at; /* 0 = runs */
};

struct soak_driver {
	struct history history;
	struct history_writer writer;
	struct soak_config config;
	struct soak_random random;
	char name[64]; /* of the segment */
	char program[4096]; /* of the workers */
	uint32_t process; /* its own number */
	lockshm_t *segment;
	uint16_t realm;
	struct soak_worker workers[SOAK_WORKERS];
	pthread_t heart;
	int64_t heart_since;
	bool heart_stops;
	unsigned kills, kills_stopped, stops, ends, verifies, sweeps, looks, operated, removals;
	uint64_t cleared; /* marks */
	int problems; /* of this round */
	unsigned printed;
};

/* Print a violation. */
void soak_problem(struct soak_driver *d, const char *property, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* soak-driver.c: processes */

void driver_spawn(struct soak_driver *d, struct soak_worker *w);
void driver_kill(struct soak_driver *d, struct soak_worker *w);
void driver_stop(struct soak_driver *d, struct soak_worker *w, int64_t ns);
/* Continue the stopped workers whose time has come. */
void driver_resume(struct soak_driver *d, int64_t now);
/* Reap ended workers.  @respawn: and start another worker for each. */
void driver_reap(struct soak_driver *d, bool respawn);
/* Wait for the end of all workers and of what they have forked; kills what is left after a while. */
void driver_finish(struct soak_driver *d);
void driver_heart_begin(struct soak_driver *d);
void driver_heart_end(struct soak_driver *d);

/* soak-look.c: the segment */

void driver_open(struct soak_driver *d);
void driver_close(struct soak_driver *d);
void driver_remove(struct soak_driver *d);
void driver_verify(struct soak_driver *d);
void driver_sweep(struct soak_driver *d);
void driver_look(struct soak_driver *d);
/* Record the tokens of waiters. */
void driver_see_waiters(struct soak_driver *d);
/* As an operator: end some hold of some key. */
void driver_end_hold(struct soak_driver *d);
/* As an operator: acknowledge some marks. */
void driver_acknowledge(struct soak_driver *d);
/* After the end of all workers: nothing may be left, and every key can be had. */
void driver_look_for_leaks(struct soak_driver *d);

#endif
