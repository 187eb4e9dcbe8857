/* SPDX-License-Identifier: MIT */
/*
 * client.h - commands about many keys to all servers of a segment, many of them under way at a time
 *
 * Each key has one server, chosen by a hash of its name in Redis, which is the same on every host; in a quorum every
 * server has every key and a majority decides.  A client belongs to one thread.
 */
#ifndef LOCKSHM_REDIS_CLIENT_H
#define LOCKSHM_REDIS_CLIENT_H

#include "redis/quorum.h"
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
	void *owner; /* the caller's */
	int64_t sent_at; /* this process' time, before the first byte; unsent: of the last connect that failed */
	uint64_t word; /* of the host lease, when the command was decided */
	bool plain; /* renewal of a writer's lease with nothing else to do, as far as is known */

	/* The client's, once it has the command: */
	bool batched; /* renewed by one script with others */
	bool shared; /* by the same script as an earlier command, which counts for both */
	bool put_off; /* not sent: the names have another form by now */
	bool unsent; /* an error, and no server can have received any of it */
	bool parts; /* not granted, but some servers may have granted: to be given back before another attempt */
	int code; /* 0 = there is a reply */
	char why[256]; /* message of the error */
	int64_t valid_until; /* granted, renewed: this process' time */
	struct script_reply reply;

	/* Internal, see redis/pipeline.h and redis/quorum.h: */
	struct redis_command *next;
	struct redis_node *node; /* that has the key */
	int stage;
	bool followed; /* a redirection */
	bool alone; /* its renewal with others failed */
	union {
		struct redis_op op;
		struct redis_vote vote;
	};
};

/* Waits for no server.  REDIS_INVALID: bad URIs, or rediss:// in a build without TLS. */
int redis_client_new(struct redis_client **out, const struct redis_settings *settings, struct redis_error *error);
void redis_client_free(struct redis_client *client);

/* Do renewals reserve tokens?  If not, a used-up range ends the lease. */
bool redis_client_renews_tokens(const struct redis_client *client);
/* Does one script renew many leases?  Then those that are due soon are better renewed with the first. */
bool redis_client_renews_many(const struct redis_client *client);

/* Form of a lock's names, as far as is known: the first connection may change it. */
int redis_client_keys_mode(const struct redis_client *client);

/*
 * Takes charge of @cmd, which with its keys and value must stay until redis_client_next() returns it.  Nothing is sent
 * before the next step.
 */
void redis_client_add(struct redis_client *client, struct redis_command *cmd);
/*
 * Does all that is possible without a wait: connects, sends, takes replies.  Commands for one server are sent in their
 * order, whatever is under way there.  @io_ns: how long a connect and a reply that begin now may take, and all of what a
 * majority does for a command.
 */
void redis_client_step(struct redis_client *client, int64_t io_ns);
/* A command that is over, in any order; NULL = none. */
struct redis_command *redis_client_next(struct redis_client *client);
/* Waits for the servers, not past @until; then a step is due. */
void redis_client_wait(struct redis_client *client, int64_t until);
/* Do changes of the keys read cause hints?  False = a server gives none, or not yet: poll more often. */
bool redis_client_tracks(const struct redis_client *client);
/* The next hint received; REDIS_HINT_KEY and REDIS_HINT_NOTIFIED come with a name in Redis. */
enum redis_hint redis_client_hint(struct redis_client *client, const char **key, size_t *len);
/* Makes this epoll descriptor report once when something can be done: replies or hints have come, a connect goes on. */
void redis_client_watch(struct redis_client *client, int epoll);
/* The latest time for the next step. */
int64_t redis_client_due(const struct redis_client *client);

/* Calls @fn for each server: can it be used now, and if not, why; no text = it was not needed yet. */
enum redis_server_state { REDIS_SERVER_READY, REDIS_SERVER_LOST, REDIS_SERVER_REFUSES };
typedef void (*redis_server_fn)(const char *label, enum redis_server_state state, const struct redis_error *why,
				void *arg);
void redis_client_each_server(const struct redis_client *client, redis_server_fn fn, void *arg);
/* Calls @fn for each fault of a server that can be used: nonsense in the place of hints, one vote of two servers. */
void redis_client_each_fault(const struct redis_client *client, void (*fn)(const char *why));

#endif
