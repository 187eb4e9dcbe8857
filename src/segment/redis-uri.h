/* SPDX-License-Identifier: MIT */
/*
 * redis-uri.h - addresses of the Redis servers
 *
 *   redis://host[:port][/db]
 *   rediss://host[:port][/db]	the same, over TLS
 *   unix:///path[?db=number]
 *
 * Several are separated by commas.  Every user of the machine sees a command line, and every user with access to a
 * segment sees what it stores: so a URI has no login and names no file.  These are the bridge's (redis/secrets.h).
 */
#ifndef LOCKSHM_SEGMENT_REDIS_URI_H
#define LOCKSHM_SEGMENT_REDIS_URI_H

#include <stdbool.h>
#include <stddef.h>

#include "lockshm.h"
#include "sys/compiler.h"

#define REDIS_SERVERS_MAX 15
#define REDIS_FILE_MAX 640 /* bytes of a path, for directory and name */

struct redis_server {
	char host[256]; /* name or address, lower case; "" for a unix socket */
	char port[6];
	char path[108]; /* of a unix socket, "" for TCP */
	int db;
	bool tls;
	char label[384]; /* for messages: the URI without the database */
	const char *credentials; /* directory; NULL = none */

	/* Found there at each connect, by redis_credentials_find(); "" = no such file. */
	char user[128];
	char password_file[REDIS_FILE_MAX];
	char tls_ca[REDIS_FILE_MAX];
	char tls_cert[REDIS_FILE_MAX];
	char tls_crl[REDIS_FILE_MAX];
	char tls_key[REDIS_FILE_MAX];
	char tls_name[256];
};

/*
 * Parses 1 to @max URIs: 0 or LOCKSHM_INVALID.  The message names the wrong one by its number and never quotes it: after
 * a forgotten @ any part may be a password.  The same server twice is an error, too, whatever the database: it would
 * fail once and count twice.  Each server gets the directory @credentials, which must stay.
 */
MUST_CHECK int redis_uri_parse(const char *text, const char *credentials, struct redis_server *out, size_t max,
			       size_t *n, struct lockshm_error *error);

/* Can a certificate be for that name?  For OpenSSL a name that begins with a dot matches any name of that domain. */
bool redis_name_is_sound(const char *name);

/* Another server, of the same kind as @like. */
void redis_server_at(struct redis_server *out, const struct redis_server *like, const char *host, const char *port);

#endif
