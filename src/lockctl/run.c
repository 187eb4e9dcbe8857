/* SPDX-License-Identifier: MIT */
/*
 * run.c - lockctl run: run a command while holding a lock
 */
#include "lockctl/lockctl.h"

static const struct option options[] = {
	GUARD_OPTIONS,
	{ "acknowledge", no_argument, NULL, GUARD_ACKNOWLEDGE },
	{ "also", required_argument, NULL, GUARD_ALSO },
	{ "command", required_argument, NULL, 'c' },
	{ "cooldown", required_argument, NULL, GUARD_COOLDOWN },
	{ "keep-for-children", no_argument, NULL, GUARD_KEEP },
	{ "robust", no_argument, NULL, GUARD_ROBUST },
	{ "shared", no_argument, NULL, 's' },
	{ "wait", required_argument, NULL, 'w' },
	{ NULL, 0, NULL, 0 } /* end */
};

int lockctl_run(int argc, char **argv)
{
	struct guard guard = GUARD_INIT;

	return guard_main(&guard, argc, argv, "-:c:sw:" GUARD_SHORTS, options);
}
