/* SPDX-License-Identifier: MIT */
/*
 * release.c - lockshm-bridge release: an operator ends one hold in Redis
 *
 * The value identifies the hold that the operator saw: a later one is not ended.
 */
#include "daemon/daemon.h"

int daemon_release(int argc, char **argv)
{
	struct key_command command = { .has_value = true };
	struct lockshm_error error = { 0 };
	int status = key_command_begin(&command, argc, argv), code;

	if (status)
		return status;
	code = remote_end(command.segment, command.key.bytes, command.key.len, command.value.bytes, command.value.len,
			  REMOTE_TIMEOUT, &error);
	lockshm_close(command.segment);
	return code < 0 ? failed(code, &error) : EXIT_OK;
}
