/* SPDX-License-Identifier: MIT */
/*
 * conn.h - one connection to one Redis server
 *
 * Nothing here blocks but redis_conns_poll(), which waits for many connections at once.  Every command has one
 * absolute deadline, from its first byte to the last of its reply.  When it is over the connection is dropped, because
 * a late reply could be taken for that of the next command; whether the command was executed is then not known.
 *
 *   closed --open--> looking its name up --> connecting --greeting answered--> ready --error, deadline, fork--> closed
 *
 * A connection serves one thread of one process.  In a forked child it closes itself at the first use, without a byte
 * to the server, and can then be opened anew.
 */
#ifndef LOCKSHM_REDIS_CONN_H
#define LOCKSHM_REDIS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/redis-error.h"
#include "redis/uri.h"
#include "redis/resp.h"

#define REDIS_SCRIPTS_MAX 16
#define REDIS_CONNS_MAX 64 /* that can be waited for at once */

struct redis_conn;

struct redis_conn_options {
	const char *name; /* shown by CLIENT LIST; NULL = none */
	const char *const *scripts; /* loaded at each connect; the pointers must stay valid */
	size_t n_scripts;
	bool subscriber; /* gets messages that no command asked for */
	bool replica_ok; /* else a replica is refused with REDIS_RETRY */
};

/* What the server said of itself at the last connect. */
struct redis_server_info {
	char run_id[41]; /* new at each start of the server */
	char version[24];
	int64_t uptime_s; /* in whole seconds, rounded down */
	bool replica;
	bool cluster;
	int64_t client_id; /* of a subscriber, if the server has CLIENT ID; else 0 */
	int64_t round_trip_ns; /* of the greeting */
};

/* Loads what connections to these servers need: NULL, or why this process cannot have any, or not any more. */
const char *redis_conn_load(const char *servers);

/*
 * Begins to look its name up, in a thread of its own.  The addresses are kept for all later connects; when none of them
 * can be connected to, or a replica is there, the name is looked up again.
 */
int redis_conn_new(struct redis_conn **out, const struct redis_server *server,
		    const struct redis_conn_options *options, struct redis_error *error);
void redis_conn_free(struct redis_conn *c);

/* Begins to connect, log in and greet; all of it until @deadline.  No effect on one that is not closed. */
int redis_conn_open(struct redis_conn *c, int64_t deadline);
void redis_conn_close(struct redis_conn *c);
/* The same of one whose server is not the right one any more: its name is looked up again, for a later open. */
void redis_conn_move(struct redis_conn *c);
/* In a forked child, of a connection that a thread of the parent may have been using: only closes the child's copy of
 * the socket, so that the server sees the end of the parent's.  Nothing else may be done with it. */
void redis_conn_abandon(struct redis_conn *c);

/* Adds a command; it is written by the next pump or poll.  Replies come in the order of the commands. */
int redis_conn_send(struct redis_conn *c, int64_t deadline, int argc, const char *const *argv, const size_t *lens);

/*
 * For a poll loop: the descriptor (-1 = none), the events to wait for, the time by which to pump in any case, and the
 * work to do when one of these has come.  Returns 0 while the connection lives, else its error.
 */
int redis_conn_fd(const struct redis_conn *c);
short redis_conn_events(const struct redis_conn *c);
int64_t redis_conn_due(const struct redis_conn *c);
int redis_conn_pump(struct redis_conn *c);

/* Waits until something happened on one of them, at most REDIS_CONNS_MAX, but not past @until, and pumps
 * all.  NULLs are skipped. */
void redis_conns_poll(struct redis_conn *const *conns, size_t n, int64_t until);

/* The next reply, which the caller frees; NULL = none yet, or the connection was dropped. */
struct redis_reply *redis_conn_take(struct redis_conn *c);

/*
 * Both at once, for one command and one connection, which is opened first if it is closed.  An error reply is returned
 * as its class, with the server's text in redis_conn_error(); otherwise the caller frees *@reply.
 */
int redis_conn_call(struct redis_conn *c, int64_t deadline, struct redis_reply **reply, int argc,
		     const char *const *argv, const size_t *lens);

bool redis_conn_ready(const struct redis_conn *c);
bool redis_conn_closed(const struct redis_conn *c);
/* Opens it if it is closed, and waits until it is ready. */
int redis_conn_wait_ready(struct redis_conn *c, int64_t deadline);
/* Why it was closed last, or what the last call met. */
const struct redis_error *redis_conn_error(const struct redis_conn *c);
/* When that was tried, or the look-up begun that it ended with: the error of one that is closed is not older. */
int64_t redis_conn_tried(const struct redis_conn *c);
const struct redis_server_info *redis_conn_info(const struct redis_conn *c);
const char *redis_conn_label(const struct redis_conn *c);
/* As it was configured; "" for a unix socket. */
const char *redis_conn_host(const struct redis_conn *c);
/* The hash under which the server knows script @i; NULL = it could not be loaded. */
const char *redis_conn_script(const struct redis_conn *c, size_t i);
/* Counts the connects: replies to what was sent under another number never come. */
uint64_t redis_conn_generation(const struct redis_conn *c);
/* Since this connect a script ran that needs every right there is to taking, keeping and giving back,
 * and none was refused since. */
bool redis_conn_is_proven(const struct redis_conn *c);
void redis_conn_prove(struct redis_conn *c, bool proven);
/* Commands sent and replies taken since the last connect: the reply to a command is next when
 * both were equal at its send. */
uint64_t redis_conn_sent(const struct redis_conn *c);
uint64_t redis_conn_taken(const struct redis_conn *c);
/* Stores an error that was found in a reply; returns @code. */
int redis_conn_set_error(struct redis_conn *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Stores the class and text of an error reply; 0 if it is none.  READONLY closes the
 * connection, see redis_conn_move(). */
int redis_conn_reply_error(struct redis_conn *c, const struct redis_reply *reply);

#endif
