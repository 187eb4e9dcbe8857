/* SPDX-License-Identifier: MIT */
/*
 * tracking.h - a second connection to a server, which tells when to look again
 *
 * The server remembers which keys the command connection has read last, and says once when one of them changes (CLIENT
 * TRACKING, from Redis 6 on); other hosts say when they wait or leave (channel "lockshm:" and host id).  All of it is
 * hints: one may be missing, and each may be about nothing, so whoever waits also looks from time to time.
 */
#ifndef LOCKSHM_BRIDGE_WAKE_H
#define LOCKSHM_BRIDGE_WAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/conn.h"
#include "redis/script.h"

struct bridge_wake;

enum bridge_hint {
	BRIDGE_HINT_NONE = 2,
	BRIDGE_HINT_KEY, /* this key changed, or is gone */
	BRIDGE_HINT_ALL, /* anything may have changed: FLUSHALL, or hints were missed */
	BRIDGE_HINT_TOLD /* another host says: look at this lock */
};

int bridge_wake_new(struct bridge_wake **out, const struct bridge_server *server, const struct bridge_host *host,
		    struct bridge_error *error);
void bridge_wake_free(struct bridge_wake *w);

/*
 * Connects if need be, and has the server watch what @commands reads from now on.  To be called before every wait:
 * costs nothing while both connections live.  BRIDGE_REFUSED or BRIDGE_DENIED: this server does not, or not for this
 * user; hosts may still be heard.
 */
int bridge_wake_arm(struct bridge_wake *w, struct bridge_conn *commands, int64_t deadline);

struct bridge_arming {
	struct bridge_wake *wake;
	struct bridge_conn *commands;
	int code; /* what bridge_wake_arm() would return */
	struct bridge_conn *waits_for; /* of the two */
	bool sent; /* the wish to be told */
};

/* The same for many at once: those that do not answer cost one wait in all.  At most BRIDGE_CONNS_MAX. */
void bridge_wakes_arm(struct bridge_arming *a, size_t n, int64_t deadline);

/* For a poll loop, beside the command connection; closed until the first arm. */
struct bridge_conn *bridge_wake_conn(struct bridge_wake *w);

/* The next hint; *@key is for KEY and TOLD, and valid until the next call. */
enum bridge_hint bridge_wake_next(struct bridge_wake *w, const char **key, size_t *len);

/*
 * A connection on which nothing is ever asked may die unseen.  Asks for a sign of life when nothing was heard for
 * @quiet_ns, and gives the connection up when there is none for as long again.  Returns when to call next.
 */
int64_t bridge_wake_check(struct bridge_wake *w, int64_t now, int64_t quiet_ns);

#endif
