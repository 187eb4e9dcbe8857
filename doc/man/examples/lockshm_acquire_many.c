/* SPDX-License-Identifier: MIT */
#include <lockshm.h>

/* Move money between two accounts, whatever the order of the arguments. */
int transfer(lockshm_t *segment, const char *from, const char *to, void (*book)(void))
{
	struct lockshm_request common = LOCKSHM_REQUEST_INIT;
	struct lockshm_key keys[3] = {
		LOCKSHM_MANY_KEY(from, LOCKSHM_EXCLUSIVE),
		LOCKSHM_MANY_KEY(to, LOCKSHM_EXCLUSIVE),
		LOCKSHM_MANY_KEY("rates", LOCKSHM_SHARED),
	};
	lockshm_hold_t holds[3];
	int status = lockshm_acquire_many(segment, &common, keys, 3, holds);

	if (status < 0)
		return status;
	book();
	return lockshm_release_many(holds, 3);
}
