/* SPDX-License-Identifier: MIT */
/*
 * tls.h - TLS between a connection and its bytes
 *
 * Bytes in, bytes out: this has no socket and never waits, so deadlines are the connection's (redis/conn.h).
 * The server's certificate is always verified.
 */
#ifndef LOCKSHM_REDIS_TLS_H
#define LOCKSHM_REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/redis-error.h"
#include "segment/redis-uri.h"

struct redis_tls;

/* NULL, or what to do instead in a build without TLS, where no other function here is called. */
const char *redis_tls_missing(void);

/* Reads the files of the server's options and begins the handshake.  NULL with an error: a bad file, no memory. */
struct redis_tls *redis_tls_new(const struct redis_server *server, struct redis_error *error);
/* Sends nothing to the server.  NULL-safe. */
void redis_tls_free(struct redis_tls *t);

/* Is the handshake complete?  Before that nothing can be put or got. */
bool redis_tls_up(const struct redis_tls *t);
/* Has the server sent anything? */
bool redis_tls_received(const struct redis_tls *t);

/* All return 0 or an error.  After an error only the pending alert can still be sent. */

/* Received bytes. */
int redis_tls_feed(struct redis_tls *t, const char *bytes, size_t len, struct redis_error *error);
/* Decrypts them; *@len 0 = no complete data. */
int redis_tls_get(struct redis_tls *t, char *out, size_t size, size_t *len, struct redis_error *error);
/* Encrypts bytes; takes all of them. */
int redis_tls_put(struct redis_tls *t, const char *bytes, size_t len, struct redis_error *error);

/* Bytes to send; *@len 0 = none. */
const char *redis_tls_out(const struct redis_tls *t, size_t *len);
void redis_tls_sent(struct redis_tls *t, size_t len);

#endif
