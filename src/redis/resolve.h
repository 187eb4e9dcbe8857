/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - the addresses of a name, looked up in a thread of its own
 *
 * The resolver may block for any time and cannot be stopped.  So a descriptor reports when the look-up is done; a
 * look-up that is dropped before that frees itself at its end.
 */
#ifndef LOCKSHM_REDIS_RESOLVE_H
#define LOCKSHM_REDIS_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define REDIS_ADDRESSES_MAX 8

struct redis_address {
	struct sockaddr_storage at;
	socklen_t len;
};

struct redis_lookup;

/* The address of a numeric host, at once; returns 1, or 0 if it is a name. */
size_t redis_numeric(const char *host, const char *port, struct redis_address *out);

/* NULL = no memory, no descriptor or no thread. */
struct redis_lookup *redis_lookup_begin(const char *host, const char *port);
/* Readable when the look-up is done. */
int redis_lookup_fd(const struct redis_lookup *l);
bool redis_lookup_done(const struct redis_lookup *l);
/* After the end: the number of addresses, at most REDIS_ADDRESSES_MAX; 0 = none, *@why is the reason. */
size_t redis_lookup_take(const struct redis_lookup *l, struct redis_address *out, const char **why);
/* NULL-safe. */
void redis_lookup_drop(struct redis_lookup *l);

#endif
