/* SPDX-License-Identifier: MIT */
#include <lockshm.h>

void resume(void *user, int status); /* releases the hold, if the status is not negative, when its work is done */

/* The descriptor of @loop is readable. */
void on_locks(lockshm_loop_t *loop)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	while (lockshm_loop_next(loop, &outcome) == 1)
		resume(outcome.user, outcome.status);
}
