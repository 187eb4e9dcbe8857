/* SPDX-License-Identifier: MIT */
/* lease-internal.h - a host lease, for the files that decide what to ask about it: bridge/lease-held.c while it is held,
 * and when it is lost, bridge/lease.c otherwise */
#ifndef LOCKSHM_BRIDGE_LEASE_INTERNAL_H
#define LOCKSHM_BRIDGE_LEASE_INTERNAL_H

#include "bridge/lease.h"

/* What a transition leads to: look again at the new state, or wait, or ask. */
enum next { NEXT_AGAIN, NEXT_WAIT, NEXT_COMMAND };

static inline enum next move(const struct bridge *b, uint32_t i, uint64_t from, uint64_t to)
{
	(void)cas_from(&b->s->host_leases[i].word, from, to);
	return NEXT_AGAIN;
}

static inline enum next wait_until(struct bridge_lease *l, int64_t when)
{
	l->due = when;
	return NEXT_WAIT;
}

/* The server lost the fence, and its clock went back: tell it what was used already. */
void bridge_lease_command_raise(const struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n);

/* HELD and CLOSING. */
enum next bridge_lease_at_held(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n);
enum next bridge_lease_at_lost(struct bridge *b, uint32_t i, uint64_t word);

#endif
