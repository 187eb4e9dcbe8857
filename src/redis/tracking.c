/* SPDX-License-Identifier: MIT */
/* tracking.c - tracking and messages; see redis/tracking.h */
#include "redis/tracking.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVALIDATE "__redis__:invalidate"

struct bridge_wake {
	struct bridge_conn *conn;
	char channel[8 + BRIDGE_HOST_LEN + 1];
	uint64_t subscribed; /* generation of our connection in which that was asked for; 0 = never */
	unsigned answers; /* to the two subscriptions */
	bool tracks; /* the first was granted */
	/* For which connections tracking is on. */
	struct bridge_conn *armed;
	uint64_t armed_generation, armed_from;

	bool deaf; /* hints may have been missed since the last BRIDGE_HINT_ALL */
	int64_t heard, asked;
	struct bridge_reply *message; /* keys of one message, handed out one by one */
	size_t next_key;
};

int bridge_wake_new(struct bridge_wake **out, const struct bridge_server *server, const struct bridge_host *host,
		    struct bridge_error *error)
{
	struct bridge_conn_options options = { .name = "lockshm-wake", .subscriber = true };
	struct bridge_wake *w = calloc(1, sizeof(*w));
	int code;

	*out = NULL;
	if (!w)
		return bridge_fail(error, BRIDGE_NO_MEMORY, "out of memory");
	snprintf(w->channel, sizeof(w->channel), "lockshm:%s", host->id);
	code = bridge_conn_new(&w->conn, server, &options, error);
	if (code)
		bridge_wake_free(w);
	else
		*out = w;
	return code;
}

void bridge_wake_free(struct bridge_wake *w)
{
	if (!w)
		return;
	bridge_reply_free(w->message);
	bridge_conn_free(w->conn);
	free(w);
}

struct bridge_conn *bridge_wake_conn(struct bridge_wake *w)
{
	return w->conn;
}

/* ---------------------------------------------------------------- arming */

static void subscribe(struct bridge_wake *w, int64_t deadline)
{
	const char *first[] = { "SUBSCRIBE", INVALIDATE }, *second[] = { "SUBSCRIBE", w->channel };

	w->subscribed = bridge_conn_generation(w->conn);
	w->answers = 0;
	w->tracks = false;
	w->deaf = true;
	w->heard = bridge_now();
	w->asked = 0;
	/* Two commands: a user may have the right to one of the channels only. */
	(void)bridge_conn_send(w->conn, deadline, 2, first, NULL);
	(void)bridge_conn_send(w->conn, deadline, 2, second, NULL);
}

/* Takes answers to the subscriptions; false if @reply is something else. */
static bool is_answer(struct bridge_wake *w, const struct bridge_reply *reply)
{
	size_t len;
	bool granted = bridge_reply_says(bridge_reply_at(reply, 0), "subscribe");

	if (w->answers >= 2 || (!granted && !bridge_reply_error(reply, &len)))
		return false;
	if (w->answers++ == 0)
		w->tracks = granted;
	return true;
}

/* 0 = ready; BRIDGE_AGAIN = under way. */
static int is_ready(const struct bridge_conn *c)
{
	int code = bridge_conn_error(c)->code;

	if (bridge_conn_ready(c))
		return 0;
	return !bridge_conn_closed(c) ? BRIDGE_AGAIN : code ? code : BRIDGE_UNREACHABLE;
}

static int is_subscribed(struct bridge_wake *w, int64_t deadline)
{
	int code = is_ready(w->conn);
	struct bridge_reply *reply;

	if (code)
		return code;
	if (w->subscribed != bridge_conn_generation(w->conn))
		subscribe(w, deadline);
	while (w->answers < 2) {
		reply = bridge_conn_take(w->conn);
		if (!reply)
			return bridge_conn_closed(w->conn) ? bridge_conn_error(w->conn)->code : BRIDGE_AGAIN;
		/* Anything else is a hint that BRIDGE_HINT_ALL makes up for. */
		(void)is_answer(w, reply);
		bridge_reply_free(reply);
	}
	return 0;
}

/* The reply is the next one: nothing else is under way there. */
static int is_tracking(struct bridge_arming *a, int64_t deadline)
{
	struct bridge_wake *w = a->wake;
	char id[24];
	const char *argv[] = { "CLIENT", "TRACKING", "ON", "REDIRECT", id, "NOLOOP" };
	struct bridge_reply *reply;
	int code = 0;

	snprintf(id, sizeof(id), "%lld", (long long)bridge_conn_info(w->conn)->client_id);
	if (!a->sent)
		code = bridge_conn_send(a->commands, deadline, 6, argv, NULL);
	if (!code && !a->sent)
		code = bridge_conn_pump(a->commands);
	a->sent = true;
	if (code)
		return code;
	reply = bridge_conn_take(a->commands);
	if (!reply)
		return is_ready(a->commands) ? is_ready(a->commands) : BRIDGE_AGAIN;
	code = bridge_conn_judge(a->commands, reply);
	bridge_reply_free(reply);
	if (code)
		return code;
	w->armed = a->commands;
	w->armed_generation = bridge_conn_generation(a->commands);
	w->armed_from = w->subscribed;
	/* What was read before was not watched. */
	w->deaf = true;
	return 0;
}

/* As far as it goes without waiting: 0, its error, or BRIDGE_AGAIN. */
static int step(struct bridge_arming *a, int64_t deadline)
{
	struct bridge_wake *w = a->wake;
	int code;

	/* Its reply is taken before anything else is asked there. */
	if (a->sent)
		return is_tracking(a, deadline);
	a->waits_for = w->conn;
	code = is_subscribed(w, deadline);
	if (code)
		return code;
	if (!w->tracks || !bridge_conn_info(w->conn)->client_id)
		return bridge_conn_note(w->conn, BRIDGE_REFUSED, "no tracking for this user, or by this server");
	a->waits_for = a->commands;
	code = is_ready(a->commands);
	if (code)
		return code;
	/* After a failover it may still be with the old master, where numbers of clients mean others. */
	if (strcmp(bridge_conn_info(w->conn)->run_id, bridge_conn_info(a->commands)->run_id) != 0) {
		bridge_conn_move(w->conn);
		return bridge_conn_note(w->conn, BRIDGE_UNREACHABLE, "commands go to another server");
	}
	if (w->armed == a->commands && w->armed_generation == bridge_conn_generation(a->commands) &&
	    w->armed_from == w->subscribed)
		return 0;
	return is_tracking(a, deadline);
}

/* A subscriber's commands have no deadline of their own. */
static int out_of_time(const struct bridge_arming *a)
{
	(void)bridge_conn_pump(a->waits_for);
	if (bridge_conn_closed(a->waits_for))
		return is_ready(a->waits_for);
	bridge_conn_close(a->waits_for);
	return bridge_conn_note(a->waits_for, BRIDGE_UNKNOWN, "no answer in time");
}

void bridge_wakes_arm(struct bridge_arming *a, size_t n, int64_t deadline)
{
	struct bridge_conn *waiting[BRIDGE_CONNS_MAX];
	size_t i, k;

	for (i = 0; i < n; i++) {
		a[i].sent = false;
		a[i].code = BRIDGE_AGAIN;
		/* One that fails says so below. */
		(void)bridge_conn_open(a[i].wake->conn, deadline);
		(void)bridge_conn_open(a[i].commands, deadline);
	}
	do {
		for (i = k = 0; i < n; i++) {
			if (a[i].code != BRIDGE_AGAIN)
				continue;
			a[i].code = step(&a[i], deadline);
			if (a[i].code == BRIDGE_AGAIN && bridge_now() >= deadline)
				a[i].code = out_of_time(&a[i]);
			if (a[i].code == BRIDGE_AGAIN)
				waiting[k++] = a[i].waits_for;
		}
		if (k)
			bridge_conns_poll(waiting, k, deadline);
	} while (k);
}

int bridge_wake_arm(struct bridge_wake *w, struct bridge_conn *commands, int64_t deadline)
{
	struct bridge_arming a = { .wake = w, .commands = commands };

	bridge_wakes_arm(&a, 1, deadline);
	return a.code;
}

/* ---------------------------------------------------------------- hints */

static enum bridge_hint told_all(struct bridge_wake *w)
{
	w->deaf = false;
	return BRIDGE_HINT_ALL;
}

/* The next key of a message about changed keys. */
static bool next_key(struct bridge_wake *w, const char **key, size_t *len)
{
	const struct bridge_reply *keys = bridge_reply_at(w->message, 2);

	while (w->next_key < bridge_reply_count(keys)) {
		*key = bridge_reply_text(bridge_reply_at(keys, w->next_key++), len);
		if (*key)
			return true;
	}
	return false;
}

/* "message", channel, text or keys or nil; also "pong", which only shows life. */
static enum bridge_hint understand(struct bridge_wake *w, const char **key, size_t *len)
{
	const struct bridge_reply *what = bridge_reply_at(w->message, 2);

	if (!bridge_reply_says(bridge_reply_at(w->message, 0), "message"))
		return BRIDGE_HINT_NONE;
	if (!bridge_reply_says(bridge_reply_at(w->message, 1), INVALIDATE)) {
		*key = bridge_reply_text(what, len);
		return *key ? BRIDGE_HINT_TOLD : BRIDGE_HINT_NONE;
	}
	if (bridge_reply_is_nil(what))
		return told_all(w);
	return next_key(w, key, len) ? BRIDGE_HINT_KEY : BRIDGE_HINT_NONE;
}

enum bridge_hint bridge_wake_next(struct bridge_wake *w, const char **key, size_t *len)
{
	enum bridge_hint hint;

	if (w->deaf)
		return told_all(w);
	if (w->message && next_key(w, key, len))
		return BRIDGE_HINT_KEY;
	for (;;) {
		bridge_reply_free(w->message);
		w->next_key = 0;
		w->message = bridge_conn_take(w->conn);
		if (!w->message)
			break;
		w->heard = bridge_now();
		w->asked = 0;
		hint = understand(w, key, len);
		if (hint != BRIDGE_HINT_NONE)
			return hint;
	}
	/* Once for each connection that ended. */
	if (w->subscribed && bridge_conn_closed(w->conn)) {
		w->subscribed = 0;
		return told_all(w);
	}
	return BRIDGE_HINT_NONE;
}

int64_t bridge_wake_check(struct bridge_wake *w, int64_t now, int64_t quiet_ns)
{
	const char *argv[] = { "PING" };

	if (!bridge_conn_ready(w->conn) || !w->subscribed)
		return INT64_MAX;
	if (w->asked && now >= w->asked + quiet_ns) {
		bridge_conn_close(w->conn);
		bridge_conn_note(w->conn, BRIDGE_UNREACHABLE, "no sign of life");
		return now;
	}
	if (!w->asked && now >= w->heard + quiet_ns) {
		(void)bridge_conn_send(w->conn, INT64_MAX, 1, argv, NULL);
		w->asked = now;
	}
	return (w->asked ? w->asked : w->heard) + quiet_ns;
}
