/* SPDX-License-Identifier: MIT */
/*
 * flight.h - what is under way for one lease: the commands that were decided together, then what their replies made
 * necessary
 *
 * A lease has one flight at most, and no decision about it is made before that has landed: all its commands are over,
 * with a reply or an error.  So keys and value of the lease stay those of the commands.  A flight that is dropped with
 * its client is a command without a reply.
 *
 * Each lease has room for its own: those of a silent server take none from others.
 */
#ifndef LOCKSHM_BRIDGE_FLIGHT_H
#define LOCKSHM_BRIDGE_FLIGHT_H

#include "bridge/lease.h"

struct flight {
	uint32_t lease;
	size_t n, open; /* commands; those under way */
	bool late; /* they remove what belongs to no epoch: their outcome does not matter, what remains expires */
	struct redis_command cmd[COMMANDS_PER_LEASE];
};

struct flights {
	size_t n; /* under way */
	struct flight *of; /* each lease; memory that was not used yet costs none */
};

/* Decides about lease @i, and adds what is to be sent to the client.  True = something is. */
bool flight_begin(struct flights *all, struct bridge *b, uint32_t i);
/* Takes what is over from the client, and applies it; true if a flight has landed, or has late commands to send. */
bool flights_land(struct flights *all, struct bridge *b);

#endif
