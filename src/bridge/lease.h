/* SPDX-License-Identifier: MIT */
/*
 * lease.h - what the bridge does about one host lease: look at word and queue, change state,
 * ask Redis, take the answer
 *
 * Everything that lasts is in the segment (hostlease/host-lease.h).  What is here may be lost at any time: it
 * says when to look again.
 */
#ifndef LOCKSHM_BRIDGE_LEASE_H
#define LOCKSHM_BRIDGE_LEASE_H

#include "redis/client.h"
#include "hostlease/host-lease.h"
#include "lock/snapshot.h"

#define COMMANDS_PER_LEASE 2

struct bridge_lease {
	bool pending;   /* somebody, here or there, said: look */
	bool invalidated; /* what is in Redis may have changed */
	bool reverify;   /* the same, of a lease that is held, since a renewal was answered */
	bool raise;  /* the server gives out numbers below those that were used already */
	bool named;  /* keys, id and value are those of the record */
	struct identity id;
	struct redis_keys keys;
	char value[HOST_LEASE_VALUE_BYTES];
	uint64_t epoch;	    /* value is of */
	uint64_t own_epoch;	    /* the last one that we began ourselves, by our own CAS */
	unsigned attempts;	    /* how often in this epoch, by us */
	bool sent;	    /* and something of it may be there: not of a try that was refused */
	enum redis_kind blocker; /* by the last answer in this epoch; 0 = none yet */
	int64_t due;	    /* host time */
	int64_t next_try;   /* after a failure, or as a waiter */
	int64_t not_before; /* the same for the next epoch, where a majority was not to be had in the last one */
	int64_t notified_until; /* somebody who only tried was told: not asked for again before that, unless something happens */
	int64_t backoff_ns;
	int64_t failing_since; /* no answer since then, also in earlier epochs; 0 = the last one was good */
	int64_t failed_at; /* last */
	int64_t renew_at;
	unsigned unverified; /* renewals for which its fence is taken to be as it was; 0 = look at it */
	int64_t mode_at; /* upgrade, downgrade: not before that, after no answer */
	uint64_t mode_gen; /* epoch and turn that these three are about; 0 = none: */
	int64_t unused_since; /* exclusive, and only readers hold under it: seen first; 0 = not so */
	int64_t upgrade_since; /* an upgrade is asked for: seen first; 0 = not so */
	int64_t withdraw_at; /* a downgrade was refused: not before that is it tried again, by a new turn */
	int64_t idle_since; /* 0 = wanted when last seen */
	uint64_t local_grants;    /* when it was last found to be passed on quickly */
	int64_t suppressed_at;   /* looked at then, whatever else is due, because releases do not ring; 0 = they do */
};

struct bridge {
	struct lockshm *s;
	struct redis_client *client;
	struct bridge_lease *leases; /* n_host_leases */
	uint64_t active[HOST_LEASES_MAX / 64]; /* of these: in NONE without anybody who wants it there is nothing to do */
	struct snapshot snap;
	bool tracked; /* hints come */
	bool ending;  /* no linger */
	bool superseded; /* when it had its answers it was the bridge no more: it was stopped */
	int64_t io_ns;
	int64_t renew_until; /* in this round: what is due by then is renewed with what is due now */
	struct redis_error client_error;
	char host[REDIS_HOST_BYTES + 1]; /* as the segment has it, and terminated */
};

#define LOOK_EVERY 128 /* renewals: by itself, with a look into its fence, whatever hints say */
#define MODE_AGAIN_NS LOCKSHM_MS(100)
#define LOOK_NS LOCKSHM_MS(100) /* at holders: they may have died */

/* A majority renews without new numbers: when they are used up, it takes a new lease. */
static inline bool bridge_is_quorum(const struct bridge *b)
{
	return b->s->redis.flags & REDIS_QUORUM;
}

/* Has nobody but us asked for its epoch, as far as @word says?  We began it, and whoever asks for an epoch of another
 * bridge notes that in the word first: so what is decided by this is done by a CAS from @word. */
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

/* The first active one from @i on, or n_host_leases. */
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

/* What @script about the lease is asked with; @word says whether that is exclusive. */
void bridge_lease_command(const struct bridge *b, const struct bridge_lease *l, struct redis_command *cmd, enum redis_script script,
	       uint64_t word);
/* The token back, and before that the places in line: NULL, or as for leave.lua. */
size_t bridge_lease_command_release(const struct bridge *b, const struct bridge_lease *l, struct redis_command cmds[COMMANDS_PER_LEASE], uint64_t word,
		      const char *positions);
/* What to ask about lease @i now, after all transitions that need no answer; 0..COMMANDS_PER_LEASE. */
size_t bridge_lease_decide(struct bridge *b, uint32_t i, struct redis_command *cmds);
/*
 * What follows from the answer.  Returns how many of @late there are now: @ask was overtaken, by us or by another
 * bridge, and what it may have left in Redis is nobody's; they take that back, to be sent before anything else is
 * decided about the lease.
 */
size_t bridge_lease_apply_reply(struct bridge *b, uint32_t i, const struct redis_command *cmd, struct redis_command late[COMMANDS_PER_LEASE]);
/* In ACQUIRING: it is not asked for any more, or not like this.  Where nothing can be there there
 * is nothing to take back. */
void bridge_lease_give_up(struct bridge *b, uint32_t i, uint64_t word);
void bridge_lease_forget(struct bridge_lease *l);

#endif
