/* SPDX-License-Identifier: MIT */
/* chaos.h - what the parts of chaos share: settings, workers, faults */
#ifndef LOCKSHM_TEST_CHAOS_GLOBAL_H
#define LOCKSHM_TEST_CHAOS_GLOBAL_H

#include "redis-support/hosts.h"

#include "history/global.h"

#define CHAOS_HOSTS 2
#define PER_HOST 4
#define WORKERS (CHAOS_HOSTS * PER_HOST)
#define ALL_HOSTS ((1u << CHAOS_HOSTS) - 1)
#define TTL_NS LOCKSHM_SECONDS(2)

/* All take the first exclusively, most of them the second one shared; the third only for an instant, in a hurry. */
enum { KEY_WRITTEN, KEY_READ, KEY_HOT, KEYS };
extern const char *const chaos_keys[KEYS];

extern struct history history;
extern struct history_writer driver;
/* Hosts whose workers must keep their holds, a bit each; shared by all. */
extern uint32_t *hold_on;
/* The process that got the first key last; shared by all. */
extern uint32_t *inside;
extern struct redis *chaos_redis;
extern struct proxy *chaos_proxies[CHAOS_HOSTS];
extern pid_t chaos_standbys[CHAOS_HOSTS]; /* that wait to take over; 0 = none */

/* bridge-crash/chaos-worker.c: takes the keys of host @host until it is killed, or the history says stop. */
void worker_main(unsigned host, uint32_t number, unsigned seed) __attribute__((noreturn));

/* bridge-crash/chaos-faults.c: one fault at random, from its beginning to its end, recorded. */
void fault_any(unsigned (*random)(unsigned below));
/* The same file: a bridge is killed, stopped or replaced, and none of its leases is lost by that. */
void bridge_any(unsigned (*random)(unsigned below));

/* bridge-crash/chaos-starved.c: sleeps, and records if that took much longer, or if the processes that keep a host's
 * leases did not run: for so long in all, of what a renewal has at least. */
#define STARVED_NS (TTL_NS / 6)
void chaos_nap(int64_t ns);
/* The longest of these times since the last call. */
int64_t starved_worst(void);

#endif
