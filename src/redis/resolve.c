/* SPDX-License-Identifier: MIT */
/* resolve.c - names to addresses in a thread; see redis/resolve.h */
#define _GNU_SOURCE
#include "redis/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sys/thread.h"

struct redis_lookup {
	char host[256], port[16];
	struct redis_address addresses[REDIS_ADDRESSES_MAX];
	size_t n;
	char why[128];
	int event;
	int done; /* stored by the thread after all other stores, loaded before them */
	int users;   /* the thread and the requester: the last one frees it */
};

static size_t keep(const struct addrinfo *list, struct redis_address *out)
{
	size_t n = 0;

	for (; list && n < REDIS_ADDRESSES_MAX; list = list->ai_next, n++) {
		memcpy(&out[n].at, list->ai_addr, list->ai_addrlen);
		out[n].len = list->ai_addrlen;
	}
	return n;
}

static int resolve(const char *host, const char *port, int flags, struct redis_address *out, size_t *n)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags };
	struct addrinfo *list;
	int code = getaddrinfo(host, port, &hints, &list);

	*n = 0;
	if (code)
		return code;
	*n = keep(list, out);
	freeaddrinfo(list);
	return 0;
}

size_t redis_numeric(const char *host, const char *port, struct redis_address *out)
{
	size_t n;

	return resolve(host, port, AI_NUMERICHOST, out, &n) == 0 && n ? 1 : 0;
}

static void unref(struct redis_lookup *l)
{
	if (__atomic_sub_fetch(&l->users, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	close(l->event);
	free(l);
}

static void *lookup_main(void *arg)
{
	struct redis_lookup *l = arg;
	uint64_t one = 1;
	int code = resolve(l->host, l->port, 0, l->addresses, &l->n);

	if (code)
		snprintf(l->why, sizeof(l->why), "%s", code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
	__atomic_store_n(&l->done, 1, __ATOMIC_RELEASE);
	(void)!write(l->event, &one, sizeof(one));
	unref(l);
	return NULL;
}

static int start(struct redis_lookup *l)
{
	pthread_t thread;
	int err = thread_start(&thread, lookup_main, l);

	if (!err)
		pthread_detach(thread);
	return err;
}

struct redis_lookup *redis_lookup_begin(const char *host, const char *port)
{
	struct redis_lookup *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	snprintf(l->host, sizeof(l->host), "%s", host);
	snprintf(l->port, sizeof(l->port), "%s", port);
	l->users = 2;
	l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->event >= 0 && start(l) == 0)
		return l;
	if (l->event >= 0)
		close(l->event);
	free(l);
	return NULL;
}

int redis_lookup_fd(const struct redis_lookup *l)
{
	return l->event;
}

bool redis_lookup_done(const struct redis_lookup *l)
{
	return __atomic_load_n(&l->done, __ATOMIC_ACQUIRE);
}

size_t redis_lookup_take(const struct redis_lookup *l, struct redis_address *out, const char **why)
{
	*why = l->why;
	memcpy(out, l->addresses, l->n * sizeof(*out));
	return l->n;
}

void redis_lookup_drop(struct redis_lookup *l)
{
	if (l)
		unref(l);
}
