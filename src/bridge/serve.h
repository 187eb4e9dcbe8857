/* SPDX-License-Identifier: MIT */
/* serve.h - to be the bridge of a segment, or to stand by */
#ifndef LOCKSHM_BRIDGE_SERVE_H
#define LOCKSHM_BRIDGE_SERVE_H

#include "segment/segment.h"

/* Written by the thread that serves, read by another one that watches it. */
struct bridge_pulse {
	int64_t at; /* when it last did something as the leader, this process' clock; 0 = it does not lead */
};

/* Does it not lead, or has it done something within the time of its leadership? */
bool bridge_pulse_is_good(const struct bridge_pulse *pulse, const struct lockshm *segment);

/* LOCKSHM_INVALID (no Redis); LOCKSHM_PERMISSION (read-only); LOCKSHM_SYSTEM; 0 = bridge_serve() begins. */
MUST_CHECK int bridge_can_serve(const struct lockshm *segment, struct lockshm_error *error);

/*
 * Waits for the local lock that elects the leader, and leads.  Killed or stopped at any time: a standby continues from
 * the state in the segment, and no lease is lost if that happens within two thirds of redis_ttl_ns.  Cancelled, it first
 * gives back what no request uses, for 250 ms at most.  @pulse may be NULL.
 *
 * LOCKSHM_CANCELLED; LOCKSHM_NO_SEGMENT (removed, and its last lease given back); LOCKSHM_INVALID (no Redis);
 * LOCKSHM_PERMISSION (read-only); LOCKSHM_FULL; LOCKSHM_BAD_SEGMENT; LOCKSHM_NO_MEMORY; LOCKSHM_SYSTEM.
 */
MUST_CHECK int bridge_serve(struct lockshm *segment, lockshm_canceller_t *canceller, struct bridge_pulse *pulse,
			    struct lockshm_error *error);

/* Is no global key in use: neither a lease nor a request of a live process? */
bool bridge_is_unused(struct lockshm *s);

#endif
