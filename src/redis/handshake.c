/* SPDX-License-Identifier: MIT */
/* handshake.c - the first commands of a connection; see redis/handshake.h */
#define _GNU_SOURCE
#include "redis/handshake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/secrets.h"

enum step { AUTH, SELECT_DB, PING, INFO_SERVER, INFO_REPLICATION, SET_NAME, CLIENT_ID, LOAD };

static const char *const step_names[] = {
	[AUTH] = "AUTH",
	[SELECT_DB] = "SELECT",
	[PING] = "PING",
	[INFO_SERVER] = "INFO server",
	[INFO_REPLICATION] = "INFO replication",
	[SET_NAME] = "CLIENT SETNAME",
	[CLIENT_ID] = "CLIENT ID",
	[LOAD] = "SCRIPT LOAD",
};

#define UPTIME_DIGITS 11 /* three thousand years */

struct command {
	const char *argv[3];
	size_t lens[3];
	int argc;
};

static void add_word(struct command *cmd, const char *word, size_t len)
{
	cmd->argv[cmd->argc] = word;
	cmd->lens[cmd->argc++] = len;
}

static bool put(struct handshake *g, struct resp *resp, enum step step, const struct command *cmd)
{
	g->steps[g->n_steps++] = (unsigned char)step;
	return resp_put(resp, cmd->argc, cmd->argv, cmd->lens);
}

static bool put_words(struct handshake *g, struct resp *resp, enum step step, const char *a, const char *b,
		      const char *c)
{
	struct command cmd = { .argc = 0 };

	add_word(&cmd, a, strlen(a));
	if (b)
		add_word(&cmd, b, strlen(b));
	if (c)
		add_word(&cmd, c, strlen(c));
	return put(g, resp, step, &cmd);
}

static int put_login(struct handshake *g, struct resp *resp, const struct redis_server *server,
		     struct redis_error *error)
{
	char password[REDIS_PASSWORD_MAX];
	struct command cmd = { .argc = 0 };
	size_t len;
	int code = redis_password(server, password, &len, error);

	if (!code && len) {
		add_word(&cmd, "AUTH", 4);
		if (server->user[0])
			add_word(&cmd, server->user, strlen(server->user));
		add_word(&cmd, password, len);
		if (!put(g, resp, AUTH, &cmd))
			code = redis_fail(error, REDIS_NO_MEMORY, "out of memory");
	}
	explicit_bzero(password, sizeof(password));
	return code;
}

int handshake_begin(struct handshake *g, struct resp *resp, const struct redis_server *server,
		       const struct redis_conn_options *options, struct redis_error *error)
{
	char db[16];
	size_t i;
	bool ok = true;
	int code;

	memset(g, 0, sizeof(*g));
	code = put_login(g, resp, server, error);
	if (code)
		return code;
	g->no_password_in = server->password_file[0] ? NULL : server->credentials;
	if (server->db) {
		snprintf(db, sizeof(db), "%d", server->db);
		ok = put_words(g, resp, SELECT_DB, "SELECT", db, NULL);
	}
	ok = ok && put_words(g, resp, PING, "PING", NULL, NULL);
	ok = ok && put_words(g, resp, INFO_SERVER, "INFO", "server", NULL);
	ok = ok && put_words(g, resp, INFO_REPLICATION, "INFO", "replication", NULL);
	if (options->name)
		ok = ok && put_words(g, resp, SET_NAME, "CLIENT", "SETNAME", options->name);
	if (options->subscriber)
		ok = ok && put_words(g, resp, CLIENT_ID, "CLIENT", "ID", NULL);
	for (i = 0; i < options->n_scripts && i < REDIS_SCRIPTS_MAX; i++)
		ok = ok && put_words(g, resp, LOAD, "SCRIPT", "LOAD", options->scripts[i]);
	return ok ? 0 : redis_fail(error, REDIS_NO_MEMORY, "out of memory");
}

/* The value of line "name:value" of an INFO reply; false if there is none. */
static bool info_value(const char *text, size_t len, const char *name, char *out, size_t size)
{
	const char *end = text + len, *line = text;
	size_t name_len = strlen(name);

	while (line < end) {
		const char *stop = memchr(line, '\r', (size_t)(end - line));
		size_t n = (size_t)((stop ? stop : end) - line);

		if (n > name_len && memcmp(line, name, name_len) == 0 && line[name_len] == ':') {
			snprintf(out, size, "%.*s", (int)(n - name_len - 1), line + name_len + 1);
			return true;
		}
		if (!stop)
			break;
		line = stop + (stop + 1 < end && stop[1] == '\n' ? 2 : 1);
	}
	return false;
}

static int read_server(struct handshake *g, const char *text, size_t len, struct redis_error *error)
{
	char value[24];
	const char *digits;

	if (!info_value(text, len, "run_id", g->info.run_id, sizeof(g->info.run_id)) ||
	    !info_value(text, len, "uptime_in_seconds", value, sizeof(value)))
		return redis_fail(error, REDIS_PROTOCOL, "INFO server: no run_id or uptime_in_seconds in it");
	digits = value + (value[0] == '-');
	if (strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > UPTIME_DIGITS)
		return redis_fail(error, REDIS_PROTOCOL, "INFO server: uptime_in_seconds is %.24s", value);
	g->info.uptime_s = digits == value ? atoll(value) : 0;
	info_value(text, len, "redis_version", g->info.version, sizeof(g->info.version));
	if (info_value(text, len, "redis_mode", value, sizeof(value)))
		g->info.cluster = strcmp(value, "cluster") == 0;
	return 0;
}

static int read_replication(struct handshake *g, const char *text, size_t len,
			    const struct redis_conn_options *options, struct redis_error *error)
{
	char role[24], host[64] = "?", port[8] = "?";

	if (!info_value(text, len, "role", role, sizeof(role)))
		return redis_fail(error, REDIS_PROTOCOL, "INFO replication: no role in it");
	g->info.replica = strcmp(role, "master") != 0;
	if (!g->info.replica || options->replica_ok)
		return 0;
	info_value(text, len, "master_host", host, sizeof(host));
	info_value(text, len, "master_port", port, sizeof(port));
	return redis_fail(error, REDIS_RETRY, "is a replica (of %s:%s): locks are taken at the master", host, port);
}

static int take_step(struct handshake *g, enum step step, const struct redis_reply *reply,
		     const struct redis_conn_options *options, struct redis_error *error)
{
	size_t len = 0;
	const char *text = redis_reply_text(reply, &len);

	switch (step) {
	case INFO_SERVER:
	case INFO_REPLICATION:
		if (!text)
			return redis_fail(error, REDIS_PROTOCOL, "%s: the reply is no text", step_names[step]);
		return step == INFO_SERVER ? read_server(g, text, len, error)
					   : read_replication(g, text, len, options, error);
	case PING:
		if (!redis_reply_equals(reply, "PONG"))
			return redis_fail(error, REDIS_PROTOCOL, "PING: the reply is not PONG");
		return 0;
	case CLIENT_ID:
		g->info.client_id = redis_reply_integer(reply, 0);
		return 0;
	case LOAD:
		if (len == sizeof(g->sha[0]) - 1)
			memcpy(g->sha[g->n_loaded], text, len);
		g->n_loaded++;
		return 0;
	default:
		return 0;
	}
}

/* Not essential: the name is for humans, and scripts can be sent as text. */
static bool may_fail(enum step step)
{
	return step == SET_NAME || step == CLIENT_ID || step == LOAD;
}

int handshake_reply(struct handshake *g, const struct redis_reply *reply,
		       const struct redis_conn_options *options, struct redis_error *error)
{
	enum step step = (enum step)g->steps[g->step++];
	size_t len;
	const char *text = redis_reply_error(reply, &len);
	int code;

	if (text && !may_fail(step)) {
		code = redis_error_class(text, len);
		/*
		 * "AUTH called without any password configured", "invalid DB index", an old server's "unknown command"
		 */
		if (code == REDIS_REFUSED)
			code = step == AUTH ? REDIS_DENIED : step == SELECT_DB ? REDIS_INVALID : code;
		if (g->no_password_in && len > 6 && memcmp(text, "NOAUTH", 6) == 0)
			return redis_fail(error, code, "%s: NOAUTH: there is no file password in %.120s", step_names[step],
					  g->no_password_in);
		return redis_fail(error, code, "%s: %.*s", step_names[step], (int)(len < 160 ? len : 160), text);
	}
	code = take_step(g, step, reply, options, error);
	if (code)
		return code;
	return g->step < g->n_steps ? REDIS_AGAIN : 0;
}
