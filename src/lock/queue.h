/* SPDX-License-Identifier: MIT */
/*
 * queue.h - the queue is the lock: rules R1-R6, R8, R11 to R14 of doc/internals/local-locks.md, one request at a time
 *
 * queue.c has the transitions, lock/queue-advance.c the walks that advance whole queues (R7, R9).  All of it is
 * lock-free: each transition is one CAS on one word, and the loser of a CAS reads again.
 *
 *             append  pop  die  bypass  grant  expire  renew
 *   any two     -      -    -     -       -      -       -      (no operation excludes another)
 *
 * Functions named "owned" are for the owner of the request only, the others for any thread.
 */
#ifndef LOCKSHM_LOCK_QUEUE_H
#define LOCKSHM_LOCK_QUEUE_H

#include "lock/request.h"
#include "segment/segment.h"

/* A queue position: a live, linked request, and its word when it was known to be so. */
struct qpos {
	uint32_t index;
	uint64_t word;
};

/* ---------------------------------------------------------------- queue.c */

/* A place in the queue as its owner knows it; the first part of a hold. */
struct grant {
	uint64_t gen;	 /* of the record; with auto-renewal the renewal's is newer */
	uint64_t ticket;
	int64_t end;	 /* of the lease: INT64_MAX = never, or not granted yet; 0 = the record has it (LOCKSHM_GLOBAL) */
};

/* An acquire on its way, on the stack of its thread.  The queue uses the first part: what the record gets. */
struct acquire {
	uint64_t owner;
	uint32_t entry;
	bool exclusive;
	int64_t ttl_ns;
	int64_t now; /* segment time, never behind the true one if a lease counts from it */

	/* The rest is the slow path's, hold/acquire-slow.c. */
	struct participant *self;
	struct lockshm *s;
	const struct lockshm_request *request;
	const struct known_key *given; /* key of a lock object, or NULL */
	struct lockshm_error *error;
	struct identity id;
	struct shm_entry *at; /* the entry */
	uint32_t index;	      /* of the record */
	struct grant grant;
	int64_t begun;	  /* segment time */
	int64_t deadline; /* segment time */
	int64_t slept_ns;
	bool later; /* for a loop: do not wait */
};

/* R1: fill the record before it becomes reachable, except times and ticket; a->now is not needed yet. */
static inline void queue_fill_owned(struct shm_request *r, const struct acquire *a)
{
	request_begin_use(r, a->owner, a->entry);
	store_changed(&r->next, 0);
	store_changed((uint64_t *)&r->ttl_ns, (uint64_t)a->ttl_ns);
}

/* The deadline of a lease granted to @gen now; *@end = its end, INT64_MAX = never. */
static inline uint64_t queue_lease(const struct acquire *a, uint64_t gen, int64_t *end)
{
	*end = INT64_MAX;
	if (unlikely(a->ttl_ns == INT64_MAX))
		return deadline_never(gen);
	/* Low bits of the generation: the deadlines of two uses of a record within one clock tick differ. */
	*end = a->now + a->ttl_ns + (int64_t)(gen & 1023);
	return (uint64_t)*end;
}

/* R1: append @index, filled from @a, to @e, whose tail was @tail, as WAITING, GRANTED or ENTERED.
 * False = the tail has changed. */
static inline bool queue_append_owned(struct lockshm *s, struct shm_entry *e, uint64_t tail, uint32_t index,
				      const struct acquire *a, enum request_state state, struct grant *out)
{
	struct shm_request *r = &s->requests[index];
	uint64_t word = word_next_gen(load_relaxed(&r->word)), deadline;

	out->gen = word_gen(word);
	out->ticket = tail_ticket(tail) + 1;
	out->end = INT64_MAX;
	deadline = state == REQUEST_WAITING ? deadline_unset(out->gen) : queue_lease(a, out->gen, &out->end);
	store_relaxed((uint64_t *)&r->since_ns, (uint64_t)a->now);
	store_relaxed(&r->deadline, deadline);
	store_relaxed(&r->ticket, ticket_make(out->gen, out->ticket));
	/* R1.  Release: a reader of this word, or of the tail that names it, sees the fields above. */
	store_release(&r->word,
		      word_with_state(word_with_prev(word_with_mode(word, a->exclusive), tail_index(tail)), state));
	return cas_from(&e->tail, tail, tail_make(out->ticket, index));
}

/*
 * R13: the granted request @index of generation @gen becomes a hold: from here on a bad end of it is a holder's.  An
 * expirer and a reaper change the same word, so a request that they ended before is none.  Crash point: killed after
 * the CAS, before the call has returned: the death of a holder.  False = it has ended, or was renewed.
 */
static inline bool queue_enter_owned(struct lockshm *s, uint32_t index, uint64_t gen)
{
	uint64_t *word = &s->requests[index].word, w = load_acquire(word);

	/* A bypass may change the prev meanwhile. */
	while (word_gen(w) == gen && word_is(w, REQUEST_GRANTED))
		if (cas(word, &w, word_with_state(w, REQUEST_ENTERED)))
			return true;
	return false;
}

/* R12: end the barge window of @at, which is BARGEABLE.  False = its word has changed. */
static inline bool queue_end_barge(struct lockshm *s, struct qpos at)
{
	return cas_from(&s->requests[at.index].word, at.word, word_with_state(at.word, REQUEST_RELEASED));
}

/* R2: free the record of a moved hold that was popped while granted (@word). */
void queue_free_moved(struct lockshm *s, uint32_t index, uint64_t word);

/* The same if a renewal has changed the generation of that word from @gen meanwhile; no thread fills the record. */
void queue_free_renewed(struct lockshm *s, uint32_t index, uint64_t gen);

/* R2: release and unlink by one CAS, if the queue has no other request and the record agrees with @mine and @owner.
 * @moved: the record is of another thread's chunk. */
static inline bool queue_pop_owned(struct lockshm *s, struct shm_entry *e, uint32_t index,
				   const struct grant *mine, uint64_t owner, bool moved)
{
	struct shm_request *r = &s->requests[index];
	/* R2: the tail first, then my word: granted at the head while I was the tail. */
	uint64_t word, tail = load_acquire(&e->tail);

	if (unlikely(tail_index(tail) != index))
		return false;
	word = load_acquire(&r->word);
	if (unlikely(!word_is_head_hold(word, mine->gen)) || unlikely(load_relaxed(&r->owner) != owner) ||
	    unlikely(ticket_of(load_relaxed(&r->ticket) ^ mine->ticket) != 0))
		return false;
	if (!cas_from(&e->tail, tail, tail_make(tail_ticket(tail), 0)))
		return false;
	/* Unlinked while granted.  FREE by a plain store, because only this thread fills the record. */
	if (likely(!moved))
		store_release(&r->word, word_make(mine->gen, false, REQUEST_FREE, 0));
	else
		queue_free_moved(s, index, word);
	return true;
}

/* R2: unlink and free the dead request that @tail names.  False = the tail has changed. */
bool queue_pop_dead(struct lockshm *s, struct shm_entry *e, uint64_t tail, uint64_t dead);

/* R4: unlink dead @index, whose word is @dead, through its successor @at.  Updates at->word; false = read again.  It is
 * freed when the successor has been woken: so after FREE no other thread need look for that. */
bool queue_bypass(struct lockshm *s, struct shm_entry *e, struct qpos *at, uint32_t index, uint64_t dead);

void queue_free_dead(struct lockshm *s, uint32_t index, uint64_t dead);

/* R5: grant @at, which waits and is due, and wake it.  Updates at->word; false = read again. */
bool queue_grant(struct lockshm *s, struct qpos *at);
/* The same without the wake-up. */
bool queue_grant_asleep(struct lockshm *s, struct qpos *at);

/*
 * R3, R8: if the live request is overdue, or its owner dead, end it and update *@word.
 * False: its word has changed.  The new word proves nothing: the caller retries from its anchor.
 */
MUST_CHECK bool queue_expire_or_reap(struct lockshm *s, uint32_t index, uint64_t *word);

/* Wake the owner of @index if it sleeps on its word. */
void queue_wake(struct lockshm *s, uint32_t index);
/* The same for @at, which was granted, unless another thread has done it, or it waits for a loop.  True = woken now. */
bool queue_wake_granted(struct lockshm *s, const struct qpos *at);
/* The caller's CAS ended the hold of @index: wake the service thread that watches it, if any. */
void queue_notify_holder(struct lockshm *s, uint32_t index);

/* R6: store in @index the hint that @behind is its successor. */
static inline void queue_hint(struct lockshm *s, uint32_t index, uint32_t behind, uint64_t behind_gen)
{
	store_relaxed(&s->requests[index].next, ref_pack(behind, behind_gen));
}

/* ---------------------------------------------------------------- lock/queue-advance.c */

enum walk { WALK_DONE, WALK_AGAIN, WALK_BROKEN };

/*
 * The nearest live request before @at (index 0 = @at is the head), after unlinking the requests between them that are
 * dead, overdue or of dead owners.  WALK_AGAIN: @at itself is no longer live.  WALK_BROKEN: the segment is damaged.
 */
enum walk queue_predecessor(struct lockshm *s, struct shm_entry *e, struct qpos *at, struct qpos *before);

/* Grant @at if it waits and is due, and then its shared successors.  True = @at was granted now. */
bool queue_grant_if_due(struct lockshm *s, struct shm_entry *e, struct qpos *at, const struct qpos *before);

/* R5: a reader has learned of its grant: wake readers behind it that were granted with it, and sleep. */
void queue_wake_run(struct lockshm *s, struct shm_entry *e, uint32_t index, uint64_t gen);

/* R9: walk from @from to the head, doing R8, R3, R4 and R5 for each request on the way.  @steps, if not NULL: the
 * number of live requests met. */
enum walk queue_advance(struct lockshm *s, struct shm_entry *e, struct qpos from, uint32_t *steps);

/* The same from the tail, for callers without a request in the queue. */
enum walk queue_advance_tail(struct lockshm *s, struct shm_entry *e);

/*
 * The newest request that does not wait: a hold, a cooldown or a barge window.  It and all live requests behind it, to the
 * tail, which was @tail, are not overdue, and their owners live.  The walk passes waiting requests only, and wakes the one
 * it ends at if that was granted and sleeps.  WALK_AGAIN: the tail has changed, or a request was granted.
 */
enum walk queue_newest_holder(struct lockshm *s, struct shm_entry *e, const struct qpos *tail, struct qpos *out);

/* A step to the head without helping or writing: *@at becomes the nearest live request before it.  False = it is the head, or the
 * queue has changed.  @hops bounds the steps in a damaged queue. */
bool queue_look_before(const struct lockshm *s, struct qpos *at, uint32_t *hops);

/* The live request at the tail, after unlinking dead ones there.  index 0 = the queue is empty (or being re-keyed).
 * @spare is neither expired nor reaped; 0 = none. */
enum walk queue_live_tail(struct lockshm *s, struct shm_entry *e, struct qpos *out, uint32_t spare);

/* R3: release the shared hold of the calling thread, in its own chunk, with other requests in the queue.  False = the
 * record does not agree with @entry, @mine and @owner, or is exclusive: nothing has happened. */
MUST_CHECK bool queue_release_reader_owned(struct lockshm *s, uint32_t entry, uint32_t index, const struct grant *mine,
					   uint64_t owner);

/* @index has died or changed its mode: unlink it if dead, and grant its successors that are due. */
void queue_grant_next(struct lockshm *s, struct shm_entry *e, uint32_t index);

/*
 * The same for a record that another thread may fill anew as soon as the request is dead: look at what is behind it while
 * it lives, make the change by a CAS on its word, then grant from there.
 */
struct behind {
	struct qpos successor; /* index 0 = none is known */
	uint64_t tail;	       /* of the entry, if the request is the last one; else 0 */
};
struct behind queue_note_behind(const struct lockshm *s, const struct shm_entry *e, uint32_t index);
void queue_grant_behind(struct lockshm *s, struct shm_entry *e, struct behind behind);

/* Wake the successor of @index: what it waits for ends earlier than it knew. */
void queue_wake_successor(struct lockshm *s, uint32_t index);

/* R12: @index has become BARGEABLE: wake its successor, unless *@kicked shows that this sleep was ended already.
 * False = its hint is stale, or its successor cannot be woken this way. */
bool queue_kick_successor(struct lockshm *s, uint32_t index, uint64_t *kicked);

/* A record in a dead state: make sure it is in no queue, then free it.  True = it is FREE now. */
bool queue_reclaim(struct lockshm *s, uint32_t index);

#endif
