/* SPDX-License-Identifier: MIT */
/*
 * handshake.h - the first commands of a connection: log in, select the database, identify the server, load the scripts
 *
 * All are sent at once and cost one round trip.  A stopped server still accepts connections; only its replies show that
 * it runs.
 */
#ifndef LOCKSHM_REDIS_HANDSHAKE_H
#define LOCKSHM_REDIS_HANDSHAKE_H

#include "redis/conn.h"

#define HANDSHAKE_STEPS_MAX (8 + REDIS_SCRIPTS_MAX)

struct handshake {
	unsigned char steps[HANDSHAKE_STEPS_MAX]; /* the command of each reply */
	size_t n_steps, step, n_loaded;
	char sha[REDIS_SCRIPTS_MAX][41];
	struct redis_server_info info;
	const char *no_password_in; /* directory that has none; NULL = there is one, or no directory */
};

int handshake_begin(struct handshake *g, struct resp *resp, const struct redis_server *server,
		       const struct redis_conn_options *options, struct redis_error *error);
/* Takes the next reply: 0 = it was the last, REDIS_AGAIN = more follow, else the error of the connect. */
int handshake_reply(struct handshake *g, const struct redis_reply *reply,
		       const struct redis_conn_options *options, struct redis_error *error);

#endif
