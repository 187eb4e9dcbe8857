/* SPDX-License-Identifier: MIT */
/*
 * global.h - does a history of global keys, taken by processes of several hosts, keep the bridge's promises?
 *
 * The records are those of history.h: acquires, checks, changes of mode and releases of the workers, kills and stops of
 * the driver.  `realm` is the host.  The clock is CLOCK_BOOTTIME, which the leases themselves go by.  In addition the
 * driver notes each fault of Redis as HISTORY_FAULT: `mode` is the kind, `key` the hosts it is about, a bit each.  It
 * can have been there from `enter` on, and was there for certain from `deadline` until `ns`; at `leave` it was over.
 *
 * A hold is good, as far as its holder knows, from the return of its acquire until the end that lockshm_check() last
 * returned, or until its release, a result LOST, or its death.  It is exclusive from the return of the acquire or
 * upgrade until the call of the downgrade.  Properties, by the names in messages:
 *
 *   exclusion   two conflicting holds were good at one time, though Redis did not forget
 *   tokens      a hold has a smaller token than a conflicting one that was granted before it asked; or both the same
 *   away        a hold was granted, or returned as good, when no lease of a host without Redis can have lasted so long
 *   lost        LOST though nothing happened that can end a lease
 *   regained    a hold is good after it was lost
 *   overdue     a call came back long after its time, or never; or waited long though nothing was wrong
 *   closed      a host had no hold for long, though nothing was wrong any more
 *   code        a call returns a code that it cannot return
 *   untold      a robust acquire got 0 after a robust writer that ended badly, and none had acknowledged
 *   false alarm a robust acquire was told though no writer ended badly, and nothing failed
 */
#ifndef LOCKSHM_TEST_HISTORY_GLOBAL_H
#define LOCKSHM_TEST_HISTORY_GLOBAL_H

#include "check.h"

enum history_fault {
	FAULT_FORGETS = 1, /* Redis forgets locks: they may be granted again while the old holder relies on its lease */
	FAULT_AWAY, /* nothing comes through, in one direction at least */
	FAULT_SLOW /* some of it comes through late, or connections end */
};

struct global_terms {
	int64_t ttl_ns; /* of a lease */
	int64_t wait_ns; /* no acquire waits longer while all is well */
	int64_t closed_ns; /* a host has a hold again so long after all is well again */
	uint32_t hosts;
};

struct global_summary {
	uint64_t acquires, granted, shared, changes, lost, killed, told, unsure; /* changes: of mode, unsure: granted when Redis had just forgotten */
	uint64_t by_host[32];
	int64_t worst_wait_ns; /* while all was well */
	uint64_t faults[4]; /* by kind */
};

/* Return: number of violations; each is passed to @fn. */
int history_check_global(const struct history *h, const struct global_terms *terms, history_problem_fn fn, void *arg,
			 struct global_summary *summary);

#endif
