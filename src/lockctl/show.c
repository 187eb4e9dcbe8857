/* SPDX-License-Identifier: MIT */
/*
 * show.c - lockctl show: one lock with its holders, its queue and its damage mark, here and in Redis
 *
 * An unused key is shown as free, and a server that does not reply with the reason; show succeeds in both cases.
 */
#include <stdlib.h>

#include "lockctl/lockctl.h"

enum { OPTION_JSON = 256, OPTION_PORCELAIN, OPTION_ESCAPED, OPTION_ID, OPTION_LOCAL };

static const struct option options[] = {
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "help", no_argument, NULL, 'h' },
	{ "id", required_argument, NULL, OPTION_ID },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "local", no_argument, NULL, OPTION_LOCAL },
	{ "porcelain", no_argument, NULL, OPTION_PORCELAIN },
	{ NULL, 0, NULL, 0 } /* end */
};

struct view {
	enum format format;
	const char *name;
	lockshm_t *segment;
	struct selected which;
	bool local; /**< no query to Redis */
};

/** All that is to be known of a key for which there was no request. */
static void unknown_json(struct json *json, const struct view *view)
{
	struct nearest nearest = nearest_keys(view->segment, view->which.key);

	json_open(json, "near", '[');
	for (size_t i = 0; i < nearest.found; i++)
		json_bytes(json, NULL, nearest.words[i].bytes, nearest.words[i].len);
	json_close(json, ']');
}

static void show_human(const struct view *view, const struct lock *lock)
{
	char *unknown = lock->row.known ? format_text("%s", "") : format_unknown(view->segment, view->which.key);

	lock_human(stdout, lock, unknown);
	free(unknown);
}

/** The whole key, for a query to Redis; without bytes if it is not known. */
static struct key whole_key(const struct view *view, const struct lockshm_row *row)
{
	if (!view->which.id)
		return view->which.key;
	return (struct key){ row->key_shown == row->key_len ? row->key : NULL, row->key_len };
}

static void show_lock(const struct view *view, const struct lock *lock)
{
	struct key key = whole_key(view, &lock->row);
	struct json json = { stdout, true };

	switch (view->format) {
	case FORMAT_JSON:
		json_open(&json, NULL, '{');
		json_segment(&json, view->name);
		lock_json(&json, lock);
		if (!lock->row.known)
			unknown_json(&json, view);
		if (!view->local)
			remote_json(&json, view->segment, view->name, key);
		json_close(&json, '}');
		putchar('\n');
		break;
	case FORMAT_PORCELAIN:
		lock_porcelain(stdout, lock);
		if (!view->local)
			remote_porcelain(stdout, view->segment, view->name, key);
		break;
	default:
		show_human(view, lock);
		if (!view->local)
			remote_human(stdout, view->segment, view->name, key);
	}
}

int lockctl_show(int argc, char **argv)
{
	struct view view = { .format = FORMAT_HUMAN };
	struct lock lock = LOCK_INIT;
	bool escaped = false;
	int status;

	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;)
		if (option == OPTION_ESCAPED)
			escaped = true;
		else if (option == OPTION_ID)
			view.which.id = args_id(optarg);
		else if (option == OPTION_LOCAL)
			view.local = true;
		else
			view.format = option == OPTION_JSON ? FORMAT_JSON : FORMAT_PORCELAIN;
	view.name = args_segment(argc, argv);
	if (!view.which.id)
		view.which.key = args_key(args_operand(argc, argv, "KEY, or --id,"), escaped);
	args_end(argc, argv);
	status = open_to_look(&view.segment, view.name);
	if (status)
		return status;
	status = find_lock(view.segment, &view.which, &lock);
	if (status == 0)
		show_lock(&view, &lock);
	else
		status = status == LOCKSHM_NOT_HELD ? unknown_id(view.which.id) : failed(status, NULL);
	lock_free(&lock);
	lockshm_close(view.segment);
	return status;
}
