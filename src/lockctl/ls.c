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

/** Output of the callbacks; only the member of the chosen format is in use. */
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

static void segment_json(struct json *json, const struct lockshm_segment_info *info, const char *owner)
{
	char mode[8];

	snprintf(mode, sizeof(mode), "%04o", (unsigned)info->mode & 07777);
	json_open(json, NULL, '{');
	json_text(json, "name", info->name);
	json_text(json, "status", lockshm_code_name(info->code));
	json_text(json, "reason", info->code ? info->reason : NULL);
	json_text(json, "owner", owner);
	json_uint(json, "uid", info->uid);
	json_uint(json, "gid", info->gid);
	json_text(json, "mode", mode);
	if (!info->code) {
		json_uint(json, "bytes", info->stat->bytes);
		json_uint(json, "locks", info->stat->locks);
		json_uint(json, "locks_known", info->stat->locks_known);
		json_uint(json, "locks_busy", info->stat->locks_busy);
		json_uint(json, "locks_damaged", info->stat->locks_damaged);
	}
	json_close(json, '}');
}

static void segment_porcelain(const struct lockshm_segment_info *info)
{
	put_word(stdout, info->name, strlen(info->name));
	printf("\t%s\t%u\t%u\t%04o", lockshm_code_name(info->code), (unsigned)info->uid, (unsigned)info->gid,
	       (unsigned)info->mode & 07777);
	if (info->code)
		printf("\t-\t-\t-\t-\t-\n");
	else
		printf("\t%" PRIu64 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\n", info->stat->bytes,
		       info->stat->locks, info->stat->locks_known, info->stat->locks_busy, info->stat->locks_damaged);
}

static void segment_row(struct table *table, const struct lockshm_segment_info *info, char *owner)
{
	table_add_own(table, visible_line(info->name));
	if (info->code)
		table_add(table, "-");
	else
		table_add_own(table, format_text("%" PRIu32 "/%" PRIu32, info->stat->locks_busy, info->stat->locks));
	table_add_own(table, owner);
	table_add_own(table, format_text("%04o", (unsigned)info->mode & 07777));
	table_add_own(table, info->code ? format_text("-") : format_size(info->stat->bytes));
	table_add_own(table, info->code ? visible_line(info->reason) : format_text("ok"));
}

static int list_segment(const struct lockshm_segment_info *info, void *arg)
{
	struct listing *listing = arg;
	char *owner = format_user(info->uid);

	switch (listing->format) {
	case FORMAT_JSON:
		segment_json(&listing->json, info, owner);
		break;
	case FORMAT_PORCELAIN:
		segment_porcelain(info);
		break;
	default:
		segment_row(&listing->table, info, owner);
		return 0;
	}
	free(owner);
	return 0;
}

static int list_segments(enum format format)
{
	static const char *const titles[] = { "SEGMENT", "BUSY/LOCKS", TABLE_MINOR "OWNER", TABLE_MINOR "MODE",
					      TABLE_MINOR "SIZE", "STATUS" };
	struct listing listing = { .format = format };
	int code;

	listing_begin(&listing, NULL, "segments");
	if (format == FORMAT_HUMAN)
		table_begin(&listing.table, 6, titles);
	code = lockshm_each_segment(list_segment, &listing);
	listing_end(&listing);
	if (code < 0)
		return failed_listing(code);
	if (format == FORMAT_HUMAN)
		message_left_out();
	return EXIT_OK;
}

/* --- The locks of one -------------------------------------------------------------------------------- */

static bool is_selected(const struct selection *selection, const struct lockshm_request_info *request)
{
	return (!selection->pid || request->pid == selection->pid) &&
	       (!selection->waiting || request->state == LOCKSHM_WAITING) && request->age_ns >= selection->min_age_ns;
}

static bool selects_all(const struct selection *selection)
{
	return !selection->pid && !selection->waiting && !selection->min_age_ns;
}

/** Does the lock have a selected request?  Without a condition a damage mark is enough. */
static bool has_selected(const struct selection *selection, const struct lockshm_lock_info *lock)
{
	if (lock_is_internal(lock) && !selection->internal)
		return false;
	for (size_t i = 0; i < lock->holders + lock->waiters; i++)
		if (is_selected(selection, lock->requests[i]))
			return true;
	return selects_all(selection) && lock->damaged;
}

static int64_t order_of(const struct selection *selection, const struct lockshm_lock_info *lock, int64_t age_ns)
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
static void list_rows(struct listing *listing, const struct lockshm_lock_info *lock)
{
	const struct selection *selection = &listing->selection;

	if (!selection->pid && !selection->waiting) {
		lock_row(&listing->table, lock);
		table_order(&listing->table,
			    order_of(selection, lock, lock->holders + lock->waiters ? lock->requests[0]->age_ns : 0));
		return;
	}
	for (size_t i = 0; i < lock->holders + lock->waiters; i++) {
		if (!is_selected(selection, lock->requests[i]))
			continue;
		request_row(&listing->table, lock, i);
		table_order(&listing->table, order_of(selection, lock, lock->requests[i]->age_ns));
	}
	if (selection->waiting && !selection->pid)
		circles_add(&listing->circles, lock);
}

static int list_lock(const struct lockshm_lock_info *found, void *arg)
{
	struct listing *listing = arg;
	struct lockshm_lock_info lock = lock_now(found);

	if (!has_selected(&listing->selection, &lock))
		return 0;
	switch (listing->format) {
	case FORMAT_JSON:
		json_open(&listing->json, NULL, '{');
		lock_json(&listing->json, &lock);
		json_close(&listing->json, '}');
		break;
	case FORMAT_PORCELAIN:
		lock_porcelain(stdout, &lock);
		break;
	default:
		list_rows(listing, &lock);
	}
	return 0;
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
	int code;

	listing_begin(listing, name, "locks");
	if (listing->format == FORMAT_HUMAN)
		table_begin(&listing->table, requests ? REQUEST_COLUMNS : LOCK_COLUMNS,
			    requests ? request_titles : lock_titles);
	code = lockshm_each_lock(segment, list_lock, listing);
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
