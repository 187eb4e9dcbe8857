/* SPDX-License-Identifier: MIT */
/* log.c - see bridge/log.h */
#include "bridge/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/hash.h"

#define LINES 20
#define PERIOD_NS LOCKSHM_SECONDS(10)
#define REFUSALS 32 /* different ones that are remembered */
#define AGAIN_NS LOCKSHM_SECONDS(300)

void (*bridge_log_to)(const char *line);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards these */
static int64_t period; /* its begin */
static unsigned lines, left_out; /* in it */

/* Returns how many lines were left out before this one, or -1 if this one is. */
static int admit(void)
{
	int64_t now = clock_precise();
	int before = 0;

	if (now - period >= PERIOD_NS) {
		before = (int)left_out;
		period = now;
		lines = left_out = 0;
	}
	if (lines < LINES) {
		lines++;
		return before;
	}
	left_out++;
	return -1;
}

void bridge_log(const char *format, ...)
{
	char line[640];
	va_list args;
	int before;

	if (!bridge_log_to)
		return;
	pthread_mutex_lock(&lock);
	before = admit();
	if (before > 0) {
		snprintf(line, sizeof(line), "%d lines were left out", before);
		bridge_log_to(line);
	}
	if (before >= 0) {
		va_start(args, format);
		vsnprintf(line, sizeof(line), format, args);
		va_end(args);
		bridge_log_to(line);
	}
	pthread_mutex_unlock(&lock);
}

static uint64_t hash(const char *text)
{
	return hash_plain(text, strlen(text));
}

static struct {
	uint64_t text; /* hash */
	int64_t until;
} refusals[REFUSALS];
static size_t next_refusal;

/* Was it logged lately?  From now on it was. */
static bool refusal_is_old(uint64_t text)
{
	int64_t now = clock_precise();
	bool old = false;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < REFUSALS; i++)
		old = old || (refusals[i].text == text && now < refusals[i].until);
	if (!old) {
		refusals[next_refusal].text = text;
		refusals[next_refusal].until = now + AGAIN_NS;
		next_refusal = (next_refusal + 1) % REFUSALS;
	}
	pthread_mutex_unlock(&lock);
	return old;
}

void bridge_log_refusal(const char *why)
{
	if (!refusal_is_old(hash(why)))
		bridge_log("%s", why);
}

static struct server_log *find(struct server_logs *logs, const char *label)
{
	size_t i;

	for (i = 0; i < logs->n; i++)
		if (strcmp(logs->server[i].label, label) == 0)
			return &logs->server[i];
	if (logs->n == REDIS_SERVERS_MAX)
		return NULL;
	snprintf(logs->server[logs->n].label, sizeof(logs->server[0].label), "%s", label);
	return &logs->server[logs->n++];
}

/* The same lasting refusal was logged with the first command that got it. */
static void log_server(const char *label, enum redis_server_state state, const struct redis_error *why, void *arg)
{
	bool ready = state == REDIS_SERVER_READY, was_lost, is_old;
	struct server_log *server = find(arg, label);

	was_lost = server && server->lost;
	if (!server ||
	    (ready ? !was_lost : !why->text[0] || (was_lost && server->why == hash(why->text))))
		return;
	server->lost = !ready;
	server->why = hash(why->text);
	is_old = !ready && refusal_is_old(server->why);
	/* The reason begins with the server. */
	if (ready)
		bridge_log("%s is back", label);
	else if (!is_old || (!was_lost && (state == REDIS_SERVER_LOST || redis_error_passes(why->code))))
		bridge_log("%s", why->text);
}

void bridge_log_servers(struct server_logs *logs, const struct redis_client *client)
{
	redis_client_each_server(client, log_server, logs);
	redis_client_each_fault(client, bridge_log_refusal);
}
