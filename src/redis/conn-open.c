/* SPDX-License-Identifier: MIT */
/* conn-open.c - from a name to a connection that begins its handshake; see redis/conn.h */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "redis/backoff.h"
#include "redis/conn-internal.h"
#include "redis/secrets.h"

/* How long sent bytes may stay unacknowledged before the kernel gives the connection up. */
#define USER_TIMEOUT_MS 30000

/* As long as the longest back-off of a server. */
#define LOOKUP_AGAIN_NS REDIS_BACKOFF_MAX_NS

/* ---------------------------------------------------------------- addresses */

static void take_unix(struct redis_conn *c)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	memcpy(un.sun_path, c->server.path, sizeof(c->server.path));
	memcpy(&c->addresses[0].at, &un, sizeof(un));
	c->addresses[0].len = sizeof(un);
	c->n_addresses = 1;
}

void conn_look_up(struct redis_conn *c)
{
	if (!c->is_name || c->lookup || (c->lookup_began && redis_now() < c->lookup_began + LOOKUP_AGAIN_NS))
		return;
	c->lookup_began = redis_now();
	c->lookup = redis_lookup_begin(c->server.host, c->server.port);
	if (!c->lookup)
		snprintf(c->no_address, sizeof(c->no_address), "no memory for the look-up");
}

/* Takes the addresses found; without any the earlier ones stay. */
static void take_lookup(struct redis_conn *c)
{
	struct redis_address found[REDIS_ADDRESSES_MAX];
	const char *why;
	size_t n;

	if (!c->lookup || !redis_lookup_done(c->lookup))
		return;
	n = redis_lookup_take(c->lookup, found, &why);
	snprintf(c->no_address, sizeof(c->no_address), "%s", why);
	if (n) {
		memcpy(c->addresses, found, sizeof(found));
		c->n_addresses = n;
	}
	redis_lookup_drop(c->lookup);
	c->lookup = NULL;
}

void conn_find_addresses(struct redis_conn *c)
{
	if (c->server.path[0]) {
		take_unix(c);
		return;
	}
	c->n_addresses = redis_numeric(c->server.host, c->server.port, c->addresses);
	c->is_name = c->n_addresses == 0;
	conn_look_up(c);
}

/* ---------------------------------------------------------------- connecting */

static void set_options(int fd, int family)
{
	int one = 1, user_timeout = USER_TIMEOUT_MS;

	if (family == AF_UNIX)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout));
}

/* With TLS the commands are queued until the TLS handshake is complete. */
static int begin_handshake(struct redis_conn *c)
{
	struct redis_error why;
	int code = redis_credentials_find(&c->server, &c->error);

	if (code) {
		conn_shut(c);
		return code;
	}
	if (c->server.tls) {
		c->tls = redis_tls_new(&c->server, &why);
		if (!c->tls)
			return conn_drop(c, why.code, "%s", why.text);
	}
	code = handshake_begin(&c->handshake, c->resp, &c->server, &c->options, &c->error);
	if (code) {
		conn_shut(c);
		return code;
	}
	c->state = HANDSHAKE;
	c->handshake_began = redis_now();
	return 0;
}

/* Begins to connect to the next address that accepts it; each gets an equal part of the time left. */
static int try_addresses(struct redis_conn *c, int sys_errno)
{
	for (; c->address < c->n_addresses; c->address++) {
		const struct redis_address *a = &c->addresses[c->address];
		int64_t now = redis_now();

		conn_close_fd(c);
		c->fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (c->fd < 0) {
			int code = redis_error_open(errno) == REDIS_NO_MEMORY ? REDIS_NO_MEMORY : REDIS_UNREACHABLE;

			return conn_drop(c, code, "socket: %s", strerror(errno));
		}
		set_options(c->fd, a->at.ss_family);
		c->address_deadline = now + (c->open_deadline - now) / (int64_t)(c->n_addresses - c->address);
		if (connect(c->fd, (const struct sockaddr *)(const void *)&a->at, a->len) == 0)
			return begin_handshake(c);
		if (errno == EINPROGRESS || errno == EINTR)
			return 0;
		sys_errno = errno;
	}
	/* The name may have other addresses by now: for the next open. */
	conn_look_up(c);
	return conn_lost(c, strerror(sys_errno));
}

/* Continues once there are addresses.  An old look-up that found none does not count: it is begun again. */
int conn_resolved(struct redis_conn *c)
{
	take_lookup(c);
	if (c->n_addresses) {
		c->state = CONNECTING;
		return try_addresses(c, ENOENT);
	}
	conn_look_up(c);
	if (c->lookup)
		return 0;
	if (c->lookup_began < c->tried)
		c->tried = c->lookup_began;
	return conn_drop(c, REDIS_UNREACHABLE, "no address: %s", c->no_address);
}

int conn_connected(struct redis_conn *c)
{
	socklen_t len = sizeof(int);
	int sys_errno = 0;
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };

	if (poll(&p, 1, 0) == 0) {
		if (redis_now() < c->address_deadline)
			return 0;
		sys_errno = ETIMEDOUT;
	} else if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &sys_errno, &len) != 0) {
		sys_errno = errno;
	}
	if (sys_errno == 0)
		return begin_handshake(c);
	c->address++;
	return try_addresses(c, sys_errno);
}

int redis_conn_open(struct redis_conn *c, int64_t deadline)
{
	if (c->state != CLOSED)
		return 0;
	c->error.code = 0;
	c->error.text[0] = '\0';
	c->tried = redis_now();
	c->resp = resp_new();
	if (!c->resp)
		return conn_drop(c, REDIS_NO_MEMORY, "out of memory");
	c->sent = c->taken = 0;
	c->generation++;
	c->open_deadline = deadline;
	c->address = 0;
	c->state = RESOLVING;
	return conn_resolved(c);
}
