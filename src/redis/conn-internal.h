/* SPDX-License-Identifier: MIT */
/*
 * conn-internal.h - struct redis_conn
 *
 * redis/conn-open.c takes it up to the handshake, redis/conn.c from there on; redis/conn-io.c transfers bytes.
 */
#ifndef LOCKSHM_REDIS_CONN_INTERNAL_H
#define LOCKSHM_REDIS_CONN_INTERNAL_H

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
	struct redis_lookup *lookup; /* of the name; under way, or not taken yet */
	bool is_name; /* not a numeric address: addresses may change */
	int64_t lookup_began; /* the latest look-up; 0 = none */
	char no_address[128]; /* error of the latest look-up */

	enum state state;
	int fd;
	struct redis_tls *tls; /* NULL = no TLS */
	bool received; /* at least one byte from the server */
	bool eof; /* closed by the server; earlier replies may still be taken */
	uint64_t generation, proven; /* generation; the one known to have all rights */
	int64_t tried; /* see redis_conn_tried() */
	int64_t open_deadline; /* of connect and handshake together */
	int64_t address_deadline; /* of the connect to this address */
	int64_t handshake_began;

	struct resp *resp;
	struct handshake handshake;
	/* Deadlines of the commands whose replies are awaited, oldest first: due[due_at] up to due[due_end - 1]. */
	int64_t *due;
	size_t due_at, due_end, due_size;
	uint64_t sent, taken;
	int64_t ahead_us; /* the server's clock, of the boot clock, as seen with the quickest replies; 0 = not seen */

	struct redis_error error;
	struct redis_refusals refusals; /* over all connects */
};

/* In redis/conn-open.c. */
void conn_find_addresses(struct redis_conn *c);
/* Begins to look the name up again, without waiting. */
void conn_look_up(struct redis_conn *c);
/* The next step in RESOLVING or CONNECTING; 0 or its error. */
int conn_resolved(struct redis_conn *c);
int conn_connected(struct redis_conn *c);

/* In redis/conn-io.c. */
/* Writes and reads what is possible now; 0 or its error. */
int conn_exchange(struct redis_conn *c);
bool conn_has_more(const struct redis_conn *c);
/* The bytes are not the protocol, or there was no memory for them. */
int conn_malformed(struct redis_conn *c, const char *what);

/* In redis/conn.c. */
void conn_close_fd(struct redis_conn *c);
void conn_shut(struct redis_conn *c);
int conn_drop(struct redis_conn *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Closes a broken connection; REDIS_UNKNOWN if a reply was awaited. */
int conn_lost(struct redis_conn *c, const char *why);

#endif
