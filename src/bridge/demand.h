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
	bool robust; /* the key is, on this host */
	bool torn; /* an exclusive hold has ended badly, and its mark may not be left yet */
};

/* For lease @i in that epoch.  First reaps and expires records of the queue. */
struct demand demand_scan(struct bridge *b, uint32_t i, uint64_t epoch);
/* In CLOSING.  Damage in a queue hides holds as well as their ends: such a lease is kept until it expires. */
bool demand_no_holder(const struct bridge *b, uint32_t i, uint64_t epoch, const struct demand *in);

/* Is the key robust on this host? */
bool demand_robust(const struct bridge *b, uint32_t i);

/* Has an exclusive hold under this lease ended badly, and is that not acknowledged?  For a lease without holders, after
 * a scan; *@mark = the word of the entry's mark, or 0. */
bool demand_torn(const struct bridge *b, uint32_t i, uint64_t epoch, const struct demand *in, uint64_t *mark,
		 struct lockshm_damage *out);

#endif
