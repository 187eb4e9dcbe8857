/* SPDX-License-Identifier: MIT */
/*
 * quorum.h - one lock on several servers that know nothing of each other
 *
 * Everything is written to all servers at once and decided as soon as a majority of those configured has
 * answered alike; answers that come later are still taken.  A lease counts from before the first byte to the
 * first server.  What was not obtained is given back everywhere, also at servers that did not answer; by the
 * caller where the token is shared.
 *
 * There is no queue: its order would differ from server to server.  Whoever is refused tries again after a pause of its
 * choice.  And no majority makes a lease safe against a holder that stops and goes on too late: that takes the fence.
 */
#ifndef LOCKSHM_REDIS_QUORUM_H
#define LOCKSHM_REDIS_QUORUM_H

#include "redis/script.h"

struct redis_quorum;

struct redis_quorum_options {
	/*
	 * The longest lease anybody takes here.  A server that was started more recently may have forgotten such a
	 * lease, and does not vote on new ones until that has passed; 0 = all servers keep everything on disk.
	 */
	int64_t quarantine_ms;
	int64_t min_validity_ms; /* a lease with less left when decided is not taken; 0 = half of the ttl */
	/* A failed acquire gives nothing back: the caller does, once it is sure that nobody else uses the token. */
	bool value_is_shared;
};

struct redis_lock {
	enum redis_status status; /* granted, busy; renew: done, lost */
	int64_t began, decided;
	int64_t valid_until;
	int64_t fence; /* first of wish.stride tokens */
	unsigned servers; /* that said yes by then */
	bool sent; /* acquire: something of it may have reached a server */
	bool doubt; /* upgrade that failed: some may have done it all the same */
	enum redis_kind kind; /* renew, of a reader: HOST = somewhere it is a writer's; else 0 */
	int64_t left_ms; /* busy: the longest that anything in the way may last, as far as known */
};

int redis_quorum_new(struct redis_quorum **out, const struct redis_server *servers, size_t n,
		      const struct redis_quorum_options *options, struct redis_error *error);
void redis_quorum_free(struct redis_quorum *q);
/* As redis_conn_abandon(), for all. */
void redis_quorum_abandon(struct redis_quorum *q);

/*
 * Connects to all and waits until each answered or failed.  0 = a majority is there; REDIS_INVALID = two addresses are
 * one server.  Later calls connect anew by themselves; a server that did not answer is left alone for 50 ms, then
 * longer, up to 400 ms, in which it counts as out of reach.
 */
int redis_quorum_open(struct redis_quorum *q, int64_t deadline);

/*
 * @script is REDIS_ACQUIRE_X, REDIS_ACQUIRE_S, or REDIS_UPGRADE.  0 = see lease->status; else nothing is held, as
 * far as one can know: REDIS_UNKNOWN = some may have granted it; and where so many refuse to be connected to that no
 * majority can be had before somebody changes that, what one of them said, REDIS_DENIED for instance.
 */
int redis_quorum_acquire(struct redis_quorum *q, enum redis_script script, const struct redis_keys *keys,
			  const struct script_args *args, int64_t deadline, struct redis_lock *lease);
/*
 * 0 and REDIS_DONE: lease->valid_until is later now, and servers that had forgotten the lease have it again.  0 and
 * REDIS_LOST: a majority cannot be had any more.  Else not known: try again while the lease is valid.
 */
int redis_quorum_renew(struct redis_quorum *q, enum redis_script acquired_by, const struct redis_keys *keys,
			const struct script_args *args, int64_t deadline, struct redis_lock *lease);
/* As renew, and servers that have it as a writer's make it a reader's: 0 and REDIS_DONE, or REDIS_BUSY. */
int redis_quorum_downgrade(struct redis_quorum *q, const struct redis_keys *keys, const struct script_args *args,
			    int64_t deadline, struct redis_lock *lease);
/* Nobody of a majority gives out numbers below wish->fence from now on.  0, or why that is not known. */
int redis_quorum_fence(struct redis_quorum *q, const struct redis_keys *keys, const struct script_args *args,
			int64_t deadline);
/* Everywhere; returns how many servers have answered by the deadline. */
unsigned redis_quorum_release(struct redis_quorum *q, const struct redis_keys *keys, const struct script_args *args,
			       int64_t deadline);

/* Is a majority connected now? */
bool redis_quorum_reachable(const struct redis_quorum *q);
/* Of those that cannot be asked now some are left alone: when all of them had been tried; not later than @now. */
int64_t redis_quorum_tried(const struct redis_quorum *q, int64_t now);
/* How many servers vote now, and why the last one that failed did. */
unsigned redis_quorum_voters(const struct redis_quorum *q);
const struct redis_error *redis_quorum_error(const struct redis_quorum *q);
/* What is to be said about this number of servers; NULL = nothing. */
const char *redis_quorum_warning(size_t n);

#endif
