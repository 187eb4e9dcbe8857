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
#ifndef LOCKSHM_BRIDGE_QUORUM_H
#define LOCKSHM_BRIDGE_QUORUM_H

#include "redis/script.h"

struct bridge_quorum;

struct bridge_quorum_options {
	/*
	 * The longest lease anybody takes here.  A server that was started more recently may have forgotten such a
	 * lease, and does not vote on new ones until that has passed; 0 = all servers keep everything on disk.
	 */
	int64_t quarantine_ms;
	int64_t min_validity_ms; /* a lease with less left when decided is not taken; 0 = half of the ttl */
	/* A failed acquire gives nothing back: the caller does, once it is sure that nobody else uses the token. */
	bool token_is_shared;
};

struct bridge_lease {
	enum bridge_status status; /* granted, busy; renew: done, lost */
	int64_t began, decided;
	int64_t valid_until;
	int64_t fence; /* first of wish.stride tokens */
	unsigned servers; /* that said yes by then */
	bool sent; /* acquire: something of it may have reached a server */
	bool doubt; /* upgrade that failed: some may have done it all the same */
	enum bridge_kind kind; /* renew, of a reader: HOST = somewhere it is a writer's; else 0 */
	int64_t left_ms; /* busy: the longest that anything in the way may last, as far as known */
};

int bridge_quorum_new(struct bridge_quorum **out, const struct bridge_server *servers, size_t n,
		      const struct bridge_quorum_options *options, struct bridge_error *error);
void bridge_quorum_free(struct bridge_quorum *q);
/* As bridge_conn_abandon(), for all. */
void bridge_quorum_abandon(struct bridge_quorum *q);

/*
 * Connects to all and waits until each answered or failed.  0 = a majority is there; BRIDGE_INVALID = two addresses are
 * one server.  Later calls connect anew by themselves; a server that did not answer is left alone for 50 ms, then
 * longer, up to 400 ms, in which it counts as out of reach.
 */
int bridge_quorum_open(struct bridge_quorum *q, int64_t deadline);

/*
 * @script is BRIDGE_ACQUIRE_X, BRIDGE_ACQUIRE_S, or BRIDGE_UPGRADE.  0 = see lease->status; else nothing is held, as
 * far as one can know: BRIDGE_UNKNOWN = some may have granted it; and where so many refuse to be connected to that no
 * majority can be had before somebody changes that, what one of them said, BRIDGE_DENIED for instance.
 */
int bridge_quorum_acquire(struct bridge_quorum *q, enum bridge_script script, const struct bridge_keys *keys,
			  const struct bridge_wish *wish, int64_t deadline, struct bridge_lease *lease);
/*
 * 0 and BRIDGE_DONE: lease->valid_until is later now, and servers that had forgotten the lease have it again.  0 and
 * BRIDGE_LOST: a majority cannot be had any more.  Else not known: try again while the lease is valid.
 */
int bridge_quorum_renew(struct bridge_quorum *q, enum bridge_script acquired_by, const struct bridge_keys *keys,
			const struct bridge_wish *wish, int64_t deadline, struct bridge_lease *lease);
/* As renew, and servers that have it as a writer's make it a reader's: 0 and BRIDGE_DONE, or BRIDGE_BUSY. */
int bridge_quorum_downgrade(struct bridge_quorum *q, const struct bridge_keys *keys, const struct bridge_wish *wish,
			    int64_t deadline, struct bridge_lease *lease);
/* Nobody of a majority gives out numbers below wish->fence from now on.  0, or why that is not known. */
int bridge_quorum_fence(struct bridge_quorum *q, const struct bridge_keys *keys, const struct bridge_wish *wish,
			int64_t deadline);
/* Everywhere; returns how many servers have answered by the deadline. */
unsigned bridge_quorum_release(struct bridge_quorum *q, const struct bridge_keys *keys, const struct bridge_wish *wish,
			       int64_t deadline);

/* Is a majority connected now? */
bool bridge_quorum_reachable(const struct bridge_quorum *q);
/* Of those that cannot be asked now some are left alone: when all of them had been tried; not later than @now. */
int64_t bridge_quorum_tried(const struct bridge_quorum *q, int64_t now);
/* How many servers vote now, and why the last one that failed did. */
unsigned bridge_quorum_voters(const struct bridge_quorum *q);
const struct bridge_error *bridge_quorum_error(const struct bridge_quorum *q);
/* What is to be said about this number of servers; NULL = nothing. */
const char *bridge_quorum_warning(size_t n);

#endif
