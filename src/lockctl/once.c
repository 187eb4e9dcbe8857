/* SPDX-License-Identifier: MIT */
/*
 * once.c - lockctl once: run a command at most once in a period
 *
 * A try, and a release whose cooldown is the rest of the period, counted from the grant.  A command that takes longer
 * than the period still excludes others until it ends.  The cooldown is set at the end: if lockctl is killed there is
 * none, and the next call runs, which is what a run that did not get to its end needs.
 */
#include "lockctl/lockctl.h"

enum { OPTION_EVERY = GUARD_OPTION_END, OPTION_RETRY };

static const struct option options[] = {
	GUARD_OPTIONS,
	{ "command", required_argument, NULL, 'c' },
	{ "every", required_argument, NULL, OPTION_EVERY },
	{ "retry-on-failure", no_argument, NULL, OPTION_RETRY },
	{ NULL, 0, NULL, 0 } /* end */
};

static void set_option(struct guard *guard, int option)
{
	if (option == OPTION_EVERY)
		guard->every_ns = args_duration("--every", optarg, DURATION_FINITE);
	else if (option == OPTION_RETRY)
		guard->retry = true;
	else
		guard_option(guard, option);
}

int lockctl_once(int argc, char **argv)
{
	struct guard guard = GUARD_INIT;

	guard.request.timeout_ns = 0;
	guard.conflict_status = EXIT_OK;
	for (int option; (option = args_option(argc, argv, "-:c:" GUARD_SHORTS, options)) != -1;)
		if (option != 1)
			set_option(&guard, option);
		else if (guard_operand(&guard, argv))
			break;
	guard_finish(&guard, argc, argv);
	guard_need_command(&guard);
	if (!guard.every_ns)
		usage_error("--every is missing, or 0: the command runs at most once in that time");
	return guard_run(&guard);
}
