/* SPDX-License-Identifier: MIT */
/*
 * blocker.c - what is in the way of a request
 *
 * The newest request that does not wait: a holder, or what cools down.  Holders stand before all that wait, so those
 * behind it wait for it.  A dead reader that is not cleared away yet is passed by, unless it is the oldest.  If none
 * holds, the oldest request, which is about to be granted.
 *
 * The walk helps no other request and writes nothing.  The word of the request that it ends at is read again after its
 * fields: unchanged, the fields are its own, and if it waits it had no live predecessor.
 */
#include "lock/blocker.h"

#include <string.h>

#include "lock/owner.h"
#include "lock/snapshot.h"

#define TRIES 100

bool blocker_take(const struct lockshm *s, struct qpos at, struct lockshm_blocker *out)
{
	struct owner_identity who;
	struct snapshot_request r;

	memset(out, 0, sizeof(*out));
	if (!snapshot_one(s, at, &r, out->tag)) {
		memset(out, 0, sizeof(*out));
		return false;
	}
	who = owner_identity(s, r.owner);
	out->state = r.flags & REQUEST_GLOBAL && r.host_grant == 0 ? LOCKSHM_WAITING : snapshot_state(&r);
	out->mode = word_exclusive(r.word) ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
	out->pid = who.pid;
	out->tid = who.tid;
	memcpy(out->name, who.name, sizeof(out->name));
	out->ticket = segment_token(s, r.ticket);
	if (out->state != LOCKSHM_WAITING)
		out->token = r.flags & REQUEST_GLOBAL ? host_grant_fence(r.host_grant) : out->ticket;
	out->age_ns = snapshot_age(s, &r);
	out->expires_in_ns = snapshot_expires_in(s, &r);
	return true;
}

static bool is_passed_by(const struct lockshm *s, const struct qpos *at)
{
	if (word_is(at->word, REQUEST_WAITING))
		return true;
	return word_holds(at->word) && owner_is_dead(s, load_acquire(&s->requests[at->index].owner));
}

void blocker_find(const struct lockshm *s, struct qpos from, uint32_t own, struct lockshm_blocker *out)
{
	uint32_t tries, hops = 4 * s->n_requests + 1000;
	uint64_t gen = word_gen(from.word);

	for (tries = 0; tries < TRIES && hops > 0; tries++) {
		struct qpos at = from;

		while (is_passed_by(s, &at) && queue_look_before(s, &at, &hops))
			;
		memset(out, 0, sizeof(*out));
		if (at.index != own && blocker_take(s, at, out))
			return;
		/* An unlinking changes the word of the request after it; with the same generation it is in this queue. */
		from.word = load_acquire(&s->requests[from.index].word);
		if (word_gen(from.word) != gen)
			return;
	}
}
