/* SPDX-License-Identifier: MIT */
/*
 * majority.h - servers of which a majority decides, each behind a proxy
 *
 * A suite that starts them once empties them before each case; hosts_on_three() starts them for one case.
 */
#ifndef LOCKSHM_TEST_MAJORITY_H
#define LOCKSHM_TEST_MAJORITY_H

#include "redis.h"

#define SERVERS 3 /* where a case needs no other number */
#define SERVERS_MAX 5

struct redis_quorum;
struct redis_vote;

extern struct redis *servers[SERVERS_MAX]; /* the suite's is the first */
extern struct proxy *proxies[SERVERS_MAX];

void servers_start(unsigned n);
void servers_stop(unsigned n);
/* For a case of its own process. */
void servers_empty(unsigned n);
void proxies_start(unsigned n);
/* The URIs of SERVERS proxies, as an option of a segment. */
const char *proxies_uris(void);
void proxies_set(enum proxy_fault fault);

/* Begins, and does what needs no reply. */
void vote_begin(struct redis_quorum *q, struct redis_vote *v);
/* Waits for the end; returns the code. */
int vote_end(struct redis_quorum *q, struct redis_vote *v);

#endif
