/* SPDX-License-Identifier: MIT */
/* conn-io.c - the bytes of a connection, plain or over TLS; see redis/conn.h */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "redis/boot-clock.h"
#include "redis/conn-internal.h"

#define READ_BYTES 16384
#define READ_MAX (16 * READ_BYTES) /* in one call: a server that never ends must not keep the caller from others */

/* Bytes to send.  With TLS, wrap() encrypts queued commands into them. */
static const char *to_send(const struct redis_conn *c, size_t *len)
{
	return c->tls ? redis_tls_out(c->tls, len) : resp_out(c->resp, len);
}

bool conn_has_more(const struct redis_conn *c)
{
	size_t len;

	to_send(c, &len);
	if (!len && c->tls && redis_tls_up(c->tls))
		resp_out(c->resp, &len);
	return len > 0;
}

static int write_out(struct redis_conn *c)
{
	size_t len;
	const char *bytes = to_send(c, &len);

	while (len) {
		ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		/* Replies received before the server closed are still to be read. */
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 0;
		if (n < 0)
			return conn_lost(c, strerror(errno));
		if (c->tls)
			redis_tls_sent(c->tls, (size_t)n);
		else
			resp_sent(c->resp, (size_t)n);
		bytes = to_send(c, &len);
	}
	return 0;
}

/*
 * Sends the TLS alert, which gives the reason.  After READY this is a connection that broke: commands under way may
 * have been executed.
 */
static int tls_failed(struct redis_conn *c, const struct redis_error *why)
{
	size_t len;
	const char *bytes = to_send(c, &len);

	if (len)
		(void)!send(c->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	return c->state == READY ? conn_lost(c, why->text) : conn_drop(c, why->code, "%s", why->text);
}

/* Encrypts queued commands, once the TLS handshake is complete. */
static int wrap(struct redis_conn *c)
{
	struct redis_error why;
	size_t len;
	const char *bytes = resp_out(c->resp, &len);

	if (!c->tls || !len || !redis_tls_up(c->tls))
		return 0;
	if (redis_tls_put(c->tls, bytes, len, &why) != 0)
		return tls_failed(c, &why);
	resp_sent(c->resp, len);
	return 0;
}

int conn_malformed(struct redis_conn *c, const char *what)
{
	if (resp_short(c->resp))
		return conn_drop(c, REDIS_NO_MEMORY, "out of memory");
	if (resp_refusal(c->resp)[0])
		return conn_drop(c, REDIS_PROTOCOL, "%s: %s", what, resp_refusal(c->resp));
	return conn_drop(c, REDIS_PROTOCOL, "%s", what);
}

static int take_in(struct redis_conn *c, const char *bytes, size_t n)
{
	/* A TLS alert: some TLS servers reply so to a plain client. */
	if (!c->received && !c->tls && bytes[0] == 0x15)
		return conn_drop(c, REDIS_PROTOCOL, "this server speaks TLS: rediss://");
	c->received = true;
	if (!resp_feed(c->resp, bytes, n))
		return conn_malformed(c, "the reply is not that of a Redis server");
	return 0;
}

/* Decrypts received bytes. */
static int unwrap(struct redis_conn *c, const char *bytes, size_t n)
{
	bool was_up = redis_tls_up(c->tls);
	char plain[READ_BYTES];
	struct redis_error why;
	int code = 0;

	if (redis_tls_feed(c->tls, bytes, n, &why) != 0)
		return tls_failed(c, &why);
	if (!was_up && redis_tls_up(c->tls))
		c->handshake_began = redis_now();
	do {
		if (redis_tls_get(c->tls, plain, sizeof(plain), &n, &why) != 0)
			return tls_failed(c, &why);
		if (n)
			code = take_in(c, plain, n);
	} while (n && !code);
	return code;
}

static int read_in(struct redis_conn *c)
{
	char bytes[READ_BYTES];
	size_t all = 0;
	ssize_t n;
	int code;

	while (all < READ_MAX && !resp_is_full(c->resp)) {
		n = recv(c->fd, bytes, sizeof(bytes), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return conn_lost(c, strerror(errno));
		if (n == 0) {
			c->eof = true;
			return 0;
		}
		code = c->tls ? unwrap(c, bytes, (size_t)n) : take_in(c, bytes, (size_t)n);
		if (code || (size_t)n < sizeof(bytes))
			return code;
		all += (size_t)n;
	}
	return 0;
}

/* The end of the TLS handshake in read_in() releases the queued commands: sent now, not with the next call. */
int conn_exchange(struct redis_conn *c)
{
	int code = wrap(c);

	if (!code)
		code = write_out(c);
	if (!code)
		code = read_in(c);
	if (!code)
		code = wrap(c);
	if (!code && c->tls)
		code = write_out(c);
	return code;
}
