/* SPDX-License-Identifier: MIT */
/*
 * acquire-fast.h - taking a free lock: inlines only, one CAS, no call but the clock's
 *
 * For a plain request of a thread that takes part already, and a key whose entry is known and free.  A reader beside a
 * reader goes to acquire_join().  Everything else, and every error, goes to the slow path: so a check here may only be
 * too strict.
 */
#ifndef LOCKSHM_HOLD_ACQUIRE_FAST_H
#define LOCKSHM_HOLD_ACQUIRE_FAST_H

#include "hold/acquire.h"
#include "hold/barge.h"
#include "lock/chunks.h"
#include "lock/deadline.h"
#include "lock/request.h"
#include "lock/table-probe.h"
#include "lock/tend.h"

static inline bool time_is_plain(int64_t ns, int64_t least)
{
	return likely((uint64_t)ns - (uint64_t)least <= (uint64_t)LOCKSHM_TIME_MAX - (uint64_t)least) ||
	       ns == LOCKSHM_FOREVER;
}

static inline bool mode_is_good(const struct lockshm_request *q, unsigned flags)
{
	_Static_assert(offsetof(struct lockshm_request, flags) == offsetof(struct lockshm_request, mode) + 4 &&
			       (LOCKSHM_SHARED ^ LOCKSHM_EXCLUSIVE) == 1,
		       "mode and flags are compared as one word, whose low bit is the mode");
	uint64_t mode_and_flags;

	memcpy(&mode_and_flags, &q->mode, sizeof(mode_and_flags));
	return (mode_and_flags & ~UINT64_C(1)) == (LOCKSHM_SHARED | (uint64_t)flags << 32);
}

/* One test where there is none of them. */
static ALWAYS_INLINE bool extras_are_plain(const struct lockshm_request *q)
{
	return likely(!((uintptr_t)q->tag | (uintptr_t)q->report)) || report_is_plain(q);
}

/* Valid in mode, ttl_ns and timeout_ns, with exactly @flags, without tag, and without a report of another size.  Of a
 * request of another size nothing else is read. */
static inline bool request_is_plain_but(const struct lockshm_request *q, unsigned flags)
{
	return likely(q->size == sizeof(*q)) && likely(mode_is_good(q, flags)) &&
	       likely(time_is_plain(q->timeout_ns, 0)) && likely(time_is_plain(q->ttl_ns, LOCKSHM_TTL_MIN)) &&
	       extras_are_plain(q);
}

static inline bool request_is_plain(const struct lockshm_request *q)
{
	return request_is_plain_but(q, 0);
}

/* Identity and last known entry of the request's key: as @given, if not NULL; NULL = not cached. */
static ALWAYS_INLINE const struct known_key *key_of(struct participant *self, const struct lockshm_request *q,
						    const struct known_key *given)
{
	if (given)
		return given;
	if (unlikely(!q->key) || unlikely(q->key_len - 1 >= KEY_CACHE_BYTES))
		return NULL;
	return table_known(self, q->key, q->key_len);
}

/*
 * Order: first what may call a function, then the clock, then what needs registers.
 * @given: see key_of().  @plain: no tag, and a case off the straight line may be left to the slow path; so is a key that
 * the segment makes global.  Else the request is local, or the local part of a global one.  @tended: plain but for flags
 * of a loop, see lock/tend.h.
 */
static ALWAYS_INLINE int take_free(struct participant *self, const struct lockshm_request *q,
				   const struct known_key *given, struct hold *h, bool plain, bool tended)
{
	const struct known_key *key = key_of(self, q, given);
	struct shm_request *r;
	struct shm_entry *e;
	struct lockshm *s;
	struct grant grant;
	struct acquire a;
	uint64_t tail;
	uint32_t index;

	if (unlikely(!key) || unlikely(!request_take_fast(self)))
		return NOT_TAKEN;
	a.now = deadline_clock(self->segment, q->ttl_ns);
	s = self->segment;
	index = self->free_request;
	a.entry = plain ? load_relaxed32(&key->entry) : known_entry(key);
	if (unlikely(a.entry >= s->n_locks) || unlikely(segment_retired(s)))
		return NOT_TAKEN;
	r = &s->requests[index];
	e = &s->entries[a.entry];
	tail = load_acquire(&e->tail);
	/* Read the identity after the tail: the CAS on that tail then validates the known entry. */
	if (unlikely(tail_index(tail) != 0))
		return acquire_join(self, q, key, h, a.now);
	if (unlikely(tail >= tail_make(TICKET_MAX - 1, 0)) || unlikely(!entry_is(e, key->id.id, key->id.len)))
		return NOT_TAKEN;
	if (plain && !tended && unlikely(load_relaxed32(&r->flags) != 0))
		return NOT_TAKEN;
	if (!plain && (q->flags & LOCKSHM_ROBUST) && unlikely(!damage_is_robust(e)))
		return NOT_TAKEN;
	a.owner = self->ref;
	a.ttl_ns = q->ttl_ns;
	queue_fill_owned(r, &a);
	a.exclusive = q->mode & 1;
	if (!plain)
		request_set_extras_if_any(r, q->tag, request_extras(q->flags));
	if (tended)
		store_changed32(&r->flags, request_extras(q->flags));
	if (tended || !plain)
		tend_begin_if_wanted(self, index);
	if (unlikely(!queue_append_owned(s, e, tail, index, &a, plain ? REQUEST_ENTERED : acquire_state(q), &grant))) {
		request_drop(self, index);
		return acquire_join(self, q, key, h, a.now);
	}
	self->held++;
	self->free_request = 0;
	count_event(self, COUNT_ACQUIRES);
	hold_fill(h, self, index, a.entry, &grant, key->id.id[0]);
	return plain && likely(!q->report) ? 0 : acquire_status_at_once(s, q, h);
}

#endif
