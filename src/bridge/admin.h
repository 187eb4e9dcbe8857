/* SPDX-License-Identifier: MIT */
/*
 * admin.h - an operator's look at one key in Redis, and its end there by force
 *
 * Over connections of their own, with the rights of the caller to the password: neither needs nor disturbs a bridge.
 */
#ifndef LOCKSHM_BRIDGE_ADMIN_H
#define LOCKSHM_BRIDGE_ADMIN_H

#include "segment/segment.h"

enum remote_state {
	REMOTE_FREE = 2,
	REMOTE_EXCLUSIVE, /* one holder */
	REMOTE_SHARED, /* readers */
	REMOTE_OTHER /* data of another kind, not a lock */
};

/* A holder of a lock in Redis, a waiter, or the writer that left the intent key. */
struct remote_party {
	const char *value; /* of a holder and an intent key: the bytes in Redis; of a waiter "" */
	size_t value_len;
	char host[24]; /* name of the host; "" = another program */
	bool this_host;
	int mode; /* enum lockshm_mode */
	int64_t expires_in_ns; /* negative = expired, the next command removes it; LOCKSHM_FOREVER = it has no end */
};

/* A robust key's note: damaged while a lease up to the token @last ended badly, and none up to that is known as good.  Of a
 * quorum the highest of both of a majority count. */
struct remote_damage {
	uint64_t last, good;
	bool held; /* the last lease; then @last is of the one before it, and a server that has lost the lock is mistaken */
	int status; /* how it ended, if this server's alone count: enum lockshm_status; 0 = not damaged */
	char host[24]; /* of the holder; "" = not known */
	unsigned pid; /* of the holder, on that host; 0 = not known */
};

/* What one server has of a key. */
struct remote_info {
	const char *server; /* as in messages: scheme, host and port, or path */
	int code; /* 0, or LOCKSHM_BRIDGE: no reply, and the fields after @reason are not filled */
	const char *reason; /* why there is no reply; "" = there is one */
	const char *name; /* the key's name there */
	size_t name_len;
	enum remote_state state;
	const char *type; /* Redis' name for the type of the data */
	size_t holders; /* parties[0] .. parties[holders-1]; a cooldown counts as one; at most 1000 */
	size_t waiters; /* the following ones, hosts in the order of their turns; at most 1000 */
	const struct remote_party *const *parties;
	const struct remote_party *mark; /* intent key of a writer that waits for readers to leave; NULL = none */
	struct remote_damage damage;
	uint64_t next_token; /* the next holder's token is not smaller; 0 = not known there */
};

/* Called for each server that has the key, also for one that did not reply; its argument is valid during the call.  A
 * value other than 0 ends the iteration, and becomes the result. */
typedef int (*remote_fn)(const struct remote_info *info, void *arg);

/* Changes nothing.  0, also if no server replied; LOCKSHM_INVALID (a segment without Redis); LOCKSHM_KEY_TOO_LONG;
 * LOCKSHM_BRIDGE (the settings cannot be used); LOCKSHM_NO_MEMORY. */
int remote_inspect(struct lockshm *s, const void *key, size_t key_len, int64_t timeout_ns, remote_fn fn, void *arg,
		   struct lockshm_error *error);

/*
 * Compares with @value and deletes in one step, and raises the fence, so that later holders have larger tokens.  Of
 * several readers the others stay; data with another value, or that is no lock, is not deleted.  With a quorum on all
 * servers; a majority has to reply.
 *
 * 0; LOCKSHM_NOT_HELD (no holder has that value any more: the message names the present one); LOCKSHM_BRIDGE (out of
 * reach: it may have been done or not; it refuses; or the key holds other data); otherwise as remote_inspect().
 */
int remote_end(struct lockshm *s, const void *key, size_t key_len, const void *value, size_t value_len,
	       int64_t timeout_ns, struct lockshm_error *error);

/*
 * Acknowledges what remote_inspect() has shown: the damage of all leases up to the token @last.  Here, too, if this host
 * has the key.  With a quorum on all servers; a majority has to reply.  Takes no lock.
 *
 * 0; LOCKSHM_BRIDGE (out of reach: it may have been done or not; or it refuses); otherwise as remote_inspect().
 */
int remote_acknowledge(struct lockshm *s, const void *key, size_t key_len, uint64_t last, int64_t timeout_ns,
		       struct lockshm_error *error);

#endif
