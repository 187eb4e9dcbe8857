/* SPDX-License-Identifier: MIT */
/*
 * hosts.h - segments that play hosts, around one real Redis server
 *
 * Each segment is a host of its own: its name in Redis, its bridge (the program lockshm-bridge), its processes (agents).
 * Bridges log in with the smallest ACL of the documents, where a test has no login of its own and the default prefix.
 * Leases last a second unless a test says otherwise, so that losing one takes no longer.
 */
#ifndef LOCKSHM_TEST_HOSTS_H
#define LOCKSHM_TEST_HOSTS_H

#include "support/fixture.h"

#include "support/agent.h"
#include "majority.h"
#include "redis.h"

#include <pthread.h>

#define HOSTS_MAX 64
#define K "key"

struct host {
	lockshm_t *s; /* for inspection: the test itself takes no locks there */
	char name[128];
	pid_t bridge; /* 0 = none */
	const char *credentials; /* directory of its bridge; NULL = none */
};

extern struct host hosts[HOSTS_MAX];

/* Runs the cases that @add puts into the test case, with a server. */
int hosts_main(const char *name, void (*add)(TCase *tc));

/* From here on the test has a server of its own, which it may kill. */
void own_server(void);
/* The same with lines of redis.conf, or with a clock of its own. */
void own_server_with(const char *config);
void own_server_with_clock(void);
/* What host_make() takes; change what the case needs. */
struct lockshm_create_options host_options(void);
/* Makes hosts[@i] and starts its bridge, which leads when this returns; asserts that it works. */
void host_make(unsigned i, const struct lockshm_create_options *options);
/* The same without a bridge. */
void host_make_bare(unsigned i, const struct lockshm_create_options *options);
/* hosts[0] .. hosts[n-1] as usual. */
void hosts_make(unsigned n);

/* hosts[0] .. hosts[n-1] on the servers of a majority, with leases of that time.  Young servers do not vote for the time
 * of a lease, so the first key takes that long. */
void hosts_on_three(unsigned n, int64_t ttl_ns);

/* A server of the test's own; hosts[0] connects through the proxy, hosts[1] directly. */
struct proxy *hosts_by_proxy(int64_t ttl_ns);

/* Another process of lockshm-bridge for the segment: it stands by, or leads soon if there is none.  It ends with the
 * test. */
pid_t bridge_spawn(unsigned i);
/* The same, and it stands by when this returns. */
pid_t bridge_standby(unsigned i);
/* Waits until @pid stands by. */
void stands_by(unsigned i, pid_t pid);
/* Waits until @standby leads: from then on it is hosts[@i].bridge.  Returns the one before. */
pid_t bridge_succeeds(unsigned i, pid_t standby);
/* The bridge of hosts[@i], hosts[@i].bridge.  Each returns when it has happened; a started one leads then. */
void bridge_start(unsigned i);
void bridge_kill(unsigned i);
void bridge_freeze(unsigned i);
void bridge_thaw(unsigned i);
/* By SIGTERM: what is free is given back first. */
void bridge_end(unsigned i);
/* Waits until @pid leads hosts[@i]; 0 = any. */
void leads(unsigned i, pid_t pid);
/* By an operator, whether its bridge notices or not. */
void leadership_is_ended(unsigned i);

/* Instead of its bridge the test's own process leads hosts[@i], in a thread; returns once it does. */
struct bridge_service {
	lockshm_t *s;
	pthread_t thread;
	lockshm_canceller_t canceller;
	int code; /* that of bridge_serve() */
};
void bridge_service_start(struct bridge_service *v, unsigned i);
void bridge_service_stop(struct bridge_service *v);

/* A process on host @i. */
struct agent *on_host(unsigned i);
/* Hosts as usual, and an agent on the host of each digit: cast("001", &a, &b, &c) puts two on hosts[0] and one on
 * hosts[1]. */
void cast(const char *where, ...);
/* Global, with a lease of 30 s, into hold 0.  wait: returns the result; try: once; send: returns at once. */
/* The policy of a segment whose requests behave as @policy: local-only is that of the requests, from now on. */
int segment_policy(int policy);
extern int global_policy;
struct agent_command global_command(const char *key, int mode);
int global_wait(struct agent *a, const char *key, int mode);
int global_try(struct agent *a, const char *key, int mode);
void global_send(struct agent *a, const char *key, int mode);

/* The host's lease of @key as it is now; state 0 = none. */
struct lockshm_host_lease lease_of(unsigned i, const char *key);
struct lockshm_bridge_stat bridge_of(unsigned i);
/* The number of its record; the key must have one. */
uint32_t record_of(unsigned i, const char *key);
/* From now on tokens below @next count as used, and the range is empty. */
void fence_becomes(unsigned i, const char *key, uint64_t next);
/* Waits for these. */
void lease_becomes(unsigned i, const char *key, int state);
void redis_has(const char *command, const char *answer);
void lost_is_reported(struct agent *a);
/* Until the agent waits in the queue of hosts[@i]; it must not have a result before. */
void waits_on_host(struct agent *a, unsigned i, const char *key);
/* Until that many requests for K on hosts[0] wait for its lease. */
void wanted_by(unsigned n);

#endif
