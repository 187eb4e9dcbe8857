/* SPDX-License-Identifier: MIT */
/*
 * hosts.h - the names of the hosts, and their settings, in a list that all of them keep in Redis
 *
 * For messages only: no lock depends on the list, and a server that refuses it is no failure.  A host of an older
 * version is not in it.  Its name in Redis is PREFIXlockshm:hosts, and also lockshm:hosts, where hosts with another
 * prefix are seen.
 */
#ifndef LOCKSHM_BRIDGE_HOSTS_H
#define LOCKSHM_BRIDGE_HOSTS_H

#include "segment/segment.h"

#define HOST_NAME_LONGEST 64 /* bytes, percent-escaped */
#define HOST_SERVERS_MAX 1000 /* bytes of the list of servers in an entry; of a longer one the begin */
#define HOST_TEXT_MAX 2800 /* bytes of an entry */

/* A host as the list has it; texts are percent-escaped, so printable. */
struct host_entry {
	char id[REDIS_HOST_BYTES + 1];
	char name[HOST_NAME_LONGEST + 1];
	const char *segment, *prefix, *global, *servers; /* valid during the call */
	uint64_t ttl_ms;
	int64_t age_ms; /* since it was stored */
};

/* This host, with its texts as its entry has them. */
struct host_self {
	char name[HOST_NAME_LONGEST + 1];
	char segment[256];
	char prefix[3 * REDIS_PREFIX_BYTES];
	char global[3 * GLOBAL_KEYS_BYTES];
	char servers[HOST_SERVERS_MAX + 1];
	struct shm_redis redis;
};

/* Called for each entry, more than once if several servers have it. */
typedef void (*hosts_fn)(const struct host_entry *entry, void *arg);

/* @name: of this machine; NULL = as the kernel has it. */
void host_self_make(struct host_self *self, struct lockshm *s, const char *name);

/*
 * Reads the list of each server, and stores this host in it first if @store.  Waits @io_ns at most for connecting and
 * for each reply.  In a cluster self->servers becomes that word.  Returns how many lists were read; *@refused = the
 * login may not use lockshm:hosts.
 */
size_t hosts_visit(struct host_self *self, bool store, int64_t io_ns, hosts_fn fn, void *arg, bool *refused);

enum host_setting { HOST_PREFIX, HOST_SERVERS, HOST_TTL, HOST_GLOBAL_KEYS, HOST_SETTINGS };
/* Has a host with a segment of the same name another setting @which now?  What, and what to do, in @out. */
bool host_differs(const struct host_self *self, const struct host_entry *entry, enum host_setting which, char *out,
		  size_t size);

/* ---------------------------------------------------------------- names, in this process */

void hosts_remember(const struct host_entry *entry, void *unused);
/* "NAME (ID)", or "ID" if the name is not known.  @id: REDIS_HOST_BYTES digits. */
#define HOST_SHOWN_BYTES (HOST_NAME_LONGEST + REDIS_HOST_BYTES + 4)
void host_shown(const char *id, char out[HOST_SHOWN_BYTES]);
/* False = not known: then it is read soon, by a thread of hosts_start(). */
bool host_name(const char *id, char out[HOST_NAME_LONGEST + 1]);

/* ---------------------------------------------------------------- a thread that keeps the entry of this host */

struct hosts;

/* Logs hosts with other settings, each once.  NULL = no thread, also for an empty @name; the bridge goes on without. */
struct hosts *hosts_start(struct lockshm *s, const char *name);
/* In two steps, so that many end at once. */
void hosts_cancel(struct hosts *h);
void hosts_stop(struct hosts *h);

#endif
