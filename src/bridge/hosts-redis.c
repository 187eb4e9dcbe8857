/* SPDX-License-Identifier: MIT */
/* hosts-redis.c - the list of hosts in Redis: storing this one, reading all; see bridge/hosts.h */
#define _GNU_SOURCE
#include "bridge/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridge/credentials.h"
#include "redis/nodes.h"
#include "redis/resp.h"
#include "redis/script.h"
#include "redis/scripts.h"

#define LIST "lockshm:hosts"
#define LASTS "86400000" /* ms: the name of a host whose bridge has ended is still of use */

/* ---------------------------------------------------------------- the text of an entry */

/* Percent-escapes what is no printable character, or a blank or a percent sign; cut at @size - 1 bytes. */
static void escape(char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text && n + 4 <= size; text++)
		if (*text > ' ' && *text < 0x7f && *text != '%')
			out[n++] = *text;
		else
			n += (size_t)sprintf(out + n, "%%%02X", (unsigned char)*text);
	out[n] = '\0';
}

void host_self_make(struct host_self *self, struct lockshm *s, const char *name)
{
	char machine[HOST_NAME_LONGEST + 1] = "";
	bool quorum = s->redis.flags & REDIS_QUORUM;

	memset(self, 0, sizeof(*self));
	if (!name && gethostname(machine, sizeof(machine) - 1) == 0)
		name = machine;
	escape(self->name, sizeof(self->name), name && *name ? name : "?");
	escape(self->segment, sizeof(self->segment), *s->name == '/' ? s->name + 1 : s->name);
	escape(self->prefix, sizeof(self->prefix), s->redis.prefix);
	escape(self->global, sizeof(self->global), s->redis.global_keys);
	strcpy(self->servers, quorum ? "quorum:" : "");
	escape(self->servers + strlen(self->servers), sizeof(self->servers) - strlen(self->servers), s->redis.servers);
	self->redis = s->redis;
}

static void put_text(const struct host_self *self, char out[HOST_TEXT_MAX + 1])
{
	snprintf(out, HOST_TEXT_MAX + 1, "name=%s segment=%s prefix=%s ttl=%llu%s%s servers=%s", self->name, self->segment,
		 self->prefix, (unsigned long long)self->redis.ttl_ms, *self->global ? " global=" : "", self->global, self->servers);
}

/* ---------------------------------------------------------------- entries */

static const char *value_of(const char *word, const char *name)
{
	size_t len = strlen(name);

	return strncmp(word, name, len) == 0 ? word + len : NULL;
}

static void take_word(struct host_entry *entry, const char *word)
{
	const char *v;

	if ((v = value_of(word, "name=")))
		snprintf(entry->name, sizeof(entry->name), "%s", v);
	else if ((v = value_of(word, "segment=")))
		entry->segment = v;
	else if ((v = value_of(word, "prefix=")))
		entry->prefix = v;
	else if ((v = value_of(word, "ttl=")))
		entry->ttl_ms = strtoull(v, NULL, 10);
	else if ((v = value_of(word, "global=")))
		entry->global = v;
	else if ((v = value_of(word, "servers=")))
		entry->servers = v;
}

/* Another program may have stored anything: then it is no entry, and no byte of it drives a terminal. */
static void take_member(const char *member, size_t len, int64_t age_ms, hosts_fn fn, void *arg)
{
	struct host_entry entry = { .age_ms = age_ms, .segment = "", .prefix = "", .global = "", .servers = "" };
	char text[REDIS_HOST_BYTES + 1 + HOST_TEXT_MAX + 1], *at = text, *word;
	size_t i;

	if (len >= sizeof(text) || len < REDIS_HOST_BYTES + 1 || member[REDIS_HOST_BYTES] != ' ')
		return;
	for (i = 0; i < len; i++)
		text[i] = member[i] >= ' ' && member[i] < 0x7f ? member[i] : '?';
	text[len] = '\0';
	snprintf(entry.id, sizeof(entry.id), "%.*s", REDIS_HOST_BYTES, strsep(&at, " "));
	while ((word = strsep(&at, " ")))
		take_word(&entry, word);
	if (strlen(entry.id) == REDIS_HOST_BYTES && *entry.name)
		fn(&entry, arg);
}

static void take_list(const struct redis_reply *reply, hosts_fn fn, void *arg)
{
	int64_t ms = redis_reply_ms(redis_reply_at(reply, 0));
	const struct redis_reply *list = redis_reply_at(reply, 1);
	size_t i, len;

	for (i = 0; i + 1 < redis_reply_count(list); i += 2) {
		const char *member = redis_reply_text(redis_reply_at(list, i), &len);

		if (member)
			take_member(member, len, ms - redis_reply_ms(redis_reply_at(list, i + 1)), fn, arg);
	}
}

/* ---------------------------------------------------------------- the list of one server */

struct visit {
	struct redis_nodes nodes;
	char id[REDIS_HOST_BYTES + 1];
	char text[HOST_TEXT_MAX + 1]; /* "" = only read */
	int64_t io_ns;
};

static int run(struct visit *v, struct redis_node *node, const char *key, struct redis_reply **reply)
{
	const char *argv[] = { "EVAL", redis_lua_hosts, "1", key, v->id, v->text, LASTS };
	size_t lens[7], i;

	for (i = 0; i < 7; i++)
		lens[i] = strlen(argv[i]);
	return redis_conn_call(node->conn, redis_now() + v->io_ns, reply, 7, argv, lens);
}

/* In a cluster another node may have the list. */
static int run_there(struct visit *v, struct redis_node *node, const char *key, struct redis_reply **reply)
{
	int code = run(v, node, key, reply);
	struct redis_node *to;

	if (code != REDIS_MOVED)
		return code;
	to = redis_nodes_moved(&v->nodes, node, redis_conn_error(node->conn)->text);
	if (!to)
		return code;
	/* It connects first if it has to. */
	return run(v, to, key, reply);
}

static bool visit_list(struct visit *v, struct redis_node *node, const char *key, hosts_fn fn, void *arg, int *code)
{
	struct redis_reply *reply = NULL;

	*code = run_there(v, node, key, &reply);
	if (*code == 0)
		take_list(reply, fn, arg);
	redis_reply_free(reply);
	return *code == 0;
}

/* All at once: an unresponsive server takes no time from the others. */
static void connect_nodes(struct redis_nodes *nodes, int64_t deadline)
{
	struct redis_conn *waiting[REDIS_CONNS_MAX];
	size_t i, k;

	for (i = 0; i < nodes->n; i++)
		(void)redis_conn_open(nodes->node[i].conn, deadline);
	do {
		for (i = k = 0; i < nodes->n; i++)
			if (!redis_conn_ready(nodes->node[i].conn) && !redis_conn_closed(nodes->node[i].conn))
				waiting[k++] = nodes->node[i].conn;
		if (k)
			redis_conns_poll(waiting, k, deadline);
	} while (k);
	for (i = 0; i < nodes->n; i++)
		if (redis_conn_ready(nodes->node[i].conn))
			redis_nodes_learn(nodes, &nodes->node[i]);
}

static struct visit *connect_all(struct host_self *self, bool store, int64_t io_ns)
{
	struct redis_server *servers = calloc(REDIS_SERVERS_MAX, sizeof(*servers));
	struct visit *v = calloc(1, sizeof(*v));
	struct lockshm_error error;
	size_t i, n = 0;

	if (v && servers &&
	    redis_uri_parse(self->redis.servers, bridge_credentials, servers, REDIS_SERVERS_MAX, &n, &error) == 0) {
		v->io_ns = io_ns;
		memcpy(v->id, self->redis.host, REDIS_HOST_BYTES);
		memcpy(v->nodes.host.id, v->id, sizeof(v->id));
		for (i = 0; i < n; i++)
			if (redis_nodes_add(&v->nodes, &servers[i], NULL) != 0)
				break;
		v->nodes.n_given = v->nodes.n;
		connect_nodes(&v->nodes, redis_now() + io_ns);
		/* Any node is enough in a list of servers. */
		if (v->nodes.cluster)
			strcpy(self->servers, "cluster");
		if (store)
			put_text(self, v->text);
	}
	if (servers)
		explicit_bzero(servers, REDIS_SERVERS_MAX * sizeof(*servers));
	free(servers);
	return v;
}

size_t hosts_visit(struct host_self *self, bool store, int64_t io_ns, hosts_fn fn, void *arg, bool *refused)
{
	struct visit *v = connect_all(self, store, io_ns);
	char own[REDIS_PREFIX_BYTES + sizeof(LIST)];
	size_t i, read = 0;
	int code;

	snprintf(own, sizeof(own), "%s" LIST, self->redis.prefix);
	for (i = 0; v && i < v->nodes.n_given; i++) {
		struct redis_node *node = &v->nodes.node[i];

		if (!redis_conn_ready(node->conn))
			continue;
		read += visit_list(v, node, own, fn, arg, &code);
		/* Once refused, not again: each refusal is a line in the server's ACL LOG. */
		if (*self->redis.prefix && !*refused && !visit_list(v, node, LIST, fn, arg, &code))
			*refused = code == REDIS_DENIED;
		if (v->nodes.cluster)
			break;
	}
	if (v)
		redis_nodes_end(&v->nodes);
	free(v);
	return read;
}
