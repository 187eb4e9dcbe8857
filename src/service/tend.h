/* SPDX-License-Identifier: MIT */
/* tend.h - scans of the holds of loops, see tend.c and lock/tend.h */
#ifndef LOCKSHM_SERVICE_TEND_H
#define LOCKSHM_SERVICE_TEND_H

#include "service/waits.h"

/* The service thread, the renewals' lock held: scan if it is time.  Returns when to look again, segment time. */
int64_t service_tend(struct lockshm *s);

/* The loop's thread has a hold, since @now: the service thread is not to sleep beyond its first look. */
void tend_scan_in_time(struct lockshm *s, int64_t now, int64_t ttl_ns, bool tells);

/* Is the hold of record @index lost, and not released?  Then *@use is its use of the place. */
MUST_CHECK bool tend_is_lost(struct lockshm *s, uint32_t index, uint64_t *use);

#endif
