/* SPDX-License-Identifier: MIT */
/*
 * renewal.h - holds that the service thread renews or watches
 *
 * The service thread (service/service.h) makes the list when it starts and looks at those that are due, or watched.  A call on a hold changes
 * the list under its lock, and rings if the thread would wake up too late; it never calls the thread.  service_start()
 * has run before the first renewal.
 */
#ifndef LOCKSHM_HOLD_RENEWAL_H
#define LOCKSHM_HOLD_RENEWAL_H

#include "hold/hold.h"
#include "sys/timers.h"

#define RENEWALS_NEAR 256 /* lists of renewals by the low bits of their index */

/* A hold that the service thread renews, watches, or both.  Guarded by the renewals' lock. */
struct renewal {
	struct timer due;	   /* segment time of the next renewal; not set = there is none */
	struct cds_list_head near; /* the list that renewals_find() searches */
	struct cds_list_head of_watched; /* with a notice */
	uint32_t index;
	uint32_t host_lease;      /* watched: as in the hold */
	uint64_t host_lease_word;
	uint64_t gen;
	uint64_t hold_gen;    /* the hold's own copy: with the index it identifies the hold */
	int64_t ttl_ns;	      /* 0 = not renewed, only watched */
	int64_t deadline;     /* end of the lease as last set */
	int64_t max_ns;	      /* bound on renewing, from the owner's own acquire or renewal on; 0 = none */
	int64_t until;	      /* end of that bound; INT64_MAX = never */
	struct descriptor notice; /* written to once, when the hold is lost; or none */
	bool lost;	      /* nothing left to do */
};

/* All renewals of a process and segment.  The service thread allocates and frees it. */
struct renewals {
	pthread_mutex_t lock;	  /* guards everything below */
	struct timers due;
	struct cds_list_head watched;
	struct cds_list_head near[RENEWALS_NEAR];
	int64_t sleeps_until;	  /* of the service thread's last look, segment time: later renewals need no ring */
	uint32_t doorbell;	  /* futex; changes with everything that the service thread has to look at */
	int cancel;		  /* cancel state of the thread that locked it, to be restored */
};

void renewals_init(struct renewals *all);
/* Free all renewals, with their descriptors. */
void renewals_drop(struct renewals *all);
/* The renewals' lock held.  Make the service thread look again. */
void renewals_ring(struct renewals *all);

/* Renew this hold at half its ttl from now on, from @r->deadline - @r->ttl_ns until @r->max_ns later.  Takes over @r
 * (from malloc). */
void renewals_add(struct lockshm *s, struct renewal *r);

/* The same with the renewals' lock held; ttl_ns 0 = only watched. */
void renewals_add_held(struct lockshm *s, struct renewal *r);

/* Write to @notice when the hold is lost, instead of to the descriptor before; takes it over, and leaves none.  The
 * renewals' lock held. */
void renewals_watch(struct lockshm *s, struct renewal *r, const struct hold *h, struct descriptor *notice);

/* The owner itself has renewed to @deadline.  The renewals' lock held. */
void renewals_retime(struct lockshm *s, struct renewal *r, uint64_t gen, int64_t ttl_ns, int64_t deadline);

/* From the owner's next renewal on it is renewed for @max_ns at most. */
void renewals_limit(struct lockshm *s, const struct hold *h, int64_t max_ns);

/* The owner has a new generation.  The renewals' lock held. */
static inline void renewals_set_gen(struct renewal *r, uint64_t gen)
{
	r->gen = r->hold_gen = gen;
}

/* The renewal of @h, if its pointer is in the list and belongs to this hold; else NULL.  Safe for any pointer.  The
 * renewals' lock held. */
struct renewal *renewals_find(struct lockshm *s, const struct hold *h);

/* Stop renewing and watching; frees @r.  The renewals' lock held. */
void renewals_remove(struct lockshm *s, struct renewal *r);

/* Lock the service thread out while a call of the owner uses a renewal.  False = there is no service thread. */
MUST_CHECK bool renewals_lock_if_any(struct lockshm *s);
void renewals_lock(struct lockshm *s);
void renewals_unlock(struct lockshm *s);

#endif
