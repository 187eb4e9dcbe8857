/* SPDX-License-Identifier: MIT */
/*
 * handshake.h - what is said at each connect: log in, choose the database, ask who the server is, load the scripts
 *
 * All of it is sent at once and costs one round trip.  A stopped server accepts connections, so only its answers show
 * that it lives.
 */
#ifndef LOCKSHM_BRIDGE_GREET_H
#define LOCKSHM_BRIDGE_GREET_H

#include "redis/conn.h"

#define GREET_STEPS_MAX (8 + BRIDGE_SCRIPTS_MAX)

struct bridge_greet {
	unsigned char steps[GREET_STEPS_MAX]; /* which reply comes when */
	size_t n_steps, step, n_loaded;
	char sha[BRIDGE_SCRIPTS_MAX][41];
	struct bridge_server_info info;
};

int bridge_greet_begin(struct bridge_greet *g, struct bridge_wire *wire, const struct bridge_server *server,
		       const struct bridge_conn_options *options, struct bridge_error *error);
/* The next reply: 0 = that was the last, BRIDGE_AGAIN = there are more, else no connection can be made. */
int bridge_greet_reply(struct bridge_greet *g, const struct bridge_reply *reply,
		       const struct bridge_conn_options *options, struct bridge_error *error);

#endif
