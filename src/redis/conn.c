/* SPDX-License-Identifier: MIT */
/*
 * conn.c - sockets, deadlines, and the order of replies; see redis/conn.h
 *
 * The connection layer of hiredis is not used: its time-outs count per system call and start anew after a signal, and its
 * descriptors survive exec.
 */
#define _GNU_SOURCE
#include "redis/conn.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "redis/boot-clock.h"
#include "redis/conn-internal.h"

#define CLOCK_MAX_MS 10000000000000 /* in the year 2286 */

/* ---------------------------------------------------------------- closing */

void conn_close_fd(struct redis_conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

void conn_shut(struct redis_conn *c)
{
	conn_close_fd(c);
	c->state = CLOSED;
	c->received = c->eof = false;
	redis_tls_free(c->tls);
	c->tls = NULL;
	c->due_at = c->due_end = 0;
	resp_free(c->resp);
	c->resp = NULL;
}

int conn_drop(struct redis_conn *c, int code, const char *format, ...)
{
	char why[240];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	conn_shut(c);
	return redis_fail(&c->error, code, "%.60s: %s", c->server.label, why);
}

void redis_conn_move(struct redis_conn *c)
{
	conn_shut(c);
	conn_look_up(c);
}

static size_t awaited(const struct redis_conn *c)
{
	return c->due_end - c->due_at;
}

/* Why a server that accepted the connection may have closed it without a reply. */
static const char *likely_cause(const struct redis_conn *c)
{
	if (c->state != HANDSHAKE || c->received || c->server.path[0])
		return "";
	if (!c->tls)
		return " (does it speak TLS, rediss://?)";
	if (!redis_tls_up(c->tls))
		return redis_tls_received(c->tls) ? "" : " (does it speak no TLS, redis://?)";
	return c->server.tls_cert[0] ? "" : " (does it want a client certificate, cert.pem?)";
}

int conn_lost(struct redis_conn *c, const char *why)
{
	if (c->state < READY)
		return conn_drop(c, REDIS_UNREACHABLE, "cannot connect: %s%s", why, likely_cause(c));
	return conn_drop(c, awaited(c) ? REDIS_UNKNOWN : REDIS_UNREACHABLE, "connection lost: %s", why);
}

/* ---------------------------------------------------------------- handshake */

/* Takes the replies of the handshake; the connection is ready after the last. */
static int take_handshake(struct redis_conn *c)
{
	struct redis_error error = { 0 };
	struct redis_reply *reply;
	int code;

	while (c->state == HANDSHAKE) {
		if (!resp_get(c->resp, &reply))
			return conn_malformed(c, "the reply is not that of a Redis server");
		if (!reply)
			return 0;
		code = handshake_reply(&c->handshake, reply, &c->options, &error);
		redis_reply_free(reply);
		if (code < 0 && c->handshake.info.replica)
			conn_look_up(c);
		if (code < 0)
			return conn_drop(c, code, "%s", error.text);
		if (code == REDIS_AGAIN)
			continue;
		c->state = READY;
		c->handshake.info.round_trip_ns = redis_now() - c->handshake_began;
	}
	return 0;
}

/* The next command would take them for its reply. */
static int refuse_unasked(struct redis_conn *c)
{
	if (c->state != READY || c->options.subscriber || awaited(c) || !resp_received(c->resp))
		return 0;
	return conn_drop(c, REDIS_PROTOCOL, "a reply without a command");
}

static const char *timeout_reason(const struct redis_conn *c)
{
	if (c->state == CONNECTING)
		return "no reply in time";
	if (!c->tls || redis_tls_up(c->tls))
		return "connected, but no reply to the handshake in time";
	if (redis_tls_received(c->tls))
		return "connected, but no end of the TLS handshake in time";
	/* A plain server waits for the end of what looks like a command. */
	return "connected, but no reply to the TLS handshake in time (does it speak no TLS, redis://?)";
}

static int expire(struct redis_conn *c, int64_t now)
{
	if (c->state == CLOSED || now < redis_conn_due(c))
		return 0;
	if (c->state == CONNECTING && now < c->open_deadline)
		return 0;
	if (c->state == RESOLVING)
		return conn_drop(c, REDIS_UNREACHABLE, "no address yet: the name is being looked up%s%s",
				 c->no_address[0] ? "; last: " : "", c->no_address);
	if (c->state < READY)
		return conn_drop(c, REDIS_UNREACHABLE, "cannot connect: %s", timeout_reason(c));
	return conn_drop(c, REDIS_UNKNOWN, "no reply in time");
}

int redis_conn_pump(struct redis_conn *c)
{
	int code = 0;

	if (c->state == CLOSED)
		return c->error.code;
	if (c->state == RESOLVING)
		code = conn_resolved(c);
	else if (c->state == CONNECTING)
		code = conn_connected(c);
	if (!code && c->state > CONNECTING && !c->eof)
		code = conn_exchange(c);
	if (!code)
		code = take_handshake(c);
	if (!code)
		code = refuse_unasked(c);
	if (!code && c->eof && (c->state < READY || !awaited(c)))
		code = conn_lost(c, "closed by the server");
	return code ? code : expire(c, redis_now());
}

/* ---------------------------------------------------------------- commands and replies */

/* Makes room for one more deadline. */
static bool due_room(struct redis_conn *c)
{
	size_t n = awaited(c), size = c->due_size ? c->due_size * 2 : 16;
	int64_t *due = c->due;

	if (c->due_end < c->due_size)
		return true;
	if (n > c->due_size / 2 || !due) {
		due = malloc(size * sizeof(*due));
		if (!due)
			return false;
	} else {
		size = c->due_size;
	}
	if (n)
		memmove(due, c->due + c->due_at, n * sizeof(*due));
	if (due != c->due)
		free(c->due);
	c->due = due;
	c->due_size = size;
	c->due_at = 0;
	c->due_end = n;
	return true;
}

int redis_conn_send(struct redis_conn *c, int64_t deadline, int argc, const char *const *argv, const size_t *lens)
{
	if (c->state != READY || c->eof)
		return redis_fail(&c->error, REDIS_UNREACHABLE, "%s: not connected", c->server.label);
	if (!due_room(c))
		return conn_drop(c, REDIS_NO_MEMORY, "out of memory");
	/* A partial command must not stay in the buffer. */
	if (!resp_put(c->resp, argc, argv, lens))
		return conn_drop(c, REDIS_NO_MEMORY, "out of memory");
	c->sent++;
	if (!c->options.subscriber)
		c->due[c->due_end++] = deadline;
	return 0;
}

struct redis_reply *redis_conn_take(struct redis_conn *c)
{
	struct redis_reply *reply;

	if (c->state != READY)
		return NULL;
	if (!resp_get(c->resp, &reply)) {
		conn_malformed(c, "the reply is not that of a Redis server");
		return NULL;
	}
	if (!reply) {
		if (c->eof)
			conn_lost(c, "closed by the server");
		return NULL;
	}
	if (c->options.subscriber)
		return reply;
	if (!awaited(c)) {
		redis_reply_free(reply);
		conn_drop(c, REDIS_PROTOCOL, "a reply without a command");
		return NULL;
	}
	c->taken++;
	c->due_at++;
	if (c->due_at == c->due_end)
		c->due_at = c->due_end = 0;
	return reply;
}

int redis_conn_set_error(struct redis_conn *c, int code, const char *format, ...)
{
	char text[240];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return redis_fail(&c->error, code, "%.60s: %s", c->server.label, text);
}

int redis_conn_reply_error(struct redis_conn *c, const struct redis_reply *reply)
{
	size_t len;
	const char *text = redis_reply_error(reply, &len), *words;
	int code;

	if (!text)
		return 0;
	code = redis_error_class(text, len);
	/*
	 * A demoted master never becomes writable on this connection; other commands under way there have no other
	 * outcome.
	 */
	if (!c->options.replica_ok && memmem(text, len, "READONLY", 8))
		redis_conn_move(c);
	words = redis_error_words(text, &len);
	return redis_fail(&c->error, code, "%.60s: %.*s", c->server.label, (int)(len < 200 ? len : 200), words);
}

int redis_conn_wait_ready(struct redis_conn *c, int64_t deadline)
{
	int code = redis_conn_open(c, deadline);

	while (!code && !redis_conn_ready(c)) {
		redis_conns_poll(&c, 1, deadline);
		code = redis_conn_closed(c) ? c->error.code : 0;
	}
	return code;
}

int redis_conn_call(struct redis_conn *c, int64_t deadline, struct redis_reply **reply, int argc,
		     const char *const *argv, const size_t *lens)
{
	int code = redis_conn_wait_ready(c, deadline);

	*reply = NULL;
	if (!code)
		code = redis_conn_send(c, deadline, argc, argv, lens);
	if (!code)
		code = redis_conn_pump(c);
	while (!code && !(*reply = redis_conn_take(c))) {
		if (!redis_conn_closed(c))
			redis_conns_poll(&c, 1, deadline);
		if (redis_conn_closed(c))
			code = c->error.code;
	}
	if (!code)
		code = redis_conn_reply_error(c, *reply);
	if (code) {
		redis_reply_free(*reply);
		*reply = NULL;
	}
	return code;
}

/* ---------------------------------------------------------------- waiting */

int redis_conn_fd(const struct redis_conn *c)
{
	return c->state == RESOLVING && c->lookup ? redis_lookup_fd(c->lookup) : c->fd;
}

short redis_conn_events(const struct redis_conn *c)
{
	if (c->state == CLOSED)
		return 0;
	if (c->state == RESOLVING)
		return POLLIN;
	if (c->state == CONNECTING)
		return POLLOUT;
	return (short)((resp_is_full(c->resp) ? 0 : POLLIN) | (conn_has_more(c) ? POLLOUT : 0));
}

int64_t redis_conn_due(const struct redis_conn *c)
{
	int64_t due = INT64_MAX;
	size_t i;

	if (c->state == CONNECTING)
		return c->address_deadline;
	if (c->state == RESOLVING || c->state == HANDSHAKE)
		return c->open_deadline;
	for (i = c->due_at; i < c->due_end; i++)
		if (c->due[i] < due)
			due = c->due[i];
	return due;
}

/* Waits for the descriptors, not past @until; rounds up: a deadline must have passed when it is checked next. */
static void wait_for(struct pollfd *fds, size_t n, int64_t until)
{
	int64_t left = until - redis_now();
	struct timespec ts;

	if (left < 0)
		left = 0;
	ts.tv_sec = left / 1000000000;
	ts.tv_nsec = left % 1000000000;
	(void)ppoll(fds, n, until == INT64_MAX ? NULL : &ts, NULL);
}

void redis_conns_poll(struct redis_conn *const *conns, size_t n, int64_t until)
{
	struct pollfd fds[REDIS_CONNS_MAX];
	size_t i;

	if (n > sizeof(fds) / sizeof(fds[0]))
		n = sizeof(fds) / sizeof(fds[0]);
	for (i = 0; i < n; i++) {
		struct redis_conn *c = conns[i];

		fds[i].fd = c && !c->eof ? redis_conn_fd(c) : -1;
		fds[i].events = c ? redis_conn_events(c) : 0;
		if (c && c->state != CLOSED && redis_conn_due(c) < until)
			until = redis_conn_due(c);
	}
	wait_for(fds, n, until);
	for (i = 0; i < n; i++)
		if (conns[i] && conns[i]->state != CLOSED)
			(void)redis_conn_pump(conns[i]);
}

/* ---------------------------------------------------------------- life cycle, getters */

int redis_conn_new(struct redis_conn **out, const struct redis_server *server,
		    const struct redis_conn_options *options, struct redis_error *error)
{
	struct redis_conn *c;

	*out = NULL;
	if (server->tls && redis_tls_missing())
		return redis_fail(error, REDIS_INVALID, "%.60s: %s", server->label, redis_tls_missing());
	c = calloc(1, sizeof(*c));
	if (!c)
		return redis_fail(error, REDIS_NO_MEMORY, "out of memory");
	c->fd = -1;
	c->server = *server;
	if (options)
		c->options = *options;
	conn_find_addresses(c);
	*out = c;
	return 0;
}

void redis_conn_close(struct redis_conn *c)
{
	conn_shut(c);
}

void redis_conn_free(struct redis_conn *c)
{
	if (!c)
		return;
	conn_shut(c);
	free(c->due);
	redis_lookup_drop(c->lookup);
	explicit_bzero(&c->server, sizeof(c->server));
	free(c);
}

bool redis_conn_ready(const struct redis_conn *c)
{
	return c->state == READY;
}

bool redis_conn_closed(const struct redis_conn *c)
{
	return c->state == CLOSED;
}

const struct redis_error *redis_conn_error(const struct redis_conn *c)
{
	return &c->error;
}

int64_t redis_conn_tried(const struct redis_conn *c)
{
	return c->tried;
}

const struct redis_server_info *redis_conn_info(const struct redis_conn *c)
{
	return &c->handshake.info;
}

const char *redis_conn_label(const struct redis_conn *c)
{
	return c->server.label;
}

const char *redis_conn_host(const struct redis_conn *c)
{
	return c->server.host;
}

const char *redis_conn_script(const struct redis_conn *c, size_t i)
{
	return i < REDIS_SCRIPTS_MAX && c->handshake.sha[i][0] ? c->handshake.sha[i] : NULL;
}

uint64_t redis_conn_generation(const struct redis_conn *c)
{
	return c->generation;
}

bool redis_conn_is_proven(const struct redis_conn *c)
{
	return c->proven && c->proven == c->generation;
}

void redis_conn_prove(struct redis_conn *c, bool proven)
{
	c->proven = proven ? c->generation : 0;
}

int64_t redis_conn_clock_us(const struct redis_conn *c, int64_t now)
{
	return c->ahead_us ? now / 1000 + c->ahead_us : 0;
}

/* The quickest command shows it best; slower ones count a little, as clocks change. */
void redis_conn_saw_clock(struct redis_conn *c, int64_t began, int64_t server_ms)
{
	int64_t ahead_us;

	if (server_ms <= 0 || server_ms > CLOCK_MAX_MS)
		return;
	ahead_us = (server_ms + 1) * 1000 - began / 1000;
	if (c->ahead_us && ahead_us > c->ahead_us)
		ahead_us = c->ahead_us + (ahead_us - c->ahead_us) / 16;
	c->ahead_us = ahead_us;
}

struct redis_refusals *redis_conn_refusals(struct redis_conn *c)
{
	return &c->refusals;
}

uint64_t redis_conn_sent(const struct redis_conn *c)
{
	return c->sent;
}

uint64_t redis_conn_taken(const struct redis_conn *c)
{
	return c->taken;
}
