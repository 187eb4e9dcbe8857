/* SPDX-License-Identifier: MIT */
/*
 * quorum.h - one lock on several independent servers
 *
 * A command is sent to all servers at once and decided as soon as a majority of the configured ones has replied alike;
 * later replies are still taken.  The validity of a lease counts from before the first byte to the first server.  A
 * failed acquire is taken back everywhere, also at servers that did not reply; by the caller if the value is shared.
 *
 * There is no queue: its order would differ from server to server.  A refused requester tries again after a pause of
 * its choice.  A majority does not protect from a holder that stops and continues too late: that takes the fence.
 */
#ifndef LOCKSHM_REDIS_QUORUM_H
#define LOCKSHM_REDIS_QUORUM_H

#include "redis/script.h"

struct redis_quorum;

struct redis_quorum_options {
	/*
	 * The longest ttl in use.  A server started more recently may have forgotten such a lease and does not vote on
	 * new ones until that has passed; 0 = all servers keep everything on disk.
	 */
	int64_t quarantine_ms;
	int64_t min_validity_ms; /* a lease with less left when decided is refused; 0 = half of the ttl */
	/* A failed acquire takes nothing back: the caller does, once no other process uses the value. */
	bool value_is_shared;
};

struct redis_lock {
	enum redis_status status; /* granted, busy; renew: done, lost */
	int64_t began, decided;
	int64_t valid_until;
	int64_t fence; /* first of args.stride tokens */
	unsigned servers; /* that agreed by then */
	bool sent; /* acquire: a server may have received it */
	/* As in struct script_reply, the highest of a majority; of a release @bad counts servers. */
	bool noted;
	int64_t bad, good;
	char why[REDIS_WHY_BYTES];
	int64_t left_ms; /* busy: longest time that a blocking lease may last, as far as known */
};

int redis_quorum_new(struct redis_quorum **out, const struct redis_server *servers, size_t n,
		      const struct redis_quorum_options *options, struct redis_error *error);
void redis_quorum_free(struct redis_quorum *q);

/*
 * Connects to all and waits until each is ready or failed; the only call here that waits for more than one event.  0 = a
 * majority is ready; REDIS_INVALID = so many addresses are one server that no majority is possible.  Later calls
 * reconnect by themselves; a server that failed is not tried again during its back-off (redis/backoff.h), in which it
 * counts as unreachable.
 */
int redis_quorum_open(struct redis_quorum *q, int64_t deadline);

/*
 * One operation; many may be under way, each about another lock.  @script:
 *
 * REDIS_ACQUIRE_X, _S  0 = see lease.status; else nothing is held as far as is known: REDIS_UNKNOWN = some servers may
 *                      have granted it.  If so many servers refuse the connection that a majority is impossible until
 *                      an operator acts, the code is the error of one of them, REDIS_DENIED for instance
 * REDIS_RENEW          0 and REDIS_DONE: lease.valid_until is later now, and servers that had forgotten the lease get it
 *                      again.  0 and REDIS_LOST: a majority is impossible.  Else unknown: try again while it is valid
 * REDIS_FENCE          0 = no majority gives out tokens below args.fence from now on
 * REDIS_RELEASE        on all servers; lease.servers is how many have replied by the deadline
 */
struct redis_vote {
	enum redis_script script;
	enum redis_script acquired_by; /* renew */
	const struct redis_keys *keys; /* with the texts of the arguments they must stay until it is over */
	struct script_args args;
	int64_t deadline;

	bool over; /* the results are set: */
	int code;
	char why[256]; /* message of the error, or of an earlier one */
	struct redis_lock lease;

	/* internal: */
	int phase;
	int found; /* code of an acquire that is taken back */
	struct round *round;
	struct redis_vote *next;
};

/* Connects if needed, and begins with the next step; the first part of @v is filled. */
void redis_quorum_begin(struct redis_quorum *q, struct redis_vote *v);
/* Does all that is possible without a wait. */
void redis_quorum_step(struct redis_quorum *q);
/* Waits for the servers, not past @until; then a step is due. */
void redis_quorum_wait(struct redis_quorum *q, int64_t until);
/* When a step is due at the latest; INT64_MAX = nothing is under way. */
int64_t redis_quorum_due(const struct redis_quorum *q);
/* Is a reply awaited from that server, or the next step of a connect to it? */
bool redis_quorum_awaits(const struct redis_quorum *q, size_t i);

/* Is a majority connected? */
bool redis_quorum_reachable(const struct redis_quorum *q);
/* The earliest last attempt to connect among the servers that are not ready; @now if that is later. */
int64_t redis_quorum_tried(const struct redis_quorum *q, int64_t now);
/* How many votes there are now; the error of the last failure. */
unsigned redis_quorum_voters(const struct redis_quorum *q);
const struct redis_error *redis_quorum_error(const struct redis_quorum *q);
/* Two servers that report one run_id, and so have one vote together; code 0 = none do. */
const struct redis_error *redis_quorum_same(const struct redis_quorum *q);

/* The connection to the server that was given as number @i, from 0. */
struct redis_conn *redis_quorum_conn(const struct redis_quorum *q, size_t i);

#endif
