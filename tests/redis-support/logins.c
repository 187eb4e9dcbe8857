/* SPDX-License-Identifier: MIT */
/* logins.c - URIs with a login and names of files, as tests write them; see redis.h */
#define _GNU_SOURCE
#include "redis.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The options of such a URI, and the credentials that they are. */
static const char *const options[][2] = {
	{ "tls-ca", "ca.pem" },	  { "tls-cert", "cert.pem" },	   { "tls-key", "key.pem" },
	{ "tls-crl", "crl.pem" }, { "tls-name", "tls-name" },
};
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

struct login {
	char server[400]; /* URI that is left */
	char user[128], password[128], db[32];
	char value[N_OPTIONS][300];
};

static void take_option(struct login *l, const char *option)
{
	size_t i, n = strcspn(option, "=");

	for (i = 0; i < N_OPTIONS; i++)
		if (strlen(options[i][0]) == n && memcmp(options[i][0], option, n) == 0) {
			snprintf(l->value[i], sizeof(l->value[i]), "%s", option + n + 1);
			return;
		}
	snprintf(l->db, sizeof(l->db), "?%s", option);
}

static void take_apart(struct login *l, char *uri)
{
	char *query = strchr(uri, '?'), *scheme = strstr(uri, "://"), *at, *save = NULL, *option;
	char *rest = scheme ? scheme + 3 : uri;

	memset(l, 0, sizeof(*l));
	if (query)
		*query = '\0';
	for (option = query ? strtok_r(query + 1, "&", &save) : NULL; option; option = strtok_r(NULL, "&", &save))
		take_option(l, option);
	at = strrchr(rest, '@');
	if (at) {
		snprintf(l->user, sizeof(l->user), "%.*s", (int)strcspn(rest, ":@"), rest);
		if (rest[strcspn(rest, ":@")] == ':')
			snprintf(l->password, sizeof(l->password), "%.*s", (int)(at - strchr(rest, ':') - 1), strchr(rest, ':') + 1);
	}
	snprintf(l->server, sizeof(l->server), "%.*s%s%s", (int)(rest - uri), uri, at ? at + 1 : rest, l->db);
}

/* The name of a file for that server. */
static void path_of(char out[600], const char *dir, const char *name, const char *uri)
{
	struct lockshm_error error;
	struct redis_server server;
	const char *from;
	size_t n;
	char *c;

	ck_assert_msg(redis_uri_parse(uri, NULL, &server, 1, &n, &error) == 0, "%s: %s", uri, error.message);
	from = server.path[0] ? server.path + 1 : strstr(server.label, "//") + 2;
	n = (size_t)snprintf(out, 600, "%s/%s.", dir, name);
	snprintf(out + n, 600 - n, "%s", from);
	for (c = out + n; *c; c++)
		*c = *c == '/' ? '-' : *c;
}

void credential_write(const char *dir, const char *name, const char *uri, const char *text)
{
	char path[600];
	FILE *f;

	path_of(path, dir, name, uri);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	chmod(path, 0600);
}

static void store(const struct login *l, const char *dir)
{
	char path[600];
	size_t i;

	if (l->user[0])
		credential_write(dir, "user", l->server, l->user);
	if (l->password[0])
		credential_write(dir, "password", l->server, l->password);
	for (i = 0; i < N_OPTIONS; i++) {
		if (!l->value[i][0])
			continue;
		path_of(path, dir, options[i][1], l->server);
		if (l->value[i][0] == '/')
			ck_assert_int_eq(symlink(l->value[i], path), 0);
		else
			credential_write(dir, options[i][1], l->server, l->value[i]);
	}
}

const char *login_split(const char *uris, char *out, size_t size)
{
	char *copy = strdup(uris), *save = NULL, *uri, dir[64] = "";
	size_t n = 0;

	out[0] = '\0';
	for (uri = strtok_r(copy, ",", &save); uri; uri = strtok_r(NULL, ",", &save)) {
		bool plain = !strpbrk(uri, "@?");
		struct login l;

		if (!plain && !dir[0])
			redis_dir(dir);
		if (!plain) {
			take_apart(&l, uri);
			store(&l, dir);
		}
		n += (size_t)snprintf(out + n, size - n, "%s%s", n ? "," : "", plain ? uri : l.server);
		ck_assert_uint_lt(n, size);
	}
	free(copy);
	return dir[0] ? strdup(dir) : NULL;
}
