/* SPDX-License-Identifier: MIT */
/*
 * ls.c - lockctl ls: all segments of this machine, or the locks of one
 *
 * A damaged segment, or one of another version, is listed with the reason, and ls succeeds.  A file that the caller may
 * not read, or that does not begin as a segment does, is left out, since it need not be one; the human-readable list
 * ends with how many could not be read.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

enum { OPTION_JSON = 256, OPTION_PORCELAIN, OPTION_PID, OPTION_WAITING, OPTION_MIN_AGE, OPTION_SORT, OPTION_INTERNAL };

static const struct option options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "internal", no_argument, NULL, OPTION_INTERNAL },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "min-age", required_argument, NULL, OPTION_MIN_AGE },
	{ "pid", required_argument, NULL, OPTION_PID },
	{ "porcelain", no_argument, NULL, OPTION_PORCELAIN },
	{ "sort", required_argument, NULL, OPTION_SORT },
	{ "waiting", no_argument, NULL, OPTION_WAITING },
	{ NULL, 0, NULL, 0 } /* end */
};

enum sort { SORT_KEY, SORT_AGE, SORT_WAITERS };
static const char *const sort_names[] = { "key", "age", "waiters" };

/** The requests that are listed, or whose locks are. */
struct selection {
	int32_t pid;        /**< of this process; 0 = of any */
	bool waiting;       /**< only waits */
	int64_t min_age_ns; /**< holding or waiting at least that long */
	bool internal;      /**< also locks of the library's own */
	enum sort sort;
};

/** The output; only the member of the chosen format is in use. */
struct listing {
	enum format format;
	struct selection selection;
	struct json json;
	struct table table;
	struct circles circles;
};

/** @segment may be NULL; @array is the name of the JSON array. */
static void listing_begin(struct listing *listing, const char *segment, const char *array)
{
	listing->json = (struct json){ stdout, true };
	if (listing->format != FORMAT_JSON)
		return;
	json_open(&listing->json, NULL, '{');
	if (segment)
		json_segment(&listing->json, segment);
	json_open(&listing->json, array, '[');
}

static void listing_end(struct listing *listing)
{
	if (listing->format == FORMAT_JSON) {
		json_close(&listing->json, ']');
		json_close(&listing->json, '}');
		putchar('\n');
	} else if (listing->format == FORMAT_HUMAN) {
		table_sort(&listing->table);
		table_end(&listing->table, stdout, "");
	}
}

/* --- Segments ---------------------------------------------------------------------------------------- */

/** One segment, and what came of opening it. */
struct found {
	const struct lockshm_row *row;
	struct lockshm_error error;
	struct lockshm_stat stat; /**< if error.code is 0 */
};

static void look_into(struct found *found, const struct lockshm_row *row)
{
	lockshm_t *segment;

	*found = (struct found){ .row = row, .stat = LOCKSHM_STAT_INIT };
	if (lockshm_open(&segment, row->segment, LOCKSHM_OPEN_READ_ONLY | LOCKSHM_OPEN_ANY_OWNER, &found->error) != 0)
		return;
	(void)lockshm_stat(segment, &found->stat);
	lockshm_close(segment);
}

static void segment_json(struct json *json, const struct found *found, const char *owner)
{
	char permissions[8];

	snprintf(permissions, sizeof(permissions), "%04o", (unsigned)found->row->permissions);
	json_open(json, NULL, '{');
	json_text(json, "name", found->row->segment);
	json_text(json, "status", lockshm_code_name(found->error.code));
	json_text(json, "reason", found->error.code ? found->error.message : NULL);
	json_text(json, "owner", owner);
	json_uint(json, "uid", found->row->uid);
	json_uint(json, "gid", found->row->gid);
	json_text(json, "permissions", permissions);
	if (!found->error.code) {
		json_uint(json, "bytes", found->stat.bytes);
		json_uint(json, "keys", found->stat.keys);
		json_uint(json, "keys_known", found->stat.keys_known);
		json_uint(json, "keys_busy", found->stat.keys_busy);
		json_uint(json, "keys_damaged", found->stat.keys_damaged);
	}
	json_close(json, '}');
}

static void segment_porcelain(const struct found *found)
{
	put_word(stdout, found->row->segment, strlen(found->row->segment));
	printf("\t%s\t%u\t%u\t%04o", lockshm_code_name(found->error.code), (unsigned)found->row->uid,
	       (unsigned)found->row->gid, (unsigned)found->row->permissions);
	if (found->error.code)
		printf("\t-\t-\t-\t-\t-\n");
	else
		printf("\t%" PRIu64 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\n", found->stat.bytes,
		       found->stat.keys, found->stat.keys_known, found->stat.keys_busy, found->stat.keys_damaged);
}

static void segment_row(struct table *table, const struct found *found, const char *owner)
{
	bool good = !found->error.code;

	table_add_own(table, visible_line(found->row->segment));
	table_add_own(table, good ? format_text("%" PRIu32 "/%" PRIu32, found->stat.keys_busy, found->stat.keys) :
				    format_text("-"));
	table_add_own(table, format_text("%s", owner));
	table_add_own(table, format_text("%04o", (unsigned)found->row->permissions));
	table_add_own(table, good ? format_size(found->stat.bytes) : format_text("-"));
	table_add_own(table, good ? format_text("ok") : visible_line(found->error.message));
}

static void list_segment(struct listing *listing, const struct lockshm_row *row)
{
	struct found found;
	char *owner;

	look_into(&found, row);
	/* Removed meanwhile; without permission to read it, it may be no segment at all. */
	if (found.error.code == LOCKSHM_NO_SEGMENT || found.error.code == LOCKSHM_PERMISSION)
		return;
	owner = format_user(row->uid);
	if (listing->format == FORMAT_JSON)
		segment_json(&listing->json, &found, owner);
	else if (listing->format == FORMAT_PORCELAIN)
		segment_porcelain(&found);
	else
		segment_row(&listing->table, &found, owner);
	free(owner);
}

static int list_segments(enum format format)
{
	static const char *const titles[] = { "SEGMENT", "BUSY/KEYS", TABLE_MINOR "OWNER", TABLE_MINOR "PERMISSIONS",
					      TABLE_MINOR "SIZE", "STATUS" };
	struct listing listing = { .format = format };
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	int code = lockshm_list_open(&list, NULL, LOCKSHM_LIST_SEGMENTS, NULL, 0);

	listing_begin(&listing, NULL, "segments");
	if (format == FORMAT_HUMAN)
		table_begin(&listing.table, 6, titles);
	while (code == 0 && lockshm_list_next(list, &row) == 1)
		list_segment(&listing, &row);
	lockshm_list_close(list);
	listing_end(&listing);
	if (code < 0)
		return failed_listing(code);
	if (format == FORMAT_HUMAN)
		message_left_out();
	return EXIT_OK;
}

/* --- The locks of one -------------------------------------------------------------------------------- */

static bool is_selected(const struct selection *selection, const struct lockshm_blocker *request)
{
	return (!selection->pid || request->pid == selection->pid) &&
	       (!selection->waiting || request->state == LOCKSHM_WAITING) && request->age_ns >= selection->min_age_ns;
}

static bool selects_all(const struct selection *selection)
{
	return !selection->pid && !selection->waiting && !selection->min_age_ns;
}

/** Does the lock have a selected request?  Without a condition a damage mark is enough. */
static bool has_selected(const struct selection *selection, const struct lock *lock)
{
	if (row_is_internal(&lock->row) && !selection->internal)
		return false;
	for (size_t i = 0; i < lock->holders + lock->waiters; i++)
		if (is_selected(selection, &lock->requests[i].seen))
			return true;
	return selects_all(selection) && lock->row.damage.status;
}

static int64_t order_of(const struct selection *selection, const struct lock *lock, int64_t age_ns)
{
	switch (selection->sort) {
	case SORT_AGE:
		return age_ns;
	case SORT_WAITERS:
		return (int64_t)lock->waiters;
	default:
		return 0;
	}
}

/** A row for the lock, or with --pid and --waiting for each selected request. */
static void list_rows(struct listing *listing, const struct lock *lock)
{
	const struct selection *selection = &listing->selection;

	if (!selection->pid && !selection->waiting) {
		lock_row(&listing->table, lock);
		table_order(&listing->table,
			    order_of(selection, lock, lock->holders + lock->waiters ? lock->requests[0].seen.age_ns : 0));
		return;
	}
	for (size_t i = 0; i < lock->holders + lock->waiters; i++) {
		if (!is_selected(selection, &lock->requests[i].seen))
			continue;
		request_row(&listing->table, lock, i);
		table_order(&listing->table, order_of(selection, lock, lock->requests[i].seen.age_ns));
	}
	if (selection->waiting && !selection->pid)
		circles_add(&listing->circles, lock);
}

static void list_lock(struct listing *listing, const struct lock *lock)
{
	if (!has_selected(&listing->selection, lock))
		return;
	switch (listing->format) {
	case FORMAT_JSON:
		json_open(&listing->json, NULL, '{');
		lock_json(&listing->json, lock);
		json_close(&listing->json, '}');
		break;
	case FORMAT_PORCELAIN:
		lock_porcelain(stdout, lock);
		break;
	default:
		list_rows(listing, lock);
	}
}

/** Which keys are global without a flag of the request. */
static void print_global_keys(lockshm_t *segment)
{
	struct lockshm_bridge_stat stat = LOCKSHM_BRIDGE_STAT_INIT;
	char *keys;

	if (lockshm_bridge_stat(segment, &stat) < 0 || !*stat.global_keys)
		return;
	keys = visible_line(stat.global_keys);
	printf("global for every request, by prefix: %s\n", keys);
	free(keys);
}

static int list_locks(lockshm_t *segment, const char *name, struct listing *listing)
{
	bool requests = listing->selection.pid || listing->selection.waiting;
	struct lock lock = LOCK_INIT;
	lockshm_list_t *list;
	int code = lockshm_list_open(&list, segment, LOCKSHM_LIST_BUSY, NULL, 0);

	listing_begin(listing, name, "locks");
	if (listing->format == FORMAT_HUMAN)
		table_begin(&listing->table, requests ? REQUEST_COLUMNS : LOCK_COLUMNS,
			    requests ? request_titles : lock_titles);
	while (code >= 0 && (code = lock_next(list, &lock)) == 1)
		list_lock(listing, &lock);
	lock_free(&lock);
	lockshm_list_close(list);
	listing_end(listing);
	if (listing->format == FORMAT_HUMAN)
		print_global_keys(segment);
	circles_end(&listing->circles, stdout);
	return code < 0 ? failed(code, NULL) : EXIT_OK;
}

/* --- Arguments --------------------------------------------------------------------------------------- */

static enum sort parse_sort(const char *text)
{
	for (int sort = SORT_KEY; sort <= SORT_WAITERS; sort++)
		if (!strcmp(text, sort_names[sort]))
			return sort;
	usage_error("--sort: '%s' is not key, age or waiters", text);
}

static void set_option(struct listing *listing, int option)
{
	switch (option) {
	case OPTION_JSON:
		listing->format = FORMAT_JSON;
		break;
	case OPTION_PORCELAIN:
		listing->format = FORMAT_PORCELAIN;
		break;
	case OPTION_PID:
		listing->selection.pid = (int32_t)args_number("--pid", optarg, 1, INT32_MAX);
		break;
	case OPTION_WAITING:
		listing->selection.waiting = true;
		break;
	case OPTION_MIN_AGE:
		listing->selection.min_age_ns = args_duration("--min-age", optarg, DURATION_FINITE);
		break;
	case OPTION_INTERNAL:
		listing->selection.internal = true;
		break;
	case OPTION_SORT:
		listing->selection.sort = parse_sort(optarg);
		break;
	}
}

int lockctl_ls(int argc, char **argv)
{
	struct listing listing = { .format = FORMAT_HUMAN };
	lockshm_t *segment;
	const char *name;
	int status;

	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;)
		set_option(&listing, option);
	if (listing.selection.sort && listing.format != FORMAT_HUMAN)
		usage_error("--sort is for the table: leave out --json and --porcelain");
	if (optind == argc) {
		if (!selects_all(&listing.selection) || listing.selection.sort || listing.selection.internal)
			usage_error("NAME is missing: --pid, --waiting, --min-age, --sort and --internal are for the locks of "
				    "one segment");
		return list_segments(listing.format);
	}
	name = args_segment(argc, argv);
	args_end(argc, argv);
	status = open_to_look(&segment, name);
	if (status)
		return status;
	status = list_locks(segment, name, &listing);
	lockshm_close(segment);
	return status;
}
