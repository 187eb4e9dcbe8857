/* SPDX-License-Identifier: MIT */
/*
 * secrets.h - login and TLS files of the servers: files of fixed names in one directory
 *
 *   user       for AUTH; without it the default user
 *   password   for AUTH
 *   ca.pem     accepted authorities; without it those of the system
 *   cert.pem   the client's own certificate, with key.pem
 *   key.pem
 *   crl.pem    revoked certificates of servers; with it a server needs a list of its authority there
 *   tls-name   the name that the server's certificate must be for; without it the host
 *
 * "NAME.SERVER" goes before "NAME": SERVER is host:port as in messages, or the path of a unix socket without its first
 * slash and with - for each other.  All are looked for and read at each connect, so they can change without a restart.
 */
#ifndef LOCKSHM_REDIS_SECRETS_H
#define LOCKSHM_REDIS_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/redis-error.h"
#include "segment/redis-uri.h"

#define REDIS_PASSWORD_MAX 1024
#define REDIS_CREDENTIALS_MAX 255 /* bytes of the directory's path */

/* Fill the fields of @server that are found in its directory.  No directory is as an empty one. */
int redis_credentials_find(struct redis_server *server, struct redis_error *error);

/*
 * Read the password for a connect into @out of REDIS_PASSWORD_MAX bytes; *@len 0 = there is none.  The caller wipes it.
 * The file must be inaccessible to others than owner and group; its first line counts.
 */
int redis_password(const struct redis_server *server, char *out, size_t *len, struct redis_error *error);

/*
 * Open a file without blocking; -1 = failed, with the class in *@code and the reason in *@why.  A secret file must be
 * inaccessible to others than owner and group.
 */
int redis_open_file(const char *path, bool secret, int *code, const char **why);

#endif
