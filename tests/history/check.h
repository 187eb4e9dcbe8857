/* SPDX-License-Identifier: MIT */
/*
 * check.h - does a history keep the library's promises?
 *
 * Offline, from the bounds of history/model.h alone.  The properties, by the names in messages:
 *
 *   exclusion       no two conflicting holds certainly held at one time: in their leases, or by results of later calls
 *   fifo            conflicting holds were held in the order of their tokens; no grant passed a live earlier waiter
 *   arrival         a request that came after the token of another was given has a larger token
 *   tokens          no token twice; new segments start above all old ones
 *   truth-ok        OK or LATE from a hold that had certainly been ended before
 *   truth-late      LATE before the lease was over, or OK after it
 *   truth-lost      LOST though neither lease nor operator can have ended it; lost_to is a later token
 *   held            NOT_HELD exactly where the caller has no hold
 *   operator        lockshm_end_hold() ends exactly the hold it names
 *   renewal         an auto-renewed lease is lost only by a process that was stopped
 *   code            no call returns a code that it cannot return; a status of damage only for robust requests
 *   segment         nothing is granted in a removed segment, NO_SEGMENT only where it was removed
 *   damage-false    a report of a bad end that did not happen, left no mark, or was another holder's
 *   damage-missing  no report to a later holder of a bad end that certainly left a mark
 *   damage-again    a report repeated after it was acknowledged
 *   early           a time-out before its time
 *   overdue         a call came back long after its time, or not at all
 *   stuck           a waiter was not granted long after the last conflicting hold before it ended
 *   wake            too many waiters in calm times depended on their self-check
 *   busy            BUSY though free
 *   cancel          CANCELLED without a cancel
 *   deadlock        DEADLOCK without a cycle
 *   full            FULL in a segment with room for all
 *   outcome         of a loop: a wait with two ends, an end of none, or an end that is another one's
 *   place           of a loop: a wait was put at the end of the queue though no grant of it can have ended
 */
#ifndef LOCKSHM_TEST_HISTORY_CHECK_H
#define LOCKSHM_TEST_HISTORY_CHECK_H

#include "model.h"

/* What a slow, loaded machine may add to any call that has nothing to wait for. */
#define HISTORY_PATIENCE LOCKSHM_SECONDS(2)

typedef void (*history_problem_fn)(const char *property, const char *text, void *arg);

struct history_summary {
	uint64_t records, acquires, granted, waited, failed, in_flight;
	uint64_t outcomes[HISTORY_OPS][32]; /* by 20 + code */
	uint64_t deaths_reported, expiries_reported, deaths_certain, details_unknown;
	uint64_t calm_waits, calm_late; /* waiters in calm times; those that were late */
	int64_t worst_wait_ns; /* past the time nothing stood before it */
	uint64_t loop_waits, loop_outcomes, loop_cancels[2], loop_closed; /* of loops: their ends */
	uint64_t went_back; /* of those that were seen: grants that ended before they were collected */
};

/* Return: number of violations; each is passed to @fn. */
int history_check(const struct history *h, history_problem_fn fn, void *arg, struct history_summary *summary);

/* ---------------------------------------------------------------- for the files of the checker */

struct check {
	struct model m;
	history_problem_fn fn;
	void *arg;
	struct history_summary *summary;
	int64_t origin; /* first time in the history */
	const struct history_record *first_grant[HISTORY_REALMS];
	int problems;
};

/* @a and @b, which may be NULL, are printed with it. */
void problem(struct check *c, const char *property, const struct history_record *a, const struct history_record *b,
	     const char *format, ...) __attribute__((format(printf, 5, 6)));

void check_order(struct check *c);
void check_truth(struct check *c);
void check_damage(struct check *c);
void check_waits(struct check *c);
void check_loops(struct check *c);

/* Could an attempt other than @self have stood in the way of @mode of that key between the two times? */
bool anybody_there(const struct check *c, const struct key *key, int64_t from, int64_t to, bool exclusive,
		   const struct history_record *self);
struct key *find_key(const struct check *c, uint16_t realm, uint32_t key);

#endif
