/* SPDX-License-Identifier: MIT */
/* demand.h - demand of this host for one lease: waiters that need it, holds under it */
#ifndef LOCKSHM_BRIDGE_DEMAND_H
#define LOCKSHM_BRIDGE_DEMAND_H

#include "bridge/lease.h"

struct demand {
	bool live; /* requests of this host hold or wait for the key */
	bool holders; /* holds under this epoch */
	bool waiting; /* a request granted on this host needs this lease */
	bool exclusive; /* an exclusive one */
	bool blocking; /* and would wait for it */
	bool other_lease; /* a request needs another lease of this key, see hostlease/host-lease.c */
	bool unsure; /* the queue changed during the scan, or is damaged */
	bool damaged; /* it did not change, and is broken */
};

/* For lease @i in that epoch.  First reaps and expires records of the queue. */
struct demand demand_scan(struct bridge *b, uint32_t i, uint64_t epoch);
/* In CLOSING.  Damage in a queue hides holds as well as their ends: such a lease is kept until it expires. */
bool demand_no_holder(const struct bridge *b, uint32_t i, uint64_t epoch, const struct demand *in);

#endif
