/* SPDX-License-Identifier: MIT */
/* lease-internal.h - for the files that decide about one host lease: bridge/lease-held.c (HELD, CLOSING, LOST),
 * bridge/lease.c (the other states), bridge/lease-log.c (what the operator reads) */
#ifndef LOCKSHM_BRIDGE_LEASE_INTERNAL_H
#define LOCKSHM_BRIDGE_LEASE_INTERNAL_H

#include "bridge/lease.h"

/* After a transition: decide again in the new state, wait, or send. */
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

/* The server lost the fence and its clock went back: raise it to the tokens in use. */
void bridge_lease_command_raise(const struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds,
				size_t *n);

/* One line for each lost lease, with the cause: what a reply to a renewal reports, or that its time was over. */
void bridge_lease_log_loss(struct bridge *b, uint32_t i, const struct redis_command *cmd);
void bridge_lease_log_expiry(struct bridge *b, uint32_t i);

/* HELD and CLOSING. */
enum next bridge_lease_at_held(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n);
enum next bridge_lease_at_lost(struct bridge *b, uint32_t i, uint64_t word);

/* The note of a robust key with the renewal in @args. */
void bridge_lease_note(struct bridge *b, uint32_t i, uint64_t word, struct script_args *args);
/* The same for the release: how this host leaves the key. */
void bridge_lease_close_note(struct bridge *b, uint32_t i, uint64_t word, struct script_args *args);
/* The reply of a command that makes the note has come. */
void bridge_lease_apply_note(struct bridge *b, uint32_t i, uint64_t word, const struct script_reply *a);
/* A release has a reply: Redis has the mark that it took there, so this host need not report it. */
void bridge_lease_note_closed(struct bridge *b, uint32_t i, const struct redis_command *cmd);

#endif
