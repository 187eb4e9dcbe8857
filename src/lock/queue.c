/* SPDX-License-Identifier: MIT */
/*
 * queue.c - the transitions of one request
 *
 *     FREE -> WAITING -> GRANTED -> ENTERED -> RELEASED       live: WAITING GRANTED ENTERED COOLING BARGEABLE
 *               |          |           |-----> EXPIRED         dead: RELEASED ABANDONED EXPIRED DEAD
 *               |          |           |-----> DEAD (its owner died holding)
 *               |          |           |-----> COOLING -> RELEASED
 *               |          |           |-----> BARGEABLE -> RELEASED, or ENTERED again
 *               |          |--> RELEASED, or ABANDONED (its lease ended, or its owner died)
 *               |--> ABANDONED (timed out, cancelled, or its owner died waiting)
 *     every dead state -> FREE, by the thread that unlinked it or found it unlinked
 *
 * A request is granted if and only if no live conflicting request precedes it; GRANTED and ENTERED only record that.
 * A free lock is appended as ENTERED.  The queue is linked from the newest (entry tail) to the oldest by prev.  The prev of a dead request is frozen.
 *
 * Crash points, for every multi-step path here:
 *   append   (1) filled: unreachable, the sweep finds it by its chunk;  (2) CAS on tail: a request like any other
 *   pop      (1) CAS on tail: released and unlinked, the word is still GRANTED: the sweep finds it absent
 *   die+pop  (1) dead, linked: the next walk pops it;  (2) unlinked, not freed: its owner's sweep finds it absent
 *   bypass   (1) damage written: repeated;  (2) CAS on successor, not woken or not freed: its self-check; as (2) above
 *   grant    (1) deadline set: the next helper continues, the lease counts from here;  (2) GRANTED, not woken: the next
 *            thread that finds it granted and asleep wakes it, at the latest its own self-check
 *   enter    one CAS, see queue_enter_owned()
 */
#include "lock/queue.h"

#include <limits.h>

#include "lock/doorbell.h"
#include "lock/damage.h"
#include "lock/participant.h"
#include "lock/request.h"
#include "sys/futex.h"

void queue_free_dead(struct lockshm *s, uint32_t index, uint64_t dead)
{
	(void)cas_from(&s->requests[index].word, dead, word_make(word_gen(dead), false, REQUEST_FREE, 0));
}

/* The record of a moved hold belongs to another thread's chunk: once any thread has expired and freed it, the chunk's
 * thread may fill it again. */
void queue_free_moved(struct lockshm *s, uint32_t index, uint64_t word)
{
	uint64_t w = word;

	if (!cas(&s->requests[index].word, &w, word_make(word_gen(word), false, REQUEST_FREE, 0)) &&
	    word_gen(w) == word_gen(word) && word_dead(w))
		queue_free_dead(s, index, w);
}

void queue_free_renewed(struct lockshm *s, uint32_t index, uint64_t gen)
{
	uint64_t *word = &s->requests[index].word, w = load_acquire(word);

	while (word_gen(w) > gen && (word_holds(w) || word_dead(w)))
		if (cas(word, &w, word_make(word_gen(w), false, REQUEST_FREE, 0)))
			return;
}

bool queue_pop_dead(struct lockshm *s, struct shm_entry *e, uint64_t tail, uint64_t dead)
{
	uint32_t index = tail_index(tail);

	damage_write(s, e, index, dead, (struct anchor){ &e->tail, tail });
	if (!cas_from(&e->tail, tail, tail_make(tail_ticket(tail), word_prev(dead))))
		return false;
	queue_free_dead(s, index, dead);
	return true;
}

bool queue_bypass(struct lockshm *s, struct shm_entry *e, struct qpos *at, uint32_t index, uint64_t dead)
{
	uint64_t w = at->word, next = word_with_prev(w, word_prev(dead));

	damage_write(s, e, index, dead, (struct anchor){ &s->requests[at->index].word, w });
	if (!cas(&s->requests[at->index].word, &w, next))
		return false;
	at->word = next;
	return true;
}

void queue_wake(struct lockshm *s, uint32_t index)
{
	struct shm_request *r = &s->requests[index];
	uint32_t sleeping;

	/* Waker: CAS on its word, then load its flag.  Sleeper: store its flag, then load its word.  Pairs with the
	 * fence in wait_asleep(). */
	fence_after_rmw();
	sleeping = load_relaxed32(&r->sleeping);
	if (sleeping & SLEEPS_AT_DOORBELL)
		doorbell_ring(s, index);
	else if (sleeping)
		futex_wake((const uint32_t *)(const void *)&r->word, INT_MAX);
}

bool queue_wake_granted(struct lockshm *s, const struct qpos *at)
{
	struct shm_request *r = &s->requests[at->index];
	uint32_t sleeping = load_relaxed32(&r->sleeping);

	if (!sleeping || (sleeping & SLEEPS_AT_DOORBELL))
		return false;
	futex_wake((const uint32_t *)(const void *)&r->word, INT_MAX);
	/* It has been woken: other threads go past it.  The number tells sleeps apart, also of different threads, as far as
	 * 29 bits do; one of a later use of the record with the same number would last until its self-check. */
	if (load_acquire(&r->word) == at->word)
		(void)cas32_from(&r->sleeping, sleeping, 0);
	return true;
}

/* Crash point: killed before the wake or the ring, the service thread looks at the word from time to time. */
void queue_notify_holder(struct lockshm *s, uint32_t index)
{
	struct shm_request *r = &s->requests[index];
	uint32_t flags;

	/* Here: CAS on its word, then load its flag.  Watcher: set the flag, then load the word.  Pairs with the fence
	 * in begin_watch().  REQUEST_TELLS was set before the append. */
	fence_after_rmw();
	flags = load_relaxed32(&r->flags);
	if (flags & REQUEST_WATCHED)
		futex_wake((const uint32_t *)(const void *)&r->word, INT_MAX);
	if (flags & REQUEST_TELLS)
		doorbell_ring_service(s, index);
}

bool queue_grant_asleep(struct lockshm *s, struct qpos *at)
{
	struct shm_request *r = &s->requests[at->index];
	uint64_t w = at->word, unset = deadline_unset(word_gen(w)), d = load_acquire(&r->deadline);
	int64_t ttl = (int64_t)load_relaxed((const uint64_t *)&r->ttl_ns);

	/* Set once, from exactly "unset, this generation": a late helper cannot touch another use of the record. */
	if (d == unset)
		(void)cas_from(&r->deadline, unset,
			       ttl == INT64_MAX ? deadline_never(word_gen(w)) :
						  ((uint64_t)segment_now(s) + (uint64_t)ttl) & (DEADLINE_NEVER - 1));
	if (!cas(&r->word, &w, word_with_state(w, REQUEST_GRANTED)))
		return false;
	at->word = word_with_state(at->word, REQUEST_GRANTED);
	return true;
}

bool queue_grant(struct lockshm *s, struct qpos *at)
{
	if (!queue_grant_asleep(s, at))
		return false;
	queue_wake(s, at->index);
	return true;
}

/* R8: the deadline belongs to the word read before it, or the CAS on that word fails. */
static bool overdue(const struct lockshm *s, const struct shm_request *r)
{
	uint64_t d = load_acquire(&r->deadline);

	/* Far from the end the coarse clock is enough: it is never behind. */
	return d < DEADLINE_NEVER && segment_now_at_most(s) > (int64_t)d && segment_now(s) > (int64_t)d;
}

static void count_here(const struct lockshm *s, enum owner_count event)
{
	const struct participant *self = participant_find(s);

	if (self)
		count_event(self, event);
	else
		(void)fetch_add_relaxed(&s->header->retired[event], 1);
}

/* The state that a bad end leaves a live request in.  Only a hold is lost or died in: a request that its caller never
 * had is given up, by time too. */
static enum request_state ended(enum request_state state, enum request_state bad_end)
{
	switch (state) {
	case REQUEST_ENTERED:
		return bad_end;
	case REQUEST_COOLING:
	case REQUEST_BARGEABLE:
		return REQUEST_RELEASED;
	default:
		return REQUEST_ABANDONED;
	}
}

bool queue_expire_or_reap(struct lockshm *s, uint32_t index, uint64_t *word)
{
	struct shm_request *r = &s->requests[index];
	enum request_state state = word_state(*word), next = state;

	/* A dead owner's hold is reaped, not expired, so probe the owner before expiring. */
	if (word_holds(*word) && overdue(s, r))
		owner_probe(s, load_acquire(&r->owner));
	if (state != REQUEST_COOLING && owner_is_dead(s, load_acquire(&r->owner)))
		next = ended(state, REQUEST_DEAD);
	else if (state != REQUEST_WAITING && state != REQUEST_BARGEABLE && overdue(s, r))
		next = ended(state, REQUEST_EXPIRED);
	if (next == state)
		return true;
	if (!cas_from(&r->word, *word, word_with_state(*word, next)))
		return false;
	*word = word_with_state(*word, next);
	if (next == REQUEST_DEAD)
		count_here(s, COUNT_RECOVERED);
	if (next == REQUEST_EXPIRED) {
		count_here(s, COUNT_EXPIRED);
		queue_notify_holder(s, index);
	}
	return true;
}
