/* SPDX-License-Identifier: MIT */
/* tls-none.c - in place of redis/tls.c in a build without OpenSSL: redis/conn.c refuses rediss:// */
#include "redis/tls.h"

const char *redis_tls_missing(void)
{
	return "rediss:// needs TLS, which this build does not have (built without OpenSSL): "
	       "use a tunnel (stunnel) or a unix socket";
}

struct redis_tls *redis_tls_new(const struct redis_server *server, struct redis_error *error)
{
	(void)server;
	redis_fail(error, REDIS_INVALID, "%s", redis_tls_missing());
	return NULL;
}

void redis_tls_free(struct redis_tls *t)
{
	(void)t;
}

bool redis_tls_up(const struct redis_tls *t)
{
	(void)t;
	return false;
}

bool redis_tls_received(const struct redis_tls *t)
{
	(void)t;
	return false;
}

int redis_tls_feed(struct redis_tls *t, const char *bytes, size_t len, struct redis_error *error)
{
	(void)t, (void)bytes, (void)len;
	return redis_fail(error, REDIS_INVALID, "%s", redis_tls_missing());
}

int redis_tls_get(struct redis_tls *t, char *out, size_t size, size_t *len, struct redis_error *error)
{
	(void)t, (void)out, (void)size, (void)error;
	*len = 0;
	return 0;
}

int redis_tls_put(struct redis_tls *t, const char *bytes, size_t len, struct redis_error *error)
{
	return redis_tls_feed(t, bytes, len, error);
}

const char *redis_tls_out(const struct redis_tls *t, size_t *len)
{
	(void)t;
	*len = 0;
	return NULL;
}

void redis_tls_sent(struct redis_tls *t, size_t len)
{
	(void)t, (void)len;
}
