/* SPDX-License-Identifier: MIT */
/*
 * bridge.c - lockctl bridge: a service that communicates with Redis for all processes of this host
 *
 * The service is optional, because every process that uses a global key is a standby.  It keeps connections and
 * passwords out of the workers, and renews leases while workers come and go.
 */
#include "lockctl/lockctl.h"

enum { OPTION_ANY_OWNER = 256 };

static const struct option options[] = {
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 } /* end */
};

int lockctl_bridge(int argc, char **argv)
{
	lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;
	struct lockshm_error error;
	bool any_owner = false;
	lockshm_t *segment;
	const char *name;
	int status;
	int code;

	while (args_option(argc, argv, ":h", options) != -1)
		any_owner = true;
	name = args_segment(argc, argv);
	args_end(argc, argv);
	signals_cancel(&canceller);
	status = open_to_act(&segment, name, any_owner);
	if (status)
		return status;
	code = lockshm_bridge_serve(segment, &canceller, &error);
	lockshm_close(segment);
	return code == LOCKSHM_CANCELLED ? EXIT_OK : failed(code, &error);
}
