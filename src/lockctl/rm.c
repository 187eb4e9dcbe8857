/* SPDX-License-Identifier: MIT */
/* rm.c - lockctl rm: remove a segment */
#include "lockctl/lockctl.h"

int lockctl_rm(int argc, char **argv)
{
	struct lockshm_error error;
	const char *name;
	int code;

	args_no_option(argc, argv);
	name = args_segment(argc, argv);
	args_end(argc, argv);
	code = lockshm_destroy(name, &error);
	return code < 0 ? failed(code, &error) : EXIT_OK;
}
