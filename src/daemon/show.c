/* SPDX-License-Identifier: MIT */
/*
 * show.c - lockshm-bridge show: one key in Redis, as a JSON array, as porcelain lines and as a human-readable page
 *
 * A server that does not reply is shown with the reason: the state on this host, which lockctl show prints above it, is
 * useful without.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/daemon.h"

static const char *state_name(int state)
{
	switch (state) {
	case REMOTE_FREE:
		return "free";
	case REMOTE_EXCLUSIVE:
		return "exclusive";
	case REMOTE_SHARED:
		return "shared";
	default:
		return "other";
	}
}

/* --- Names of hosts ---------------------------------------------------------------------------------- */

static struct {
	lockshm_t *segment;
	int64_t deadline;
	bool read;
} hosts;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * LOCKSHM_SECONDS(1) + now.tv_nsec;
}

/** Of the party's host; "" = not known.  The list is read only if a host is to be named, in the time that is left. */
static void name_of(const struct remote_party *party, char out[HOST_NAME_LONGEST + 1])
{
	int64_t left = hosts.deadline - now_ns();
	struct host_self self;
	bool refused = false;

	*out = '\0';
	if (!*party->host)
		return;
	if (!hosts.read && left > LOCKSHM_MS(20)) {
		host_self_make(&self, hosts.segment, NULL);
		(void)hosts_visit(&self, false, left / 2, hosts_remember, NULL, &refused);
	}
	hosts.read = true;
	(void)host_name(party->host, out);
}

/* --- JSON -------------------------------------------------------------------------------------------- */

static void party_json(struct json *json, const char *name, const struct remote_party *party, bool waits)
{
	char host_name[HOST_NAME_LONGEST + 1];

	if (!party) {
		json_null(json, name);
		return;
	}
	json_open(json, name, '{');
	name_of(party, host_name);
	json_text(json, "host", *party->host ? party->host : NULL);
	json_text(json, "host_name", *host_name ? host_name : NULL);
	json_bool(json, "this_host", party->this_host);
	json_text(json, "mode", mode_name(party->mode));
	json_ms(json, "expires_in_ms", party->expires_in_ns);
	if (!waits)
		json_bytes(json, "value", party->value, party->value_len);
	json_close(json, '}');
}

static void parties_json(struct json *json, const char *name, const struct remote_party *const *parties,
			 size_t n, bool wait)
{
	json_open(json, name, '[');
	for (size_t i = 0; i < n; i++)
		party_json(json, NULL, parties[i], wait);
	json_close(json, ']');
}

static const char *damage_name(const struct remote_damage *damage)
{
	return damage->status == LOCKSHM_OWNER_DIED ? "OWNER_DIED" : "TOOK_OVER_EXPIRED";
}

static void damage_json(struct json *json, const struct remote_damage *damage)
{
	if (!damage->status) {
		json_null(json, "damage");
		return;
	}
	json_open(json, "damage", '{');
	json_text(json, "status", damage_name(damage));
	json_text(json, "host", *damage->host ? damage->host : NULL);
	json_uint(json, "pid", damage->pid);
	json_uint(json, "token", damage->last);
	json_close(json, '}');
}

static int server_json(const struct remote_info *info, void *arg)
{
	struct json *json = arg;

	json_open(json, NULL, '{');
	json_text(json, "server", info->server);
	json_text(json, "error", info->code ? info->reason : NULL);
	if (!info->code) {
		json_bytes(json, "name", info->name, info->name_len);
		json_text(json, "state", state_name(info->state));
		json_text(json, "type", info->type);
		json_uint(json, "next_token", info->next_token);
		parties_json(json, "holders", info->parties, info->holders, false);
		parties_json(json, "waiters", info->waiters ? info->parties + info->holders : NULL, info->waiters, true);
		party_json(json, "mark", info->mark, false);
		damage_json(json, &info->damage);
	}
	json_close(json, '}');
	return 0;
}

/* --- Porcelain --------------------------------------------------------------------------------------- */

static void put_time(FILE *out, int64_t ns)
{
	if (ns == LOCKSHM_FOREVER)
		fputs("\t-", out);
	else
		fprintf(out, "\t%" PRId64, ns);
}

static void put_column(FILE *out, const char *bytes, size_t len)
{
	fputc('\t', out);
	put_word(out, bytes, len);
}

static void party_porcelain(FILE *out, const char *what, const struct remote_info *info,
			    const struct remote_party *party)
{
	char host_name[HOST_NAME_LONGEST + 1];

	name_of(party, host_name);
	fputs(what, out);
	put_column(out, info->server, strlen(info->server));
	put_column(out, party->host, strlen(party->host));
	fprintf(out, "\t%d\t%s", !!party->this_host, mode_name(party->mode));
	put_time(out, party->expires_in_ns);
	put_column(out, party->value, party->value_len);
	fprintf(out, "\t%s", *host_name ? host_name : "-");
	fputc('\n', out);
}

static void damage_porcelain(FILE *out, const struct remote_info *info)
{
	const struct remote_damage *damage = &info->damage;

	fputs("redis-damage", out);
	put_column(out, info->server, strlen(info->server));
	put_column(out, damage->host, strlen(damage->host));
	fprintf(out, "\t%s\t%u\t%" PRIu64 "\n", damage_name(damage), damage->pid, damage->last);
}

static int server_porcelain(const struct remote_info *info, void *arg)
{
	FILE *out = arg;

	fputs("redis", out);
	put_column(out, info->server, strlen(info->server));
	fprintf(out, "\t%s\t%zu\t%zu\t%" PRIu64, info->code ? "-" : state_name(info->state), info->holders, info->waiters,
		info->next_token);
	put_column(out, info->reason, strlen(info->reason));
	fputc('\n', out);
	for (size_t i = 0; i < info->holders + info->waiters; i++)
		party_porcelain(out, i < info->holders ? "redis-holder" : "redis-waiter", info, info->parties[i]);
	if (info->mark)
		party_porcelain(out, "redis-mark", info, info->mark);
	if (info->damage.status)
		damage_porcelain(out, info);
	return 0;
}

/* --- Human-readable ---------------------------------------------------------------------------------- */

static char *format_party(const struct remote_party *party)
{
	char host_name[HOST_NAME_LONGEST + 1];

	name_of(party, host_name);
	return format_text("%s%s%s%s", host_name, *host_name ? " " : "", *party->host ? party->host : "another program",
			   party->this_host ? " (this host)" : "");
}

static char *format_end(int64_t ns)
{
	return ns == LOCKSHM_FOREVER ? format_text("never") : format_duration(ns);
}

static void parties_human(FILE *out, const char *title, const struct remote_party *const *parties, size_t n,
			  bool wait)
{
	const char *const titles[] = { title, "MODE", "EXPIRES", "VALUE" };
	struct table table;

	if (!n)
		return;
	table_begin(&table, wait ? 3 : 4, titles);
	for (size_t i = 0; i < n; i++) {
		table_add_own(&table, format_party(parties[i]));
		table_add(&table, mode_name(parties[i]->mode) ? mode_name(parties[i]->mode) : "?");
		table_add_own(&table, format_end(parties[i]->expires_in_ns));
		if (!wait)
			table_add_own(&table, visible(parties[i]->value, parties[i]->value_len));
	}
	table_end(&table, out, "  ");
}

static char *format_state(const struct remote_info *info)
{
	char *type, *text;

	if (info->state != REMOTE_OTHER)
		return format_text("%s", state_name(info->state));
	type = visible_line(info->type);
	text = format_text("data of type %s, not a lock", type);
	free(type);
	return text;
}

char *format_damage(const struct remote_damage *damage)
{
	const char *what = damage->status == LOCKSHM_OWNER_DIED ? "a holder died" : "a holder or its host lost the lock";
	char *pid = damage->pid ? format_text(", pid %u", damage->pid) : format_text("%s", "");
	char *text = format_text("%s%s%s%s", what, *damage->host ? ": host " : "", damage->host, pid);

	free(pid);
	return text;
}

static void damage_human(FILE *out, const struct remote_damage *damage)
{
	char *text = format_damage(damage);

	fprintf(out, "  damaged: %s\n", text);
	free(text);
}

static int server_human(const struct remote_info *info, void *arg)
{
	char *text = info->code ? visible_line(info->reason) : format_state(info);
	char *server = visible_line(info->server);
	FILE *out = arg;

	/* The library's messages begin with the server. */
	fprintf(out, "redis    %s%s%s\n", info->code ? "" : server, info->code ? "" : ": ", text);
	if (!info->code) {
		parties_human(out, "HELD BY", info->parties, info->holders, false);
		if (info->mark)
			parties_human(out, "INTENT OF", &info->mark, 1, false);
		if (info->damage.status)
			damage_human(out, &info->damage);
		parties_human(out, "WAITING, IN ORDER", info->waiters ? info->parties + info->holders : NULL,
			       info->waiters, true);
	}
	free(server);
	free(text);
	return 0;
}

/* --- The command ------------------------------------------------------------------------------------- */

/** Call @fn for each server, or once with the reason if the look-up fails. */
static int each_server(lockshm_t *segment, struct key key, remote_fn fn, void *arg)
{
	struct lockshm_error error = { 0 };
	struct remote_info info = { .server = "-", .code = LOCKSHM_BRIDGE };
	int code = remote_inspect(segment, key.bytes, key.len, REMOTE_TIMEOUT, fn, arg, &error);

	if (code == LOCKSHM_INVALID || code == LOCKSHM_KEY_TOO_LONG)
		return failed(code, &error);
	if (code < 0) {
		info.reason = *error.message ? error.message : lockshm_strerror(code);
		fn(&info, arg);
	}
	return EXIT_OK;
}

static int print_key(lockshm_t *segment, struct key key, enum format format)
{
	struct json json = { stdout, true };
	int status;

	switch (format) {
	case FORMAT_JSON:
		json_open(&json, NULL, '[');
		status = each_server(segment, key, server_json, &json);
		json_close(&json, ']');
		putchar('\n');
		return status;
	case FORMAT_PORCELAIN:
		return each_server(segment, key, server_porcelain, stdout);
	default:
		return each_server(segment, key, server_human, stdout);
	}
}

int daemon_show(int argc, char **argv)
{
	struct key_command command = { .looks = true };
	int status = key_command_begin(&command, argc, argv);

	if (status)
		return status;
	hosts.segment = command.segment;
	hosts.deadline = now_ns() + REMOTE_TIMEOUT;
	status = print_key(command.segment, command.key, command.format);
	lockshm_close(command.segment);
	return status;
}
