/* SPDX-License-Identifier: MIT */
/* host-lease-mode.c - a host lease under which a hold goes on, or becomes exclusive */
#include "hostlease/host-lease.h"

#include "sys/futex.h"

#define SLICE_NS LOCKSHM_MS(50)	   /* every sleep here: retirement does not end it */
#define RING_NS LOCKSHM_MS(500)	   /* ring again, should the bridge have been killed between doorbell and look */
#define ANSWER_NS LOCKSHM_MS(1500) /* how long the bridge's reply is waited for */

bool host_lease_goes_on(const struct lockshm *s, uint32_t lease, uint64_t word)
{
	const struct shm_host_lease *l = host_lease_at(s, lease);
	uint64_t now = l ? load_acquire(&l->word) : 0;

	return l && host_lease_state(now) == HOST_LEASE_HELD && host_lease_epoch(now) == host_lease_epoch(word) &&
	       !host_lease_exhausted(s, l, host_now(s));
}

/*
 * Whoever holds under it asks by a bit in the lease's word; not before a downgrade is over, so that where it stands
 * nobody writes, whoever set it.  My hold may be over by now, and others write, read, and ask as well.  Crash points:
 * (1) bit set: the bridge asks Redis, for nobody if we are dead, and the lease is exclusive or not;  (2) bit taken
 * back because nobody answered: a new turn has begun, so what the bridge or its successor still obtains does not
 * count, and a downgrade follows.
 */
int host_lease_upgrade(struct lockshm *s, uint32_t lease, uint64_t word)
{
	struct shm_host_lease *l = host_lease_at(s, lease);
	int64_t now = clock_precise(), end = now + ANSWER_NS, rung = 0;
	bool asked = false;

	if (!l)
		return LOCKSHM_BUSY;
	for (;; now = clock_precise()) {
		/* The sequence before what it is about. */
		struct futex_watch watch = { &l->waiters_seq, load_acquire32(&l->waiters_seq) };
		uint64_t w = load_acquire(&l->word);

		if (!host_lease_holds(s, lease, word))
			return LOCKSHM_LOST;
		if (w & HOST_LEASE_EXCLUSIVE)
			return 0;
		if (host_lease_state(w) != HOST_LEASE_HELD || (asked && !(w & HOST_LEASE_UPGRADE)))
			return LOCKSHM_BUSY;
		/* What is refused half way by a quorum could not be taken back. */
		if ((s->redis.flags & REDIS_QUORUM) && host_lease_mode_gen(w) == HOST_LEASE_MODE_GEN_MAX)
			return LOCKSHM_BUSY;
		/* Redis may have done it, or do it yet. */
		if (now >= end && cas_from(&l->word, w, w & HOST_LEASE_UPGRADE ? host_lease_withdrawn(w) : w))
			return LOCKSHM_BUSY;
		if (!(w & (HOST_LEASE_UPGRADE | HOST_LEASE_DOWNGRADE)) && !cas_from(&l->word, w, w | HOST_LEASE_UPGRADE))
			continue;
		asked = !(w & HOST_LEASE_DOWNGRADE);
		if (now - rung >= RING_NS) {
			rung = now;
			host_lease_ring(s, lease);
		}
		futex_wait_any(&watch, 1, end - now < SLICE_NS ? end : now + SLICE_NS);
	}
}
