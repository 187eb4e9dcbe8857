/* SPDX-License-Identifier: MIT */
/* sweep.c - lockshm_sweep(): an operator clears away everything that dead threads left */
#include "lock/participant.h"
#include "lock/sweep.h"

LOCKSHM_EXPORT int lockshm_sweep(lockshm_t *segment, size_t *freed)
{
	struct participant *self;
	size_t n;
	int err;

	if (freed)
		*freed = 0;
	if (!segment_valid(segment))
		return LOCKSHM_INVALID;
	if (segment->read_only)
		return LOCKSHM_PERMISSION;
	(void)process_epoch(); /* in a forked child the clock may differ */
	if (segment->clock_lost)
		return LOCKSHM_SYSTEM;
	n = (size_t)sweep_probing(segment);
	/* The caller needs a record to take over half-made entries of dead threads. */
	err = participant_get(segment, &self, NULL);
	if (err)
		return err;
	n += (size_t)sweep_all(segment);
	if (freed)
		*freed = n;
	return 0;
}
