/* SPDX-License-Identifier: MIT */
/*
 * redis-uri.c - parsing URIs of Redis servers; see segment/redis-uri.h
 *
 * Messages name the wrong part and never quote it: after a forgotten @ any part may be the password.
 */
#include "segment/redis-uri.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sys/error.h"

#define DEFAULT_PORT "6379"
#define DB_MAX 65535
#define ELSEWHERE "go into files of the bridge's credentials directory, see lockshm-bridge(8)"

/* A part of the text; not terminated. */
struct slice {
	const char *at;
	size_t len;
};

/* One URI while it is parsed. */
struct parse {
	struct slice rest;
	size_t number; /* from 1, for messages */
	const char *credentials;
	struct redis_server *out;
	struct lockshm_error *error;
};

static int bad(struct parse *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int bad(struct parse *p, const char *format, ...)
{
	char why[256];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	return error_set(p->error, LOCKSHM_INVALID, "Redis URI %zu: %s", p->number, why);
}

/* The text of a part, terminated. */
static int copy(struct parse *p, struct slice in, const char *what, char *out, size_t size)
{
	if (in.len >= size)
		return bad(p, "%s: longer than %zu bytes", what, size - 1);
	if (memchr(in.at, '%', in.len))
		return bad(p, "%s: contains a %%, and there are no escapes", what);
	memcpy(out, in.at, in.len);
	out[in.len] = '\0';
	return 0;
}

/* Cuts @s at the first @c: returns the part before, leaves in @s the part after; without @c all is before. */
static struct slice cut(struct slice *s, char c, bool *found)
{
	const char *at = memchr(s->at, c, s->len);
	struct slice before = *s;

	*found = at != NULL;
	if (at)
		before.len = (size_t)(at - s->at);
	s->at += before.len + (at ? 1 : 0);
	s->len -= before.len + (at ? 1 : 0);
	return before;
}

/* A decimal number of at most @max; -1 if it is none. */
static long number(struct slice s, long max)
{
	long value = 0;
	size_t i;

	for (i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return -1;
		value = value * 10 + (s.at[i] - '0');
		if (value > max)
			return -1;
	}
	return s.len ? value : -1;
}

/* ---------------------------------------------------------------- parts */

static int parse_port(struct parse *p, struct slice port)
{
	long value = number(port, 65535);

	if (value < 1)
		return bad(p, "the port is not a number from 1 to 65535");
	snprintf(p->out->port, sizeof(p->out->port), "%u", (unsigned)value & 0xffff);
	return 0;
}

static int parse_db(struct parse *p, struct slice db)
{
	long value = number(db, DB_MAX);

	if (value < 0)
		return bad(p, "the database is not a number from 0 to %d", DB_MAX);
	p->out->db = (int)value;
	return 0;
}

/* "host", "host:port", "[address]:port" */
static int parse_host(struct parse *p, struct slice text)
{
	struct slice host = text;
	bool found;
	int code;
	char *c;

	if (text.len && text.at[0] == '[') {
		text.at++;
		text.len--;
		host = cut(&text, ']', &found);
		if (!found)
			return bad(p, "the ] of the address is missing");
		if (text.len && text.at[0] != ':')
			return bad(p, "only :port may follow the ]");
		found = text.len > 0;
		text.at += found;
		text.len -= found;
	} else {
		host = cut(&text, ':', &found);
		if (found && memchr(text.at, ':', text.len))
			return bad(p, "an IPv6 address must be in brackets, as in redis://[::1]:6379");
	}
	if (host.len == 0)
		return bad(p, "no host");
	code = copy(p, host, "host", p->out->host, sizeof(p->out->host));
	if (code)
		return code;
	for (c = p->out->host; *c; c++) {
		if (*c >= 'A' && *c <= 'Z')
			*c |= 0x20;
		if (*c <= ' ' || *c == 0x7f)
			return bad(p, "the host contains a blank or a control character");
	}
	if (found)
		return parse_port(p, text);
	strcpy(p->out->port, DEFAULT_PORT);
	return 0;
}

bool redis_name_is_sound(const char *name)
{
	const char *c;

	for (c = name; *c; c++)
		if (*c <= ' ' || *c == 0x7f)
			return false;
	return *name != '.';
}

static void label_tcp(struct redis_server *s)
{
	bool v6 = strchr(s->host, ':') != NULL;

	snprintf(s->label, sizeof(s->label), "redis%s://%s%s%s:%s", s->tls ? "s" : "", v6 ? "[" : "", s->host,
		 v6 ? "]" : "", s->port);
}

void redis_server_at(struct redis_server *out, const struct redis_server *like, const char *host, const char *port)
{
	*out = *like;
	out->path[0] = '\0';
	snprintf(out->host, sizeof(out->host), "%s", host);
	snprintf(out->port, sizeof(out->port), "%s", port);
	label_tcp(out);
}

/* "host:port/db" */
static int parse_tcp(struct parse *p, struct slice address)
{
	bool has_db;
	struct slice host = cut(&address, '/', &has_db);
	int code = parse_host(p, host);

	if (!code && p->out->tls && !redis_name_is_sound(p->out->host))
		code = bad(p, "the host begins with a dot, which is no name that a certificate can be for");
	if (!code && has_db && address.len)
		code = parse_db(p, address);
	label_tcp(p->out);
	return code;
}

static int parse_unix(struct parse *p, struct slice address)
{
	int code = copy(p, address, "path", p->out->path, sizeof(p->out->path));

	if (code)
		return code;
	if (p->out->path[0] != '/')
		return bad(p, "the path of a unix socket must be absolute, as in unix:///run/redis/redis.sock");
	snprintf(p->out->label, sizeof(p->out->label), "unix://%s", p->out->path);
	return 0;
}

/* ---------------------------------------------------------------- a URI */

enum scheme { SCHEME_NONE, SCHEME_TCP, SCHEME_TLS, SCHEME_UNIX };

static enum scheme parse_scheme(struct slice *text)
{
	static const char *const schemes[] = {
		[SCHEME_TCP] = "redis://",
		[SCHEME_TLS] = "rediss://",
		[SCHEME_UNIX] = "unix://",
	};
	int i;

	for (i = SCHEME_TCP; i <= SCHEME_UNIX; i++) {
		size_t len = strlen(schemes[i]);

		if (text->len >= len && memcmp(text->at, schemes[i], len) == 0) {
			text->at += len;
			text->len -= len;
			return (enum scheme)i;
		}
	}
	return SCHEME_NONE;
}

/* What follows the ?: the database behind a unix socket, whose path has no end of its own. */
static int parse_query(struct parse *p, enum scheme scheme, struct slice query)
{
	if (scheme != SCHEME_UNIX || query.len < 3 || memcmp(query.at, "db=", 3) != 0 ||
	    memchr(query.at, '&', query.len))
		return bad(p, "takes no options%s: password and TLS files " ELSEWHERE,
			   scheme == SCHEME_UNIX ? " but db=NUMBER" : "");
	query.at += 3;
	query.len -= 3;
	return parse_db(p, query);
}

static int parse_uri(struct parse *p)
{
	struct slice address, text = p->rest;
	enum scheme scheme;
	bool has_query;
	int code;

	memset(p->out, 0, sizeof(*p->out));
	p->out->credentials = p->credentials;
	if (text.len == 0)
		return bad(p, "is empty");
	scheme = parse_scheme(&text);
	if (scheme == SCHEME_NONE)
		return bad(p, "must begin with redis://, rediss:// or unix:///");
	p->out->tls = scheme == SCHEME_TLS;
	/* Before anything else: it may be a password. */
	if (memchr(text.at, '@', text.len))
		return bad(p, "takes no user and no password (before the @): they " ELSEWHERE);
	address = cut(&text, '?', &has_query);
	code = scheme == SCHEME_UNIX ? parse_unix(p, address) : parse_tcp(p, address);
	return code || !has_query ? code : parse_query(p, scheme, text);
}

static bool same_server(const struct redis_server *a, const struct redis_server *b)
{
	return strcmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0 && strcmp(a->path, b->path) == 0;
}

int redis_uri_parse(const char *text, const char *credentials, struct redis_server *out, size_t max, size_t *n,
		    struct lockshm_error *error)
{
	struct slice all = { text, strlen(text) };
	struct parse p = { .credentials = credentials, .error = error };
	bool more = true;
	size_t i;
	int code;

	*n = 0;
	while (more) {
		p.rest = cut(&all, ',', &more);
		p.number++;
		if (p.number > max)
			return error_set(error, LOCKSHM_INVALID, "more than %zu Redis servers", max);
		p.out = &out[p.number - 1];
		code = parse_uri(&p);
		if (code)
			return code;
		for (i = 0; i + 1 < p.number; i++)
			if (same_server(&out[i], p.out))
				return bad(&p, "is the same server as number %zu (%s)", i + 1, p.out->label);
	}
	*n = p.number;
	return 0;
}
