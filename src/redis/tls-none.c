/* SPDX-License-Identifier: MIT */
/* tls-none.c - in place of redis/tls.c in a build without OpenSSL: redis/uri.c refuses what would need it */
#include "redis/tls.h"

const char *bridge_tls_load(void)
{
	return "this build has no TLS";
}

void bridge_tls_thread_ends(void)
{
}

struct bridge_tls *bridge_tls_new(const struct bridge_server *server, struct bridge_error *error)
{
	(void)server;
	bridge_fail(error, BRIDGE_INVALID, "this build has no TLS");
	return NULL;
}

void bridge_tls_free(struct bridge_tls *t)
{
	(void)t;
}

bool bridge_tls_up(const struct bridge_tls *t)
{
	(void)t;
	return false;
}

bool bridge_tls_heard(const struct bridge_tls *t)
{
	(void)t;
	return false;
}

int bridge_tls_feed(struct bridge_tls *t, const char *bytes, size_t len, struct bridge_error *error)
{
	(void)t, (void)bytes, (void)len;
	return bridge_fail(error, BRIDGE_INVALID, "this build has no TLS");
}

int bridge_tls_get(struct bridge_tls *t, char *out, size_t size, size_t *len, struct bridge_error *error)
{
	(void)t, (void)out, (void)size, (void)error;
	*len = 0;
	return 0;
}

int bridge_tls_put(struct bridge_tls *t, const char *bytes, size_t len, struct bridge_error *error)
{
	return bridge_tls_feed(t, bytes, len, error);
}

const char *bridge_tls_out(const struct bridge_tls *t, size_t *len)
{
	(void)t;
	*len = 0;
	return NULL;
}

void bridge_tls_sent(struct bridge_tls *t, size_t len)
{
	(void)t, (void)len;
}
