/* SPDX-License-Identifier: MIT */
/* fork.c - the bridge's libraries, and its part in forks; see fork.h */
#include "bridge/fork.h"

#include <unistd.h>

#include "bridge/standby.h"
#include "redis/client.h"
#include "redis/conn.h"
#include "redis/dynlib.h"
#include "segment/process.h"
#include "sys/error.h"

/*
 * The child closes the sockets it inherited, so that the server sees the end of the parent's.  Not after a clone past
 * the C library: the descriptor table may be the parent's too, or the numbers may be of other files by the first call.
 */
static void forget(struct lockshm *s, bool own_descriptors)
{
	int i;

	/* The thread may have been at any point: its memory stays as it is. */
	s->standby = NULL;
	if (s->net && own_descriptors)
		redis_client_abandon(s->net);
	s->net = NULL;
	for (i = 0; i < 2; i++) {
		if (s->listener[i] && own_descriptors)
			close(s->listener[i] - 1);
		s->listener[i] = 0;
	}
}

static const struct process_hooks hooks = {
	.forget = forget,
	/* No thread loads hiredis while memory is copied. */
	.fork_begin = dynlib_before_fork,
	.fork_end = dynlib_after_fork,
	.forget_global = dynlib_forget,
	.close = standby_stop,
};

int bridge_load(struct lockshm *s, struct lockshm_error *error)
{
	const char *why;

	process_add_hooks(&hooks);
	why = redis_conn_load(s->redis.servers);
	return why ? error_set(error, LOCKSHM_BRIDGE, "%s", why) : 0;
}
