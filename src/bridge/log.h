/* SPDX-License-Identifier: MIT */
/* log.h - lines for the operator: leadership, servers that are lost or back, lost leases, refusals */
#ifndef LOCKSHM_BRIDGE_LOG_H
#define LOCKSHM_BRIDGE_LOG_H

#include "redis/client.h"
#include "sys/compiler.h"

/* Gets each line, from any thread that serves.  NULL = nothing is logged. */
extern void (*bridge_log_to)(const char *line);

/* At most some lines in ten seconds; the next line has the number of those left out. */
void bridge_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Something refused for good: the same text is logged once in some minutes, for whichever keys. */
void bridge_log_refusal(const char *why);

/* The state of each server as it was logged last. */
struct server_log {
	char label[384];
	bool lost;
	uint64_t why; /* hash of the reason */
};
struct server_logs {
	struct server_log server[REDIS_SERVERS_MAX];
	size_t n;
};

/* Log what has changed since the last call. */
void bridge_log_servers(struct server_logs *logs, const struct redis_client *client);

#endif
