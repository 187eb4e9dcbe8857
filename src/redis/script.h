/* SPDX-License-Identifier: MIT */
/*
 * script.h - the operations on a lock in Redis: each is one script, executed as a whole or not at all
 *
 * An operation begins on a ready connection and is done when its reply came or can come no more.  Many may be under
 * way, on one connection or several.  It is for the caller to decide whether the lock is held: a reply "granted" is
 * valid only until redis_valid_until() of the time at which the operation began, and after REDIS_UNKNOWN the caller
 * must release, whatever the lock's state.
 */
#ifndef LOCKSHM_REDIS_SCRIPT_H
#define LOCKSHM_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/boot-clock.h"
#include "redis/conn.h"
#include "redis/names.h"

enum redis_script {
	REDIS_ACQUIRE_S,
	REDIS_ACQUIRE_X,
	REDIS_FENCE,
	REDIS_FORCE_RELEASE,
	REDIS_INSPECT,
	REDIS_LEAVE,
	REDIS_RELEASE,
	REDIS_RENEW,
	REDIS_RENEW_MANY,
	REDIS_N_SCRIPTS
};

static inline bool redis_is_acquire(enum redis_script script)
{
	return script == REDIS_ACQUIRE_S || script == REDIS_ACQUIRE_X;
}

/* The texts, for redis_conn_options. */
extern const char *const redis_scripts[REDIS_N_SCRIPTS];

#define REDIS_VALUE_LEN 32

/* This host's name: 16 hexadecimal digits, made with the segment. */
#define REDIS_HOST_LEN 16
struct redis_host {
	char id[REDIS_HOST_LEN + 1];
};

/* A new value for one acquisition: the host's id and 16 random digits.  False without random numbers. */
bool redis_value(char out[REDIS_VALUE_LEN + 1], const struct redis_host *host);

/* The arguments in addition to the keys; the head of each script lists its own. */
struct script_args {
	const char *host; /* id */
	const char *
		value; /* of the lease; force-release: the value inspected.  Must stay until the op is done */
	size_t value_len; /* 0 = strlen(value) */
	int64_t ttl_ms;
	int64_t stride; /* how many fencing tokens to reserve; renew: 0 = none */
	int64_t waiter_ttl_ms; /* a waiter expires after this time without another call */
	const char *flags; /* acquire: "t" = try, "b" = barge; leave: "x", "s", "xs" */
	int64_t gap_ms; /* release: how long the lock is then left to other programs */
	int64_t fence; /* fence: raise it to this number */
	int64_t clock_us; /* acquire: tokens are not below those of this time, either; 0 = those of the server's */
	/* A majority's servers that may have the value, by number: set by what is sent, cleared by releases; NULL = any
	 * may.  Must stay like the value. */
	uint32_t *may_have;
	/* The note of a robust key; the heads of the scripts have the meaning. */
	int64_t note; /* acquire, renew: its number; acquire, fence: 1 = that of the last token; 0 = a plain key */
	const char *close; /* release: "a", "c", "d", "k", "u"; NULL = no note */
	int64_t last; /* the highest token of that lease */
	char how[24]; /* "d": how the holder ended, and its pid; "k": the last token of what was told */
};

enum redis_status {
	REDIS_GRANTED = 2, /* acquire */
	REDIS_QUEUED, /* acquire: has a ticket */
	REDIS_BUSY, /* acquire with try: refused */
	REDIS_DONE, /* all others */
	REDIS_LATE, /* release: was this host's, but the reader's deadline had passed */
	REDIS_LOST, /* another holder's, or a reader whose deadline has passed */
	REDIS_ABSENT, /* not held */
	REDIS_CHANGED, /* force-release: another value than inspected */
};

/* What blocks the lock, or was found instead of the expected value. */
enum redis_kind {
	REDIS_KIND_NONE = 2,
	REDIS_KIND_HOST, /* writer that follows this protocol */
	REDIS_KIND_FOREIGN, /* any other string */
	REDIS_KIND_GAP, /* free, and left to other programs */
	REDIS_KIND_READERS,
	REDIS_KIND_INTENT, /* intent key of a waiting writer */
	REDIS_KIND_QUEUE, /* free, but others are ahead in the queue */
};

/* What the server has of a lock that is not there. */
enum redis_absent {
	REDIS_ABSENT_ALL, /* nothing: its data was lost */
	REDIS_ABSENT_SELF, /* no other writer had it since */
	REDIS_ABSENT_TAKEN, /* another writer had it */
};

#define REDIS_WHY_BYTES 64

struct script_reply {
	enum redis_status status;
	enum redis_kind kind;
	int64_t server_ms; /* -1 = this reply has no time: the release of a short path, batches, majorities */
	int64_t queued; /* number of waiting hosts */
	int64_t position; /* of this host among them, from 1; 0 = not waiting */
	int64_t left_ms; /* until the block may end; -1 = it has no end, -2 = nothing is there */
	int64_t fence; /* granted, renewed: first of the tokens reserved, 0 = none; ABSENT: enum redis_absent */
	bool intent; /* the intent key of another writer exists */
	char holder[96]; /* value; for KIND_QUEUE a host id.  Cut if longer */
	size_t holder_len;
	bool noted; /* the reply has a note; of a release: 1 in @bad = it was this lease's */
	int64_t bad, good; /* the key is damaged while bad is above good */
	char why[REDIS_WHY_BYTES]; /* number, kind, host, pid */
};

/* Writers' leases with one ttl, renewed by one script while nothing else is to be done for them; see renew-many.lua. */
#define REDIS_MANY 64
struct redis_many {
	const struct redis_keys *keys[REDIS_MANY];
	const char *value[REDIS_MANY]; /* must stay until the op is done */
	size_t n;
	bool fences; /* looked for, too: this server gives no hint when one is gone */
};

struct redis_op {
	struct redis_conn *conn;
	const struct redis_keys *keys;
	const struct redis_many *many; /* instead of keys and value */
	enum redis_script script;
	int64_t deadline;
	int64_t ttl_ms; /* asked for */
	int64_t began; /* before its first byte was written: validity counts from here */
	int64_t ended;
	bool done;
	int code; /* 0 = there is a reply */
	char why[256]; /* message of the error: the connection may have had others since */
	struct script_reply reply; /* of all scripts but inspect and renew-many */
	struct redis_reply *inspected; /* of those two; freed by redis_op_end() */
	/* internal: */
	bool proves; /* takes the long path: if granted, no right is missing */
	uint64_t generation, number;
	int n_args;
	char args[7][24];
	const char *value;
	size_t value_len;
};

/* Fails at once, with op->done and its code set, if the connection is not ready. */
int redis_op_begin(struct redis_op *op, struct redis_conn *conn, enum redis_script script,
		    const struct redis_keys *keys, const struct script_args *args, int64_t deadline);
/* For many leases.  @many must stay until it is done. */
int redis_op_begin_many(struct redis_op *op, struct redis_conn *conn, const struct redis_many *many, int64_t ttl_ms,
			 int64_t deadline);
/* Of one with a reply: was lease @i renewed? */
bool redis_op_renewed(const struct redis_op *op, size_t i);
/* Advances one without waiting; true if anything happened. */
bool redis_op_step(struct redis_op *op);
/* Advances all without waiting; true when all are done. */
bool redis_ops_step(struct redis_op *ops, size_t n);
/* Waits until all are done, at the latest at their deadlines. */
void redis_ops_wait(struct redis_op *ops, size_t n);
void redis_op_end(struct redis_op *op);

/* One operation on one connection, opened if needed; returns its code. */
int redis_op_call(struct redis_op *op, struct redis_conn *conn, enum redis_script script,
		   const struct redis_keys *keys, const struct script_args *args, int64_t deadline);

/* The end of a lease of @ttl_ms for a command begun at @began, with a margin for the drift of clocks. */
static inline int64_t redis_valid_until(int64_t began, int64_t ttl_ms)
{
	return began + REDIS_MS(ttl_ms) - REDIS_MS(ttl_ms) / 100 - REDIS_MS(2);
}

#endif
