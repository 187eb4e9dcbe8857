/* SPDX-License-Identifier: MIT */
/* tend.h - scans of the holds of loops, see tend.c and lock/tend.h */
#ifndef LOCKSHM_SERVICE_TEND_H
#define LOCKSHM_SERVICE_TEND_H

#include "service/waits.h"

/* The service thread, the renewals' lock held: scan if it is time.  Returns when to look again, segment time. */
int64_t service_tend(struct lockshm *s);

/* The same for holds under host leases that are to be told of: adds what to sleep on. */
void service_watch_leases(struct lockshm *s, struct futex_watch *watches, unsigned *n);

/* The loop's thread: its hold is under that host lease. */
void tend_under_lease(struct lockshm *s, uint32_t index, uint32_t host_lease, uint64_t word);

/* The loop's thread has a hold, since @now: the service thread is not to sleep beyond its first look. */
void tend_scan_in_time(struct lockshm *s, int64_t now, int64_t ttl_ns, bool tells);

/* Is the hold of record @index lost, and not released?  Then *@use is its use of the place. */
MUST_CHECK bool tend_is_lost(struct lockshm *s, uint32_t index, uint64_t *use);

#endif
