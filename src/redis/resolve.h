/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - the addresses of a name, looked up by a thread of its own
 *
 * The resolver blocks for as long as it likes and cannot be asked to stop.  So nobody waits for it: it tells
 * by a descriptor that it is through, and whoever does not want to know any more drops the look-up, which
 * frees itself in the end.
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

/* Of an address in figures, at once; returns how many: 1, or 0 if it is none. */
size_t redis_numeric(const char *host, const char *port, struct redis_address *out);

/* NULL = no memory, no descriptor or no thread. */
struct redis_lookup *redis_lookup_begin(const char *host, const char *port);
/* Readable as soon as it is through. */
int redis_lookup_fd(const struct redis_lookup *l);
bool redis_lookup_done(const struct redis_lookup *l);
/* When it is through: how many addresses there are, at most REDIS_ADDRESSES_MAX; 0 = none, and *@why says why. */
size_t redis_lookup_take(const struct redis_lookup *l, struct redis_address *out, const char **why);
/* NULL-safe. */
void redis_lookup_drop(struct redis_lookup *l);
/* Begun before a fork: the thread is the parent's, nothing will come of it. */
bool redis_lookup_is_inherited(const struct redis_lookup *l);

#endif
