/* SPDX-License-Identifier: MIT */
/*
 * open.c - opening the segment a command is about
 *
 * Looking needs read permission only and accepts every owner: the worst a stranger's segment can do is to
 * show lies.  Acting on it means trusting whoever owns it, so that must be asked for.
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
