/* SPDX-License-Identifier: MIT */
/*
 * conn.h - one connection to one Redis server
 *
 * Only redis_conns_poll() blocks; it waits for many connections at once.  Every command has one absolute deadline, from
 * its first byte to the last of its reply.  After it the connection is dropped, because a late reply could be taken for
 * that of the next command; whether the command was executed is then unknown.
 *
 *   closed --open--> resolving --> connecting --> handshake --replies--> ready --error, deadline--> closed
 *
 * A connection belongs to one thread of one process: a forked child may only execute another program.
 */
#ifndef LOCKSHM_REDIS_CONN_H
#define LOCKSHM_REDIS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/redis-error.h"
#include "redis/refusals.h"
#include "redis/resp.h"
#include "segment/redis-uri.h"

#define REDIS_SCRIPTS_MAX 16
#define REDIS_CONNS_MAX 64 /* most connections in one poll */

struct redis_conn;

struct redis_conn_options {
	const char *name; /* shown by CLIENT LIST; NULL = none */
	const char *const *scripts; /* loaded at each connect; the pointers must stay valid */
	size_t n_scripts;
	bool subscriber; /* gets messages without commands */
	bool replica_ok; /* else a replica is refused with REDIS_RETRY */
};

/* What the server reported at the last connect. */
struct redis_server_info {
	char run_id[41]; /* new at each start of the server */
	char version[24];
	int64_t uptime_s; /* whole seconds, rounded down; 0 after its wall clock was set back beyond its start */
	bool replica;
	bool cluster;
	int64_t client_id; /* of a subscriber, if the server has CLIENT ID; else 0 */
	int64_t round_trip_ns; /* of the handshake */
};

/*
 * Begins to look the name up, in a thread of its own.  The addresses are kept for all later connects; the name is
 * looked up again when no address accepts a connection, or a replica is found there.  REDIS_INVALID: rediss:// in a build
 * without TLS.
 */
int redis_conn_new(struct redis_conn **out, const struct redis_server *server,
		    const struct redis_conn_options *options, struct redis_error *error);
void redis_conn_free(struct redis_conn *c);

/* Begins to connect and log in, until @deadline.  No effect unless closed. */
int redis_conn_open(struct redis_conn *c, int64_t deadline);
void redis_conn_close(struct redis_conn *c);
/* Closes a connection to a server that lost its role, and looks the name up again for a later open. */
void redis_conn_move(struct redis_conn *c);

/* Queues a command; the next pump or poll writes it.  Replies come in the order of the commands. */
int redis_conn_send(struct redis_conn *c, int64_t deadline, int argc, const char *const *argv, const size_t *lens);

/*
 * For a poll loop: the descriptor (-1 = none), the events to wait for, the time by which to pump in any case, and the
 * work to do after one of these.  Returns 0 while the connection lives, else its error.
 */
int redis_conn_fd(const struct redis_conn *c);
short redis_conn_events(const struct redis_conn *c);
int64_t redis_conn_due(const struct redis_conn *c);
int redis_conn_pump(struct redis_conn *c);

/*
 * Waits for an event on one of at most REDIS_CONNS_MAX connections, but not past @until, and pumps all.  NULLs are
 * skipped.
 */
void redis_conns_poll(struct redis_conn *const *conns, size_t n, int64_t until);

/* The next reply, which the caller frees; NULL = none yet, or the connection was dropped. */
struct redis_reply *redis_conn_take(struct redis_conn *c);

/*
 * Sends one command and waits for its reply; opens the connection first if needed.  An error reply is returned as its
 * class, with the server's text in redis_conn_error(); otherwise the caller frees *@reply.
 */
int redis_conn_call(struct redis_conn *c, int64_t deadline, struct redis_reply **reply, int argc,
		     const char *const *argv, const size_t *lens);

bool redis_conn_ready(const struct redis_conn *c);
bool redis_conn_closed(const struct redis_conn *c);
/* Opens it if it is closed, and waits until it is ready. */
int redis_conn_wait_ready(struct redis_conn *c, int64_t deadline);
/* Of the last close or the last call. */
const struct redis_error *redis_conn_error(const struct redis_conn *c);
/* When the last open began, or the look-up that made it fail: the error of a closed connection is not older. */
int64_t redis_conn_tried(const struct redis_conn *c);
const struct redis_server_info *redis_conn_info(const struct redis_conn *c);
const char *redis_conn_label(const struct redis_conn *c);
/* As configured; "" for a unix socket. */
const char *redis_conn_host(const struct redis_conn *c);
/* The hash under which the server has script @i; NULL = it could not be loaded. */
const char *redis_conn_script(const struct redis_conn *c, size_t i);
/* Counts the connects: replies to commands of another generation never come. */
uint64_t redis_conn_generation(const struct redis_conn *c);
/*
 * Since this connect a script that needs every right for acquire, renew and release has run, and no right was refused
 * since.
 */
bool redis_conn_is_proven(const struct redis_conn *c);
void redis_conn_prove(struct redis_conn *c, bool proven);
/*
 * Commands sent and replies taken since the last connect: the reply to a command is next when the replies taken are as
 * many as the commands sent before it.
 */
uint64_t redis_conn_sent(const struct redis_conn *c);
uint64_t redis_conn_taken(const struct redis_conn *c);
/*
 * The server's clock, in us: a little above it, as long as commands need as long as before.  0 = no reply has had it.
 * A reply to a command begun at @began had it.
 */
int64_t redis_conn_clock_us(const struct redis_conn *c, int64_t now);
void redis_conn_saw_clock(struct redis_conn *c, int64_t began, int64_t server_ms);
/* Of the server, for as long as it has this address: what it refuses. */
struct redis_refusals *redis_conn_refusals(struct redis_conn *c);
/* Stores an error found in a reply; returns @code. */
int redis_conn_set_error(struct redis_conn *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Stores class and text of an error reply; 0 if it is none.  READONLY closes the connection, see redis_conn_move(). */
int redis_conn_reply_error(struct redis_conn *c, const struct redis_reply *reply);

#endif
