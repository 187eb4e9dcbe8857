/* SPDX-License-Identifier: MIT */
/*
 * seat.c - lockctl seat: of all processes that ask, one runs the command; when it ends the next one does
 *
 * A strict hold without a bound for the wait.  The seat is free when its command has ended, whichever way, or when its
 * lockctl is dead: there is no success after which the others stop, since a supervisor restarts what ends.
 */
#include "lockctl/lockctl.h"

static const struct option options[] = {
	GUARD_OPTIONS,
	{ "command", required_argument, NULL, 'c' },
	{ "wait", required_argument, NULL, 'w' },
	{ NULL, 0, NULL, 0 } /* end */
};

int lockctl_seat(int argc, char **argv)
{
	struct guard guard = GUARD_INIT;

	guard.request.ttl_ns = LOCKSHM_FOREVER;
	guard.request.timeout_ns = LOCKSHM_FOREVER;
	guard.announce = true;
	return guard_main(&guard, argc, argv, "-:c:w:" GUARD_SHORTS, options);
}
