/* SPDX-License-Identifier: MIT */
/*
 * script.h - what can be done with a lock in Redis: each operation is one script, executed
 * as a whole or not at all
 *
 * An operation is begun on a connection that is ready, and is done when its reply came or can come no more.  Many may
 * be under way, on one connection or on several.  Whether the lock is held then is decided here by nobody: an answer
 * "granted" is good only until redis_valid_until() of the time at which the operation was begun, and after
 * REDIS_UNKNOWN the caller has to release, whatever the lock's state.
 */
#ifndef LOCKSHM_REDIS_SCRIPT_H
#define LOCKSHM_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/boot-clock.h"
#include "redis/conn.h"
#include "redis/names.h"
#include "redis/settings.h"

enum redis_script {
	REDIS_ACQUIRE_S,
	REDIS_ACQUIRE_X,
	REDIS_DOWNGRADE,
	REDIS_FENCE,
	REDIS_FORCE_RELEASE,
	REDIS_INSPECT,
	REDIS_LEAVE,
	REDIS_RELEASE,
	REDIS_RENEW,
	REDIS_RENEW_MANY,
	REDIS_UPGRADE,
	REDIS_N_SCRIPTS
};

static inline bool redis_is_acquire(enum redis_script script)
{
	return script == REDIS_ACQUIRE_S || script == REDIS_ACQUIRE_X;
}

/* The texts, for redis_conn_options. */
extern const char *const redis_scripts[REDIS_N_SCRIPTS];

#define REDIS_VALUE_LEN 32

/* Who asks: 16 hexadecimal digits, made once for each segment. */
struct redis_host {
	char id[REDIS_HOST_LEN + 1];
};

/* A token: the host's id and 16 random digits, new for each acquisition.  False without random numbers. */
bool redis_value(char out[REDIS_VALUE_LEN + 1], const struct redis_host *host);
bool redis_host_make(struct redis_host *out);

/* What a script is told beside the keys; which fields count is said for each script below. */
struct script_args {
	const char *host; /* id */
	const char *
		value; /* of the lease, or for force-release the value inspected; must stay there until the op is done */
	size_t value_len; /* 0 = up to its end */
	int64_t ttl_ms;
	int64_t stride; /* how many fencing tokens to reserve; renew: 0 = none */
	int64_t waiter_ttl_ms; /* how long a waiter counts without calling again */
	const char *flags; /* acquire: "t" = try, "b" = pass the queue; leave: "x", "s", "xs" */
	int64_t after_ms; /* release: how long the lock stays closed */
	int64_t fence; /* fence: the number to raise it to */
	int64_t mode_gen; /* acquire, upgrade, downgrade: how often the lease has become a reader's, this time included */
};

enum redis_status {
	REDIS_GRANTED = 2, /* acquire, upgrade */
	REDIS_QUEUED, /* acquire: has a ticket */
	REDIS_BUSY, /* acquire with try, upgrade: no; downgrade: of an earlier turn */
	REDIS_DONE, /* all others */
	REDIS_LATE, /* release: was ours, but the reader's time was over */
	REDIS_LOST, /* somebody else's, or a reader whose time is over */
	REDIS_ABSENT, /* nobody's */
	REDIS_CHANGED, /* force-release: not what was inspected */
};

/* What is in the way, or was found instead of ours. */
enum redis_kind {
	REDIS_KIND_NONE = 2,
	REDIS_KIND_HOST, /* writer that follows our protocol */
	REDIS_KIND_FOREIGN, /* any other string */
	REDIS_KIND_DELAY, /* stays closed after a release */
	REDIS_KIND_READERS,
	REDIS_KIND_INTENT, /* a waiting writer's mark */
	REDIS_KIND_QUEUE, /* free, but others come first */
};

struct script_reply {
	enum redis_status status;
	enum redis_kind kind;
	int64_t server_ms;
	int64_t queued; /* hosts that wait */
	int64_t position; /* of this host among them, from 1; 0 = not waiting */
	int64_t left_ms; /* until what is in the way may end; -1 = it has no end, -2 = nothing is there */
	int64_t fence; /* granted, renewed: first of the tokens reserved, 0 = none */
	bool intent; /* the mark of another writer is there */
	char holder[96]; /* token, or host id for KIND_QUEUE; cut if longer */
	size_t holder_len;
};

/* Leases with one ttl that one script is asked to renew, as long as there is nothing else to do for
 * them; see renew-many.lua. */
#define REDIS_MANY 64
struct redis_many {
	const struct redis_keys *keys[REDIS_MANY];
	const char *value[REDIS_MANY]; /* must stay there until the op is done */
	size_t n;
	bool fences; /* are looked for, too: nothing tells when one is gone */
};

struct redis_op {
	struct redis_conn *conn;
	const struct redis_keys *keys;
	const struct redis_many *many; /* instead of keys and token */
	enum redis_script script;
	int64_t deadline;
	int64_t began; /* before its first byte was written: validity counts from here */
	int64_t ended;
	bool done;
	int code; /* 0 = there is an answer */
	char why[256]; /* the error in words: its connection may have met others since */
	struct script_reply reply; /* of all but inspect and renew-many */
	struct redis_reply *inspected; /* of these; freed by redis_op_end() */
	/* its own */
	bool proves; /* if granted, that no right is missing */
	uint64_t generation, number;
	int n_args;
	char args[6][24];
	const char *value;
	size_t value_len;
};

/* Fails at once, with op->done and its code set, if the connection is not ready. */
int redis_op_begin(struct redis_op *op, struct redis_conn *conn, enum redis_script script,
		    const struct redis_keys *keys, const struct script_args *args, int64_t deadline);
/* The same for many leases.  @many must stay until it is done. */
int redis_op_begin_many(struct redis_op *op, struct redis_conn *conn, const struct redis_many *many, int64_t ttl_ms,
			 int64_t deadline);
/* Of one that was answered: was lease @i renewed? */
bool redis_op_renewed(const struct redis_op *op, size_t i);
/* Steps all of them as far as they get without waiting; true when all are done. */
bool redis_ops_step(struct redis_op *ops, size_t n);
/* Waits until all are done, which is at their deadlines at the latest. */
void redis_ops_wait(struct redis_op *ops, size_t n);
void redis_op_end(struct redis_op *op);

/* One operation on one connection, opened if it must be; returns its code. */
int redis_op_call(struct redis_op *op, struct redis_conn *conn, enum redis_script script,
		   const struct redis_keys *keys, const struct script_args *args, int64_t deadline);

/* When a lease of @ttl_ms that was asked for at @began ends here, with a margin for clocks that run differently. */
static inline int64_t redis_valid_until(int64_t began, int64_t ttl_ms)
{
	return began + REDIS_MS(ttl_ms) - REDIS_MS(ttl_ms) / 100 - REDIS_MS(2);
}

#endif
