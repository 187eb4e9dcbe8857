/* SPDX-License-Identifier: MIT */
/*
 * tracking.h - a second connection to a server, on which hints arrive: look at a lock again
 *
 * The server remembers the keys that the command connection has read and sends a message once when one of them changes
 * (CLIENT TRACKING, from Redis 6 on).  Other hosts publish when they wait or leave (channel "lockshm:" and host id).
 * All of it is hints: one may be missing, and each may be spurious, so a waiter also polls.
 */
#ifndef LOCKSHM_REDIS_TRACKING_H
#define LOCKSHM_REDIS_TRACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/conn.h"
#include "redis/script.h"

struct tracking;

enum redis_hint {
	REDIS_HINT_NONE = 2,
	REDIS_HINT_KEY, /* this key changed or is gone */
	REDIS_HINT_ALL, /* any key may have changed: FLUSHALL, or hints were missed */
	REDIS_HINT_NOTIFIED /* another host asks to look at this lock */
};

int tracking_new(struct tracking **out, const struct redis_server *server, const struct redis_host *host,
		    struct redis_error *error);
void tracking_free(struct tracking *w);

/* The server is to track the keys that @commands reads from now on: under way until tracking_step() returns a code. */
struct redis_arming {
	struct tracking *tracking;
	struct redis_conn *commands;
	int64_t io_ns; /* for each step of it */
	int64_t deadline; /* of this one */
	struct redis_conn *waits_for; /* one of the two connections */
	bool moved; /* by the last step: something was sent or has come */
	bool sent; /* the command CLIENT TRACKING */
	uint64_t generation, number; /* of that */
};

/* Begins, and connects if needed. */
void tracking_arm(struct redis_arming *a, struct tracking *w, struct redis_conn *commands, int64_t io_ns);
/*
 * Advances without waiting: 0 = the server tracks; REDIS_AGAIN = pump both connections and call again, by the deadline at
 * the latest.  Repeated while both connections live it costs nothing.  REDIS_REFUSED or REDIS_DENIED: no tracking by
 * this server, or for this user; messages of other hosts may still come.
 */
int tracking_step(struct redis_arming *a);

/* For a poll loop, in addition to the command connection; closed until the first arm. */
struct redis_conn *tracking_conn(struct tracking *w);

/* The next hint; KEY and NOTIFIED set *@key, which is valid until the next call. */
enum redis_hint tracking_next(struct tracking *w, const char **key, size_t *len);

/*
 * An idle connection may break unnoticed.  Sends a PING after @silence_ns without a message, and closes the connection
 * after the same time without a reply.  Returns when to call next.
 */
int64_t tracking_check(struct tracking *w, int64_t now, int64_t silence_ns);

#endif
