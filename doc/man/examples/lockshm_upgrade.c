/* SPDX-License-Identifier: MIT */
#include <lockshm.h>

/* Read first, change only if needed. */
int change_if(lockshm_t *segment, struct lockshm_request *request, int (*needed)(void),
	      void (*change)(void))
{
	lockshm_hold_t hold;
	int status;

	request->mode = LOCKSHM_SHARED;
	status = lockshm_acquire(segment, request, &hold);
	if (status < 0)
		return status;
	if (!needed())
		return lockshm_release(&hold, 0);
	if (lockshm_upgrade(&hold) < 0) {
		lockshm_release(&hold, 0);
		request->mode = LOCKSHM_EXCLUSIVE;
		status = lockshm_acquire(segment, request, &hold);
		if (status < 0)
			return status;
	}
	if (needed())
		change();
	return lockshm_release(&hold, 0);
}

/* Hand a hold to a thread of a pool. */
/* In the thread that acquired. */
int give(lockshm_hold_t *hold, void (*enqueue)(lockshm_hold_t *))
{
	int status = lockshm_move(hold, LOCKSHM_TO_PROCESS);

	if (status >= 0)
		enqueue(hold);
	return status;
}

/* In the thread that does the work. */
int take(lockshm_hold_t *hold, void (*work)(void))
{
	int status = lockshm_move(hold, LOCKSHM_TO_CALLER);

	if (status < 0)
		return status;
	work();
	return lockshm_release(hold, 0);
}
