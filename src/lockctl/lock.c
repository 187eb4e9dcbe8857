/* SPDX-License-Identifier: MIT */
/*
 * lock.c - one lock as JSON, as porcelain lines, as a table row and as a human-readable page
 *
 * lockctl(1) documents the JSON fields and the order of the porcelain columns as stable.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

const char *const lock_titles[LOCK_COLUMNS] = { "KEY",      TABLE_MINOR "MODE",    TABLE_MINOR "HOLDERS", "WAITERS",
						"HELD FOR", TABLE_MINOR "EXPIRES", "HELD BY",		  "DAMAGE",
						TABLE_WHOLE "ID" };

const char *const request_titles[REQUEST_COLUMNS] = { "KEY", TABLE_MINOR "REQUEST", "OF",
						      TABLE_MINOR "MODE", "FOR", TABLE_MINOR "EXPIRES", "BEHIND", TABLE_WHOLE "ID" };

/** A tag is written by another process: its NUL may be missing. */
static size_t tag_length(const char *tag)
{
	return strnlen(tag, LOCKSHM_TAG_MAX);
}

static bool is_cut(const struct lock *lock)
{
	return lock->row.key_shown < lock->row.key_len;
}

static bool is_cooling(const struct request *request)
{
	return request->seen.state == LOCKSHM_COOLING;
}

static bool is_bargeable(const struct request *request)
{
	return request->seen.state == LOCKSHM_BARGEABLE;
}

/** The token, by which lockctl release ends it; where there is none, of a wait or on this host only, the ticket. */
static uint64_t number_of(const struct request *request)
{
	return request->seen.token ? request->seen.token : request->seen.ticket;
}

/** It is first on this host, and waits for the host lease. */
static bool awaits_host(const struct request *request)
{
	return request->seen.state == LOCKSHM_WAITING && request->global == 1;
}

/** Keys of the library begin so: the election of the bridge. */
#define INTERNAL "\0lockshm "

bool row_is_internal(const struct lockshm_row *row)
{
	size_t len = sizeof(INTERNAL) - 1;

	return row->key_shown >= len && memcmp(row->key, INTERNAL, len) == 0;
}

/* --- JSON -------------------------------------------------------------------------------------------- */

static void damage_json(struct json *json, const struct lock *lock)
{
	const struct lockshm_damage *damage = &lock->row.damage;

	if (!lock->row.damage.status) {
		json_null(json, "damage");
		return;
	}
	json_open(json, "damage", '{');
	json_text(json, "status", lockshm_code_name(damage->status));
	json_int(json, "pid", damage->pid);
	json_int(json, "tid", damage->tid);
	json_bytes(json, "tag", damage->tag, tag_length(damage->tag));
	json_uint(json, "token", damage->token);
	json_ms(json, "age_ms", damage->age_ns);
	json_close(json, '}');
}

static void request_json(struct json *json, const struct request *request)
{
	bool waiting = request->seen.state == LOCKSHM_WAITING;

	json_open(json, NULL, '{');
	json_int(json, "pid", request->seen.pid);
	json_int(json, "tid", request->seen.tid);
	json_bytes(json, "thread", request->seen.name, strnlen(request->seen.name, sizeof(request->seen.name)));
	json_bytes(json, "tag", request->seen.tag, tag_length(request->seen.tag));
	json_text(json, "mode", mode_name(request->seen.mode));
	json_uint(json, waiting ? "ticket" : "token", number_of(request));
	json_ms(json, waiting ? "waiting_ms" : "age_ms", request->seen.age_ns);
	if (!waiting) {
		json_ms(json, "expires_in_ms", request->seen.expires_in_ns);
		json_bool(json, "cooling", is_cooling(request));
		json_bool(json, "bargeable", is_bargeable(request));
	} else {
		json_bool(json, "waits_for_host", awaits_host(request));
	}
	json_bool(json, "alive", request->alive);
	json_close(json, '}');
}

static const char *lease_state(const struct lockshm_host_lease *lease)
{
	static const char *const names[] = {
		[LOCKSHM_HOST_LEASE_NONE] = "none",	     [LOCKSHM_HOST_LEASE_ACQUIRING] = "acquiring",
		[LOCKSHM_HOST_LEASE_HELD] = "held",	     [LOCKSHM_HOST_LEASE_CLOSING] = "closing",
		[LOCKSHM_HOST_LEASE_RELEASING] = "releasing", [LOCKSHM_HOST_LEASE_LOST] = "lost",
	};

	return names[lease->state];
}

/** Only of a key that was requested with LOCKSHM_GLOBAL. */
static void lease_json(struct json *json, const struct lockshm_host_lease *lease)
{
	if (!lease->state)
		return;
	json_open(json, "lease", '{');
	json_text(json, "state", lease_state(lease));
	json_text(json, "mode", mode_name(lease->mode));
	json_ms(json, "remaining_ms", lease->remaining_ns);
	json_ms(json, "blocked_ms", lease->blocked_ns < 0 ? LOCKSHM_FOREVER : lease->blocked_ns);
	json_uint(json, "next_token", lease->next_token);
	json_uint(json, "local_grants", lease->local_grants);
	json_uint(json, "other_hosts_waiting", lease->other_hosts_waiting);
	json_text(json, "value", lease->value);
	json_text(json, "why", *lease->why ? lease->why : NULL);
	json_ms(json, "why_age_ms", *lease->why ? lease->why_age_ns : LOCKSHM_FOREVER);
	json_close(json, '}');
}

static void requests_json(struct json *json, const char *name, const struct request *requests,
			  size_t n)
{
	json_open(json, name, '[');
	for (size_t i = 0; i < n; i++)
		request_json(json, &requests[i]);
	json_close(json, ']');
}

void lock_json(struct json *json, const struct lock *lock)
{
	char *id = format_id(lock->row.id), *escaped = format_word(lock->row.key, lock->row.key_shown);

	json_bytes(json, "key", lock->row.key, lock->row.key_shown);
	json_uint(json, "key_len", lock->row.key_len);
	json_bool(json, "key_cut", is_cut(lock));
	json_text(json, "key_escaped", escaped);
	json_text(json, "id", id);
	json_bool(json, "known", lock->row.known);
	json_text(json, "mode", mode_name(lock->mode));
	json_bool(json, "damaged", lock->row.damage.status != 0);
	damage_json(json, lock);
	requests_json(json, "holders", lock->requests, lock->holders);
	/* Without requests there is no array to offset into. */
	requests_json(json, "waiters", lock->waiters ? lock->requests + lock->holders : NULL, lock->waiters);
	json_bool(json, "global", lock->row.global);
	lease_json(json, &lock->row.lease);
	free(escaped);
	free(id);
}

/* --- Porcelain --------------------------------------------------------------------------------------- */

static void put_tag(FILE *out, const char *tag)
{
	fputc('\t', out);
	put_word(out, tag, tag_length(tag));
}

static void put_mode(FILE *out, int mode)
{
	const char *name = mode_name(mode);

	fprintf(out, "\t%s", name ? name : "-");
}

static void damage_porcelain(FILE *out, const struct lock *lock)
{
	const struct lockshm_damage *damage = &lock->row.damage;

	if (!lock->row.damage.status) {
		fputs("\t-\t-\t-\t-\t-\t-", out);
		return;
	}
	fprintf(out, "\t%s\t%" PRId32 "\t%" PRId32 "\t%" PRId64 "\t%" PRIu64, lockshm_code_name(damage->status),
		damage->pid, damage->tid, damage->age_ns, damage->token);
	put_tag(out, damage->tag);
}

static void request_porcelain(FILE *out, const struct lock *lock,
			      const struct request *request)
{
	fputs(request->seen.state == LOCKSHM_WAITING ? "waiter\t" :
	      is_cooling(request)		? "cooling\t" :
	      is_bargeable(request)		? "bargeable\t" :
						  "holder\t",
	      out);
	put_word(out, lock->row.key, lock->row.key_shown);
	fprintf(out, "\t%zu", lock->row.key_len);
	put_mode(out, request->seen.mode);
	fprintf(out, "\t%" PRId32 "\t%" PRId32 "\t%d\t%" PRIu64 "\t%" PRId64, request->seen.pid, request->seen.tid,
		!!request->alive, number_of(request), request->seen.age_ns);
	if (request->seen.expires_in_ns == LOCKSHM_FOREVER)
		fputs("\t-", out);
	else
		fprintf(out, "\t%" PRId64, request->seen.expires_in_ns);
	put_tag(out, request->seen.tag);
	fputc('\n', out);
}

void lock_porcelain(FILE *out, const struct lock *lock)
{
	fputs("lock\t", out);
	put_word(out, lock->row.key, lock->row.key_shown);
	fprintf(out, "\t%zu", lock->row.key_len);
	put_mode(out, lock->mode);
	fprintf(out, "\t%zu\t%zu", lock->holders, lock->waiters);
	damage_porcelain(out, lock);
	fprintf(out, "\t%016" PRIx64 "\n", lock->row.id);
	for (size_t i = 0; i < lock->holders + lock->waiters; i++)
		request_porcelain(out, lock, &lock->requests[i]);
}

/* --- Human-readable ---------------------------------------------------------------------------------- */

char *format_owner(int32_t pid, int32_t tid, const char *tag, bool alive)
{
	char *shown = visible(tag, tag_length(tag)), thread[16] = "", *text;

	if (tid != pid)
		snprintf(thread, sizeof(thread), "/%" PRId32, tid);
	text = format_text("%" PRId32 "%s%s%s%s%s", pid, thread, *shown ? " (" : "", shown, *shown ? ")" : "",
			   alive ? "" : " dead");
	free(shown);
	return text;
}

/** "cooling down (tag)": its owner is not kept. */
static char *format_cooldown(const struct request *request)
{
	char *tag = visible(request->seen.tag, tag_length(request->seen.tag));
	char *text = format_text("cooling down%s%s%s", *tag ? " (" : "", tag, *tag ? ")" : "");

	free(tag);
	return text;
}

static char *format_holder(const struct request *request)
{
	if (is_cooling(request))
		return format_cooldown(request);
	if (is_bargeable(request))
		return format_text("released, bargeable");
	return format_owner(request->seen.pid, request->seen.tid, request->seen.tag, request->alive);
}

#define NEWS_NS LOCKSHM_SECONDS(2) /* a lease that is awaited is tried more often */

/** What this host's lease waits for, "another host holds it: web-2 (9b1b6a9d2f0c4e57)", if that is known. */
static char *format_host_ahead(const struct lock *lock)
{
	const struct lockshm_host_lease *lease = &lock->row.lease;

	return *lease->why && lease->why_age_ns < NEWS_NS ? visible_line(lease->why) :
								     format_text("the lease of this host");
}

/** "4711 (job)", and how many more hold it, or wait before this one. */
static char *format_local_ahead(const struct lock *lock, size_t waiter)
{
	size_t more = lock->holders ? lock->holders - 1 : 0, before = waiter - lock->holders;
	char *holder = lock->holders ? format_holder(&lock->requests[0]) : format_text("nothing");
	char *others = more ? format_text(" and %zu more", more) : format_text("%s", "");
	char *waiters = before ? format_text(", waiters ahead: %zu", before) : format_text("%s", "");
	char *text = format_text("%s%s%s", holder, others, waiters);

	free(holder);
	free(others);
	free(waiters);
	return text;
}

static char *format_ahead(const struct lock *lock, size_t waiter)
{
	return awaits_host(&lock->requests[waiter]) ? format_host_ahead(lock) : format_local_ahead(lock, waiter);
}

void lock_row(struct table *table, const struct lock *lock)
{
	const struct request *oldest = lock->holders ? &lock->requests[0] : NULL;
	const char *mode = mode_name(lock->mode);

	table_add_own(table, format_key(lock->row.key, lock->row.key_shown, lock->row.key_len));
	table_add(table, mode ? mode : "-");
	table_add_own(table, format_text("%zu", lock->holders));
	table_add_own(table, format_text("%zu", lock->waiters));
	table_add_own(table, format_duration(oldest ? oldest->seen.age_ns : LOCKSHM_FOREVER));
	table_add_own(table, format_duration(oldest ? oldest->seen.expires_in_ns : LOCKSHM_FOREVER));
	table_add_own(table, oldest ? format_holder(oldest) : format_text("-"));
	table_add(table, lock->row.damage.status ? lockshm_code_name(lock->row.damage.status) : "-");
	table_add_own(table, is_cut(lock) ? format_id(lock->row.id) : format_text("-"));
}

void request_row(struct table *table, const struct lock *lock, size_t i)
{
	static const char *const states[] = { [LOCKSHM_WAITING] = "waits", [LOCKSHM_HOLDING] = "holds",
					      [LOCKSHM_COOLING] = "cooling", [LOCKSHM_BARGEABLE] = "bargeable" };
	const struct request *request = &lock->requests[i];
	const char *mode = mode_name(request->seen.mode);

	table_add_own(table, format_key(lock->row.key, lock->row.key_shown, lock->row.key_len));
	table_add(table, states[request->seen.state]);
	table_add_own(table, format_owner(request->seen.pid, request->seen.tid, request->seen.tag, request->alive));
	table_add(table, mode ? mode : "?");
	table_add_own(table, format_duration(request->seen.age_ns));
	table_add_own(table, format_duration(request->seen.expires_in_ns));
	table_add_own(table, request->seen.state == LOCKSHM_WAITING ? format_ahead(lock, i) : format_text("-"));
	table_add_own(table, is_cut(lock) ? format_id(lock->row.id) : format_text("-"));
}

char *format_mark(const struct lockshm_damage *damage)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;

	report.damage = *damage;
	return format_report(&report, 0);
}

static void requests_human(FILE *out, const struct request *requests, size_t n)
{
	bool waiting = n && requests[0].seen.state == LOCKSHM_WAITING;
	const char *const titles[] = { "OWNER", TABLE_MINOR "MODE", waiting ? TABLE_WHOLE "TICKET" : TABLE_WHOLE "TOKEN",
				       "FOR", TABLE_MINOR "EXPIRES", TABLE_MINOR "THREAD", "WAITS FOR" };
	struct table table;
	bool host = n && awaits_host(&requests[0]); /* the oldest first */

	table_begin(&table, 6 + host, titles);
	for (size_t i = 0; i < n; i++) {
		const struct lockshm_blocker *seen = &requests[i].seen;
		const char *mode = mode_name(seen->mode);

		table_add_own(&table, format_holder(&requests[i]));
		table_add(&table, mode ? mode : "?");
		table_add_own(&table, format_text("%" PRIu64, number_of(&requests[i])));
		table_add_own(&table, format_duration(seen->age_ns));
		table_add_own(&table, format_duration(seen->expires_in_ns));
		table_add_own(&table, visible(seen->name, strnlen(seen->name, sizeof(seen->name))));
		if (host)
			table_add(&table, awaits_host(&requests[i]) ? "host lease" : "requests ahead");
	}
	table_end(&table, out, "  ");
}

/** The host lease. */
static void lease_human(FILE *out, const struct lockshm_host_lease *lease)
{
	const char *mode = mode_name(lease->mode);
	char *left = format_duration(lease->remaining_ns);
	char *why = visible_line(lease->why), *age = format_duration(lease->why_age_ns);

	fprintf(out, "lease    %s%s%s", lease_state(lease), mode ? ", " : "", mode ? mode : "");
	if (lease->remaining_ns)
		fprintf(out, ", good for %s, holds so far: %" PRIu64 ", other hosts that wait: %" PRIu64, left,
			lease->local_grants, lease->other_hosts_waiting);
	if (*why)
		fprintf(out, "; last try, %s ago: %s", age, why);
	fputc('\n', out);
	free(left);
	free(age);
	free(why);
}

void lock_human(FILE *out, const struct lock *lock, const char *unknown)
{
	const char *mode = mode_name(lock->mode);
	char *key = format_key(lock->row.key, lock->row.key_shown, lock->row.key_len);

	fprintf(out, "key      %s (%zu byte%s)\n", key, lock->row.key_len, lock->row.key_len == 1 ? "" : "s");
	if (is_cut(lock))
		fprintf(out, "id       %016" PRIx64 ": show, release and ack take --id in place of KEY\n", lock->row.id);
	fprintf(out, "mode     %s%s%s\n", mode ? mode : "free", *unknown ? "; " : "", unknown);
	if (lock->row.global)
		fputs("global   every request, by the segment\n", out);
	if (lock->row.damage.status) {
		char *damage = format_mark(&lock->row.damage);

		fprintf(out, "damage   %s (%s); lockctl ack clears the mark\n", damage,
			lockshm_code_name(lock->row.damage.status));
		free(damage);
	}
	if (lock->row.lease.state)
		lease_human(out, &lock->row.lease);
	fprintf(out, "holders  %zu\n", lock->holders);
	if (lock->holders)
		requests_human(out, lock->requests, lock->holders);
	fprintf(out, "waiters  %zu", lock->waiters);
	if (lock->waiters) {
		char *ahead = format_ahead(lock, lock->holders);

		fprintf(out, ", in the order they will be granted, behind %s", ahead);
		free(ahead);
	}
	fputc('\n', out);
	if (lock->waiters)
		requests_human(out, lock->requests + lock->holders, lock->waiters);
	free(key);
}
