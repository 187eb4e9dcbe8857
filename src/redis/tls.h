/* SPDX-License-Identifier: MIT */
/*
 * tls.h - TLS between a connection and its bytes
 *
 * Bytes in, bytes out: nothing here knows a socket, waits, or writes anywhere, so deadlines and forks are the
 * connection's (redis/conn.h).  The server's certificate is always verified.
 */
#ifndef LOCKSHM_REDIS_TLS_H
#define LOCKSHM_REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/redis-error.h"
#include "redis/uri.h"

struct redis_tls;

/* Loads OpenSSL at the first call; NULL, or why TLS cannot be used in this process, or not any more. */
const char *redis_tls_load(void);
/* By a thread that had connections, after the last of them: nothing of OpenSSL stays to be done at its end. */
void redis_tls_thread_ends(void);

/*
 * Loads OpenSSL at the first call, reads the files that the server's options name, and begins the handshake.  NULL with
 * an error: OpenSSL is not there, a file is not what it should be, no memory.
 */
struct redis_tls *redis_tls_new(const struct redis_server *server, struct redis_error *error);
/* Says nothing to the server.  NULL-safe. */
void redis_tls_free(struct redis_tls *t);

/* Have hands been shaken?  Before that there is nothing to put or get. */
bool redis_tls_up(const struct redis_tls *t);
/* Has the server said anything? */
bool redis_tls_received(const struct redis_tls *t);

/* All return 0 or an error, after which there is still something to send, why, and nothing else can be done. */

/* Bytes that came from the server. */
int redis_tls_feed(struct redis_tls *t, const char *bytes, size_t len, struct redis_error *error);
/* What they meant; *@len 0 = no more of it is complete. */
int redis_tls_get(struct redis_tls *t, char *out, size_t size, size_t *len, struct redis_error *error);
/* What is to be said; all of it is taken. */
int redis_tls_put(struct redis_tls *t, const char *bytes, size_t len, struct redis_error *error);

/* Bytes for the server; *@len 0 = none. */
const char *redis_tls_out(const struct redis_tls *t, size_t *len);
void redis_tls_sent(struct redis_tls *t, size_t len);

#endif
