/* SPDX-License-Identifier: MIT */
/*
 * conn.c - sockets, deadlines, and the order of replies; see redis/conn.h
 *
 * The connection layer of hiredis is not used: its time-outs are per system call and start anew after a signal, it
 * knows nothing of fork, and its descriptors survive exec.
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

/* ---------------------------------------------------------------- closing */

/* The number goes first: another thread may fork at any time, see bridge_conn_abandon(). */
void conn_close_fd(struct bridge_conn *c)
{
	int fd = c->fd;

	__atomic_store_n(&c->fd, -1, __ATOMIC_SEQ_CST);
	if (fd >= 0)
		close(fd);
}

void bridge_conn_abandon(struct bridge_conn *c)
{
	conn_close_fd(c);
}

void conn_shut(struct bridge_conn *c)
{
	conn_close_fd(c);
	c->state = CLOSED;
	c->heard = c->eof = false;
	bridge_tls_free(c->tls);
	c->tls = NULL;
	c->due_at = c->due_end = 0;
	bridge_wire_free(c->wire);
	c->wire = NULL;
}

int conn_drop(struct bridge_conn *c, int code, const char *format, ...)
{
	char why[240];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	conn_shut(c);
	return bridge_fail(&c->error, code, "%.60s: %s", c->server.label, why);
}

/* A socket that a fork brought along is the parent's. */
bool conn_inherited(struct bridge_conn *c)
{
	if (c->state == CLOSED || c->pid == getpid())
		return false;
	conn_drop(c, BRIDGE_FORKED, "the connection was opened before a fork");
	return true;
}

void bridge_conn_move(struct bridge_conn *c)
{
	conn_shut(c);
	conn_look_up(c);
}

static size_t awaited(const struct bridge_conn *c)
{
	return c->due_end - c->due_at;
}

/* Why a server that could be connected to may have ended it without an answer. */
static const char *perhaps(const struct bridge_conn *c)
{
	if (c->state != GREETING || c->heard || c->server.path[0])
		return "";
	if (!c->tls)
		return " (does it speak TLS, rediss://?)";
	if (!bridge_tls_up(c->tls))
		return bridge_tls_heard(c->tls) ? "" : " (does it speak no TLS, redis://?)";
	return c->server.tls_cert[0] ? "" : " (does it want a client certificate, tls-cert?)";
}

/* The connection is of no use any more: was anything under way? */
int conn_lost(struct bridge_conn *c, const char *why)
{
	if (c->state < READY)
		return conn_drop(c, BRIDGE_UNREACHABLE, "cannot connect: %s%s", why, perhaps(c));
	return conn_drop(c, awaited(c) ? BRIDGE_UNKNOWN : BRIDGE_UNREACHABLE, "connection lost: %s", why);
}

/* ---------------------------------------------------------------- greeting */

/* Replies of the greeting; the connection is ready after the last. */
static int hear_greeting(struct bridge_conn *c)
{
	struct bridge_error error = { 0 };
	struct bridge_reply *reply;
	int code;

	while (c->state == GREETING) {
		if (!bridge_wire_get(c->wire, &reply))
			return conn_not_understood(c, "the answer is not that of a Redis server");
		if (!reply)
			return 0;
		code = bridge_greet_reply(&c->greet, reply, &c->options, &error);
		bridge_reply_free(reply);
		if (code < 0 && c->greet.info.replica)
			conn_look_up(c);
		if (code < 0)
			return conn_drop(c, code, "%s", error.text);
		if (code == BRIDGE_AGAIN)
			continue;
		c->state = READY;
		c->greet.info.round_trip_ns = bridge_now() - c->greet_began;
	}
	return 0;
}

static const char *silence(const struct bridge_conn *c)
{
	if (c->state == CONNECTING)
		return "no answer in time";
	if (!c->tls || bridge_tls_up(c->tls))
		return "connected, but no answer to the greeting in time";
	if (bridge_tls_heard(c->tls))
		return "connected, but no end of the TLS handshake in time";
	/* A plain one waits for the end of what it takes for a command. */
	return "connected, but no answer to the TLS handshake in time (does it speak no TLS, redis://?)";
}

static int expire(struct bridge_conn *c, int64_t now)
{
	if (c->state == CLOSED || now < bridge_conn_due(c))
		return 0;
	if (c->state == CONNECTING && now < c->open_deadline)
		return 0;
	if (c->state == RESOLVING)
		return conn_drop(c, BRIDGE_UNREACHABLE, "no address yet: the name is being looked up%s%s",
				 c->no_address[0] ? "; last: " : "", c->no_address);
	if (c->state < READY)
		return conn_drop(c, BRIDGE_UNREACHABLE, "cannot connect: %s", silence(c));
	return conn_drop(c, BRIDGE_UNKNOWN, "no answer in time");
}

int bridge_conn_pump(struct bridge_conn *c)
{
	int code = 0;

	if (conn_inherited(c) || c->state == CLOSED)
		return c->error.code;
	if (c->state == RESOLVING)
		code = conn_resolved(c);
	else if (c->state == CONNECTING)
		code = conn_connected(c);
	if (!code && c->state > CONNECTING && !c->eof)
		code = conn_exchange(c);
	if (!code)
		code = hear_greeting(c);
	if (!code && c->eof && (c->state < READY || !awaited(c)))
		code = conn_lost(c, "closed by the server");
	return code ? code : expire(c, bridge_now());
}

/* ---------------------------------------------------------------- commands and replies */

/* Room for one deadline more. */
static bool due_room(struct bridge_conn *c)
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

int bridge_conn_send(struct bridge_conn *c, int64_t deadline, int argc, const char *const *argv, const size_t *lens)
{
	if (conn_inherited(c))
		return c->error.code;
	if (c->state != READY || c->eof)
		return bridge_fail(&c->error, BRIDGE_UNREACHABLE, "%s: not connected", c->server.label);
	if (!due_room(c))
		return conn_drop(c, BRIDGE_NO_MEMORY, "out of memory");
	/* Half a command may not stay in the buffer. */
	if (!bridge_wire_put(c->wire, argc, argv, lens))
		return conn_drop(c, BRIDGE_NO_MEMORY, "out of memory");
	c->sent++;
	if (!c->options.subscriber)
		c->due[c->due_end++] = deadline;
	return 0;
}

struct bridge_reply *bridge_conn_take(struct bridge_conn *c)
{
	struct bridge_reply *reply;

	if (conn_inherited(c) || c->state != READY)
		return NULL;
	if (!bridge_wire_get(c->wire, &reply)) {
		conn_not_understood(c, "the answer is not the Redis protocol");
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
		bridge_reply_free(reply);
		conn_drop(c, BRIDGE_PROTOCOL, "an answer to nothing");
		return NULL;
	}
	c->taken++;
	c->due_at++;
	if (c->due_at == c->due_end)
		c->due_at = c->due_end = 0;
	return reply;
}

int bridge_conn_note(struct bridge_conn *c, int code, const char *format, ...)
{
	char text[240];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return bridge_fail(&c->error, code, "%.60s: %s", c->server.label, text);
}

int bridge_conn_judge(struct bridge_conn *c, const struct bridge_reply *reply)
{
	size_t len;
	const char *text = bridge_reply_error(reply, &len);

	if (!text)
		return 0;
	/* A master that was demoted never can again; what else was asked of it has no other answer. */
	if (!c->options.replica_ok && memmem(text, len, "READONLY", 8))
		bridge_conn_move(c);
	return bridge_fail(&c->error, bridge_error_class(text, len), "%.60s: %.*s", c->server.label,
			   (int)(len < 200 ? len : 200), text);
}

int bridge_conn_wait_ready(struct bridge_conn *c, int64_t deadline)
{
	int code = bridge_conn_open(c, deadline);

	while (!code && !bridge_conn_ready(c)) {
		bridge_conns_poll(&c, 1, deadline);
		code = bridge_conn_closed(c) ? c->error.code : 0;
	}
	return code;
}

int bridge_conn_call(struct bridge_conn *c, int64_t deadline, struct bridge_reply **reply, int argc,
		     const char *const *argv, const size_t *lens)
{
	int code = bridge_conn_wait_ready(c, deadline);

	*reply = NULL;
	if (!code)
		code = bridge_conn_send(c, deadline, argc, argv, lens);
	if (!code)
		code = bridge_conn_pump(c);
	while (!code && !(*reply = bridge_conn_take(c))) {
		if (!bridge_conn_closed(c))
			bridge_conns_poll(&c, 1, deadline);
		if (bridge_conn_closed(c))
			code = c->error.code;
	}
	if (!code)
		code = bridge_conn_judge(c, *reply);
	if (code) {
		bridge_reply_free(*reply);
		*reply = NULL;
	}
	return code;
}

/* ---------------------------------------------------------------- waiting */

int bridge_conn_fd(const struct bridge_conn *c)
{
	return c->state == RESOLVING && c->lookup ? bridge_lookup_fd(c->lookup) : c->fd;
}

short bridge_conn_events(const struct bridge_conn *c)
{
	if (c->state == CLOSED)
		return 0;
	if (c->state == RESOLVING)
		return POLLIN;
	if (c->state == CONNECTING)
		return POLLOUT;
	return (short)(POLLIN | (conn_has_more(c) ? POLLOUT : 0));
}

int64_t bridge_conn_due(const struct bridge_conn *c)
{
	int64_t due = INT64_MAX;
	size_t i;

	if (c->state == CONNECTING)
		return c->address_deadline;
	if (c->state == RESOLVING || c->state == GREETING)
		return c->open_deadline;
	for (i = c->due_at; i < c->due_end; i++)
		if (c->due[i] < due)
			due = c->due[i];
	return due;
}

/* Waits for the descriptors, not past @until; rounds up, because a deadline must be over when it is looked at. */
static void wait_for(struct pollfd *fds, size_t n, int64_t until)
{
	int64_t left = until - bridge_now();
	struct timespec ts;

	if (left < 0)
		left = 0;
	ts.tv_sec = left / 1000000000;
	ts.tv_nsec = left % 1000000000;
	(void)ppoll(fds, n, until == INT64_MAX ? NULL : &ts, NULL);
}

void bridge_conns_poll(struct bridge_conn *const *conns, size_t n, int64_t until)
{
	struct pollfd fds[BRIDGE_CONNS_MAX];
	size_t i;

	if (n > sizeof(fds) / sizeof(fds[0]))
		n = sizeof(fds) / sizeof(fds[0]);
	for (i = 0; i < n; i++) {
		struct bridge_conn *c = conns[i];

		fds[i].fd = c && !conn_inherited(c) && !c->eof ? bridge_conn_fd(c) : -1;
		fds[i].events = c ? bridge_conn_events(c) : 0;
		if (c && c->state != CLOSED && bridge_conn_due(c) < until)
			until = bridge_conn_due(c);
	}
	wait_for(fds, n, until);
	for (i = 0; i < n; i++)
		if (conns[i] && conns[i]->state != CLOSED)
			(void)bridge_conn_pump(conns[i]);
}

/* ---------------------------------------------------------------- making, asking */

int bridge_conn_new(struct bridge_conn **out, const struct bridge_server *server,
		    const struct bridge_conn_options *options, struct bridge_error *error)
{
	struct bridge_conn *c = calloc(1, sizeof(*c));

	*out = NULL;
	if (!c)
		return bridge_fail(error, BRIDGE_NO_MEMORY, "out of memory");
	c->fd = -1;
	c->server = *server;
	if (options)
		c->options = *options;
	conn_find_addresses(c);
	*out = c;
	return 0;
}

void bridge_conn_close(struct bridge_conn *c)
{
	conn_shut(c);
}

void bridge_conn_free(struct bridge_conn *c)
{
	if (!c)
		return;
	conn_shut(c);
	free(c->due);
	bridge_lookup_drop(c->lookup);
	explicit_bzero(&c->server, sizeof(c->server));
	free(c);
}

bool bridge_conn_ready(const struct bridge_conn *c)
{
	return c->state == READY && c->pid == getpid();
}

bool bridge_conn_closed(const struct bridge_conn *c)
{
	return c->state == CLOSED;
}

const struct bridge_error *bridge_conn_error(const struct bridge_conn *c)
{
	return &c->error;
}

int64_t bridge_conn_tried(const struct bridge_conn *c)
{
	return c->tried;
}

const struct bridge_server_info *bridge_conn_info(const struct bridge_conn *c)
{
	return &c->greet.info;
}

const char *bridge_conn_label(const struct bridge_conn *c)
{
	return c->server.label;
}

const char *bridge_conn_host(const struct bridge_conn *c)
{
	return c->server.host;
}

const char *bridge_conn_script(const struct bridge_conn *c, size_t i)
{
	return i < BRIDGE_SCRIPTS_MAX && c->greet.sha[i][0] ? c->greet.sha[i] : NULL;
}

uint64_t bridge_conn_generation(const struct bridge_conn *c)
{
	return c->generation;
}

bool bridge_conn_is_proven(const struct bridge_conn *c)
{
	return c->proven && c->proven == c->generation;
}

void bridge_conn_prove(struct bridge_conn *c, bool proven)
{
	c->proven = proven ? c->generation : 0;
}

uint64_t bridge_conn_sent(const struct bridge_conn *c)
{
	return c->sent;
}

uint64_t bridge_conn_taken(const struct bridge_conn *c)
{
	return c->taken;
}
