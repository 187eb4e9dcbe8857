/* SPDX-License-Identifier: MIT */
/* tracking.c - client tracking and messages between hosts; see redis/tracking.h */
#include "redis/tracking.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVALIDATE "__redis__:invalidate"

struct tracking {
	struct redis_conn *conn;
	char channel[8 + REDIS_HOST_LEN + 1];
	uint64_t subscribed; /* generation of conn that was subscribed; 0 = none */
	unsigned replies; /* to the two subscriptions */
	bool tracks; /* the first was granted */
	/* The connections for which tracking is on. */
	struct redis_conn *armed;
	uint64_t armed_generation, armed_from;

	bool missed; /* hints may have been missed since the last REDIS_HINT_ALL */
	int64_t received, pinged; /* when; pinged 0 = no PING was sent since the last message */
	unsigned pings; /* without a reply so far */
	struct redis_reply *message; /* with several keys, returned one by one */
	size_t next_key;
};

int tracking_new(struct tracking **out, const struct redis_server *server, const struct redis_host *host,
		    struct redis_error *error)
{
	struct redis_conn_options options = { .name = "lockshm-wake", .subscriber = true };
	struct tracking *w = calloc(1, sizeof(*w));
	int code;

	*out = NULL;
	if (!w)
		return redis_fail(error, REDIS_NO_MEMORY, "out of memory");
	snprintf(w->channel, sizeof(w->channel), "lockshm:%s", host->id);
	code = redis_conn_new(&w->conn, server, &options, error);
	if (code)
		tracking_free(w);
	else
		*out = w;
	return code;
}

void tracking_free(struct tracking *w)
{
	if (!w)
		return;
	redis_reply_free(w->message);
	redis_conn_free(w->conn);
	free(w);
}

struct redis_conn *tracking_conn(struct tracking *w)
{
	return w->conn;
}

/* ---------------------------------------------------------------- arming */

static void subscribe(struct tracking *w, int64_t deadline)
{
	const char *first[] = { "SUBSCRIBE", INVALIDATE }, *second[] = { "SUBSCRIBE", w->channel };

	w->subscribed = redis_conn_generation(w->conn);
	w->replies = 0;
	w->tracks = false;
	w->missed = true;
	w->received = redis_now();
	w->pinged = 0;
	w->pings = 0;
	/* Two commands: a user may have the right to one channel only. */
	(void)redis_conn_send(w->conn, deadline, 2, first, NULL);
	(void)redis_conn_send(w->conn, deadline, 2, second, NULL);
}

/* Counts a reply to a subscription; false if @reply is another message. */
static bool is_subscribe_reply(struct tracking *w, const struct redis_reply *reply)
{
	size_t len;
	bool granted = redis_reply_equals(redis_reply_at(reply, 0), "subscribe");

	if (w->replies >= 2 || (!granted && !redis_reply_error(reply, &len)))
		return false;
	if (w->replies++ == 0)
		w->tracks = granted;
	return true;
}

/* 0 = ready; REDIS_AGAIN = under way. */
static int is_ready(const struct redis_conn *c)
{
	int code = redis_conn_error(c)->code;

	if (redis_conn_ready(c))
		return 0;
	return !redis_conn_closed(c) ? REDIS_AGAIN : code ? code : REDIS_UNREACHABLE;
}

static int is_subscribed(struct redis_arming *a)
{
	struct tracking *w = a->tracking;
	int code = is_ready(w->conn);
	struct redis_reply *reply;

	if (code)
		return code;
	if (w->subscribed != redis_conn_generation(w->conn)) {
		subscribe(w, a->deadline);
		a->moved = true;
	}
	while (w->replies < 2) {
		reply = redis_conn_take(w->conn);
		if (!reply)
			return redis_conn_closed(w->conn) ? redis_conn_error(w->conn)->code : REDIS_AGAIN;
		/* Other messages are dropped: REDIS_HINT_ALL follows. */
		(void)is_subscribe_reply(w, reply);
		redis_reply_free(reply);
	}
	return 0;
}

static int send_tracking(struct redis_arming *a)
{
	char id[24];
	const char *argv[] = { "CLIENT", "TRACKING", "ON", "REDIRECT", id, "NOLOOP" };

	snprintf(id, sizeof(id), "%lld", (long long)redis_conn_info(a->tracking->conn)->client_id);
	a->number = redis_conn_sent(a->commands);
	a->generation = redis_conn_generation(a->commands);
	a->sent = a->moved = true;
	/* A time of its own: when it is over, the connection is dropped with all that is under way there. */
	a->deadline = redis_now() + a->io_ns;
	return redis_conn_send(a->commands, a->deadline, 6, argv, NULL);
}

/* Other commands may be under way there: only its own reply is taken. */
static int is_tracking(struct redis_arming *a)
{
	struct tracking *w = a->tracking;
	struct redis_reply *reply;
	int code = a->sent ? 0 : send_tracking(a);

	if (!code && redis_conn_generation(a->commands) != a->generation)
		code = REDIS_UNKNOWN;
	if (!code)
		code = is_ready(a->commands);
	if (code)
		return code;
	if (redis_conn_taken(a->commands) != a->number)
		return REDIS_AGAIN;
	reply = redis_conn_take(a->commands);
	if (!reply)
		return is_ready(a->commands) ? is_ready(a->commands) : REDIS_AGAIN;
	a->moved = true;
	code = redis_conn_reply_error(a->commands, reply);
	redis_reply_free(reply);
	if (code)
		return code;
	w->armed = a->commands;
	w->armed_generation = redis_conn_generation(a->commands);
	w->armed_from = w->subscribed;
	/* Keys read before were not tracked. */
	w->missed = true;
	return 0;
}

static int step(struct redis_arming *a)
{
	struct tracking *w = a->tracking;
	int code;

	if (a->sent)
		return is_tracking(a);
	a->waits_for = w->conn;
	code = is_subscribed(a);
	if (code)
		return code;
	if (!w->tracks || !redis_conn_info(w->conn)->client_id)
		return redis_conn_set_error(w->conn, REDIS_REFUSED, "no tracking for this user, or by this server");
	a->waits_for = a->commands;
	code = is_ready(a->commands);
	if (code)
		return code;
	/* After a failover this may still be the old master, where client ids are others. */
	if (strcmp(redis_conn_info(w->conn)->run_id, redis_conn_info(a->commands)->run_id) != 0) {
		redis_conn_move(w->conn);
		return redis_conn_set_error(w->conn, REDIS_UNREACHABLE, "commands go to another server");
	}
	if (w->armed == a->commands && w->armed_generation == redis_conn_generation(a->commands) &&
	    w->armed_from == w->subscribed)
		return 0;
	return is_tracking(a);
}

/* Commands of a subscriber have no deadline. */
static int out_of_time(const struct redis_arming *a)
{
	(void)redis_conn_pump(a->waits_for);
	if (redis_conn_closed(a->waits_for))
		return is_ready(a->waits_for);
	redis_conn_close(a->waits_for);
	return redis_conn_set_error(a->waits_for, REDIS_UNKNOWN, "no reply in time");
}

void tracking_arm(struct redis_arming *a, struct tracking *w, struct redis_conn *commands, int64_t io_ns)
{
	int64_t deadline = redis_now() + io_ns;

	*a = (struct redis_arming){ .tracking = w, .commands = commands, .io_ns = io_ns, .deadline = deadline };
	/* tracking_step() reports a failure. */
	(void)redis_conn_open(w->conn, deadline);
	(void)redis_conn_open(commands, deadline);
}

int tracking_step(struct redis_arming *a)
{
	int code;

	a->moved = false;
	code = step(a);
	if (code == REDIS_AGAIN && redis_now() >= a->deadline)
		code = out_of_time(a);
	return code;
}

/* ---------------------------------------------------------------- hints */

static enum redis_hint invalidate_all(struct tracking *w)
{
	w->missed = false;
	return REDIS_HINT_ALL;
}

/* The next key of a message about changed keys. */
static bool next_key(struct tracking *w, const char **key, size_t *len)
{
	const struct redis_reply *keys = redis_reply_at(w->message, 2);

	while (w->next_key < redis_reply_count(keys)) {
		*key = redis_reply_text(redis_reply_at(keys, w->next_key++), len);
		if (*key)
			return true;
	}
	return false;
}

/* "pong", or an error for want of the right: only proves that the connection works. */
static bool is_pong(struct tracking *w)
{
	size_t len;

	if (!w->pings || (!redis_reply_equals(redis_reply_at(w->message, 0), "pong") &&
			  !redis_reply_error(w->message, &len)))
		return false;
	w->pings--;
	return true;
}

/* A server that goes on with it would keep this host busy. */
static enum redis_hint nonsense(struct tracking *w)
{
	redis_conn_close(w->conn);
	(void)redis_conn_set_error(w->conn, REDIS_PROTOCOL, "a message that is no hint");
	return REDIS_HINT_NONE;
}

/* "message", channel, and text, keys or nil. */
static enum redis_hint read_message(struct tracking *w, const char **key, size_t *len)
{
	const struct redis_reply *what = redis_reply_at(w->message, 2);

	if (!redis_reply_equals(redis_reply_at(w->message, 0), "message"))
		return is_pong(w) ? REDIS_HINT_NONE : nonsense(w);
	if (!redis_reply_equals(redis_reply_at(w->message, 1), INVALIDATE)) {
		*key = redis_reply_text(what, len);
		return *key ? REDIS_HINT_NOTIFIED : nonsense(w);
	}
	if (redis_reply_is_nil(what))
		return invalidate_all(w);
	return next_key(w, key, len) ? REDIS_HINT_KEY : nonsense(w);
}

enum redis_hint tracking_next(struct tracking *w, const char **key, size_t *len)
{
	enum redis_hint hint;

	if (w->missed)
		return invalidate_all(w);
	if (w->message && next_key(w, key, len))
		return REDIS_HINT_KEY;
	for (;;) {
		redis_reply_free(w->message);
		w->next_key = 0;
		w->message = redis_conn_take(w->conn);
		if (!w->message)
			break;
		w->received = redis_now();
		w->pinged = 0;
		hint = read_message(w, key, len);
		if (hint != REDIS_HINT_NONE)
			return hint;
	}
	/* Once for each connection that ended. */
	if (w->subscribed && redis_conn_closed(w->conn)) {
		w->subscribed = 0;
		return invalidate_all(w);
	}
	return REDIS_HINT_NONE;
}

int64_t tracking_check(struct tracking *w, int64_t now, int64_t silence_ns)
{
	const char *argv[] = { "PING" };

	if (!redis_conn_ready(w->conn) || !w->subscribed)
		return INT64_MAX;
	if (w->pinged && now >= w->pinged + silence_ns) {
		redis_conn_close(w->conn);
		redis_conn_set_error(w->conn, REDIS_UNREACHABLE, "no sign of life");
		return now;
	}
	if (!w->pinged && now >= w->received + silence_ns) {
		(void)redis_conn_send(w->conn, INT64_MAX, 1, argv, NULL);
		w->pinged = now;
		w->pings++;
	}
	return (w->pinged ? w->pinged : w->received) + silence_ns;
}
