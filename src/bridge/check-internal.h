/* SPDX-License-Identifier: MIT */
/* check-internal.h - the check of a server as bridge/check.c and bridge/check-lease.c share it */
#ifndef LOCKSHM_BRIDGE_CHECK_INTERNAL_H
#define LOCKSHM_BRIDGE_CHECK_INTERNAL_H

#include "bridge/check.h"
#include "redis/names.h"
#include "redis/script.h"

struct check {
	struct lockshm *s;
	check_fn report;
	void *arg;
	int64_t timeout_ns;
	int64_t deadline; /* of the server that is being checked */
	struct redis_server servers[REDIS_SERVERS_MAX];
	struct redis_conn *conns[REDIS_SERVERS_MAX];
	size_t n;
};

/* How long a bridge waits for a reply. */
int64_t check_io_ns(const struct check *c);

void check_say(const struct check *c, enum check_result result, const char *subject, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The code of the reply; a failure of the connection is another one than of the command. */
int check_call(struct check *c, struct redis_conn *conn, struct redis_reply **reply, int argc, const char *const *argv);
/* A reason without the server, with which it begins: that begins the line. */
const char *check_words(const struct redis_conn *conn, const char *why);
/* What to do about an error; "" = that follows from its text. */
const char *check_remedy(int code, const char *text);

/* Settings of the server under which it refuses leases, or loses them. */
void check_settings(struct check *c, struct redis_conn *conn);
/* Acquires, renews and releases a lease of these unused names, as a bridge does, and removes what is left. */
void check_lease(struct check *c, struct redis_conn *conn, const struct redis_keys *keys);

#endif
