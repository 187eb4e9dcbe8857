/* SPDX-License-Identifier: MIT */
/*
 * tracking.h - a second connection to a server, which tells when to look again
 *
 * The server remembers which keys the command connection has read last, and says once when one of them changes (CLIENT
 * TRACKING, from Redis 6 on); other hosts say when they wait or leave (channel "lockshm:" and host id).  All of it is
 * hints: one may be missing, and each may be about nothing, so whoever waits also looks from time to time.
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
	REDIS_HINT_KEY, /* this key changed, or is gone */
	REDIS_HINT_ALL, /* anything may have changed: FLUSHALL, or hints were missed */
	REDIS_HINT_NOTIFIED /* another host says: look at this lock */
};

int tracking_new(struct tracking **out, const struct redis_server *server, const struct redis_host *host,
		    struct redis_error *error);
void tracking_free(struct tracking *w);

/*
 * Connects if need be, and has the server watch what @commands reads from now on.  To be called before every wait:
 * costs nothing while both connections live.  REDIS_REFUSED or REDIS_DENIED: this server does not, or not for this
 * user; hosts may still be heard.
 */
int tracking_arm(struct tracking *w, struct redis_conn *commands, int64_t deadline);

struct redis_arming {
	struct tracking *tracking;
	struct redis_conn *commands;
	int code; /* what tracking_arm() would return */
	struct redis_conn *waits_for; /* of the two */
	bool sent; /* the wish to be told */
};

/* The same for many at once: those that do not answer cost one wait in all.  At most REDIS_CONNS_MAX. */
void trackings_arm(struct redis_arming *a, size_t n, int64_t deadline);

/* For a poll loop, beside the command connection; closed until the first arm. */
struct redis_conn *tracking_conn(struct tracking *w);

/* The next hint; *@key is for KEY and TOLD, and valid until the next call. */
enum redis_hint tracking_next(struct tracking *w, const char **key, size_t *len);

/*
 * A connection on which nothing is ever asked may die unseen.  Asks for a sign of life when nothing was heard for
 * @silence_ns, and gives the connection up when there is none for as long again.  Returns when to call next.
 */
int64_t tracking_check(struct tracking *w, int64_t now, int64_t silence_ns);

#endif
