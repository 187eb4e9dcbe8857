/* SPDX-License-Identifier: MIT */
/*
 * show.c - lockctl show: one lock with its holders, its queue and its damage mark, here and in Redis
 *
 * An unused key is shown as free, and a server that does not reply with the reason; show succeeds in both cases.
 */
#include "lockctl/lockctl.h"

enum { OPTION_JSON = 256, OPTION_PORCELAIN, OPTION_ESCAPED, OPTION_LOCAL };

static const struct option options[] = {
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "help", no_argument, NULL, 'h' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "local", no_argument, NULL, OPTION_LOCAL },
	{ "porcelain", no_argument, NULL, OPTION_PORCELAIN },
	{ NULL, 0, NULL, 0 } /* end */
};

struct view {
	enum format format;
	const char *name;
	lockshm_t *segment;
	struct key key;
	bool local; /**< no query to Redis */
};

static int show_lock(const struct lockshm_lock_info *found, void *arg)
{
	const struct view *view = arg;
	struct lockshm_lock_info now = lock_now(found), *lock = &now;
	struct json json = { stdout, true };

	switch (view->format) {
	case FORMAT_JSON:
		json_open(&json, NULL, '{');
		json_segment(&json, view->name);
		lock_json(&json, lock);
		if (!view->local)
			remote_json(&json, view->segment, view->name, view->key);
		json_close(&json, '}');
		putchar('\n');
		break;
	case FORMAT_PORCELAIN:
		lock_porcelain(stdout, lock);
		if (!view->local)
			remote_porcelain(stdout, view->segment, view->name, view->key);
		break;
	default:
		lock_human(stdout, lock);
		if (!view->local)
			remote_human(stdout, view->segment, view->name, view->key);
	}
	return 0;
}

int lockctl_show(int argc, char **argv)
{
	struct view view = { .format = FORMAT_HUMAN };
	bool escaped = false;
	int status;

	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;)
		if (option == OPTION_ESCAPED)
			escaped = true;
		else if (option == OPTION_LOCAL)
			view.local = true;
		else
			view.format = option == OPTION_JSON ? FORMAT_JSON : FORMAT_PORCELAIN;
	view.name = args_segment(argc, argv);
	view.key = args_key(args_operand(argc, argv, "KEY"), escaped);
	args_end(argc, argv);
	status = open_to_look(&view.segment, view.name);
	if (status)
		return status;
	status = lockshm_show_lock(view.segment, view.key.bytes, view.key.len, show_lock, &view);
	if (status < 0)
		status = failed(status, NULL);
	lockshm_close(view.segment);
	return status;
}
