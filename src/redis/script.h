/* SPDX-License-Identifier: MIT */
/*
 * script.h - what can be done with a lock in Redis: each operation is one script, executed
 * as a whole or not at all
 *
 * An operation is begun on a connection that is ready, and is done when its reply came or can come no more.  Many may
 * be under way, on one connection or on several.  Whether the lock is held then is decided here by nobody: an answer
 * "granted" is good only until bridge_valid_until() of the time at which the operation was begun, and after
 * BRIDGE_UNKNOWN the caller has to release, whatever the lock's state.
 */
#ifndef LOCKSHM_BRIDGE_SCRIPT_H
#define LOCKSHM_BRIDGE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/boot-clock.h"
#include "redis/conn.h"
#include "redis/names.h"

enum bridge_script {
	BRIDGE_ACQUIRE_S,
	BRIDGE_ACQUIRE_X,
	BRIDGE_DOWNGRADE,
	BRIDGE_FENCE,
	BRIDGE_FORCE_RELEASE,
	BRIDGE_INSPECT,
	BRIDGE_LEAVE,
	BRIDGE_RELEASE,
	BRIDGE_RENEW,
	BRIDGE_RENEW_MANY,
	BRIDGE_UPGRADE,
	BRIDGE_N_SCRIPTS
};

static inline bool bridge_is_acquire(enum bridge_script script)
{
	return script == BRIDGE_ACQUIRE_S || script == BRIDGE_ACQUIRE_X;
}

/* The texts, for bridge_conn_options. */
extern const char *const bridge_scripts[BRIDGE_N_SCRIPTS];

#define BRIDGE_HOST_LEN 16
#define BRIDGE_TOKEN_LEN 32

/* Who asks: 16 hexadecimal digits, made once for each segment. */
struct bridge_host {
	char id[BRIDGE_HOST_LEN + 1];
};

/* A token: the host's id and 16 random digits, new for each acquisition.  False without random numbers. */
bool bridge_token(char out[BRIDGE_TOKEN_LEN + 1], const struct bridge_host *host);
bool bridge_host_make(struct bridge_host *out);

/* What a script is told beside the keys; which fields count is said for each script below. */
struct bridge_wish {
	const char *host; /* id */
	const char *
		token; /* of the lease, or for force-release the value inspected; must stay there until the op is done */
	size_t token_len; /* 0 = up to its end */
	int64_t ttl_ms;
	int64_t stride; /* how many fencing tokens to reserve; renew: 0 = none */
	int64_t waiter_ttl_ms; /* how long a waiter counts without calling again */
	const char *flags; /* acquire: "t" = try, "b" = pass the queue; leave: "x", "s", "xs" */
	int64_t after_ms; /* release: how long the lock stays closed */
	int64_t fence; /* fence: the number to raise it to */
	int64_t turn; /* acquire, upgrade, downgrade: how often the lease has become a reader's, this time included */
};

enum bridge_status {
	BRIDGE_GRANTED = 2, /* acquire, upgrade */
	BRIDGE_QUEUED, /* acquire: has a ticket */
	BRIDGE_BUSY, /* acquire with try, upgrade: no; downgrade: of an earlier turn */
	BRIDGE_DONE, /* all others */
	BRIDGE_LATE, /* release: was ours, but the reader's time was over */
	BRIDGE_LOST, /* somebody else's, or a reader whose time is over */
	BRIDGE_ABSENT, /* nobody's */
	BRIDGE_CHANGED, /* force-release: not what was inspected */
};

/* What is in the way, or was found instead of ours. */
enum bridge_kind {
	BRIDGE_KIND_NONE = 2,
	BRIDGE_KIND_HOST, /* writer that follows our protocol */
	BRIDGE_KIND_FOREIGN, /* any other string */
	BRIDGE_KIND_DELAY, /* stays closed after a release */
	BRIDGE_KIND_READERS,
	BRIDGE_KIND_INTENT, /* a waiting writer's mark */
	BRIDGE_KIND_TURN, /* free, but others come first */
};

struct bridge_answer {
	enum bridge_status status;
	enum bridge_kind kind;
	int64_t server_ms;
	int64_t queued; /* hosts that wait */
	int64_t position; /* of this host among them, from 1; 0 = not waiting */
	int64_t left_ms; /* until what is in the way may end; -1 = it has no end, -2 = nothing is there */
	int64_t fence; /* granted, renewed: first of the tokens reserved, 0 = none */
	bool intent; /* the mark of another writer is there */
	char holder[96]; /* token, or host id for KIND_TURN; cut if longer */
	size_t holder_len;
};

/* Leases with one ttl that one script is asked to renew, as long as there is nothing else to do for
 * them; see renew-many.lua. */
#define BRIDGE_MANY 64
struct bridge_many {
	const struct bridge_keys *keys[BRIDGE_MANY];
	const char *token[BRIDGE_MANY]; /* must stay there until the op is done */
	size_t n;
	bool fences; /* are looked for, too: nothing tells when one is gone */
};

struct bridge_op {
	struct bridge_conn *conn;
	const struct bridge_keys *keys;
	const struct bridge_many *many; /* instead of keys and token */
	enum bridge_script script;
	int64_t deadline;
	int64_t began; /* before its first byte was written: validity counts from here */
	int64_t ended;
	bool done;
	int code; /* 0 = there is an answer */
	char why[256]; /* the error in words: its connection may have met others since */
	struct bridge_answer answer; /* of all but inspect and renew-many */
	struct bridge_reply *inspected; /* of these; freed by bridge_op_end() */
	/* its own */
	bool proves; /* if granted, that no right is missing */
	uint64_t generation, number;
	int n_args;
	char args[6][24];
	const char *token;
	size_t token_len;
};

/* Fails at once, with op->done and its code set, if the connection is not ready. */
int bridge_op_begin(struct bridge_op *op, struct bridge_conn *conn, enum bridge_script script,
		    const struct bridge_keys *keys, const struct bridge_wish *wish, int64_t deadline);
/* The same for many leases.  @many must stay until it is done. */
int bridge_op_begin_many(struct bridge_op *op, struct bridge_conn *conn, const struct bridge_many *many, int64_t ttl_ms,
			 int64_t deadline);
/* Of one that was answered: was lease @i renewed? */
bool bridge_op_renewed(const struct bridge_op *op, size_t i);
/* Steps all of them as far as they get without waiting; true when all are done. */
bool bridge_ops_step(struct bridge_op *ops, size_t n);
/* Waits until all are done, which is at their deadlines at the latest. */
void bridge_ops_wait(struct bridge_op *ops, size_t n);
void bridge_op_end(struct bridge_op *op);

/* One operation on one connection, opened if it must be; returns its code. */
int bridge_op_call(struct bridge_op *op, struct bridge_conn *conn, enum bridge_script script,
		   const struct bridge_keys *keys, const struct bridge_wish *wish, int64_t deadline);

/* When a lease of @ttl_ms that was asked for at @began ends here, with a margin for clocks that run differently. */
static inline int64_t bridge_valid_until(int64_t began, int64_t ttl_ms)
{
	return began + BRIDGE_MS(ttl_ms) - BRIDGE_MS(ttl_ms) / 100 - BRIDGE_MS(2);
}

#endif
