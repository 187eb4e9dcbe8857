/* SPDX-License-Identifier: MIT */
/* conn-internal.h - a connection, for the files that make it one: redis/conn-open.c up to the greeting,
 * redis/conn.c from there on, redis/conn-io.c for what goes over the way */
#ifndef LOCKSHM_REDIS_CONN_INTERNAL_H
#define LOCKSHM_REDIS_CONN_INTERNAL_H

#include <sys/types.h>

#include "redis/conn.h"
#include "redis/handshake.h"
#include "redis/resolve.h"
#include "redis/tls.h"

enum state { CLOSED, RESOLVING, CONNECTING, HANDSHAKE, READY };

struct redis_conn {
	struct redis_server server;
	struct redis_conn_options options;
	struct redis_address addresses[REDIS_ADDRESSES_MAX];
	size_t n_addresses, address; /* number, the one being tried */
	struct redis_lookup *lookup; /* of the name, under way or not taken yet */
	bool is_name; /* addresses may change */
	int64_t lookup_began; /* when the last look-up was begun; 0 = never */
	char no_address[128]; /* what the last look-up met */

	enum state state;
	int fd;
	pid_t pid; /* whose socket it is */
	struct redis_tls *tls; /* NULL = bytes go as they are */
	bool received; /* the server has said something */
	bool eof; /* the server has closed; replies before that may still be taken */
	uint64_t generation, proven; /* the one in which all rights are known to be there */
	int64_t tried; /* see redis_conn_tried() */
	int64_t open_deadline; /* of connect and greeting together */
	int64_t address_deadline; /* of the connect to this address */
	int64_t handshake_began;

	struct resp *resp;
	struct handshake handshake;
	/* Deadlines of the commands whose replies are awaited, oldest first: due[due_at] up to due[due_end - 1]. */
	int64_t *due;
	size_t due_at, due_end, due_size;
	uint64_t sent, taken;

	struct redis_error error;
};

/* In redis/conn-open.c. */
void conn_find_addresses(struct redis_conn *c);
/* Begins to look the name up again.  Nothing here waits for the answer. */
void conn_look_up(struct redis_conn *c);
/* The next step of one that is RESOLVING or CONNECTING; 0 or its error. */
int conn_resolved(struct redis_conn *c);
int conn_connected(struct redis_conn *c);

/* In redis/conn-io.c. */
/* Whatever can be written and read now; 0 or its error. */
int conn_exchange(struct redis_conn *c);
bool conn_has_more(const struct redis_conn *c);
/* What came is not the protocol, or there was no memory for it. */
int conn_malformed(struct redis_conn *c, const char *what);

/* In redis/conn.c. */
void conn_close_fd(struct redis_conn *c);
void conn_shut(struct redis_conn *c);
int conn_drop(struct redis_conn *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Is it a parent's?  Then it is closed. */
bool conn_inherited(struct redis_conn *c);
/* It is of no use any more: was anything under way? */
int conn_lost(struct redis_conn *c, const char *why);

#endif
