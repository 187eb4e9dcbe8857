/* SPDX-License-Identifier: MIT */
/* acquire-fast.c - the fast path for requests that are not plain, and resuming a streak */
#include "hold/acquire-fast.h"

/* R12: resume the hold that this thread left bargeable, if the checked request is for its key.  A streak is local, or
 * (@global) under one host lease. */
int acquire_resume(struct participant *self, const struct lockshm_request *q, const struct known_key *given,
		   struct hold *h, bool global)
{
	const struct known_key *key;
	struct grant grant;
	struct acquire a;
	uint32_t index;

	if (!(q->flags & LOCKSHM_BARGE) || (self->barge.host_lease != 0) != global || segment_retired(self->segment))
		return NOT_TAKEN;
	key = key_of(self, q, given);
	if (!key || ((q->flags & LOCKSHM_ROBUST) && !damage_is_robust(&self->segment->entries[self->barge.entry])))
		return NOT_TAKEN;
	a.ttl_ns = q->ttl_ns;
	a.now = deadline_clock(self->segment, q->ttl_ns);
	index = self->barge.index;
	if (!barge_resume(self, key, &a, q->tag, acquire_state(q), &grant))
		return NOT_TAKEN;
	self->held++;
	count_event(self, COUNT_ACQUIRES);
	a.entry = self->barge.entry;
	hold_fill(h, self, index, a.entry, &grant, key->id.id[0]);
	hold_open(h);
	h->streak = self->barge.streak;
	hold_close(h);
	return acquire_status(self->segment, q, h);
}

int acquire_if_free(struct participant *self, const struct lockshm_request *q, const struct known_key *given,
		    struct hold *h)
{
	int status;

	/* A plain request was tried by lockshm_acquire() already, or is the first of its thread: another look at a busy
	 * entry would only cost time. */
	if (!given && request_is_plain(q))
		return NOT_TAKEN;
	status = self->barge.index != 0 ? acquire_resume(self, q, given, h, false) : NOT_TAKEN;
	if (status == NOT_TAKEN)
		status = take_free(self, q, given, h, false);
	if (q->report && status != NOT_TAKEN)
		q->report->token = h->token;
	return status;
}
