/* SPDX-License-Identifier: MIT */
/*
 * lease-wait.h - the second phase of a cross-host acquire: granted on this host, a request waits for the host lease
 *
 * One state machine for blocked threads (acquire.c) and for event loops (service/loop-lease.c).  The record is the
 * request's as long as its local lease lasts, and only the thread that fills the records of its chunk, the thread itself
 * or the loop's, stores into it: lease_wait_begin(), lease_wait_try(), and what follows.  lease_wait_look() stores nothing
 * there but the CAS of a renewal, so the service thread may call it.
 *
 *   begin --> wait on --> entered (a fencing number)
 *                |   \--> LOCKSHM_LOCAL_ONLY
 *                |   \--> a code: TIMEOUT, BUSY, CANCELLED, BRIDGE, NO_SEGMENT
 *                \------> LEASE_AGAIN: the local request was lost, or the record is another key's
 *
 * Killed or stopped: its local request ends with its owner, or PATIENCE_NS after the last renewal, and the next request
 * of the host goes on.
 */
#ifndef LOCKSHM_GLOBAL_LEASE_WAIT_H
#define LOCKSHM_GLOBAL_LEASE_WAIT_H

#include "hold/acquire.h"
#include "hostlease/host-note.h"
#include "sys/clock.h"
#include "sys/futex.h"
#include "sys/hash.h"
#include "sys/min.h"

#define PATIENCE_NS LOCKSHM_SECONDS(3) /* lease of the local request while it waits for the host lease */

/* Not public codes; 0 = wait on. */
#define LEASE_AGAIN 1000   /* release the local request, and begin anew */
#define LEASE_ENTERED 1001 /* g->fence is the number of the hold */
#define LEASE_READY 1002   /* lease_wait_try() may succeed now */

/* Is there a bridge?  Looked for once for many waits. */
struct lease_round {
	bool looked;
	bool served;
};

struct lease_wait {
	struct lockshm *s;
	const struct lockshm_request *q;
	const void *key; /* all of it */
	size_t key_len;
	struct lockshm_error *error;
	struct identity id;
	/* Renew the local request for PATIENCE_NS; false = it was lost. */
	bool (*renew_local)(struct lease_wait *g);
	struct lease_round *round; /* NULL = look for the bridge each time */
	uint64_t owner;	  /* owner_ref of the request */
	uint32_t index;	  /* of the record, once it is granted on this host */
	uint32_t lease;	  /* index of the host lease */
	uint32_t seq;	  /* of its waiters, read before the last look */
	int64_t begun;	  /* host time: results of commands sent before it do not count */
	int64_t since;	  /* host time: results of commands sent before it are known already */
	int64_t deadline; /* this process' clock */
	int64_t renewed;  /* host time of the last tick */
	int64_t look_at;  /* host time: is there a bridge? */
	uint64_t streak;	  /* fencing number of the streak that this continues; 0 = none */
	uint32_t streak_lease; /* its host lease */
	uint64_t streak_word;  /* word of that lease */
	uint64_t fence;	  /* fencing number of the hold, once it is under the lease */
	uint64_t word;	  /* of the lease, as last read */
	uint64_t rung_for; /* the word that the bridge was rung for last; UINT64_MAX = none */
};

struct hold;

/* Can the checked @q be a global request in @s? */
MUST_CHECK int lease_wait_check(const struct lockshm *s, const struct lockshm_request *q, struct lockshm_error *error);

static inline bool lease_is_try(const struct lockshm_request *q)
{
	return q->timeout_ns == 0 || q->flags & ACQUIRE_TRY;
}

/* The time-out of a request that ends at @deadline: never 0, which would be a try. */
static inline int64_t timeout_until(int64_t deadline)
{
	return max64(deadline - clock_precise(), 1);
}

/* When a wait for the lease ends that begins now, and all that follow it in the same call; of a try: the longest wait for
 * replies of the bridge. */
int64_t lease_wait_deadline(const struct lockshm_request *q);

/* g->index is granted: show the demand to the bridge.  LOCKSHM_FULL. */
MUST_CHECK int lease_wait_begin(struct lease_wait *g);

/* Hold under the lease, or why not. */
MUST_CHECK int lease_wait_try(struct lease_wait *g);

/* The same directly after lease_wait_begin(), which has looked at the clock. */
MUST_CHECK int lease_wait_first_try(struct lease_wait *g);

/* The same, but LEASE_READY where that would try. */
MUST_CHECK int lease_wait_look(struct lease_wait *g);

/* What to sleep on after a try or look that said to wait on. */
static inline struct futex_watch lease_wait_watch(const struct lease_wait *g)
{
	return (struct futex_watch){ &g->s->host_leases[g->lease].waiters_seq, g->seq };
}

/* And until when, on this process' clock. */
int64_t lease_wait_until(const struct lease_wait *g);

/* Out of time, in the words of the last result. */
int lease_wait_out_of_time(struct lease_wait *g);

/* The record is to be released: have the bridge look for other demand. */
void lease_wait_withdraw(const struct lease_wait *g);

/* Policy local-only: hold on this host alone, and withdraw the demand. */
void lease_wait_go_local(const struct lease_wait *g);

/* The status of a hold under the lease, or without one.  For a robust request that is @status, its status by the mark
 * of this host, or else that of the note in Redis. */
int lease_wait_status(const struct lease_wait *g, const struct lockshm_request *q, int status);

/* @h is filled for the record: it holds under the lease, or on this host alone.  Returns its token. */
uint64_t lease_wait_fill(const struct lease_wait *g, struct hold *h);

#endif
