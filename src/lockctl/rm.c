/* SPDX-License-Identifier: MIT */
/* rm.c - lockctl rm: remove a segment */
#include "lockctl/lockctl.h"

static const struct option options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 } /* end */
};

int lockctl_rm(int argc, char **argv)
{
	struct lockshm_error error;
	const char *name;
	int code;

	while (args_option(argc, argv, ":h", options) != -1)
		;
	name = args_segment(argc, argv);
	args_end(argc, argv);
	code = lockshm_destroy(name, &error);
	return code < 0 ? failed(code, &error) : EXIT_OK;
}
