/* SPDX-License-Identifier: MIT */
/*
 * open.c - open the segment of a command
 *
 * Commands that only read need read permission and accept every owner: the worst effect of a foreign segment is wrong
 * output.  Commands that take or change locks trust the owner of the segment, so a foreign one needs --any-owner.
 */
#include "lockctl/lockctl.h"

static int open_segment(lockshm_t **segment, const char *name, unsigned flags)
{
	struct lockshm_error error;
	int code = lockshm_open(segment, name, flags, &error);

	return code < 0 ? failed(code, &error) : EXIT_OK;
}

int open_to_look(lockshm_t **segment, const char *name)
{
	return open_segment(segment, name, LOCKSHM_OPEN_READ_ONLY | LOCKSHM_OPEN_ANY_OWNER);
}

int open_to_act(lockshm_t **segment, const char *name, bool any_owner)
{
	return open_segment(segment, name, any_owner ? LOCKSHM_OPEN_ANY_OWNER : 0);
}
