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
#include "sys/min.h"

#define SLEEP_MAX_NS LOCKSHM_SECONDS(3600)

/* A loss is found by the next look at the watched ones, which comes before this thread sleeps. */
static void renew(struct lockshm *s, struct renewal *r, int64_t now)
{
	int64_t end = min64(now + r->ttl_ns, r->until);

	timer_set(&s->renewals->due, &r->due, end == r->until ? INT64_MAX : now + r->ttl_ns / 2);
	if (end <= r->deadline)
		return;
	if (deadline_renew(s, r->index, &r->gen, end))
		r->deadline = end;
	else
		timer_end(&s->renewals->due, &r->due);
}

int64_t service_renew(struct lockshm *s, struct renewals *all, struct futex_watch *watches, unsigned *n)
{
	int64_t now = segment_now(s), next = now + SLEEP_MAX_NS;
	struct renewal *r;
	struct timer *t;

	while ((t = all->due.first) != NULL && t->at <= now)
		renew(s, caa_container_of(t, struct renewal, due), now);
	cds_list_for_each_entry(r, &all->watched, of_watched) {
		if (r->lost)
			continue;
		next = min64(next, service_watch(s, r, watches, n, now));
		if (r->lost) {
			timer_end(&all->due, &r->due);
			service_notify(r);
		}
	}
	return all->due.first ? min64(next, all->due.first->at) : next;
}
