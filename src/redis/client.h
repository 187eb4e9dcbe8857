/* SPDX-License-Identifier: MIT */
/*
 * client.h - commands about many keys to all servers of a segment, in one round trip where possible
 *
 * Each key has one server, chosen by a hash of its name in Redis, which is the same on every host; in a quorum every
 * server has every key and a majority decides.  A client belongs to one thread.
 */
#ifndef LOCKSHM_REDIS_CLIENT_H
#define LOCKSHM_REDIS_CLIENT_H

#include "redis/script.h"
#include "redis/tracking.h"

struct redis_client;

/* The texts belong to the caller and must stay as long as the client. */
struct redis_settings {
	const char *servers; /* URIs, separated by commas */
	const char *credentials; /* directory; NULL = none */
	char host[REDIS_HOST_LEN + 1]; /* this host's name in Redis */
	uint64_t ttl_ms; /* of a lease, at most */
	bool quorum; /* a majority of the servers decides; else each key has one server */
	unsigned replicas; /* that must have a lease before it counts */
};

/* One operation on one key.  The caller fills the first part; keys and value must stay until the reply. */
struct redis_command {
	enum redis_script script;
	bool exclusive; /* mode of the lease */
	bool for_reader; /* the lease is wanted for readers only, as far as the scan found: */
	bool unsure; /* the scan may have missed some */
	const struct redis_keys *keys;
	struct script_args args;
	int64_t sent_at; /* this process' time, before the first byte; unsent: of the last connect that failed */
	uint64_t word; /* of the host lease, when the command was decided */
	bool plain; /* renewal of a writer's lease with nothing else to do, as far as is known */

	bool batched; /* renewed by renew_batch_run(); the fields below are set */
	bool shared; /* by the same script as an earlier command, which counts for both */
	bool put_off; /* not sent in this round: no time left, or the names have another form by now */
	bool unsent; /* an error, and no server can have received any of it */
	int code; /* 0 = there is a reply */
	char why[256]; /* message of the error */
	int64_t valid_until; /* granted, renewed: this process' time */
	struct script_reply reply;
};

/* Waits for no server.  REDIS_INVALID: bad URIs, or rediss:// in a build without TLS. */
int redis_client_new(struct redis_client **out, const struct redis_settings *settings, struct redis_error *error);
void redis_client_free(struct redis_client *client);

/* Form of a lock's names, as far as is known: the first connection may change it. */
int redis_client_keys_mode(const struct redis_client *client);

/* Begins a round: a server that fails is not tried again before the next round. */
void redis_client_begin(struct redis_client *client);
/* @call is called during each run before each wait. */
void redis_client_between(struct redis_client *client, void (*call)(void *arg), void *arg);

/*
 * Runs all commands: first those that keep leases, the others in their order for each server.  Takes a few times @io_ns
 * at most, however many servers do not reply.
 */
void redis_client_run(struct redis_client *client, struct redis_command *cmds, size_t n, int64_t io_ns);

/*
 * Before a sleep: makes sure that changes of the keys read cause hints.  False = a server gives none: poll more often.
 */
bool redis_client_arm(struct redis_client *client, int64_t io_ns);
/* The next hint received; REDIS_HINT_KEY and REDIS_HINT_NOTIFIED come with a name in Redis. */
enum redis_hint redis_client_hint(struct redis_client *client, const char **key, size_t *len);
/* Makes this epoll descriptor report once when hints arrive. */
void redis_client_watch(struct redis_client *client, int epoll);
/* The latest time for the next redis_client_arm(). */
int64_t redis_client_due(const struct redis_client *client);

/* Calls @fn for each server: can it be used now, and if not, why, "" = it was not needed yet. */
void redis_client_each_server(const struct redis_client *client,
			      void (*fn)(const char *label, bool ready, const char *why, void *arg), void *arg);

#endif
