/* SPDX-License-Identifier: MIT */
/*
 * client.h - the servers of a segment: many operations in one round trip, hints, and when to leave a server alone
 *
 * Each key has its server, chosen by its name in Redis, which is the same on every host; or all servers have every key
 * and a majority decides.  Used by one thread.
 */
#ifndef LOCKSHM_REDIS_CLIENT_H
#define LOCKSHM_REDIS_CLIENT_H

#include "redis/script.h"
#include "redis/settings.h"
#include "redis/tracking.h"

struct redis_client;

/* One operation.  The caller fills the first part; keys and token must stay until it is done. */
struct redis_command {
	enum redis_script script;
	bool exclusive; /* of the lease in question */
	bool for_reader; /* and who wants it only reads, as far as was seen: */
	bool unsure; /* not all who want it were */
	const struct redis_keys *keys;
	struct script_args args;
	int64_t sent_at; /* this process' time, before its first byte; for what was not sent, when that was last tried */
	uint64_t word; /* of the lease, when it was decided to ask */
	bool plain; /* a renewal of a writer's lease, and as far as is known nothing else is to be done for it */

	bool batched; /* with many others; then the rest is there */
	bool shared; /* and by the script of an ask before this one, which counts for both */
	bool put_off; /* not asked in this round: there was no time for it, or its names are others by now */
	bool doubt; /* upgrade that a majority refused: some servers may have done it */
	bool unsent; /* an error, and nothing of it can have reached a server */
	int code; /* 0 = there is an answer */
	char why[256]; /* the error in words */
	int64_t valid_until; /* granted, renewed: this process' time */
	struct script_reply reply;
};

int redis_client_new(struct redis_client **out, const struct redis_settings *settings, struct redis_error *error);
void redis_client_free(struct redis_client *client);

/* What the names of a lock have to look like, as far as is known by now: a first connection may say something else. */
int redis_client_keys_mode(const struct redis_client *client);

/* Until this is called again a server that failed is not tried again: runs without it are one round. */
void redis_client_begin(struct redis_client *client);
/* From now on this is called during a run before each time that something is waited for. */
void redis_client_between(struct redis_client *client, void (*call)(void *arg), void *arg);

/*
 * All of them, first those that keep leases; the others in their order for each server.  Back after a few times @io_ns,
 * however many servers do not answer.
 */
void redis_client_run(struct redis_client *client, struct redis_command *cmds, size_t n, int64_t io_ns);

/* Make sure that hints come for what was asked, before going to sleep.  False = some server
 * gives none: look more often. */
bool redis_client_arm(struct redis_client *client, int64_t io_ns);
/* The next hint that has come; for REDIS_HINT_KEY and TOLD with a name in Redis. */
enum redis_hint redis_client_hint(struct redis_client *client, const char **key, size_t *len);
/* Have this epoll descriptor report once when hints come. */
void redis_client_watch(struct redis_client *client, int epoll);
/* When to call redis_client_arm() again at the latest. */
int64_t redis_client_due(const struct redis_client *client);

/* In a forked child: close what was inherited. */
void redis_client_abandon(struct redis_client *client);

#endif
