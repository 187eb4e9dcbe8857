/* SPDX-License-Identifier: MIT */
/*
 * redis-uri.h - addresses and logins of the Redis servers
 *
 *   redis://[user[:password]@]host[:port][/db][?option=value&...]
 *   rediss://...	the same, over TLS
 *   unix://[user[:password]@]/path[?db=0&option=value...]
 *
 * Several are separated by commas.  Any byte may be written as %XX; bytes with a meaning must be.  Options: db=NUMBER,
 * password-env=NAME, password-file=PATH; for rediss:// also tls-ca=PATH (the trusted authorities, default: the
 * system's), tls-cert=PATH and tls-key=PATH (the client's own), tls-name=NAME (that the server's certificate must be
 * for, default: the host).  Verification cannot be turned off.
 *
 * Where a password may be: every user of the machine sees a command line, and every user with access to a segment sees
 * what it stores.  A URI of such an origin names where the password is; only one from the environment or a file may
 * contain the password itself.  Parsing reads neither that source nor any file: each connect of the bridge does, so a
 * password can be changed in the file (redis/secrets.h).
 */
#ifndef LOCKSHM_SEGMENT_REDIS_URI_H
#define LOCKSHM_SEGMENT_REDIS_URI_H

#include <stdbool.h>
#include <stddef.h>

#include "lockshm.h"
#include "sys/compiler.h"

#define REDIS_SERVERS_MAX 15

enum redis_origin {
	REDIS_PUBLIC = 2, /* command line, segment: no password inside */
	REDIS_PRIVATE = 3, /* environment, file */
};

struct redis_server {
	char host[256]; /* name or address, lower case; "" for a unix socket */
	char port[6];
	char path[108]; /* of a unix socket, "" for TCP */
	int db;
	char user[128];
	char password[256]; /* from the URI */
	char password_env[128]; /* name of a variable */
	char password_file[256];
	bool tls;
	char tls_ca[256]; /* files; "" = none */
	char tls_cert[256];
	char tls_key[256];
	char tls_name[256];
	char label[384]; /* for messages: the URI without login, database and options */
};

/*
 * Parses 1 to @max URIs: 0 or LOCKSHM_INVALID.  The message names the wrong one by its number and never quotes a
 * password.  The same server twice is an error, too, whatever the database: it would fail once and count twice.
 */
MUST_CHECK int redis_uri_parse(const char *text, int origin, struct redis_server *out, size_t max, size_t *n,
			       struct lockshm_error *error);

/* Can a certificate be for that name?  For OpenSSL a name that begins with a dot matches any name of that domain. */
bool redis_name_is_sound(const char *name);

/* Another server, with the same login and options as @like. */
void redis_server_at(struct redis_server *out, const struct redis_server *like, const char *host, const char *port);

#endif
