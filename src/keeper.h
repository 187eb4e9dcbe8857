/* SPDX-License-Identifier: MIT */
/* keeper.h - the one helper thread of a process and segment, where auto-renewal or process-wide holds need it */
#ifndef LOCKSHM_KEEPER_H
#define LOCKSHM_KEEPER_H

#include "hold.h"

/* A lease that the keeper renews.  Its fields belong to the keeper's lock. */
struct renewal {
	struct cds_list_head node;
	uint32_t index;
	uint64_t gen;
	int64_t ttl_ns;
	int64_t due;	  /* segment time of the next try */
	int64_t deadline; /* of the lease as last set */
	bool lost;
};

/* Start it unless it runs.  NO_MEMORY, FULL, SYSTEM. */
MUST_CHECK int keeper_start(struct lockshm *s, struct lockshm_error *error);

/* Around fork(): nobody is inside while memory is copied. */
void keeper_before_fork(struct lockshm *s);
void keeper_after_fork(struct lockshm *s);

/* In a forked child: there is no keeper here, and nothing to renew.  After a fork that bypassed libc the copy of its lists may
 * be inconsistent: then they are dropped as they are. */
void keeper_forget(struct lockshm *s, bool consistent);

/* What process-wide holds depend on: the keeper's uid and owner_ref.  False = no keeper in this process. */
bool keeper_identity(struct lockshm *s, uint64_t *uid, uint64_t *ref);

/* Renew this hold at half its ttl from now on.  Takes over @r (from malloc). */
void keeper_add(struct lockshm *s, struct renewal *r);

/* The owner itself has renewed to @deadline.  Keeper's lock held. */
void keeper_retime(struct lockshm *s, struct renewal *r, uint64_t gen, int64_t ttl_ns, int64_t deadline);

/* Stop renewing; frees @r.  Keeper's lock held. */
void keeper_remove(struct renewal *r);

/* Keep the keeper away from a renewal while a call of the hold's owner uses it. */
void keeper_lock(struct lockshm *s);
void keeper_unlock(struct lockshm *s);

#endif
