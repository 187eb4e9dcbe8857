/* SPDX-License-Identifier: MIT */
/*
 * tls.h - TLS between a connection and its bytes
 *
 * Bytes in, bytes out: nothing here knows a socket, waits, or writes anywhere, so deadlines and forks are the
 * connection's (redis/conn.h).  The server's certificate is always verified.
 */
#ifndef LOCKSHM_BRIDGE_TLS_H
#define LOCKSHM_BRIDGE_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/redis-error.h"
#include "redis/uri.h"

struct bridge_tls;

/* Loads OpenSSL at the first call; NULL, or why TLS cannot be used in this process, or not any more. */
const char *bridge_tls_load(void);
/* By a thread that had connections, after the last of them: nothing of OpenSSL stays to be done at its end. */
void bridge_tls_thread_ends(void);

/*
 * Loads OpenSSL at the first call, reads the files that the server's options name, and begins the handshake.  NULL with
 * an error: OpenSSL is not there, a file is not what it should be, no memory.
 */
struct bridge_tls *bridge_tls_new(const struct bridge_server *server, struct bridge_error *error);
/* Says nothing to the server.  NULL-safe. */
void bridge_tls_free(struct bridge_tls *t);

/* Have hands been shaken?  Before that there is nothing to put or get. */
bool bridge_tls_up(const struct bridge_tls *t);
/* Has the server said anything? */
bool bridge_tls_heard(const struct bridge_tls *t);

/* All return 0 or an error, after which there is still something to send, why, and nothing else can be done. */

/* Bytes that came from the server. */
int bridge_tls_feed(struct bridge_tls *t, const char *bytes, size_t len, struct bridge_error *error);
/* What they meant; *@len 0 = no more of it is complete. */
int bridge_tls_get(struct bridge_tls *t, char *out, size_t size, size_t *len, struct bridge_error *error);
/* What is to be said; all of it is taken. */
int bridge_tls_put(struct bridge_tls *t, const char *bytes, size_t len, struct bridge_error *error);

/* Bytes for the server; *@len 0 = none. */
const char *bridge_tls_out(const struct bridge_tls *t, size_t *len);
void bridge_tls_sent(struct bridge_tls *t, size_t len);

#endif
