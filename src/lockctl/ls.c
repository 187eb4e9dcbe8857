/* SPDX-License-Identifier: MIT */
/*
 * ls.c - lockctl ls: all segments of this machine, or the locks of one
 *
 * A damaged segment, or one of another version, is listed with the reason, and ls succeeds.  A file that the caller may
 * not read is left out, since it need not be a segment; the human-readable list ends with how many there are.
 */
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

enum { OPTION_JSON = 256, OPTION_PORCELAIN };

static const struct option options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "porcelain", no_argument, NULL, OPTION_PORCELAIN },
	{ NULL, 0, NULL, 0 } /* end */
};

/** Output of the callbacks; only the member of the chosen format is in use. */
struct listing {
	enum format format;
	struct json json;
	struct table table;
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

static char *format_user(uid_t uid)
{
	const struct passwd *user = getpwuid(uid);

	return user ? format_text("%s", user->pw_name) : format_text("%u", (unsigned)uid);
}

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
		json_uint(json, "bytes", info->stat.bytes);
		json_uint(json, "locks", info->stat.locks);
		json_uint(json, "locks_known", info->stat.locks_known);
		json_uint(json, "locks_busy", info->stat.locks_busy);
		json_uint(json, "locks_damaged", info->stat.locks_damaged);
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
		printf("\t%" PRIu64 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\n", info->stat.bytes,
		       info->stat.locks, info->stat.locks_known, info->stat.locks_busy, info->stat.locks_damaged);
}

static void segment_row(struct table *table, const struct lockshm_segment_info *info, char *owner)
{
	table_add_own(table, visible(info->name, strlen(info->name)));
	if (info->code)
		table_add(table, "-");
	else
		table_add_own(table, format_text("%" PRIu32 "/%" PRIu32 "/%" PRIu32, info->stat.locks_busy,
					     info->stat.locks_known, info->stat.locks));
	table_add_own(table, owner);
	table_add_own(table, format_text("%04o", (unsigned)info->mode & 07777));
	table_add_own(table, info->code ? format_text("-") : format_size(info->stat.bytes));
	table_add_own(table, info->code ? visible(info->reason, strlen(info->reason)) : format_text("ok"));
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
	static const char *const titles[] = { "SEGMENT", "BUSY/KNOWN/LOCKS", "OWNER", "MODE", "SIZE", "STATUS" };
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

static int list_lock(const struct lockshm_lock_info *lock, void *arg)
{
	struct listing *listing = arg;

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
		lock_row(&listing->table, lock);
	}
	return 0;
}

static int list_locks(lockshm_t *segment, const char *name, enum format format)
{
	struct listing listing = { .format = format };
	int code;

	listing_begin(&listing, name, "locks");
	if (format == FORMAT_HUMAN)
		table_begin(&listing.table, LOCK_COLUMNS, lock_titles);
	code = lockshm_each_lock(segment, list_lock, &listing);
	listing_end(&listing);
	return code < 0 ? failed(code, NULL) : EXIT_OK;
}

int lockctl_ls(int argc, char **argv)
{
	enum format format = FORMAT_HUMAN;
	lockshm_t *segment;
	const char *name;
	int status;

	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;)
		format = option == OPTION_JSON ? FORMAT_JSON : FORMAT_PORCELAIN;
	if (optind == argc)
		return list_segments(format);
	name = args_segment(argc, argv);
	args_end(argc, argv);
	status = open_to_look(&segment, name);
	if (status)
		return status;
	status = list_locks(segment, name, format);
	lockshm_close(segment);
	return status;
}
