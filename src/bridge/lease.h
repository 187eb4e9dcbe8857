/* SPDX-License-Identifier: MIT */
/*
 * lease.h - the leader's work on one host lease: read its word and the local queue, change its state, build commands,
 * apply replies
 *
 * All lasting state is in the segment (hostlease/host-lease.h).  struct bridge_lease may be lost at any time: it
 * schedules the next look.
 *
 *   state      condition                                step or command       word after the step or the reply
 *   ---------  ---------------------------------------  --------------------  -----------------------------------------
 *   NONE       a request granted here needs the lease   CAS                   ACQUIRING, epoch + 1
 *              no demand                                -                     inactive until the next ring
 *   ACQUIRING  no demand, or needs_other_command()      CAS                   RELEASING; NONE if Redis can have nothing
 *              an epoch of another leader               CAS                   + QUEUED, before any command
 *              next attempt due                         acquire-x, acquire-s  granted: HELD; granted late: RELEASING
 *                                                                             queued: the same; quorum: RELEASING
 *                                                                             refused, no reply: as without demand
 *   HELD       must_close()                             CAS                   CLOSING
 *   HELD or    valid_until has passed                   CAS                   LOST
 *   CLOSING    renewal due                              renew                 not there, or in another mode: LOST
 *   CLOSING    no holder found                          CAS                   RELEASING
 *   LOST       holds ended, no holder found             CAS                   RELEASING
 *   RELEASING  next attempt due                         leave if QUEUED,      NONE
 *                                                       release
 *              no reply for longer than the ttl         CAS                   NONE
 *   CLAIM      -                                        -                     the claimer's alone
 */
#ifndef LOCKSHM_BRIDGE_LEASE_H
#define LOCKSHM_BRIDGE_LEASE_H

#include "redis/client.h"
#include "hostlease/host-note.h"
#include "lock/snapshot.h"

#define COMMANDS_PER_LEASE 2

struct bridge_lease {
	bool under_way; /* commands of its last decision are: no other decision */
	bool pending; /* rung for, by a process or a server */
	bool invalidated; /* Redis may have changed */
	bool reverify; /* the same, of a held lease: until the reply to a renewal */
	bool raise; /* the server's next token is lower than one in use */
	bool named; /* id, keys and value belong to the record */
	struct identity id;
	struct redis_keys keys;
	char value[HOST_LEASE_VALUE_BYTES];
	uint64_t epoch; /* of value */
	uint64_t own_epoch; /* the last one begun by this leader's own CAS */
	unsigned attempts; /* acquire commands sent in this epoch by this leader */
	bool sent; /* Redis may have something of this epoch: not after a refused try */
	uint32_t may_have; /* servers of a majority that may have the value, by number */
	enum redis_kind blocker; /* by the last reply in this epoch; 0 = none yet */
	int64_t due; /* host time, as all below */
	int64_t next_try; /* after a failure, or while queued */
	int64_t not_before; /* next_try of the next epoch */
	bool parted; /* the next epoch follows one of which parts are given back: what blocks it is the same */
	int64_t notified_until; /* tries got "busy": no new epoch for them before that, unless something happens */
	int64_t backoff_ns;
	int64_t failing_since; /* no reply since, over all epochs; 0 = the last one was good */
	int64_t failed_at; /* the last failure */
	int failed_code; /* its class, */
	char failed_why[256]; /* and the words */
	bool loss_logged; /* of this epoch */
	bool held; /* this leader has seen the epoch HELD or CLOSING */
	int64_t renew_at;
	unsigned unverified; /* renewals left that assume an unchanged fence; 0 = read it */
	int64_t idle_since; /* no demand since; 0 = demand at the last scan */
	uint64_t mark; /* of this host, that the release under way takes to Redis; 0 = none */
	uint64_t local_grants; /* at the last decision to suppress the doorbell */
	int64_t suppressed_at; /* look again then in any case: releases do not ring; 0 = they do */
};

struct bridge {
	struct lockshm *s;
	struct redis_client *client;
	struct bridge_lease *leases; /* n_host_leases */
	uint64_t active[HOST_LEASES_MAX / 64]; /* bit set: to be looked at; clear: NONE without demand */
	struct snapshot snap;
	bool tracked; /* client-side tracking is on */
	bool ending; /* retain nothing */
	bool superseded; /* leadership was lost: this process was stopped */
	int64_t io_ns;
	int64_t renew_until; /* in this pass: renew all that is due by then */
	struct redis_error client_error; /* why there is no client, found at this process' time: */
	int64_t client_tried;
	char host[REDIS_HOST_BYTES + 1]; /* of the segment, terminated */
};

#define LOOK_EVERY 128 /* renewals; the last of them reads the fence, whatever the invalidations */
#define LOOK_NS LOCKSHM_MS(100) /* scan for holders that died */

/* Only this leader sent commands in its epoch, as far as @word says: this leader began it, and QUEUED would announce
 * another one.  A decision based on it needs a CAS from @word. */
static inline bool bridge_lease_is_own(const struct bridge_lease *l, uint64_t word)
{
	return l->own_epoch == l->epoch && !(word & HOST_LEASE_QUEUED);
}

static inline bool bridge_lease_active(const struct bridge *b, uint32_t i)
{
	return b->active[i / 64] >> i % 64 & 1;
}

static inline void bridge_lease_set_active(struct bridge *b, uint32_t i, bool active)
{
	b->active[i / 64] = (b->active[i / 64] & ~(UINT64_C(1) << i % 64)) | (uint64_t)active << i % 64;
}

/* The first active lease from @i on, or n_host_leases. */
static inline uint32_t bridge_lease_next_active(const struct bridge *b, uint32_t i)
{
	for (; i < b->s->n_host_leases; i = (i / 64 + 1) * 64)
		if (b->active[i / 64] >> i % 64)
			return i + (uint32_t)__builtin_ctzll(b->active[i / 64] >> i % 64);
	return b->s->n_host_leases;
}

/* When to look at it again. */
static inline int64_t bridge_lease_due(const struct bridge_lease *l)
{
	return l->suppressed_at && l->suppressed_at < l->due ? l->suppressed_at : l->due;
}

/* Build @script for the lease; @word gives the mode. */
void bridge_lease_command(const struct bridge *b, struct bridge_lease *l, struct redis_command *cmd,
			  enum redis_script script, uint64_t word);
/* Build the release of the value; before it leave.lua for @positions ("x", "s", "xs"; NULL = none). */
size_t bridge_lease_command_release(const struct bridge *b, struct bridge_lease *l,
				    struct redis_command cmds[COMMANDS_PER_LEASE], uint64_t word,
				    const char *positions);
/* Do all transitions that need no reply, then build the commands due now for lease @i; 0..COMMANDS_PER_LEASE. */
size_t bridge_lease_decide(struct bridge *b, uint32_t i, struct redis_command *cmds);
/*
 * Apply a reply.  Returns the number of @late commands: @cmd was superseded, by this leader or another one, and what it
 * may have left in Redis belongs to no epoch.  The @late commands remove it; they must be sent before the next
 * bridge_lease_decide() of the lease.
 */
size_t bridge_lease_apply_reply(struct bridge *b, uint32_t i, const struct redis_command *cmd,
				struct redis_command late[COMMANDS_PER_LEASE]);
/* In ACQUIRING: end the epoch.  Skips RELEASING if Redis can have nothing of it. */
void bridge_lease_give_up(struct bridge *b, uint32_t i, uint64_t word);
void bridge_lease_forget(struct bridge_lease *l);

#endif
