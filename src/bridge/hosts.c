/* SPDX-License-Identifier: MIT */
/* hosts.c - names of hosts, the lines about other settings, and the thread that keeps both; see bridge/hosts.h */
#define _GNU_SOURCE
#include "bridge/hosts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/log.h"
#include "sys/clock.h"
#include "sys/hash.h"
#include "sys/min.h"

#define NAMES_MAX 1024
#define EVERY_NS LOCKSHM_SECONDS(60)
#define AGAIN_NS LOCKSHM_SECONDS(5) /* after no server replied */
#define SOON_NS LOCKSHM_SECONDS(1) /* for a name that is not known */
#define NOW_MS 180000 /* an entry that is older is of a bridge that has ended: its settings are not compared */
#define IO_NS LOCKSHM_MS(250)
#define LOGGED_MAX 64

/* ---------------------------------------------------------------- names */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static pthread_cond_t changed; /* a thread is to end, or a name is wanted */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
	char id[REDIS_HOST_BYTES];
	char name[HOST_NAME_LONGEST + 1];
} names[NAMES_MAX];
static size_t n_names, next_name; /* when it is full the oldest ones go */
static uint64_t wanted; /* counts names that were not known */

static void prepare(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attr);
	pthread_condattr_destroy(&attr);
}

static size_t find(const char *id)
{
	size_t i;

	for (i = 0; i < n_names; i++)
		if (memcmp(names[i].id, id, REDIS_HOST_BYTES) == 0)
			break;
	return i;
}

void hosts_remember(const struct host_entry *entry, void *unused)
{
	size_t i;

	(void)unused;
	pthread_mutex_lock(&lock);
	i = find(entry->id);
	if (i == n_names) {
		i = next_name;
		next_name = (next_name + 1) % NAMES_MAX;
		n_names += n_names < NAMES_MAX;
	}
	memcpy(names[i].id, entry->id, REDIS_HOST_BYTES);
	memcpy(names[i].name, entry->name, sizeof(names[i].name));
	pthread_mutex_unlock(&lock);
}

bool host_name(const char *id, char out[HOST_NAME_LONGEST + 1])
{
	size_t i;
	bool known;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&lock);
	i = find(id);
	known = i < n_names;
	snprintf(out, HOST_NAME_LONGEST + 1, "%s", known ? names[i].name : "");
	if (!known) {
		wanted++;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return known;
}

void host_shown(const char *id, char out[HOST_SHOWN_BYTES])
{
	char name[HOST_NAME_LONGEST + 1];

	if (host_name(id, name))
		snprintf(out, HOST_SHOWN_BYTES, "%s (%.*s)", name, REDIS_HOST_BYTES, id);
	else
		snprintf(out, HOST_SHOWN_BYTES, "%.*s", REDIS_HOST_BYTES, id);
}

/* ---------------------------------------------------------------- settings */

/* Each is found at a server of the other: of two single servers these are one, whatever their names. */
static bool is_other_list(const char *here, const char *there)
{
	return strcmp(here, there) != 0 && (strchr(here, ',') || strchr(there, ','));
}

bool host_differs(const struct host_self *self, const struct host_entry *entry, enum host_setting which, char *out,
		  size_t size)
{
	const char *here = self->servers, *there = entry->servers;
	int n = 0;

	/* A bridge of this machine, for a segment that was replaced, is no other host. */
	if (memcmp(entry->id, self->redis.host, REDIS_HOST_BYTES) == 0 || strcmp(entry->name, self->name) == 0 ||
	    strcmp(entry->segment, self->segment) != 0 || entry->age_ms > NOW_MS)
		return false;
	if (which == HOST_PREFIX && strcmp(entry->prefix, self->prefix) != 0)
		n = snprintf(out, size, "has the prefix \"%s\", this one \"%s\": no key excludes both; make both segments with "
					"the same --redis-prefix", entry->prefix, self->prefix);
	else if (which == HOST_SERVERS && is_other_list(here, there))
		n = snprintf(out, size, "has the servers %.200s, this one %.200s: unless these are the same, in the same "
					"order, no key excludes both", there, here);
	else if (which == HOST_TTL && entry->ttl_ms != self->redis.ttl_ms)
		n = snprintf(out, size, "has a lease time of %llu ms, this one %llu ms: make both segments with the same "
					"--redis-ttl", (unsigned long long)entry->ttl_ms,
			     (unsigned long long)self->redis.ttl_ms);
	else if (which == HOST_GLOBAL_KEYS && strcmp(entry->global, self->global) != 0)
		n = snprintf(out, size, "has the global keys \"%.200s\", this one \"%.200s\": a key of one list alone is not "
					"exclusive across both; make both segments with the same --global-keys", entry->global,
			     self->global);
	return n > 0;
}

/* ---------------------------------------------------------------- the thread */

struct hosts {
	struct host_self self;
	pthread_t thread;
	bool ends; /* guarded by @lock */
	bool refused;
	uint64_t wanted; /* as counted before the last visit */
	int64_t soon_ns; /* longer each time: a host of an older version has no entry */
	uint64_t logged[LOGGED_MAX]; /* hashes of what was logged */
	size_t n_logged;
};

static void log_once(struct hosts *h, const char *text)
{
	uint64_t hash = hash_plain(text, strlen(text));
	size_t i;

	for (i = 0; i < h->n_logged && i < LOGGED_MAX; i++)
		if (h->logged[i] == hash)
			return;
	h->logged[h->n_logged++ % LOGGED_MAX] = hash;
	bridge_log("%s", text);
}

static void take_entry(const struct host_entry *entry, void *arg)
{
	struct hosts *h = arg;
	enum host_setting which;
	char text[600];
	int n;

	hosts_remember(entry, NULL);
	n = snprintf(text, sizeof(text), "host %s (%s) ", entry->name, entry->id);
	for (which = 0; which < HOST_SETTINGS; which++)
		if (host_differs(&h->self, entry, which, text + n, sizeof(text) - (size_t)n))
			log_once(h, text);
}

/* Sooner for a name that is wanted.  True = to end. */
static bool pause_for(struct hosts *h, int64_t ns)
{
	int64_t now = clock_precise(), until = now + ns, soon = now + min64(h->soon_ns, ns);
	bool asked = false, ends;

	pthread_mutex_lock(&lock);
	while (!h->ends) {
		struct timespec ts;

		asked = wanted != h->wanted;
		ts = clock_timespec(asked ? soon : until);
		if (clock_precise() >= (asked ? soon : until))
			break;
		(void)pthread_cond_timedwait(&changed, &lock, &ts);
	}
	h->wanted = wanted;
	h->soon_ns = asked ? min64(2 * h->soon_ns, EVERY_NS) : SOON_NS;
	ends = h->ends;
	pthread_mutex_unlock(&lock);
	return ends;
}

static void *keep(void *arg)
{
	struct hosts *h = arg;
	size_t read;

	do
		read = hosts_visit(&h->self, true, IO_NS, take_entry, h, &h->refused);
	while (!pause_for(h, read ? EVERY_NS : AGAIN_NS));
	return NULL;
}

struct hosts *hosts_start(struct lockshm *s, const char *name)
{
	bool takes_part = s->n_host_leases && !(name && !*name);
	struct hosts *h = takes_part ? calloc(1, sizeof(*h)) : NULL;

	if (!h)
		return NULL;
	pthread_once(&once, prepare);
	h->soon_ns = SOON_NS;
	host_self_make(&h->self, s, name);
	if (pthread_create(&h->thread, NULL, keep, h) == 0)
		return h;
	free(h);
	return NULL;
}

void hosts_cancel(struct hosts *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&lock);
	h->ends = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void hosts_stop(struct hosts *h)
{
	hosts_cancel(h);
	if (h)
		pthread_join(h->thread, NULL);
	free(h);
}
