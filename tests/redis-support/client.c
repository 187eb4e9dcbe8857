/* SPDX-License-Identifier: MIT */
/* client.c - commands to a client, and the wait for all of them */
#define _GNU_SOURCE
#include "redis.h"

#include "redis/client.h"

int64_t client_run(struct redis_client *client, struct redis_command *cmds, size_t n, int64_t io_ns)
{
	int64_t begun = redis_now();
	size_t i;

	for (i = 0; i < n; i++)
		redis_client_add(client, &cmds[i]);
	while (n > 0) {
		redis_client_step(client, io_ns);
		if (redis_client_next(client))
			n--;
		else
			redis_client_wait(client, INT64_MAX);
	}
	return redis_now() - begun;
}
