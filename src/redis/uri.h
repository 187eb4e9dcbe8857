/* SPDX-License-Identifier: MIT */
/*
 * uri.h - where the Redis servers are, and as whom to log in
 *
 *   redis://[user[:password]@]host[:port][/db][?option=value&...]
 *   rediss://...	the same, over TLS
 *   unix://[user[:password]@]/path[?db=0&option=value...]
 *
 * Several of them are separated by commas.  Any byte may be written as %XX, and bytes that mean something must be.
 * Options: db=NUMBER, password-env=NAME, password-file=PATH; for rediss:// also tls-ca=PATH (who vouches for the
 * server, else those whom the system trusts), tls-cert=PATH and tls-key=PATH (who we are), tls-name=NAME (which the
 * server's certificate must be for, else the host).  There is none to do without verification.
 *
 * Where a password may be: a command line is seen by every user of the machine, and what is stored in a segment by
 * everybody who may open it.  A URI of such an origin names the place of the password; only one that comes from the
 * environment or from a file may hold the password itself.  Parsing does not read the place named: that is done at each
 * connect, so that a password can be changed in the file.
 */
#ifndef LOCKSHM_REDIS_URI_H
#define LOCKSHM_REDIS_URI_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/redis-error.h"

#define REDIS_SERVERS_MAX 15
#define REDIS_PASSWORD_MAX 1024

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
	char password[256]; /* from the URI itself */
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
 * Parses 1 to @max URIs; the error says which one is wrong, and never quotes a password.  The same server twice is an
 * error too, whatever the database: it would fail once and count twice.
 */
int redis_uri_parse(const char *text, int origin, struct redis_server *out, size_t max, size_t *n,
		     struct redis_error *error);

/* May a certificate be asked to be for that name?  To OpenSSL one that begins with a dot is any name of that domain. */
bool redis_name_is_sound(const char *name);

/* Another server, at that address, with the same login as @like. */
void redis_server_at(struct redis_server *out, const struct redis_server *like, const char *host, const char *port);

/*
 * Reads the password for a connect into @out of REDIS_PASSWORD_MAX bytes; *@len 0 = none is configured.  The caller
 * wipes it.  A file must be readable by its owner and group only; its first line counts.
 */
int redis_uri_password(const struct redis_server *server, char *out, size_t *len, struct redis_error *error);

/* Opens a file that an option names, without waiting for anything; -1 = cannot be, *@code is the class and *@why says
 * why.  A secret one must be readable by its owner and group only. */
int redis_uri_open(const char *path, bool secret, int *code, const char **why);

/* Is one of the servers in this text, which was parsed before, spoken to over TLS? */
bool redis_uri_wants_tls(const char *text);

#endif
