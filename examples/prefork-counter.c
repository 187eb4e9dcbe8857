/* SPDX-License-Identifier: MIT */
/*
 * prefork-counter.c - a counter that survives workers killed in the middle of an update
 *
 * The update touches two places, the total and this worker's share of it, so a worker killed between the two
 * leaves them torn.  The lock library cannot mend that, but the key is robust (LOCKSHM_ROBUST), so the next holder gets
 * LOCKSHM_OWNER_DIED.  It then reads the journal:
 *
 *  (1) journal written          killed here: .open is not set, nothing happened
 *  (2) .open set                killed here: apply() does the whole update again; it only stores, never adds
 *  (3) total stored             killed here: the same
 *  (4) by_worker stored         killed here: the same
 *  (5) .open cleared            killed here: nothing to do
 *
 * The holds are strict (no lease), since a worker that was stopped in (2) for longer than its lease could
 * still store old values after it continues.
 */
#include "prefork.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

/* A pause inside the update, so that a SIGKILL can hit it. */
static void pause_inside(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 }, NULL);
}

static void apply(struct counter *counter, int die)
{
	counter->total = counter->journal.new_total;
	crash_step();
	pause_inside();
	if (die)
		kill(getpid(), SIGKILL);
	counter->by_worker[counter->journal.worker] = counter->journal.new_by_worker;
	crash_step();
	counter->journal.open = 0;
}

/* The caller holds the lock exclusively, with a status that an earlier holder died or overran its lease. */
static void repair(struct counter *counter, lockshm_hold_t *hold)
{
	if (counter->journal.open) {
		apply(counter, 0);
		counter->repairs++;
	}
	lockshm_acknowledge(hold); /* from here on the next holder sees LOCKSHM_OK again */
}

static void look(const struct counter *counter, struct count *count)
{
	uint64_t sum = 0;

	for (int i = 0; i < WORKERS_MAX; i++)
		sum += counter->by_worker[i];
	count->total = counter->total;
	count->repairs = counter->repairs;
	count->sound = sum == counter->total;
}

int counter_add(struct app *app, int die, struct count *count, struct grant *grant)
{
	struct counter *counter = &app->shared->counter;
	lockshm_hold_t hold;

	if (app_lock_robust(app, "counter", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, die ? "add and die" : "add", &hold, grant) < 0)
		return grant->code;
	if (grant->code > 0)
		repair(counter, &hold);

	counter->journal.token = grant->report.token;
	counter->journal.worker = app->worker;
	counter->journal.new_total = counter->total + 1;
	counter->journal.new_by_worker = counter->by_worker[app->worker] + 1;
	crash_step();
	counter->journal.open = 1;
	crash_step();
	apply(counter, die);

	look(counter, count);
	lockshm_release(&hold, 0);
	return grant->code;
}

/* Readers share the lock.  One that learns of a death repairs like a writer, then goes on as a reader. */
int counter_read(struct app *app, struct count *count, struct grant *grant)
{
	struct counter *counter = &app->shared->counter;
	lockshm_hold_t hold;

	if (app_lock_robust(app, "counter", LOCKSHM_SHARED, LOCKSHM_FOREVER, "read", &hold, grant) < 0)
		return grant->code;
	if (grant->code > 0) {
		lockshm_release(&hold, 0);
		if (app_lock_robust(app, "counter", LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, "repair", &hold, grant) < 0)
			return grant->code;
		repair(counter, &hold);
		lockshm_downgrade(&hold);
	}
	look(counter, count);
	lockshm_release(&hold, 0);
	return grant->code;
}
