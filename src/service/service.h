/* SPDX-License-Identifier: MIT */
/* service.h - the one helper thread of a process and segment: for auto-renewal, notices and process-wide holds */
#ifndef LOCKSHM_SERVICE_SERVICE_H
#define LOCKSHM_SERVICE_SERVICE_H

#include "hold/hold.h"

/* A hold whose lease the service thread renews, or that it watches, or both.  Its fields belong to the renewals' lock. */
struct renewal {
	struct cds_list_head node;
	struct cds_list_head near; /* those that service_find() looks through */
	uint32_t index;
	uint32_t host_lease;      /* watched: as in the hold */
	uint64_t host_lease_word;
	uint64_t gen;
	uint64_t hold_gen;    /* what the hold has for it: with the index it says which hold this is of */
	int64_t ttl_ns;	      /* 0 = not renewed, only watched */
	int64_t due;	      /* segment time of the next renewal; INT64_MAX = there is none */
	int64_t deadline;     /* of the lease as last set */
	int64_t max_ns;	      /* how long it is renewed from when the owner took or renewed it himself; 0 = no bound */
	int64_t until;	      /* when that is over; INT64_MAX = never */
	int fd;		      /* written to when the hold is lost, then left alone; -1 = nobody is to be told */
	bool lost;	      /* nothing left to do */
};

/* Start it unless it runs.  NO_MEMORY, FULL, SYSTEM. */
MUST_CHECK int service_start(struct lockshm *s, struct lockshm_error *error);

/* Around fork(): nobody is inside while memory is copied. */
void service_before_fork(struct lockshm *s);
void service_after_fork(struct lockshm *s);

/* In a forked child: there is no service thread here, and nothing to renew.  After a fork that bypassed libc the copy of its
 * lists may be inconsistent: then they are dropped as they are. */
void service_forget(struct lockshm *s, bool consistent);

/* What process-wide holds depend on: the service thread's uid and owner_ref.  False = no service thread in this process. */
bool renewals_identity(struct lockshm *s, uint64_t *uid, uint64_t *ref);

/* Renew this hold at half its ttl from now on, from @r->deadline - @r->ttl_ns until @r->max_ns later.
 * Takes over @r (from malloc). */
void renewals_add(struct lockshm *s, struct renewal *r);

/* The same of one that is not renewed, with the renewals' lock held. */
void renewals_add_held(struct lockshm *s, struct renewal *r);

/* Write to @fd when the hold is lost, and no more to what was named before; takes @fd over.  The renewals' lock held. */
void renewals_watch(struct lockshm *s, struct renewal *r, const struct hold *h, int fd);

/* The owner itself has renewed to @deadline.  The renewals' lock held. */
void renewals_retime(struct lockshm *s, struct renewal *r, uint64_t gen, int64_t ttl_ns, int64_t deadline);

/* From the owner's next renewal on it is renewed for @max_ns at most. */
void renewals_limit(struct lockshm *s, const struct hold *h, int64_t max_ns);

/* The owner has a new generation.  The renewals' lock held. */
static inline void service_set_gen(struct renewal *r, uint64_t gen)
{
	r->gen = r->hold_gen = gen;
}

/* The renewal of @h, if the pointer in it is one, and this hold's; else NULL.  Safe for any pointer.  The renewals' lock
 * held. */
struct renewal *service_find(struct lockshm *s, const struct hold *h);

/* Stop renewing and watching; frees @r.  The renewals' lock held. */
void renewals_remove(struct lockshm *s, struct renewal *r);

/* Keep the service thread away from a renewal while a call of the hold's owner uses it.  False = there is none. */
MUST_CHECK bool service_lock_if_any(struct lockshm *s);
void renewals_lock(struct lockshm *s);
void renewals_unlock(struct lockshm *s);

#endif
