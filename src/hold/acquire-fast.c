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
	if (!key || (!global && load_relaxed32(&key->entry) & KNOWN_GLOBAL))
		return NOT_TAKEN;
	if ((q->flags & LOCKSHM_ROBUST) && !damage_is_robust(&self->segment->entries[self->barge.entry]))
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
	return acquire_status_at_once(self->segment, q, h);
}

bool report_is_plain(const struct lockshm_request *q)
{
	return !q->tag && q->report->size == sizeof(*q->report);
}

bool acquire_can_join(const struct participant *self, uint32_t newest, int64_t now)
{
	const struct lockshm *s = self->segment;
	const struct shm_request *r = request_at(s, newest);
	uint64_t w = r ? load_acquire(&r->word) : 0, d, owner;

	if (word_exclusive(w) || !word_holds(w))
		return false;
	d = load_acquire(&r->deadline);
	if (d < DEADLINE_NEVER && now >= (int64_t)d)
		return false;
	/* R3: to join the dead would hide the death. */
	owner = load_acquire(&r->owner);
	return owner == self->ref || !owner_is_dead(s, owner);
}

#define JOIN_TRIES 4 /* readers that come and go at the same time */

/* R1 beside a reader.  Crash points: (1) the tail: a hold whose call has not returned;  (2) the hint: the same; without it
 * the predecessor's release looks for its successor from the tail. */
int acquire_join(struct participant *self, const struct lockshm_request *q, const struct known_key *key,
		 struct hold *h, int64_t now)
{
	struct lockshm *s = self->segment;
	struct acquire a = { .owner = self->ref, .entry = known_entry(key), .ttl_ns = q->ttl_ns, .now = now };
	struct shm_entry *e = &s->entries[a.entry];
	uint32_t index = self->free_request, newest, tries;
	struct shm_request *r = &s->requests[index];
	struct grant grant;
	uint64_t tail;

	if (q->mode != LOCKSHM_SHARED)
		return NOT_TAKEN;
	for (tries = 0; tries < JOIN_TRIES; tries++) {
		/* As in take_free(): the identity after the tail. */
		tail = load_acquire(&e->tail);
		newest = tail_index(tail);
		if (tail >= tail_make(TICKET_MAX - 1, 0) || !entry_is(e, key->id.id, key->id.len) ||
		    (newest != 0 && !acquire_can_join(self, newest, now)) ||
		    ((q->flags & LOCKSHM_ROBUST) && !damage_is_robust(e)))
			return NOT_TAKEN;
		queue_fill_owned(r, &a);
		request_set_extras_if_any(r, q->tag, request_extras(q->flags));
		tend_begin_if_wanted(self, index);
		if (queue_append_owned(s, e, tail, index, &a, acquire_state(q), &grant))
			break;
		request_drop(self, index);
	}
	if (tries == JOIN_TRIES)
		return NOT_TAKEN;
	/* R6: its release finds me. */
	if (newest != 0)
		queue_hint(s, newest, index, grant.gen);
	self->held++;
	self->free_request = 0;
	count_event(self, COUNT_ACQUIRES);
	hold_fill(h, self, index, a.entry, &grant, key->id.id[0]);
	return acquire_status_at_once(s, q, h);
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
	return status == NOT_TAKEN ? take_free(self, q, given, h, false, false) : status;
}
