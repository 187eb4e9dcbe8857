/* SPDX-License-Identifier: MIT */
/*
 * lockctl-show.c - lockctl show: one lock with its holders, its queue and its mark
 *
 * A key that nobody uses is shown as free: that is an answer, not a failure.
 */
#include "lockctl.h"

enum { OPTION_JSON = 256, OPTION_PORCELAIN, OPTION_ESCAPED };

static const struct option options[] = {
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "help", no_argument, NULL, 'h' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "porcelain", no_argument, NULL, OPTION_PORCELAIN },
	{ NULL, 0, NULL, 0 } /* end */
};

struct view {
	enum format format;
	const char *segment;
};

static int show_lock(const struct lockshm_lock_info *lock, void *arg)
{
	const struct view *view = arg;
	struct json json = { stdout, true };

	switch (view->format) {
	case FORMAT_JSON:
		json_open(&json, NULL, '{');
		json_segment(&json, view->segment);
		lock_json(&json, lock);
		json_close(&json, '}');
		putchar('\n');
		break;
	case FORMAT_PORCELAIN:
		lock_porcelain(stdout, lock);
		break;
	default:
		lock_people(stdout, lock);
	}
	return 0;
}

int lockctl_show(int argc, char **argv)
{
	struct view view = { FORMAT_PEOPLE, NULL };
	bool escaped = false;
	lockshm_t *segment;
	struct key key;
	int status;

	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;)
		if (option == OPTION_ESCAPED)
			escaped = true;
		else
			view.format = option == OPTION_JSON ? FORMAT_JSON : FORMAT_PORCELAIN;
	view.segment = args_segment(argc, argv);
	key = args_key(args_operand(argc, argv, "KEY"), escaped);
	args_end(argc, argv);
	status = open_to_look(&segment, view.segment);
	if (status)
		return status;
	status = lockshm_show_lock(segment, key.bytes, key.len, show_lock, &view);
	if (status < 0)
		status = failed(status, NULL);
	lockshm_close(segment);
	return status;
}
