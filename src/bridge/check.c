/* SPDX-License-Identifier: MIT */
/*
 * check.c - an operator's check of the servers of a segment; see bridge/check.h
 *
 * Over connections of its own, so with or without a bridge.  Connecting is what the bridge does, with the same login,
 * TLS and handshake.  Rights are looked at by rights.lua and by commands without an effect, and then a lease is obtained
 * as by the bridge.
 */
#define _GNU_SOURCE
#include "bridge/check-internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridge/credentials.h"
#include "redis/resp.h"
#include "redis/scripts.h"
#include "sys/min.h"

#define NAMES_MAX 256 /* probe names tried at a node of a cluster, which has some of the slots */
#define IO_MAX_NS LOCKSHM_MS(250) /* as in serve.c */

int64_t check_io_ns(const struct check *c)
{
	return min64(LOCKSHM_MS((int64_t)c->s->redis.ttl_ms) / 10, IO_MAX_NS);
}

void check_say(const struct check *c, enum check_result result, const char *subject, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	c->report(result, subject, text, c->arg);
}

/* In messages a label is cut to 60 bytes. */
const char *check_words(const struct redis_conn *conn, const char *why)
{
	size_t len = strnlen(redis_conn_label(conn), 60);

	return strncmp(why, redis_conn_label(conn), len) == 0 && strncmp(why + len, ": ", 2) == 0 ? why + len + 2 : why;
}

/* What passes by itself, once its cause does. */
static const struct {
	const char *word, *remedy;
} passing[] = {
	{ "BUSY", "; a script of another program runs: SCRIPT KILL" },
	{ "CLUSTERDOWN", "; CLUSTER INFO and CLUSTER NODES have the reason" },
	{ "LOADING", "; it was started a moment ago: wait" },
	{ "MASTERDOWN", "; a segment names masters" },
	{ "MISCONF", "; mend its disk, see its log" },
	{ "NOREPLICAS", "; start its replicas, or CONFIG SET min-replicas-to-write" },
	{ "OOM", "; remove data, or CONFIG SET maxmemory" },
	{ "READONLY", "; a segment names masters" },
	{ "TRYAGAIN", "; its slots are moved to another node: wait" },
	{ "is a replica", "; a segment names masters" },
};

const char *check_remedy(int code, const char *text)
{
	size_t i;

	switch (code) {
	case REDIS_INVALID:
		return "; it is a setting of the segment: lockctl rm and lockctl create make it anew";
	case REDIS_UNREACHABLE:
	case REDIS_UNKNOWN:
		return "; does it run, and do host, port, TLS and a firewall let this host in?";
	case REDIS_DENIED:
		return "; mend the credentials, see above, or the server";
	case REDIS_RETRY:
		for (i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
			if (strstr(text, passing[i].word))
				return passing[i].remedy;
		return "; it may pass by itself: wait";
	case REDIS_PROTOCOL:
		return "; is it a Redis server, and TLS on both sides or on none (rediss://)?";
	default:
		return "";
	}
}

/* ---------------------------------------------------------------- a list of words */

struct words {
	char text[512];
	size_t n;
};

static void add_word(struct words *to, const char *prefix, const char *word)
{
	size_t len = strlen(to->text);

	snprintf(to->text + len, sizeof(to->text) - len, "%s%s%s", to->n++ ? " " : "", prefix, word);
}

static void add_reply(struct words *to, const struct redis_reply *list)
{
	size_t i, len;

	for (i = 0; i < redis_reply_count(list); i++) {
		const char *word = redis_reply_text(redis_reply_at(list, i), &len);

		if (word)
			add_word(to, "+", word);
	}
}

/* ---------------------------------------------------------------- rights */

struct rights {
	struct words needed, useful; /* that are missing, as ACL SETUSER has them */
	bool writes; /* they were looked at, too */
};

int check_call(struct check *c, struct redis_conn *conn, struct redis_reply **reply, int argc, const char *const *argv)
{
	struct redis_reply *mine = NULL;
	size_t lens[16];
	int i, code;

	for (i = 0; i < argc; i++)
		lens[i] = strlen(argv[i]);
	code = redis_conn_call(conn, c->deadline, &mine, argc, argv, lens);
	if (reply)
		*reply = mine;
	else
		redis_reply_free(mine);
	return code;
}

/* A command without an effect; @right as ACL SETUSER has it. */
static void try(struct check *c, struct redis_conn *conn, struct words *missing, const char *right, const char *a,
		const char *b, const char *d)
{
	const char *argv[3] = { a, b, d };
	int argc = d ? 3 : b ? 2 : 1;

	if (check_call(c, conn, NULL, argc, argv) == REDIS_DENIED)
		add_word(missing, "", right);
}

/* SUBSCRIBE comes last: the connection takes few other commands after it. */
static void try_commands(struct check *c, struct redis_conn *conn, struct rights *out)
{
	char channel[sizeof("lockshm:") + REDIS_HOST_BYTES];

	snprintf(channel, sizeof(channel), "lockshm:%.*s", REDIS_HOST_BYTES, c->s->redis.host);
	try(c, conn, &out->needed, "+evalsha", "EVALSHA", "0000000000000000000000000000000000000000", "0");
	if (REDIS_WAIT(c->s->redis.flags))
		try(c, conn, &out->needed, "+wait", "WAIT", "0", "1");
	if (!redis_conn_script(conn, 0))
		add_word(&out->useful, "+", "script|load");
	try(c, conn, &out->useful, "+client|setname", "CLIENT", "SETNAME", "lockshm-check");
	try(c, conn, &out->useful, "+client|id", "CLIENT", "ID", NULL);
	try(c, conn, &out->useful, "+client|tracking", "CLIENT", "TRACKING", "OFF");
	try(c, conn, &out->useful, "+subscribe &__redis__:invalidate", "SUBSCRIBE", "__redis__:invalidate", NULL);
	try(c, conn, &out->useful, "+subscribe &lockshm:*", "SUBSCRIBE", channel, NULL);
}

static bool may_use(struct check *c, struct redis_conn *conn, const char *key, size_t len)
{
	const char *argv[4] = { "EVAL", "return 1", key ? "1" : "0", key };
	const size_t lens[4] = { 4, 8, 1, len };
	struct redis_reply *reply;
	int code = redis_conn_call(conn, c->deadline, &reply, key ? 4 : 3, argv, lens);

	redis_reply_free(reply);
	return code != REDIS_DENIED;
}

/* The script was refused: which of its names may the login not use? */
static void report_names(struct check *c, struct redis_conn *conn, const struct redis_keys *keys)
{
	const char *prefix = c->s->redis.prefix, *label = redis_conn_label(conn);
	struct words patterns = { .n = 0 };
	char pattern[REDIS_PREFIX_BYTES + 8];
	bool refused[2] = { false, false };
	size_t i;

	for (i = 0; i < REDIS_KEYS; i++)
		if (!may_use(c, conn, keys->key[i], keys->len[i]))
			refused[keys->key[i][0] == '{'] = true;
	for (i = 0; i < 2; i++) {
		snprintf(pattern, sizeof(pattern), "~%s%s*", i ? "{" : "", prefix);
		if (refused[i])
			add_word(&patterns, "", pattern);
	}
	if (!may_use(c, conn, NULL, 0))
		check_say(c, CHECK_FAIL, label, "the login lacks rights: ACL SETUSER ... +eval");
	else
		check_say(c, CHECK_FAIL, label, "the login may not use the names of locks: ACL SETUSER ... %s", patterns.text);
}

static int run_rights(struct check *c, struct redis_conn *conn, const struct redis_keys *keys, const char *text,
		      struct redis_reply **reply)
{
	const char *argv[3 + REDIS_KEYS] = { "EVAL", text, "6" };
	size_t lens[3 + REDIS_KEYS] = { 4, strlen(text), 1 }, i;

	_Static_assert(REDIS_KEYS == 6, "the number of names is in the command");
	for (i = 0; i < REDIS_KEYS; i++) {
		argv[3 + i] = keys->key[i];
		lens[3 + i] = keys->len[i];
	}
	return redis_conn_call(conn, c->deadline, reply, 3 + REDIS_KEYS, argv, lens);
}

/* With names that this node of a cluster has.  Else the result is of the only try. */
static int run_where_the_slot_is(struct check *c, struct redis_conn *conn, struct redis_keys *keys, const char *text,
				 struct redis_reply **reply)
{
	bool cluster = redis_conn_info(conn)->cluster;
	struct redis_error why = { 0 };
	char name[80];
	int i, code = REDIS_MOVED;

	for (i = 0; code == REDIS_MOVED && i < NAMES_MAX; i++) {
		redis_keys_free(keys);
		snprintf(name, sizeof(name), "lockshm-check-%.*s-%ld-%d", REDIS_HOST_BYTES, c->s->redis.host,
			 (long)getpid(), i);
		code = redis_keys_make(keys, cluster ? REDIS_KEYS_CLUSTER : REDIS_KEYS_SINGLE, c->s->redis.prefix, name,
				       strlen(name), &why);
		if (code)
			return redis_conn_set_error(conn, code, "%s", why.text);
		code = run_rights(c, conn, keys, text, reply);
	}
	return code;
}

static void report_rights(struct check *c, struct redis_conn *conn, const struct rights *found)
{
	const char *label = redis_conn_label(conn);

	if (found->needed.n)
		check_say(c, CHECK_FAIL, label, "the login lacks rights: ACL SETUSER ... %s", found->needed.text);
	if (found->useful.n)
		check_say(c, CHECK_NOTE, label, "works, but later for want of rights: ACL SETUSER ... %s", found->useful.text);
	if (!found->needed.n && !found->useful.n && found->writes)
		check_say(c, CHECK_OK, label, "the login has all rights");
	if (!found->writes)
		check_say(c, CHECK_NOTE, label,
		    "rights to write were not looked at, which takes Redis 7: compare with lockshm-bridge(8)");
}

static void check_rights(struct check *c, struct redis_conn *conn)
{
	static const char flags[] = "#!lua flags=no-writes\n";
	struct redis_keys keys = { .bytes = NULL };
	struct redis_reply *reply = NULL;
	struct rights found = { .writes = false };
	char *text = malloc(sizeof(flags) + strlen(redis_lua_rights));
	int code = REDIS_NO_MEMORY;

	if (text) {
		stpcpy(stpcpy(text, flags), redis_lua_rights);
		code = run_where_the_slot_is(c, conn, &keys, text, &reply);
		/* An older server has no flags. */
		if (code == REDIS_REFUSED)
			code = run_where_the_slot_is(c, conn, &keys, redis_lua_rights, &reply);
	}
	if (code == REDIS_DENIED) {
		report_names(c, conn, &keys);
	} else if (code) {
		const char *why = check_words(conn, redis_conn_error(conn)->text);

		check_say(c, CHECK_FAIL, redis_conn_label(conn), "rights: %s%s", why, check_remedy(code, why));
	} else {
		found.writes = redis_reply_integer(redis_reply_at(reply, 0), 0) == 1;
		add_reply(&found.needed, redis_reply_at(reply, 1));
		add_reply(&found.useful, redis_reply_at(reply, 2));
		if (!found.needed.n)
			check_lease(c, conn, &keys);
		try_commands(c, conn, &found);
		report_rights(c, conn, &found);
	}
	redis_reply_free(reply);
	redis_keys_free(&keys);
	free(text);
}

/* ---------------------------------------------------------------- one server */

/* Each server has one vote. */
static void check_vote(struct check *c, const struct redis_conn *conn)
{
	const struct redis_server_info *server = redis_conn_info(conn);
	const char *label = redis_conn_label(conn);
	size_t i;

	if (server->cluster)
		check_say(c, CHECK_FAIL, label, "is a node of a cluster, which cannot vote: --redis-quorum is for independent servers");
	for (i = 0; i < c->n && c->conns[i] != conn; i++)
		if (c->conns[i] && redis_conn_ready(c->conns[i]) &&
		    strcmp(redis_conn_info(c->conns[i])->run_id, server->run_id) == 0)
			check_say(c, CHECK_FAIL, label, "is the same server as %s: they have one vote together",
			    redis_conn_label(c->conns[i]));
}

static void check_server(struct check *c, struct redis_conn *conn)
{
	const char *label = redis_conn_label(conn);
	const struct redis_server_info *server = redis_conn_info(conn);
	int64_t io_ns = check_io_ns(c);
	int code = redis_conn_ready(conn) ? 0 : redis_conn_error(conn)->code;

	if (!redis_conn_ready(conn)) {
		const char *why = check_words(conn, redis_conn_error(conn)->text);

		check_say(c, CHECK_FAIL, label, "%s%s", *why ? why : redis_code_name(code), check_remedy(code, why));
		return;
	}
	c->deadline = redis_now() + c->timeout_ns;
	if (c->s->redis.flags & REDIS_QUORUM)
		check_vote(c, conn);
	check_say(c, server->round_trip_ns > io_ns ? CHECK_NOTE : CHECK_OK, label, "Redis %s%s, connected%s in %.1f ms%s",
	    server->version, server->cluster ? " (cluster)" : "", strncmp(label, "rediss:", 7) == 0 ? " and verified" : "",
	    (double)server->round_trip_ns / 1e6,
	    server->round_trip_ns > io_ns ? ", longer than a bridge waits: make the segment with a longer --redis-ttl" : "");
	check_settings(c, conn);
	check_rights(c, conn);
}

/* All at once: an unresponsive server takes no time from the others. */
static void connect_all(struct check *c, int64_t deadline)
{
	struct redis_conn *waiting[REDIS_SERVERS_MAX];
	size_t i, k;

	for (i = 0; i < c->n; i++)
		if (c->conns[i])
			(void)redis_conn_open(c->conns[i], deadline);
	do {
		for (i = k = 0; i < c->n; i++)
			if (c->conns[i] && !redis_conn_ready(c->conns[i]) && !redis_conn_closed(c->conns[i]))
				waiting[k++] = c->conns[i];
		if (k)
			redis_conns_poll(waiting, k, deadline);
	} while (k);
}

/* ---------------------------------------------------------------- the calls */

static struct check *check_new(struct lockshm *s, check_fn report, void *arg)
{
	struct check *c = calloc(1, sizeof(*c));
	struct lockshm_error error;

	if (!c) {
		report(CHECK_FAIL, "servers", "out of memory", arg);
		return NULL;
	}
	*c = (struct check){ .s = s, .report = report, .arg = arg };
	if (redis_uri_parse(s->redis.servers, bridge_credentials, c->servers, REDIS_SERVERS_MAX, &c->n, &error) == 0)
		return c;
	report(CHECK_FAIL, "servers", error.message, arg);
	free(c);
	return NULL;
}

static void check_free(struct check *c)
{
	size_t i;

	for (i = 0; i < c->n; i++)
		redis_conn_free(c->conns[i]);
	explicit_bzero(c, sizeof(*c));
	free(c);
}

void bridge_check_credentials(struct lockshm *s, check_fn report, void *arg)
{
	struct check *c = check_new(s, report, arg);
	struct redis_error why;
	char password[REDIS_PASSWORD_MAX];
	size_t i, len;

	for (i = 0; c && i < c->n; i++) {
		struct redis_server *server = &c->servers[i];
		int code = redis_credentials_find(server, &why);

		if (!code)
			code = redis_password(server, password, &len, &why);
		explicit_bzero(password, sizeof(password));
		if (code)
			check_say(c, CHECK_FAIL, "credentials", "%s", why.text);
		else if (server->password_file[0])
			check_say(c, CHECK_OK, "credentials", "%s: user %s, password in %s", server->label,
			    server->user[0] ? server->user : "default", server->password_file);
		else
			check_say(c, CHECK_OK, "credentials", "%s: no password, as there is no such file in %s", server->label,
			    bridge_credentials);
	}
	if (c)
		check_free(c);
}

void bridge_check_servers(struct lockshm *s, int64_t timeout_ns, check_fn report, void *arg)
{
	static const struct redis_conn_options options = { .name = "lockshm-check", .scripts = redis_scripts,
							   .n_scripts = REDIS_N_SCRIPTS };
	struct check *c = check_new(s, report, arg);
	struct redis_error why = { 0 };
	size_t i;

	if (!c)
		return;
	c->timeout_ns = timeout_ns;
	for (i = 0; i < c->n; i++)
		if (redis_conn_new(&c->conns[i], &c->servers[i], &options, &why) != 0)
			check_say(c, CHECK_FAIL, c->servers[i].label, "%s", why.text);
	connect_all(c, redis_now() + timeout_ns);
	for (i = 0; i < c->n; i++)
		if (c->conns[i])
			check_server(c, c->conns[i]);
	check_free(c);
}
