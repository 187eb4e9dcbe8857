/* SPDX-License-Identifier: MIT */
/*
 * run.c - lockctl run: run a command while holding a lock
 */
#include "lockctl/lockctl.h"

static const struct option options[] = {
	GUARD_OPTIONS,
	{ "acknowledge", no_argument, NULL, GUARD_ACKNOWLEDGE },
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

	for (int option; (option = args_option(argc, argv, "-:c:sw:" GUARD_SHORTS, options)) != -1;)
		if (option != 1)
			guard_option(&guard, option);
		else if (guard_operand(&guard, argv))
			break;
	guard_finish(&guard, argc, argv);
	guard_need_command(&guard);
	return guard_run(&guard);
}
