/* SPDX-License-Identifier: MIT */
/*
 * wait.c - from the append to the grant
 *
 * One round of a waiter:
 *   check     my word: granted, ended, or still waiting?
 *   clear     unlink dead requests before me; grant myself if no conflicting request is left
 *   announce  store the hint to me in my predecessor (R6), then load its word again
 *   spin      if my predecessor holds: for some microseconds, as long as spinning has lately succeeded
 *   sleep     on the low half of my own word and on the life word of my predecessor's owner
 *
 * No wake-up is lost: every change that concerns me either changes my own word (grant, bypass, cancel), which the
 * kernel compares under its lock before it sleeps me, or my predecessor's, which I load after my announcement; the
 * thread that changes that word loads the announcement afterwards.  A death flags the life word, which the kernel
 * compares as well.
 *
 * Every sleep ends by itself: at my deadline, at my predecessor's, or at the self-check, when I walk to the head and
 * complete whatever stopped or killed threads have left undone for any request (R9).  So all futex outcomes are treated
 * alike: check again.  The self-check comes every 100 ms for the first waiters of a queue and less often far from its
 * head, since the waiters ahead do the same.
 */
#include "lock/wait.h"

#include "lock/blocker.h"
#include "lock/damage.h"
#include "lock/deadlock.h"
#include "sys/error.h"
#include "sys/futex.h"
#include "sys/min.h"
#include "segment/process.h"

#define SELF_CHECK_NS 100000000
#define SELF_CHECK_BLIND_NS 10000000 /* where a death does not wake us */
#define SELF_CHECK_CROWD 16	     /* this many check at the full rate */
#define SELF_CHECK_MAX_NS 2000000000
#define DEADLOCK_LASTS_NS 500000000 /* by then the thread that closed the cycle has run and stepped back */
#define LAST_LOOK_HOPS 100 /* many waits of one queue may end at once */
#define SPIN_MAX_NS 20000
#define SPIN_MIN_NS 500

static struct shm_request *mine(const struct participant *self, const struct wait_terms *t)
{
	return &self->segment->requests[t->index];
}

/* R3: leave the queue.  True = left; false = granted, or ended by another thread, at the same moment. */
static bool abandon(struct participant *self, const struct wait_terms *t)
{
	struct lockshm *s = self->segment;
	struct shm_request *r = mine(self, t);
	uint64_t w = load_acquire(&r->word);

	while (word_gen(w) == t->gen && word_is(w, REQUEST_WAITING)) {
		if (!cas(&r->word, &w, word_with_state(w, REQUEST_ABANDONED)))
			continue;
		queue_grant_next(s, t->entry, t->index);
		return true;
	}
	return false;
}

/* R6: store the hint, fence, load the predecessor's word again.  False = it has changed. */
static bool wait_announce(struct lockshm *s, const struct wait_terms *t, const struct qpos *before)
{
	queue_hint(s, before->index, t->index, t->gen);
	/* Waiter: swap the tail, store the hint, then load the word.  Predecessor: change its word, then load the hint, or
	 * the tail.  Pairs with queue_grant_next(), grant_run(), queue_kick_successor() and is_newest(). */
	fence_full();
	return load_acquire(&s->requests[before->index].word) == before->word;
}

static bool may_barge(const struct lockshm *s, const struct qpos *before)
{
	return load_relaxed32(&s->requests[before->index].flags) & REQUEST_BARGES;
}

/* Spin as long as it pays: the budget follows recent success.  True = my word has changed, or that of a predecessor
 * that may become BARGEABLE. */
static bool wait_spinning(struct participant *self, const struct wait_terms *t, uint64_t w, const struct qpos *before)
{
	const uint64_t *word = &mine(self, t)->word;
	const uint64_t *other = may_barge(self->segment, before) ? &self->segment->requests[before->index].word : NULL;
	int64_t start, now;
	unsigned i;

	if (!process_is_parallel())
		return false;
	start = clock_precise();
	do {
		for (i = 0; i < 16; i++) {
			if (load_acquire(word) != w || (other && load_acquire(other) != before->word)) {
				self->spin_ns = SPIN_MAX_NS;
				return true;
			}
			cpu_relax();
		}
		now = clock_precise();
	} while (now - start < self->spin_ns);
	if (self->spin_ns > SPIN_MIN_NS)
		self->spin_ns -= self->spin_ns / 8;
	return false;
}

int64_t wait_walk_every(uint32_t qpos)
{
	if (qpos <= SELF_CHECK_CROWD)
		return SELF_CHECK_NS;
	return min64((int64_t)SELF_CHECK_NS * qpos / SELF_CHECK_CROWD, SELF_CHECK_MAX_NS);
}

/* The time of the next self-check. */
static int64_t self_check_at(const struct participant *self, const struct wait_terms *t, bool blind, uint32_t qpos)
{
	const struct shm_request *r = mine(self, t);
	int64_t slice = wait_walk_every(qpos), ttl = (int64_t)load_relaxed((const uint64_t *)&r->ttl_ns);

	if (blind)
		slice = SELF_CHECK_BLIND_NS;
	/* A grant without a wake-up must not use up much of my lease. */
	slice = min64(slice, ttl / 4 > 1000000 ? ttl / 4 : 1000000);
	return segment_now(self->segment) + slice;
}

static int64_t lease_from_now(const struct lockshm *s, int64_t ttl)
{
	if (ttl > LOCKSHM_TIME_MAX)
		return INT64_MAX;
	return segment_now(s) + (ttl > LOCKSHM_TTL_MIN ? ttl : LOCKSHM_TTL_MIN);
}

/* The time from which my predecessor may be overdue. */
static int64_t holder_deadline(const struct lockshm *s, const struct qpos *before)
{
	uint64_t d = load_acquire(&s->requests[before->index].deadline);

	/* It may be granted while I sleep, without a wake-up; it is not overdue before one lease from now. */
	if (word_is(before->word, REQUEST_WAITING))
		return lease_from_now(s, (int64_t)load_relaxed((const uint64_t *)&s->requests[before->index].ttl_ns));
	return d >= DEADLINE_NEVER ? INT64_MAX : (int64_t)d + 1;
}

/* Sleep until my word changes, the predecessor's owner dies, the predecessor becomes BARGEABLE, or the time comes.
 * True = the self-check is due. */
static bool wait_asleep(struct participant *self, struct wait_terms *t, uint64_t w, const struct qpos *before,
			uint32_t qpos)
{
	struct lockshm *s = self->segment;
	struct shm_request *r = mine(self, t);
	uint64_t owner = load_acquire(&s->requests[before->index].owner);
	struct futex_watch watch[FUTEX_WATCH_MAX] = { { (const uint32_t *)(const void *)&r->word, (uint32_t)w } };
	const uint64_t *other = &s->requests[before->index].word;
	bool ownerless = word_is(before->word, REQUEST_COOLING);
	bool watched = !ownerless && owner_watch(s, owner, &watch[1]);
	int64_t check, until, start;
	unsigned n = watched ? 2 : 1;

	/* R12: it becomes BARGEABLE without a change of my word. */
	if (may_barge(s, before))
		watch[n++] = (struct futex_watch){ (const uint32_t *)(const void *)other, (uint32_t)before->word };
	/* An earlier wake-up does not postpone it: the ends of short leases may wake me more often than that. */
	check = self_check_at(self, t, !ownerless && !(watched && futex_has_waitv()), qpos);
	t->check_at = t->check_at ? min64(t->check_at, check) : check;
	until = min64(t->check_at, min64(t->deadline, holder_deadline(s, before)));
	self->sleeps += SLEEP_NUMBER;
	store_relaxed32(&r->sleeping, self->sleeps | SLEEPS | (n > 1 && futex_has_waitv() ? 0 : SLEEPS_ON_ONE_WORD));
	/* Sleeper: store the flag, then load both words, here and in the kernel.  Waker: change a word, then load the
	 * flag.  Pairs with queue_wake(), wake_segment(), wake_before(), queue_wake_run() and queue_kick_successor(). */
	fence_full();
	start = segment_now(s);
	/* The owner was alive in owner_watch(), or this round would have reaped it; the kernel compares both words
	 * again. */
	if (load_acquire(&r->word) == w && load_acquire(other) == before->word &&
	    (ownerless || watched || !owner_is_dead(s, owner)))
		futex_wait_any(watch, n, until - s->clock_offset);
	store_relaxed32(&r->sleeping, 0);
	t->slept_ns += segment_now(s) - start;
	/* The kernel wakes only one watcher of a dead thread; others may sleep in other queues. */
	if (watched && load_acquire32(watch[1].word) != watch[1].value)
		owner_wake_watchers(s, owner);
	if (segment_now(s) < t->check_at)
		return false;
	t->check_at = 0;
	return true;
}

/* ---------------------------------------------------------------- deaths that the kernel does not report */

/* Owners of what @me, which waits, depends on: of the request before it, and of the newest one that does not wait.  The
 * thread of a request in between may be stopped, and look at nothing.  0 = none. */
struct in_the_way {
	uint64_t before;
	uint64_t holder;
};

static uint64_t owner_of(const struct lockshm *s, const struct qpos *at)
{
	return word_is(at->word, REQUEST_COOLING) ? 0 : load_acquire(&s->requests[at->index].owner);
}

/* Without help.  If the queue changes meanwhile, or @me is no longer in it, they may be others': to probe one is never
 * wrong. */
static struct in_the_way in_the_way(const struct lockshm *s, const struct qpos *me, uint32_t hops)
{
	struct in_the_way found = { 0, 0 };
	struct qpos at = *me;

	if (!queue_look_before(s, &at, &hops))
		return found;
	found.before = owner_of(s, &at);
	while (word_is(at.word, REQUEST_WAITING) && queue_look_before(s, &at, &hops))
		;
	found.holder = owner_of(s, &at);
	return found;
}

/* At each self-check.  @before: is the owner of the request before it probed here, too? */
static void probe_in_the_way(const struct lockshm *s, const struct qpos *me, bool before)
{
	struct in_the_way owners = in_the_way(s, me, s->n_requests);

	if (owners.before != 0 && before)
		owner_probe(s, owners.before);
	if (owners.holder != 0 && owners.holder != owners.before)
		owner_probe(s, owners.holder);
}

/* At the end of a wait that may have been too short for a self-check. */
static bool found_dead_in_the_way(struct participant *self, const struct qpos *me)
{
	struct in_the_way owners = in_the_way(self->segment, me, LAST_LOOK_HOPS);

	return owners.before != 0 && owner_found_dead(self, owners.holder, owners.before);
}

/* The code to stop with, 0 = continue. */
static int reason_to_stop(struct participant *self, const struct wait_terms *t)
{
	struct lockshm *s = self->segment;

	if (t->canceller && canceller_used(t->canceller))
		return LOCKSHM_CANCELLED;
	if (segment_retired(s))
		return LOCKSHM_NO_SEGMENT;
	if (t->deadline != INT64_MAX && segment_now(s) >= t->deadline)
		return LOCKSHM_TIMEOUT;
	return 0;
}

/* The outcome of a wait whose request is no longer waiting. */
static int wait_outcome(struct lockshm *s, const struct wait_terms *t, uint64_t w)
{
	/* R13: the last thing before the call returns.  If the lease has ended meanwhile, it never was a hold. */
	if (word_gen(w) == t->gen && word_is(w, REQUEST_GRANTED) &&
	    (!t->enters || queue_enter_owned(s, t->index, t->gen)))
		return 0;
	if (word_gen(w) == t->gen && word_is(w, REQUEST_ABANDONED) && t->canceller && canceller_used(t->canceller))
		return LOCKSHM_CANCELLED;
	return WAIT_AGAIN;
}

static bool still_waiting(const struct wait_terms *t, uint64_t w)
{
	return word_gen(w) == t->gen && word_is(w, REQUEST_WAITING);
}

/* At a self-check: a cycle that self-checks have found for so long that the thread that closed it would have stepped
 * back. */
static int lasting_deadlock(struct participant *self, struct wait_terms *t)
{
	int64_t now = segment_now(self->segment);
	bool lasts = t->suspected && now - t->suspected >= DEADLOCK_LASTS_NS;

	if (!deadlock_check(self, t->index, t->gen, lasts ? t->error : NULL)) {
		t->suspected = 0;
		return 0;
	}
	if (!t->suspected)
		t->suspected = now;
	return lasts ? LOCKSHM_DEADLOCK : 0;
}

/*
 * What a waiter does before it sleeps: unlink dead requests before it, take the grant if it is due, announce itself to
 * its predecessor.  WALK_DONE: it waits for @before.  WALK_AGAIN: something has changed.
 */
static enum walk wait_look(struct lockshm *s, const struct wait_terms *t, struct qpos *me, struct qpos *before)
{
	enum walk walk = queue_predecessor(s, t->entry, me, before);

	if (walk != WALK_DONE)
		return walk;
	if (queue_grant_if_due(s, t->entry, me, before) || !still_waiting(t, me->word) || before->index == 0)
		return WALK_AGAIN;
	/* R12: my predecessor is BARGEABLE. */
	if (word_is(before->word, REQUEST_BARGEABLE)) {
		(void)queue_end_barge(s, *before);
		return WALK_AGAIN;
	}
	return wait_announce(s, t, before) ? WALK_DONE : WALK_AGAIN;
}

/* One round.  @qpos: my distance from the head at the last self-check. */
static int wait_round(struct participant *self, struct wait_terms *t, uint64_t w, uint32_t *qpos)
{
	struct lockshm *s = self->segment;
	struct qpos me = { t->index, w }, before;
	enum walk walk = wait_look(s, t, &me, &before);

	if (walk == WALK_BROKEN)
		return error_set(t->error, LOCKSHM_BAD_SEGMENT, "the queue of this lock is damaged");
	if (walk == WALK_AGAIN)
		return 0;
	if (!word_is(before.word, REQUEST_WAITING))
		*qpos = 1;
	if (word_holds(before.word) && wait_spinning(self, t, me.word, &before))
		return 0;
	if (load_acquire(&s->requests[before.index].word) != before.word)
		return 0;
	if (wait_asleep(self, t, me.word, &before, *qpos)) {
		me.word = load_acquire(&mine(self, t)->word);
		probe_in_the_way(s, &me, true);
		(void)segment_is_gone(s); /* for reason_to_stop() */
		/* Granted without a wake-up: so may be those before me. */
		if (word_gen(me.word) == t->gen && word_live(me.word))
			(void)queue_advance(s, t->entry, me, qpos);
		if (self->held && still_waiting(t, me.word))
			return lasting_deadlock(self, t);
	}
	return 0;
}

static void at_time_out(struct participant *self, const struct wait_terms *t, struct qpos me)
{
	/* It may be granted now, or knows better what is in the way. */
	if (found_dead_in_the_way(self, &me))
		(void)queue_advance(self->segment, t->entry, me, NULL);
	me.word = load_acquire(&mine(self, t)->word);
	if (t->blocker && still_waiting(t, me.word))
		blocker_find(self->segment, me, t->index, t->blocker);
}

static int wait_rounds(struct participant *self, struct wait_terms *t)
{
	struct shm_request *r = mine(self, t);
	uint32_t qpos = 0;
	uint64_t w;
	int stop;

	/* Publish, then search: of two threads that close a cycle at once, at least one finds it.  Pairs with the same
	 * fence in the other thread. */
	fence_full();
	stop = self->held ? deadlock_check(self, t->index, t->gen, t->error) : 0;
	for (;;) {
		w = load_acquire(&r->word);
		if (!still_waiting(t, w)) {
			/* R5, before R13: the last step of the acquire is to enter. */
			queue_wake_run(self->segment, t->entry, t->index, t->gen);
			return wait_outcome(self->segment, t, load_acquire(&r->word));
		}
		if (!stop)
			stop = reason_to_stop(self, t);
		if (stop == LOCKSHM_TIMEOUT)
			at_time_out(self, t, (struct qpos){ t->index, w });
		if (stop && abandon(self, t))
			return stop;
		if (stop)
			continue; /* granted at the same moment: keep it */
		stop = wait_round(self, t, w, &qpos);
	}
}

static void begin_wait(struct participant *self, const struct wait_terms *t)
{
	store_release(&self->shared->waiting, ref_pack(t->index, t->gen));
	if (t->canceller)
		canceller_begin(t->canceller, self->segment, t->index, t->gen);
}

static void end_wait(struct participant *self, const struct wait_terms *t)
{
	if (t->canceller)
		canceller_end(t->canceller);
	store_release(&self->shared->waiting, 0);
}

int wait_for_grant(struct participant *self, struct wait_terms *t)
{
	int result;

	begin_wait(self, t);
	result = wait_rounds(self, t);
	end_wait(self, t);
	if (result == LOCKSHM_DEADLOCK)
		(void)fetch_add_relaxed(&self->segment->header->deadlocks, 1);
	/* For the next one: a program may cancel all its waits in less time than a self-check takes. */
	if (result == LOCKSHM_CANCELLED) {
		struct qpos me = { t->index, load_acquire(&mine(self, t)->word) };

		(void)found_dead_in_the_way(self, &me);
	}
	/* Another thread ended it: it may still be linked. */
	if (result == LOCKSHM_CANCELLED || result == WAIT_AGAIN)
		queue_grant_next(self->segment, t->entry, t->index);
	return result;
}

/* The generation shows that it is that request still, as only this thread fills its record.  ENTERED: the jump came before
 * the call returned, so that no hold stands for it.  A jump between the two stores of the append leaves a request that no
 * queue has: the record is lost until the thread ends.  Crash point: killed on the way, it is what any dead thread left. */
void wait_drop_left(struct participant *self)
{
	struct lockshm *s = self->segment;
	struct own_wait left = self->wait;
	uint64_t *word = &s->requests[left.index].word, w = load_acquire(word);

	while (word_gen(w) == left.gen && (word_is(w, REQUEST_WAITING) || word_holds(w)))
		if (cas(word, &w, word_with_state(w, word_holds(w) ? REQUEST_RELEASED : REQUEST_ABANDONED))) {
			queue_grant_next(s, &s->entries[left.entry], left.index);
			break;
		}
	store_release(&self->shared->waiting, 0);
	self->wait.index = 0;
}

/* ---------------------------------------------------------------- waits that no thread sleeps for */

#define LOOKS_MAX 1000

/* A new number: a holder that barges wakes each sleep of its successor once.  A CAS, as the record may be another
 * request's by now. */
static void number_sleep(struct shm_request *r)
{
	uint32_t old = load_relaxed32(&r->sleeping);

	if (old & SLEEPS_AT_DOORBELL)
		(void)cas32_from(&r->sleeping, old, old + SLEEP_NUMBER);
}

/* What the waiter of @t depends on.  False = it has changed. */
static bool take_view(const struct lockshm *s, const struct qpos *me, const struct qpos *before, struct wait_view *out)
{
	out->me = *me;
	out->before = *before;
	out->owner = load_acquire(&s->requests[before->index].owner);
	out->holds = !word_is(before->word, REQUEST_WAITING);
	out->until = holder_deadline(s, before);
	out->watched = false;
	if (word_is(before->word, REQUEST_COOLING))
		out->owner = 0;
	else
		out->watched = owner_watch(s, out->owner, &out->life);
	if (out->owner && !out->watched && owner_is_dead(s, out->owner))
		return false;
	return load_acquire(&s->requests[before->index].word) == before->word;
}

int wait_view(struct lockshm *s, const struct wait_terms *t, struct wait_view *out)
{
	struct shm_request *r = &s->requests[t->index];
	struct qpos me, before;
	enum walk walk;
	int looks;

	for (looks = 0; looks < LOOKS_MAX; looks++) {
		/* R12: the number before the look at the predecessor, in wait_announce(): it changes its word and then
		 * loads the number. */
		number_sleep(r);
		me = (struct qpos){ t->index, load_acquire(&r->word) };
		if (!still_waiting(t, me.word))
			return WAIT_OVER;
		walk = wait_look(s, t, &me, &before);
		if (walk == WALK_BROKEN)
			return LOCKSHM_BAD_SEGMENT;
		if (walk == WALK_DONE && take_view(s, &me, &before, out))
			return 0;
	}
	/* Others change it all the time: the caller looks again soon. */
	*out = (struct wait_view){ .until = segment_now(s) + LOCKSHM_MS(1) };
	return 0;
}

bool wait_abandon(struct lockshm *s, const struct wait_terms *t)
{
	struct shm_request *r = &s->requests[t->index];
	uint64_t w = load_acquire(&r->word);
	struct behind behind;

	while (still_waiting(t, w)) {
		behind = queue_note_behind(s, t->entry, t->index);
		if (!cas(&r->word, &w, word_with_state(w, REQUEST_ABANDONED)))
			continue;
		queue_grant_behind(s, t->entry, behind);
		return true;
	}
	return false;
}

void wait_last_look(struct participant *self, const struct wait_terms *t)
{
	struct qpos me = { t->index, load_acquire(&self->segment->requests[t->index].word) };

	if (found_dead_in_the_way(self, &me) && still_waiting(t, me.word))
		(void)queue_advance(self->segment, t->entry, me, NULL);
}

void wait_walk(struct lockshm *s, const struct wait_terms *t, uint32_t *qpos)
{
	struct qpos me = { t->index, load_acquire(&s->requests[t->index].word) };

	if (!still_waiting(t, me.word))
		return;
	probe_in_the_way(s, &me, false);
	(void)queue_advance(s, t->entry, me, qpos);
}
