/* SPDX-License-Identifier: MIT */
/* move.c - lockshm_move(): a hold of the process depends on the service thread, which is started first */
#include "hold/hold.h"
#include "hold/move.h"
#include "service/service.h"

LOCKSHM_EXPORT int lockshm_move(lockshm_hold_t *hold, int to)
{
	struct hold *h = hold_of(hold);
	struct lockshm *s;
	int err;

	if (!h || (to != LOCKSHM_TO_PROCESS && to != LOCKSHM_TO_CALLER))
		return LOCKSHM_INVALID;
	s = h->segment;
	/* The epoch before the reference: in a fresh child process_epoch() resets the count of references. */
	if (!hold_sealed(h) || h->epoch != process_epoch() || !process_ref_segment(s))
		return LOCKSHM_NOT_HELD;
	err = to == LOCKSHM_TO_PROCESS ? service_join(s, NULL) : 0;
	if (!err)
		err = hold_move(hold, to);
	segment_unref(s);
	return err;
}
