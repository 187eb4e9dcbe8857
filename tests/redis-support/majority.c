/* SPDX-License-Identifier: MIT */
/* majority.c - see majority.h */
#include "majority.h"

#include "redis/quorum.h"

struct redis *servers[SERVERS_MAX];
struct proxy *proxies[SERVERS_MAX];

void servers_start(unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		servers[i] = i ? redis_start(NULL, false) : redis;
}

void servers_stop(unsigned n)
{
	unsigned i;

	for (i = 1; i < n; i++)
		redis_stop(servers[i]);
}

void servers_empty(unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		servers[i]->say = NULL;
		ck_redis("OK", servers[i], "FLUSHALL");
	}
}

void proxies_start(unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		proxies[i] = proxy_start(servers[i], false);
}

const char *proxies_uris(void)
{
	static char uris[600];

	snprintf(uris, sizeof(uris), "%s,%s,%s", proxies[0]->uri, proxies[1]->uri, proxies[2]->uri);
	return uris;
}

void proxies_set(enum proxy_fault fault)
{
	unsigned i;

	for (i = 0; i < SERVERS; i++)
		proxy_set(proxies[i], fault);
}

void vote_begin(struct redis_quorum *q, struct redis_vote *v)
{
	redis_quorum_begin(q, v);
	redis_quorum_step(q);
}

int vote_end(struct redis_quorum *q, struct redis_vote *v)
{
	while (!v->over) {
		redis_quorum_wait(q, v->deadline);
		redis_quorum_step(q);
	}
	return v->code;
}
