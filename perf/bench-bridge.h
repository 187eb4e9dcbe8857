/* SPDX-License-Identifier: MIT */
/*
 * bench-bridge.h - common parts of the scenarios of the bridge: one real Redis server, and segments as hosts
 *
 * The server is the run's own (bench-server.c), used over plain blocking sockets here, the least cost of a round trip.
 * Each host has a process of lockshm-bridge.  Processes of these scenarios are not pinned: the kernel places them, the
 * bridges and the server, as it does for users.
 */
#ifndef BENCH_BRIDGE_H
#define BENCH_BRIDGE_H

#include "bench.h"

#include "lockshm.h"

/* ---------------------------------------------------------------------------------------------------------------- *
 * The server and its replies; bench-redis.c
 */
#define REDIS_KEY "bench" /* the key of nearly everything here, */
#define REDIS_PREFIX "lk:" /* which is called lk:bench there */

/* Its unix socket; started at the first call.  NULL = there is none, see bench_why(). */
const char *redis_socket(void);
/* Network path to it. */
enum redis_way {
	REDIS_UNIX,
	REDIS_TCP, /* on 127.0.0.1 */
	REDIS_FAR, /* the same, over a simulated network: relay_start() */
};
int redis_port(enum redis_way way); /* on 127.0.0.1 */
int redis_dial(enum redis_way way); /* a connection; failure is fatal */
#define RELAY_NS 100000
/* Runs until bench_kill(); stores the port on which it accepts connections to port @to.  @ns: in each direction. */
pid_t relay_start(int *port, int64_t ns, int to);
/* Starts, or ends, the network of REDIS_FAR. */
void redis_far_begin(int64_t ns);
#define MAJORITY 5 /* servers, at most */
/* The same with further servers, @n in all, emptied; their addresses, "" = they cannot be started. */
const char *redis_majority_begin(int64_t ns, int n);
int redis_dial_port(int port);
void redis_far_end(void);
/* One command, words separated by blanks; returns the text of its reply, "" for nil.  Valid until the next call. */
const char *redis_ask(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The server's counts for the commands in @names, separated by blanks: how many, and its own time for them. */
struct redis_count {
	double calls, us;
};
struct redis_count redis_counted(int fd, const char *names);
/* All commands of lockshm while nothing fails. */
#define REDIS_OURS "evalsha eval ping"

/* ---------------------------------------------------------------------------------------------------------------- *
 * Hosts; bench-bridge.c
 */
#define BRIDGE_HOSTS 2

struct bridge_options {
	int hosts;
	enum redis_way way;
	int64_t ttl_ns; /* 0 = as usual */
	const char *majority; /* addresses of its servers; NULL = one server */
	uint32_t leases; /* 0 = few */
	int64_t gap_ns; /* between host leases */
};

/* Empties the server and makes the segments.  False = not possible here; the reason was printed. */
bool bridge_make(const struct bridge_options *wish);
void bridge_unmake(void);
lockshm_t *bridge_open(int host); /* in each process that takes locks */
void bridge_unpin(void); /* likewise, first of all */
/* Takes REDIS_KEY, or another one, exclusively; LOCKSHM_GLOBAL or 0.  Failure is fatal, here and below. */
void bridge_lock(lockshm_t *s, const char *key, unsigned flags, lockshm_hold_t *hold);
void bridge_unlock(lockshm_hold_t *hold);
struct lockshm_bridge_stat bridge_stat(lockshm_t *s);
/* Until that many hosts are queued for REDIS_KEY in Redis. */
void bridge_await_queue(int fd, int hosts);
/* All scenarios of the bridge run once for each round: as rows of "lockshm". */
bool bridge_fits(const struct point *p, const struct lock_adapter *lock);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Programs in other languages with locks of their own; bench-other.c
 */
#define OTHERS_MAX 16

struct other {
	const char *name, *program, *script; /* the script is in the directory of these sources */
	const char *probe; /* shell: is it installed? */
	const char *package;
};
extern const struct other bridge_others[]; /* ends with a name of NULL */

bool other_is_there(const struct other *o); /* prints once if it is not */
/*
 * @procs of them want one key for @ms; stores how many times each had it, and the waits.  False = one of them failed.
 */
bool other_run(const struct other *o, int procs, int ms, int hold_us, int think_us, uint64_t *ops, struct hist *waits);

#endif
