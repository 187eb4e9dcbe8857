/* SPDX-License-Identifier: MIT */
/* demand.h - who of this host wants a lease, and who holds under it */
#ifndef LOCKSHM_BRIDGE_DEMAND_H
#define LOCKSHM_BRIDGE_DEMAND_H

#include "bridge/lease.h"

struct demand {
	bool live;	/* anybody holds or waits for the key on this host */
	bool holders;	/* somebody holds under this epoch */
	bool writers;	/* and exclusively, or did until a moment ago */
	bool waiting;	/* somebody's turn has come here, and it needs a lease */
	bool exclusive; /* such a one as nobody else has */
	bool blocking;	/* would wait for it */
	bool writer_waits; /* whose turn has not come yet on this host */
	bool other_lease;	/* somebody's turn has come who needs another lease of this key, see hostlease/host-lease.c */
	bool unsure;	/* the queue did not hold still, or is damaged */
	bool damaged;	/* it held still, and leads nowhere */
};

/* Of lease @i in that epoch.  What is dead or overdue in the queue goes first. */
struct demand demand_scan(struct bridge *b, uint32_t i, uint64_t epoch);
/* May anybody here want that record's lease?  A look without names, at what may change
 * meanwhile: whoever comes rings. */
bool demand_possible(const struct lockshm *s, uint32_t i);
/* In CLOSING.  A damaged queue hides the end of a hold as well as the hold: its lease is kept to its end. */
bool demand_no_holder(const struct bridge *b, uint32_t i, uint64_t epoch, const struct demand *in);
/* The same of those who write, once EXCLUSIVE is taken back. */
bool demand_no_writer(const struct bridge *b, uint32_t i, uint64_t epoch, const struct demand *in);

#endif
