/* SPDX-License-Identifier: MIT */
/*
 * handshake.h - what is said at each connect: log in, choose the database, ask who the server is, load the scripts
 *
 * All of it is sent at once and costs one round trip.  A stopped server accepts connections, so only its answers show
 * that it lives.
 */
#ifndef LOCKSHM_REDIS_HANDSHAKE_H
#define LOCKSHM_REDIS_HANDSHAKE_H

#include "redis/conn.h"

#define HANDSHAKE_STEPS_MAX (8 + REDIS_SCRIPTS_MAX)

struct handshake {
	unsigned char steps[HANDSHAKE_STEPS_MAX]; /* which reply comes when */
	size_t n_steps, step, n_loaded;
	char sha[REDIS_SCRIPTS_MAX][41];
	struct redis_server_info info;
};

int handshake_begin(struct handshake *g, struct resp *resp, const struct redis_server *server,
		       const struct redis_conn_options *options, struct redis_error *error);
/* The next reply: 0 = that was the last, REDIS_AGAIN = there are more, else no connection can be made. */
int handshake_reply(struct handshake *g, const struct redis_reply *reply,
		       const struct redis_conn_options *options, struct redis_error *error);

#endif
