/* SPDX-License-Identifier: MIT */
/* acknowledge.h - for tests that need the lock and not its damage mark */
#ifndef LOCKSHM_TESTS_ACKNOWLEDGE_H
#define LOCKSHM_TESTS_ACKNOWLEDGE_H

#include "lockshm.h"

#define ACKNOWLEDGES 0x40000000u /* @flags of an agent or a subject: clear the mark that the acquire reports */

/* @status: of the acquire. */
static inline int acknowledge_told(int status, lockshm_hold_t *hold)
{
	if (status == LOCKSHM_OWNER_DIED || status == LOCKSHM_TOOK_OVER_EXPIRED)
		(void)lockshm_acknowledge(hold);
	return status;
}

#endif
