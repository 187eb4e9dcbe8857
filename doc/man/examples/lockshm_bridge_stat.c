/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <stdio.h>

void show_bridge(lockshm_t *segment)
{
	struct lockshm_bridge_stat stat = LOCKSHM_BRIDGE_STAT_INIT;

	if (lockshm_bridge_stat(segment, &stat) == LOCKSHM_OK && stat.servers[0])
		printf("bridge: pid %d, %u leases held, %llu lost\n", (int)stat.pid, stat.host_leases_held,
		       (unsigned long long)stat.lost);
}
