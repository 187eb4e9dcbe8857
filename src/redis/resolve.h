/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - the addresses of a name, looked up by a thread of its own
 *
 * The resolver blocks for as long as it likes and cannot be asked to stop.  So nobody waits for it: it tells
 * by a descriptor that it is through, and whoever does not want to know any more drops the look-up, which
 * frees itself in the end.
 */
#ifndef LOCKSHM_BRIDGE_RESOLVE_H
#define LOCKSHM_BRIDGE_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define BRIDGE_ADDRESSES_MAX 8

struct bridge_address {
	struct sockaddr_storage at;
	socklen_t len;
};

struct bridge_lookup;

/* Of an address in figures, at once; returns how many: 1, or 0 if it is none. */
size_t bridge_numeric(const char *host, const char *port, struct bridge_address *out);

/* NULL = no memory, no descriptor or no thread. */
struct bridge_lookup *bridge_lookup_begin(const char *host, const char *port);
/* Readable as soon as it is through. */
int bridge_lookup_fd(const struct bridge_lookup *l);
bool bridge_lookup_through(const struct bridge_lookup *l);
/* When it is through: how many addresses there are, at most BRIDGE_ADDRESSES_MAX; 0 = none, and *@why says why. */
size_t bridge_lookup_take(const struct bridge_lookup *l, struct bridge_address *out, const char **why);
/* NULL-safe. */
void bridge_lookup_drop(struct bridge_lookup *l);
/* Begun before a fork: the thread is the parent's, nothing will come of it. */
bool bridge_lookup_is_inherited(const struct bridge_lookup *l);

#endif
