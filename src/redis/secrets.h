/* SPDX-License-Identifier: MIT */
/* secrets.h - the password for a server, and files with secrets; both are read anew at each connect */
#ifndef LOCKSHM_REDIS_SECRETS_H
#define LOCKSHM_REDIS_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/redis-error.h"
#include "segment/redis-uri.h"

#define REDIS_PASSWORD_MAX 1024

/*
 * Reads the password for a connect into @out of REDIS_PASSWORD_MAX bytes; *@len 0 = none is configured.  The caller
 * wipes it.  A file must be inaccessible to others than owner and group; its first line counts.
 */
int redis_password(const struct redis_server *server, char *out, size_t *len, struct redis_error *error);

/*
 * Opens a file named by an option, without blocking; -1 = failed, with the class in *@code and the reason in *@why.  A
 * secret file must be inaccessible to others than owner and group.
 */
int redis_open_file(const char *path, bool secret, int *code, const char **why);

#endif
