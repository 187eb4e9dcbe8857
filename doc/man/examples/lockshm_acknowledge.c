/* SPDX-License-Identifier: MIT */
#include <lockshm.h>

/* Two accounts, one of which a dead holder may have left half changed. */
int take_both(lockshm_t *segment, const struct lockshm_key keys[2], lockshm_hold_t holds[2],
	      void (*repair)(int account))
{
	struct lockshm_request common = LOCKSHM_REQUEST_INIT;
	struct lockshm_damage damage;
	int i, status;

	common.flags = LOCKSHM_ROBUST;
	status = lockshm_acquire_many(segment, &common, keys, 2, holds);
	if (status <= 0)
		return status;
	for (i = 0; i < 2; i++) {
		if (lockshm_damage(&holds[i], &damage) != LOCKSHM_OK || damage.status == 0)
			continue;
		repair(i);
		lockshm_acknowledge(&holds[i]);
	}
	return LOCKSHM_OK;
}
