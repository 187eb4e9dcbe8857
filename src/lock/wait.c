/* SPDX-License-Identifier: MIT */
/*
 * wait.c - from the append to the grant
 *
 * One round of a waiter:
 *   look      my word: granted, ended, or still waiting?
 *   clear     unlink what is dead before me; grant myself if nobody conflicting is left
 *   announce  tell my predecessor where I am (R6 hint), then look at it once more
 *   spin      if I am next in line: for some microseconds, as long as it has lately paid off
 *   sleep     on the low half of my own word and on the life word of my predecessor's owner
 *
 * No wake-up is lost: every change that concerns me either changes my own word (grant, bypass, cancel), which the
 * kernel compares under its lock before it sleeps me, or my predecessor's, which I look at after announcing
 * myself; whoever changes that one looks for my announcement afterwards.  A death flags the life word, which the
 * kernel compares as well.
 *
 * Every sleep ends by itself: at my deadline, at my predecessor's, or at the self-check, when I go forward to the head
 * and do for everyone whatever somebody stopped or killed has left undone (R9).  So all futex outcomes are treated
 * alike: look again.  The self-check comes every 100 ms for the first waiters of a queue and less often far behind,
 * where others in front do the same.
 */
#include "lock/wait.h"

#include "lock/deadlock.h"
#include "sys/error.h"
#include "sys/futex.h"
#include "lock/damage.h"
#include "segment/process.h"

#define SELF_CHECK_NS 100000000
#define SELF_CHECK_BLIND_NS 10000000 /* where a death does not wake us */
#define SELF_CHECK_CROWD 16	     /* this many check at the full rate */
#define SELF_CHECK_MAX_NS 2000000000
#define DEADLOCK_LASTS_NS 500000000 /* whoever closed the cycle has run by then, and stepped back */
#define SPIN_MAX_NS 20000
#define SPIN_MIN_NS 500

static struct shm_request *mine(const struct participant *self, const struct wait_terms *t)
{
	return &self->segment->requests[t->index];
}

/* R3: leave the queue.  True = left; false = granted (or ended by somebody) in the same moment. */
static bool abandon(struct participant *self, struct wait_terms *t)
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

/* R6: store the hint, fence, look at the predecessor again.  False = it has changed. */
static bool wait_announce(struct lockshm *s, const struct wait_terms *t, const struct qpos *before)
{
	queue_hint(s, before->index, t->index, t->gen);
	/* My hint before my look at its word: it changes its word and then looks for the hint.  Pairs with
	 * queue_grant_next(), grant_run() and queue_kick_successor(). */
	fence_full();
	return load_acquire(&s->requests[before->index].word) == before->word;
}

static bool may_barge(const struct lockshm *s, const struct qpos *before)
{
	return load_relaxed32(&s->requests[before->index].flags) & REQUEST_BARGES;
}

/* Spin while it pays: the budget follows what spinning lately brought.  True = my word has changed, or the one before
 * me that may linger has changed its own. */
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

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* When to look again even if nothing happens. */
static int64_t self_check_at(const struct participant *self, const struct wait_terms *t, bool blind, uint32_t qpos)
{
	const struct shm_request *r = mine(self, t);
	int64_t slice = SELF_CHECK_NS, ttl = (int64_t)load_relaxed((const uint64_t *)&r->ttl_ns);

	if (qpos > SELF_CHECK_CROWD)
		slice = earlier((int64_t)SELF_CHECK_NS * qpos / SELF_CHECK_CROWD, SELF_CHECK_MAX_NS);
	if (blind)
		slice = SELF_CHECK_BLIND_NS;
	/* A grant nobody woke me for must not eat much of my lease. */
	slice = earlier(slice, ttl / 4 > 1000000 ? ttl / 4 : 1000000);
	return segment_now(self->segment) + slice;
}

static int64_t lease_from_now(const struct lockshm *s, int64_t ttl)
{
	if (ttl > LOCKSHM_TIME_MAX)
		return INT64_MAX;
	return segment_now(s) + (ttl > LOCKSHM_TTL_MIN ? ttl : LOCKSHM_TTL_MIN);
}

/* When the request before me may be overdue. */
static int64_t holder_deadline(const struct lockshm *s, const struct qpos *before)
{
	uint64_t d = load_acquire(&s->requests[before->index].deadline);

	/* Granted in my sleep, of which I am not told, it cannot be overdue before one lease from now. */
	if (word_is(before->word, REQUEST_WAITING))
		return lease_from_now(s, (int64_t)load_relaxed((const uint64_t *)&s->requests[before->index].ttl_ns));
	return d >= DEADLINE_NEVER ? INT64_MAX : (int64_t)d + 1;
}

/* Sleep until my word changes, the predecessor's owner dies or the predecessor lingers, or the time comes.  True = it
 * was the self-check's time. */
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

	/* R12: it begins to linger without a change of mine. */
	if (may_barge(s, before))
		watch[n++] = (struct futex_watch){ (const uint32_t *)(const void *)other, (uint32_t)before->word };
	/* Never put off by waking before it: the ends of short leases may wake me more often than that. */
	check = self_check_at(self, t, !ownerless && !(watched && futex_has_waitv()), qpos);
	t->check_at = t->check_at ? earlier(t->check_at, check) : check;
	until = earlier(t->check_at, earlier(t->deadline, holder_deadline(s, before)));
	self->sleeps += SLEEP_NUMBER;
	store_relaxed32(&r->sleeping, self->sleeps | SLEEPS | (n > 1 && futex_has_waitv() ? 0 : SLEEPS_ON_ONE_WORD));
	/* My flag before my looks at both words, here and in the kernel: whoever changes one of them looks for the
	 * flag.  Pairs with queue_wake() and queue_kick_successor(). */
	fence_full();
	start = segment_now(s);
	/* Not dead when owner_watch() looked, or this round would have cleared it; the kernel
	 * compares both words again. */
	if (load_acquire(&r->word) == w && load_acquire(other) == before->word &&
	    (ownerless || watched || !owner_is_dead(s, owner)))
		futex_wait_any(watch, n, until - s->clock_offset);
	store_relaxed32(&r->sleeping, 0);
	t->slept_ns += segment_now(s) - start;
	/* The kernel wakes one watcher of a dead thread; there may be more, in other queues. */
	if (watched && load_acquire32(watch[1].word) != watch[1].value)
		owner_wake_watchers(s, owner);
	if (segment_now(s) < t->check_at)
		return false;
	t->check_at = 0;
	return true;
}

/* Why to stop waiting, 0 = go on. */
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

/* My request is no longer waiting: what became of it. */
static int wait_outcome(const struct wait_terms *t, uint64_t w)
{
	if (word_gen(w) == t->gen && word_is(w, REQUEST_GRANTED))
		return 0;
	if (word_gen(w) == t->gen && word_is(w, REQUEST_ABANDONED) && t->canceller && canceller_used(t->canceller))
		return LOCKSHM_CANCELLED;
	return WAIT_AGAIN;
}

static bool still_waiting(const struct wait_terms *t, uint64_t w)
{
	return word_gen(w) == t->gen && word_is(w, REQUEST_WAITING);
}

/* At a self-check: a cycle that the self-checks have seen for so long that whoever closed it
 * would have stepped back. */
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

/* One round.  @place: how many stood before me at the last self-check. */
static int wait_round(struct participant *self, struct wait_terms *t, uint64_t w, uint32_t *qpos)
{
	struct lockshm *s = self->segment;
	struct qpos me = { t->index, w }, before;
	enum walk walk = queue_predecessor(s, t->entry, &me, &before);

	if (walk == WALK_BROKEN)
		return error_set(t->error, LOCKSHM_BAD_SEGMENT, "the queue of this lock is damaged");
	if (walk == WALK_AGAIN || queue_grant_if_due(s, t->entry, &me, &before) || !still_waiting(t, me.word) || before.index == 0)
		return 0;
	/* R12: it lingers, and I am right behind it. */
	if (word_is(before.word, REQUEST_BARGEABLE)) {
		(void)queue_end_barge(s, before);
		return 0;
	}
	if (!word_is(before.word, REQUEST_WAITING))
		*qpos = 1;
	if (!wait_announce(s, t, &before))
		return 0;
	if (word_is(before.word, REQUEST_GRANTED) && wait_spinning(self, t, me.word, &before))
		return 0;
	if (load_acquire(&s->requests[before.index].word) != before.word)
		return 0;
	if (wait_asleep(self, t, me.word, &before, *qpos)) {
		me.word = load_acquire(&mine(self, t)->word);
		owner_probe(s, load_acquire(&s->requests[before.index].owner));
		(void)segment_is_gone(s); /* reason_to_stop() looks at what it found */
		if (still_waiting(t, me.word))
			(void)queue_advance(s, t->entry, me, qpos);
		if (self->held && still_waiting(t, me.word))
			return lasting_deadlock(self, t);
	}
	return 0;
}

static int wait_rounds(struct participant *self, struct wait_terms *t)
{
	struct shm_request *r = mine(self, t);
	uint32_t qpos = 0;
	uint64_t w;
	int stop;

	/* Published before the search: of two that close a cycle at once, at least one sees both.  Pairs with the same
	 * fence in the other thread. */
	fence_full();
	stop = self->held ? deadlock_check(self, t->index, t->gen, t->error) : 0;
	for (;;) {
		w = load_acquire(&r->word);
		if (!still_waiting(t, w))
			return wait_outcome(t, w);
		if (!stop)
			stop = reason_to_stop(self, t);
		if (stop && abandon(self, t))
			return stop;
		if (stop)
			continue; /* granted just now: keep it */
		stop = wait_round(self, t, w, &qpos);
	}
}

int wait_for_grant(struct participant *self, struct wait_terms *t)
{
	int result;

	store_release(&self->shared->waiting, ref_pack(t->index, t->gen));
	if (t->canceller)
		canceller_begin(t->canceller, self->segment, t->index, t->gen);
	result = wait_rounds(self, t);
	if (t->canceller)
		canceller_end(t->canceller);
	store_release(&self->shared->waiting, 0);
	if (result == LOCKSHM_DEADLOCK)
		count_event(self, COUNT_DEADLOCKS);
	/* Somebody else ended it: it may still be linked. */
	if (result == LOCKSHM_CANCELLED || result == WAIT_AGAIN)
		queue_grant_next(self->segment, t->entry, t->index);
	return result;
}
