/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <stdio.h>

/* A master that makes the segment for a group of workers, or takes the one that is there. */
lockshm_t *open_locks(gid_t group)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	lockshm_t *segment;

	options.keys = 100000;
	options.permissions = 0660;
	options.group = group;
	options.flags = LOCKSHM_CREATE_OR_OPEN;
	if (lockshm_create(&segment, "/shop", &options, &error) != LOCKSHM_OK) {
		fprintf(stderr, "locks: %s\n", error.message);
		return NULL;
	}
	return segment;
}

/* A worker that detects that the segment was made anew. */
int follow(lockshm_t **segment, const char *name)
{
	if (lockshm_current(*segment) != LOCKSHM_NO_SEGMENT)
		return LOCKSHM_OK;
	lockshm_close(*segment);
	*segment = NULL;
	return lockshm_open(segment, name, 0, NULL);
}
