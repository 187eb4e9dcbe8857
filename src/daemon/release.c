/* SPDX-License-Identifier: MIT */
/*
 * release.c - lockshm-bridge release: an operator ends one hold in Redis
 *
 * The value identifies the hold that the operator saw: a later one is not ended.
 */
#include "daemon/daemon.h"

enum { OPTION_ESCAPED = 256, OPTION_ANY_OWNER, OPTION_CREDENTIALS };

static const struct option options[] = {
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "credentials", required_argument, NULL, OPTION_CREDENTIALS },
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 } /* end */
};

int daemon_release(int argc, char **argv)
{
	struct lockshm_error error = { 0 };
	bool escaped = false, any_owner = false;
	struct key key, value;
	lockshm_t *segment;
	const char *name, *credentials = NULL;
	int status, code;

	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;)
		if (option == OPTION_ESCAPED)
			escaped = true;
		else if (option == OPTION_CREDENTIALS)
			credentials = optarg;
		else
			any_owner = true;
	name = args_segment(argc, argv);
	key = args_key(args_operand(argc, argv, "KEY"), escaped);
	value = args_bytes("VALUE", args_operand(argc, argv, "VALUE"), escaped);
	args_end(argc, argv);
	credentials_use(credentials, name);
	status = open_to_act(&segment, name, any_owner);
	if (status)
		return status;
	code = remote_end(segment, key.bytes, key.len, value.bytes, value.len, REMOTE_TIMEOUT, &error);
	lockshm_close(segment);
	return code < 0 ? failed(code, &error) : EXIT_OK;
}
