/* SPDX-License-Identifier: MIT */
/*
 * renew.c - renewing leases
 *
 * A lease is renewed when half of it has passed.  A renewal is a CAS on shared memory, which fails only when the hold
 * is gone; then the service thread leaves it alone.  The last renewal of a bounded hold (max_hold_ns) ends at the
 * bound, and the lease expires there as any does.
 */
#include "service/service.h"

#include "lock/deadline.h"

#define SLEEP_MAX_NS LOCKSHM_SECONDS(3600)

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void renew(struct lockshm *s, struct renewal *r, int64_t now)
{
	int64_t end = earlier(now + r->ttl_ns, r->until);

	r->due = end == r->until ? INT64_MAX : now + r->ttl_ns / 2;
	if (end <= r->deadline)
		return;
	if (deadline_renew(s, r->index, &r->gen, end))
		r->deadline = end;
	else
		r->lost = true;
}

int64_t service_renew(struct lockshm *s, struct renewals *all, struct futex_watch *watches, unsigned *n)
{
	int64_t now = segment_now(s), next = now + SLEEP_MAX_NS;
	struct renewal *r;

	cds_list_for_each_entry(r, &all->all, node) {
		if (r->lost)
			continue;
		if (r->due <= now)
			renew(s, r, now);
		if (!r->lost && r->notice.fd >= 0)
			next = earlier(next, service_watch(s, r, watches, n, now));
		if (r->lost)
			service_notify(r);
		else
			next = earlier(next, r->due);
	}
	return next;
}
