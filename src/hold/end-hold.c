/* SPDX-License-Identifier: MIT */
/* end-hold.c - an operator, or the bridge after the loss of a host lease, ends a hold of another thread */
#include "hold/hold.h"
#include "hostlease/host-lease.h"
#include "lock/queue.h"
#include "lock/snapshot.h"
#include "lock/table.h"

#define END_TRIES 20

/* The state that the end leaves a request with that word in; FREE = there is nothing to end. */
static enum request_state ended_as(uint64_t w)
{
	switch (word_state(w)) {
	case REQUEST_ENTERED: /* its owner gets LOST */
		return REQUEST_EXPIRED;
	case REQUEST_GRANTED: /* its owner, not inside yet, requests it again */
		return REQUEST_ABANDONED;
	case REQUEST_COOLING: /* without a holder: only open the lock */
	case REQUEST_BARGEABLE:
		return REQUEST_RELEASED;
	default:
		return REQUEST_FREE;
	}
}

/* End request @index if it is the hold with @ticket in entry @i, however often it is renewed meanwhile. */
static bool end_request(struct lockshm *s, uint32_t index, uint32_t i, uint64_t ticket)
{
	struct shm_request *r = &s->requests[index];

	for (;;) {
		uint64_t w = load_acquire(&r->word);
		enum request_state end = ended_as(w);

		if (end == REQUEST_FREE)
			return false;
		/* Read the fields after the word: they are of this use of the record or of a later one, and then the
		 * CAS fails. */
		if (ticket_of(load_relaxed(&r->ticket)) != ticket || load_relaxed32(&r->entry) != i)
			return false;
		if (!cas_from(&r->word, w, word_with_state(w, end)))
			continue;
		if (end == REQUEST_EXPIRED)
			queue_notify_holder(s, index);
		return true;
	}
}

/* Is @token that of lockshm_token()?  A hold that has none, on this host only, is found by its ticket. */
static bool has_token(const struct lockshm *s, const struct snapshot_request *r, uint64_t token)
{
	uint64_t global = r->flags & REQUEST_GLOBAL ? host_grant_fence(r->host_grant) : 0;

	return token == (global ? global : segment_token(s, r->ticket));
}

/* 0, LOCKSHM_NOT_HELD, or LOCKSHM_NO_MEMORY. */
static int end_hold(struct lockshm *s, uint32_t i, const struct identity *id, uint64_t token, struct snapshot *snap)
{
	uint32_t k, tries;

	for (tries = 0; tries < END_TRIES; tries++) {
		if (!snapshot_take(s, &s->entries[i], snap))
			return LOCKSHM_NO_MEMORY;
		/* The walk of a busy queue may have strayed into another: check each request again. */
		for (k = 0; k < snap->n; k++)
			if (has_token(s, &snap->requests[k], token) && entry_is(&s->entries[i], id->id, id->len) &&
			    end_request(s, snap->requests[k].index, i, snap->requests[k].ticket))
				return 0;
		if (snap->stable)
			break;
	}
	return LOCKSHM_NOT_HELD;
}

/* May holds of the segment be ended? */
static int may_end(const struct lockshm *segment)
{
	if (segment->read_only)
		return LOCKSHM_PERMISSION;
	(void)process_epoch(); /* in a forked child the clock may differ */
	return segment->clock_lost ? LOCKSHM_SYSTEM : 0;
}

static int end_in_entry(struct lockshm *segment, uint32_t i, const struct identity *id, uint64_t token)
{
	struct snapshot snap;
	int err = LOCKSHM_NO_MEMORY;

	if (snapshot_init(&snap))
		err = end_hold(segment, i, id, token, &snap);
	if (err == 0)
		(void)queue_advance_tail(segment, &segment->entries[i]);
	snapshot_free(&snap);
	return err;
}

LOCKSHM_EXPORT int lockshm_end_hold(lockshm_t *segment, const void *key, size_t key_len, uint64_t token)
{
	struct identity id;
	uint32_t i;
	int err;

	if (!segment_valid(segment) || !key || key_len == 0 || token == 0)
		return LOCKSHM_INVALID;
	if (key_len > LOCKSHM_KEY_MAX)
		return LOCKSHM_KEY_TOO_LONG;
	err = may_end(segment);
	if (err)
		return err;
	hash_key(&id, segment->hash_secret, key, key_len);
	i = table_lookup(segment, &id);
	return i == ENTRY_NONE ? LOCKSHM_NOT_HELD : end_in_entry(segment, i, &id, token);
}

LOCKSHM_EXPORT int lockshm_end_hold_of(lockshm_t *segment, uint64_t id, uint64_t token)
{
	struct identity found;
	uint32_t i, tried = 0;
	int err;

	if (!segment_valid(segment) || id == 0 || token == 0)
		return LOCKSHM_INVALID;
	err = may_end(segment);
	while (!err && (i = table_next_of(segment, id, &tried, &found)) != ENTRY_NONE) {
		err = end_in_entry(segment, i, &found, token);
		if (err != LOCKSHM_NOT_HELD)
			return err;
		err = 0;
	}
	return err ? err : LOCKSHM_NOT_HELD;
}
