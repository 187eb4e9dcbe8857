/* SPDX-License-Identifier: MIT */
/*
 * sweep.c - lockctl sweep: free what dead processes left
 *
 * Opening a segment for writing sweeps already, so the dead slots are counted before, through a read-only handle.
 */
#include <inttypes.h>

#include "lockctl/lockctl.h"

enum { OPTION_ANY_OWNER = 256 };

static const struct option options[] = {
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 } /* end */
};

/** Slots of dead threads right now.  Return: 0, or the exit status after a message. */
static int count_dead(const char *name, uint32_t *dead)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	lockshm_t *segment;
	int status = open_to_look(&segment, name);

	if (status)
		return status;
	status = lockshm_stat(segment, &stat);
	lockshm_close(segment);
	if (status < 0)
		return failed(status, NULL);
	*dead = stat.owners_dead;
	return EXIT_OK;
}

static int sweep(const char *name, bool any_owner)
{
	lockshm_t *segment;
	int status = open_to_act(&segment, name, any_owner);

	if (status)
		return status;
	status = lockshm_sweep(segment, NULL);
	lockshm_close(segment);
	return status < 0 ? failed(status, NULL) : EXIT_OK;
}

int lockctl_sweep(int argc, char **argv)
{
	bool any_owner = false;
	uint32_t before;
	uint32_t after;
	const char *name;
	int status;

	while (args_option(argc, argv, ":h", options) != -1)
		any_owner = true;
	name = args_segment(argc, argv);
	args_end(argc, argv);
	status = count_dead(name, &before);
	if (!status)
		status = sweep(name, any_owner);
	if (!status)
		status = count_dead(name, &after);
	if (!status)
		printf("%" PRIu32 "\n", after < before ? before - after : 0);
	return status;
}
