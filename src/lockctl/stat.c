/* SPDX-License-Identifier: MIT */
/*
 * stat.c - lockctl stat: capacities, use and event counts of a segment, for a metrics collector also of all
 *
 * All three formats are printed from one table, in its order.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lockctl/lockctl.h"

enum { OPTION_JSON = 256, OPTION_OPENMETRICS };

static const struct option options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "openmetrics", no_argument, NULL, OPTION_OPENMETRICS },
	{ NULL, 0, NULL, 0 } /* end */
};

enum kind {
	KIND_GAUGE,
	KIND_BYTES,
	KIND_TIME, /**< nanoseconds */
	KIND_DATE, /**< nanoseconds since 1970 */
	KIND_COUNTER
};

/** One field of the structs of counts. */
struct field {
	const char *name;   /**< in JSON and in the human-readable table */
	const char *metric; /**< in OpenMetrics, without _total; NULL = left out */
	enum kind kind;
	size_t offset;
	size_t size;
	const char *help;
};

#define FIELD(name, metric, kind, help)                                                                                \
	{ #name, metric, kind, offsetof(struct lockshm_stat, name), sizeof(((struct lockshm_stat *)0)->name), help }

static const struct field fields[] = {
	FIELD(bytes, "lockshm_segment_bytes", KIND_BYTES, "Size of the segment."),
	FIELD(created_unix_ns, "lockshm_segment_birth_seconds", KIND_DATE, "When the segment was made, since 1970."),
	FIELD(token_base, NULL, KIND_GAUGE, "Every token is larger."),
	FIELD(keys, "lockshm_keys_capacity", KIND_GAUGE, "Keys that have room at once."),
	FIELD(keys_known, "lockshm_keys_known", KIND_GAUGE, "Keys remembered, in use or idle: up to half as many again as there is room for."),
	FIELD(keys_busy, "lockshm_keys_busy", KIND_GAUGE, "Keys that live threads hold or await, or that cool down."),
	FIELD(keys_left, "lockshm_keys_left", KIND_GAUGE, "Keys with requests of dead threads only."),
	FIELD(keys_damaged, "lockshm_keys_damaged", KIND_GAUGE, "Keys with an unacknowledged damage mark."),
	FIELD(requests, "lockshm_requests_capacity", KIND_GAUGE, "Request records the segment has."),
	FIELD(requests_reserved, "lockshm_requests_reserved", KIND_GAUGE, "Request records reserved by threads."),
	FIELD(requests_used, "lockshm_requests_used", KIND_GAUGE, "Request records that hold or wait."),
	FIELD(owners, "lockshm_owners_capacity", KIND_GAUGE, "Threads the segment has room for."),
	FIELD(owners_used, "lockshm_owners_used", KIND_GAUGE, "Threads that have a slot."),
	FIELD(owners_dead, "lockshm_owners_dead", KIND_GAUGE, "Slots of dead threads not yet freed."),
	FIELD(acquires, "lockshm_acquires", KIND_COUNTER, "Locks granted."),
	FIELD(waits, "lockshm_waits", KIND_COUNTER, "Locks granted after a wait."),
	FIELD(timeouts, "lockshm_timeouts", KIND_COUNTER, "Requests that timed out or were cancelled."),
	FIELD(tries_failed, "lockshm_tries_failed", KIND_COUNTER, "Requests that were refused at once: not free."),
	FIELD(deadlocks, "lockshm_deadlocks", KIND_COUNTER, "Requests refused as deadlocks."),
	FIELD(refused_keys, "lockshm_refused_keys", KIND_COUNTER, "Refused: no room for the key; more --keys, or ack marks."),
	FIELD(refused_requests, "lockshm_refused_requests", KIND_COUNTER, "Refused: no request record; more --requests."),
	FIELD(refused_owners, "lockshm_refused_owners", KIND_COUNTER, "Refused: no slot for the thread; more --owners."),
	FIELD(refused_tickets, "lockshm_refused_tickets", KIND_COUNTER, "Refused: the key's numbers are used up; create anew."),
	FIELD(refused_host_leases, "lockshm_refused_host_leases", KIND_COUNTER, "Refused: no lease for the key; more --host-leases."),
	FIELD(lost, "lockshm_lost", KIND_COUNTER, "Holds whose owner got LOST."),
	FIELD(recovered, "lockshm_recovered", KIND_COUNTER, "Holds of dead owners that were reaped."),
	FIELD(expired, "lockshm_expired", KIND_COUNTER, "Holds taken away because their lease had expired."),
	{ NULL, NULL, KIND_GAUGE, 0, 0, NULL } /* end */
};

/** What requests are in the way or wait at this moment; the locks of the library's own are left out. */
struct queues {
	uint64_t oldest_hold_ns;
	uint64_t oldest_wait_ns;
	uint64_t longest_queue;
};

#define QUEUES(name, metric, kind, help)                                                                               \
	{ #name, metric, kind, offsetof(struct queues, name), sizeof(((struct queues *)0)->name), help }

static const struct field queue_fields[] = {
	QUEUES(oldest_hold_ns, "lockshm_oldest_hold_seconds", KIND_TIME, "Age of the oldest hold of a live thread, 0 = none."),
	QUEUES(oldest_wait_ns, "lockshm_oldest_wait_seconds", KIND_TIME, "Age of the oldest wait, 0 = none."),
	QUEUES(longest_queue, "lockshm_longest_queue", KIND_GAUGE, "Most requests that wait for one key."),
	{ NULL, NULL, KIND_GAUGE, 0, 0, NULL } /* end */
};

#define BRIDGE(name, metric, kind, help)                                                                               \
	{ "bridge_" #name, metric, kind, offsetof(struct lockshm_bridge_stat, name),                                   \
	  sizeof(((struct lockshm_bridge_stat *)0)->name), help }

static const struct field bridge_fields[] = {
	BRIDGE(pid, "lockshm_bridge_pid", KIND_GAUGE, "Process that is the bridge, 0 = none."),
	BRIDGE(host_leases, "lockshm_bridge_host_leases_capacity", KIND_GAUGE, "Global keys the segment has room for."),
	BRIDGE(host_leases_known, "lockshm_bridge_host_leases_known", KIND_GAUGE, "Global keys the segment remembers."),
	BRIDGE(host_leases_held, "lockshm_bridge_host_leases_held", KIND_GAUGE, "Leases this host has in Redis."),
	BRIDGE(acquired, "lockshm_bridge_acquired", KIND_COUNTER, "Leases obtained."),
	BRIDGE(renewed, "lockshm_bridge_renewed", KIND_COUNTER, "Leases renewed."),
	BRIDGE(released, "lockshm_bridge_released", KIND_COUNTER, "Leases released."),
	BRIDGE(lost, "lockshm_bridge_lost", KIND_COUNTER, "Leases lost."),
	BRIDGE(commands, "lockshm_bridge_commands", KIND_COUNTER, "Scripts sent to Redis."),
	BRIDGE(errors, "lockshm_bridge_errors", KIND_COUNTER, "Scripts without a reliable reply."),
	BRIDGE(grants, "lockshm_bridge_grants", KIND_COUNTER, "Holds granted under leases."),
	{ NULL, NULL, KIND_GAUGE, 0, 0, NULL } /* end */
};

/** All counts of a segment; without Redis @bridge.servers is empty. */
struct counts {
	const char *name;
	struct lockshm_stat stat;
	struct queues queues;
	struct lockshm_bridge_stat bridge;
};

static const struct field *const tables[] = { fields, queue_fields, bridge_fields };
#define TABLES (sizeof(tables) / sizeof(tables[0]))

/** Where the values of a table are; NULL = the segment has none. */
static const void *base_of(const struct counts *counts, const struct field *table)
{
	return table == fields		? (const void *)&counts->stat :
	       table == queue_fields	? (const void *)&counts->queues :
	       *counts->bridge.servers	? (const void *)&counts->bridge :
					  NULL;
}

static uint64_t value_of(const void *base, const struct field *field)
{
	const char *at = (const char *)base + field->offset;

	return field->size == sizeof(uint32_t) ? *(const uint32_t *)(const void *)at :
						 *(const uint64_t *)(const void *)at;
}

static void print_json(const struct counts *counts)
{
	struct json json = { stdout, true };

	json_open(&json, NULL, '{');
	json_segment(&json, counts->name);
	for (size_t i = 0; i < TABLES; i++) {
		const void *base = base_of(counts, tables[i]);

		for (const struct field *field = tables[i]; base && field->name; field++)
			json_uint(&json, field->name, value_of(base, field));
	}
	if (*counts->bridge.servers) {
		json_text(&json, "bridge_servers", counts->bridge.servers);
		json_text(&json, "bridge_prefix", counts->bridge.prefix);
		json_text(&json, "redis_host", counts->bridge.host);
		json_text(&json, "global_keys", *counts->bridge.global_keys ? counts->bridge.global_keys : NULL);
		json_text(&json, "bridge_policy", policy_name(counts->bridge.policy));
		json_bool(&json, "redis_quorum", counts->bridge.quorum);
		json_ms(&json, "bridge_ttl_ms", counts->bridge.ttl_ns);
		json_ms(&json, "bridge_retain_ms", counts->bridge.retain_ns);
		json_ms(&json, "bridge_gap_ms", counts->bridge.gap_ns);
		json_uint(&json, "bridge_wait", counts->bridge.wait);
	}
	json_close(&json, '}');
	putchar('\n');
}

/* --- OpenMetrics: the samples of one family are adjacent, also those of several segments ---------------- */

static void print_family(const struct field *field)
{
	static const char *const units[] = { [KIND_BYTES] = "bytes", [KIND_TIME] = "seconds",
					      [KIND_DATE] = "seconds", [KIND_COUNTER] = NULL };

	printf("# TYPE %s %s\n", field->metric, field->kind == KIND_COUNTER ? "counter" : "gauge");
	if (units[field->kind])
		printf("# UNIT %s %s\n", field->metric, units[field->kind]);
	printf("# HELP %s %s\n", field->metric, field->help);
}

/** The name consists of letters, digits, '.', '_' and '-', or opening it would have failed: no escapes needed. */
static void print_sample(const char *name, const struct field *field, uint64_t value)
{
	const char *slash = *name == '/' ? "" : "/";

	printf("%s%s{segment=\"%s%s\"} ", field->metric, field->kind == KIND_COUNTER ? "_total" : "", slash, name);
	if (field->kind == KIND_TIME || field->kind == KIND_DATE)
		printf("%" PRIu64 ".%09" PRIu64 "\n", value / 1000000000, value % 1000000000);
	else
		printf("%" PRIu64 "\n", value);
}

/** All segments of @list that have the table. */
static void print_families(const struct field *table, const struct counts *list, size_t n)
{
	for (const struct field *field = table; field->name; field++) {
		bool begun = false;

		for (size_t i = 0; field->metric && i < n; i++) {
			const void *base = base_of(&list[i], table);

			if (!base)
				continue;
			if (!begun)
				print_family(field);
			begun = true;
			print_sample(list[i].name, field, value_of(base, field));
		}
	}
}

static void print_openmetrics(const struct counts *list, size_t n)
{
	for (size_t i = 0; i < TABLES; i++)
		print_families(tables[i], list, n);
	puts("# EOF");
}

/** Without the unit, which the value has. */
static char *human_name(const struct field *field)
{
	const char *unit = field->kind == KIND_TIME ? strstr(field->name, "_ns") :
			   field->kind == KIND_DATE ? strstr(field->name, "_unix_ns") : NULL;

	return format_text("%.*s", (int)(unit ? (size_t)(unit - field->name) : strlen(field->name)), field->name);
}

static char *format_date(uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	char text[40] = "?";
	struct tm date;

	if (gmtime_r(&seconds, &date))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &date);
	return format_text("%s", text);
}

static char *human_value(const struct field *field, uint64_t value)
{
	switch (field->kind) {
	case KIND_BYTES:
		return format_size(value);
	case KIND_DATE:
		return format_date(value);
	case KIND_TIME:
		return value ? format_duration((int64_t)value) : format_text("-");
	default:
		return format_text("%" PRIu64, value);
	}
}

static void print_human(const struct counts *counts)
{
	static const char *const titles[] = { "NAME", "VALUE", "MEANING" };
	struct table table;

	table_begin(&table, 3, titles);
	for (size_t i = 0; i < TABLES; i++) {
		const void *base = base_of(counts, tables[i]);

		for (const struct field *field = tables[i]; base && field->name; field++) {
			table_add_own(&table, human_name(field));
			table_add_own(&table, human_value(field, value_of(base, field)));
			table_add(&table, field->help);
		}
	}
	if (*counts->bridge.global_keys) {
		table_add(&table, "global_keys");
		table_add_own(&table, visible_line(counts->bridge.global_keys));
		table_add(&table, "Keys that are global for every request: these prefixes, or * for all.");
	}
	table_end(&table, stdout, "");
}

/* --- Segments ---------------------------------------------------------------------------------------- */

static void raise_to(uint64_t *most, uint64_t value)
{
	if (value > *most)
		*most = value;
}

/** @waiters: of its key so far */
static void add_request(struct queues *queues, const struct lockshm_row *row, uint64_t *waiters)
{
	uint64_t age_ns = row->request.age_ns > 0 ? (uint64_t)row->request.age_ns : 0;

	if (!row->alive || row_is_internal(row))
		return;
	if (row->request.state == LOCKSHM_HOLDING)
		raise_to(&queues->oldest_hold_ns, age_ns);
	if (row->request.state != LOCKSHM_WAITING)
		return;
	raise_to(&queues->oldest_wait_ns, age_ns);
	raise_to(&queues->longest_queue, ++*waiters);
}

static int get_queues(struct queues *queues, lockshm_t *segment)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	uint64_t waiters = 0;
	int code = lockshm_list_open(&list, segment, LOCKSHM_LIST_BUSY, NULL, 0);

	while (code == 0 && (code = lockshm_list_next(list, &row)) == 1) {
		if (!row.request.state)
			waiters = 0;
		else
			add_request(queues, &row, &waiters);
		code = 0;
	}
	lockshm_list_close(list);
	return code;
}

/** Return: EXIT_OK, or the exit status after a message. */
static int get_counts(struct counts *counts, const char *name)
{
	lockshm_t *segment;
	int status = open_to_look(&segment, name), code;

	if (status)
		return status;
	counts->name = name;
	counts->stat = (struct lockshm_stat)LOCKSHM_STAT_INIT;
	counts->bridge = (struct lockshm_bridge_stat)LOCKSHM_BRIDGE_STAT_INIT;
	counts->queues = (struct queues){ 0, 0, 0 };
	code = lockshm_stat(segment, &counts->stat);
	if (code >= 0)
		code = get_queues(&counts->queues, segment);
	if (code >= 0)
		code = lockshm_bridge_stat(segment, &counts->bridge);
	lockshm_close(segment);
	return code < 0 ? failed(code, NULL) : EXIT_OK;
}

/** The samples of those that can be read; each of the others has a message and counts for the exit status. */
static int print_several(char **names, size_t n)
{
	struct counts *list = checked(calloc(n + 1, sizeof(*list)));
	int status, worst = EXIT_OK;
	size_t read = 0;

	for (size_t i = 0; i < n; i++) {
		subject_segment(names[i]);
		status = get_counts(&list[read], names[i]);
		if (status)
			worst = status;
		else
			read++;
	}
	print_openmetrics(list, read);
	free(list);
	return worst;
}

static int print_all(void)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	char **names = NULL;
	size_t n = 0;
	int code = lockshm_list_open(&list, NULL, LOCKSHM_LIST_SEGMENTS, NULL, 0), status;

	while (code == 0 && lockshm_list_next(list, &row) == 1) {
		names = checked(reallocarray(names, n + 1, sizeof(*names)));
		names[n++] = format_text("%s", row.segment);
	}
	lockshm_list_close(list);
	status = code < 0 ? failed(code, NULL) : print_several(names, n);
	while (n > 0)
		free(names[--n]);
	free(names);
	return status;
}

static int print_one(const char *name, enum format format)
{
	struct counts counts;
	int status = get_counts(&counts, name);

	if (status)
		return status;
	if (format == FORMAT_JSON)
		print_json(&counts);
	else
		print_human(&counts);
	return EXIT_OK;
}

int lockctl_stat(int argc, char **argv)
{
	enum format format = FORMAT_HUMAN;
	const char *name;

	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;)
		format = option == OPTION_JSON ? FORMAT_JSON : FORMAT_OPENMETRICS;
	if (format != FORMAT_OPENMETRICS) {
		name = args_segment(argc, argv);
		args_end(argc, argv);
		return print_one(name, format);
	}
	for (int i = optind; i < argc; i++)
		if (!*argv[i])
			usage_error("NAME is empty");
	return optind < argc ? print_several(argv + optind, (size_t)(argc - optind)) : print_all();
}
