/* SPDX-License-Identifier: MIT */
/*
 * tend.c - scans of the holds of loops: which are to be renewed, which are lost
 *
 * A hold is renewed by the first scan in the second half of its lease; scans come four times in the shortest lease, and
 * once a second for holds whose loop is to be told: the taker that rings may have been killed before that.  They stop
 * with the last hold.
 *
 * Crash points: the process ends with all of it.  Stopped, the service thread renews late, as any renewal, and tells
 * late.
 */
#include "service/tend.h"

#include "hold/renewal.h"
#include "hostlease/host-lease.h"
#include "lock/deadline.h"
#include "sys/min.h"

#define LOOK_NS LOCKSHM_SECONDS(1)

/* Consistent: of one use of the place. */
struct copy {
	uint64_t use;
	uint64_t word;
	int64_t ttl;
	int64_t until;
	uint32_t host_lease;
	uint64_t host_lease_word;
	bool tells;
};

static bool copy_place(const struct lockshm *s, uint32_t index, struct copy *c)
{
	const struct tend *t = tend_of(s, index);

	c->use = load_acquire(&t->use);
	if (c->use == 0 || c->use & TEND_ENDS)
		return false;
	c->word = load_acquire(&s->requests[index].word);
	c->ttl = (int64_t)load_relaxed((const uint64_t *)&t->ttl_ns);
	c->until = (int64_t)load_relaxed((const uint64_t *)&t->until);
	c->host_lease = load_relaxed32(&t->host_lease);
	c->host_lease_word = load_relaxed(&t->host_lease_word);
	c->tells = __atomic_load_n(&t->tells, __ATOMIC_RELAXED);
	/* The fields before the second look at `use`, as a reader of a seqlock: they are written in a use of the record.
	 * Pairs with fence_release() in request_begin_use() and request_begin_next_use(). */
	fence_acquire();
	return load_relaxed(&t->use) == c->use;
}

static bool is_lost(struct lockshm *s, const struct copy *c)
{
	return tend_is_over(c->word, c->use) ||
	       (c->host_lease != 0 && !host_lease_holds(s, c->host_lease - 1, c->host_lease_word));
}

bool tend_is_lost(struct lockshm *s, uint32_t index, uint64_t *use)
{
	struct copy c;

	if (!copy_place(s, index, &c) || !is_lost(s, &c))
		return false;
	*use = c.use;
	return true;
}

/* When it is to be looked at again. */
static int64_t next_look(const struct lockshm *s, const struct copy *c, int64_t now)
{
	int64_t next = c->tells ? now + LOOK_NS : INT64_MAX;

	if (c->ttl != 0)
		next = min64(next, now + c->ttl / 4);
	if (c->tells && c->host_lease != 0)
		next = min64(next, now + host_lease_left(s, c->host_lease - 1, c->host_lease_word));
	return next;
}

static void renew(struct lockshm *s, uint32_t index, const struct copy *c, int64_t now)
{
	int64_t deadline = deadline_ns(load_acquire(&s->requests[index].deadline)), end;
	uint64_t gen = word_gen(c->word);

	/* Strict by the owner's own renewal, which stores one of the two first: there is nothing to renew. */
	if (deadline == INT64_MAX || c->ttl == INT64_MAX || deadline - now > c->ttl / 2)
		return;
	end = min64(now + c->ttl, c->until);
	/* That word was of this use, so its generation is. */
	if (end > deadline)
		(void)deadline_renew(s, index, &gen, end);
}

/* Returns when to look again; INT64_MAX = it holds nothing. */
static int64_t look_at(struct lockshm *s, uint32_t index, int64_t now, bool act)
{
	struct copy c;

	if (!copy_place(s, index, &c))
		return INT64_MAX;
	if (!act)
		return next_look(s, &c, now);
	if (is_lost(s, &c)) {
		if (c.tells)
			waits_tell_loss(s, index);
		else
			(void)cas_from(&tend_of(s, index)->use, c.use, 0);
		return c.tells ? now + LOOK_NS : INT64_MAX;
	}
	/* A grant that its loop is about to collect has the generation before `use`: renewed here, it could not be entered. */
	if (c.ttl != 0 && word_holds(c.word) && word_gen(c.word) >= c.use)
		renew(s, index, &c, now);
	return next_look(s, &c, now);
}

static int64_t scan(struct lockshm *s, int64_t now, bool act)
{
	uint32_t i, index, n = load_acquire32(&s->tends->n_known);
	int64_t next = INT64_MAX;

	for (i = 0; i < n; i++) {
		index = load_acquire32(&s->tends->known[i]);
		if (index != 0)
			next = min64(next, look_at(s, index, now, act));
	}
	return next;
}

int64_t service_tend(struct lockshm *s)
{
	struct tends *all = __atomic_load_n(&s->tends, __ATOMIC_ACQUIRE);
	int64_t now = segment_now(s), next, sooner;

	if (!all)
		return INT64_MAX;
	next = (int64_t)load_relaxed((const uint64_t *)&all->at);
	if (next > now)
		return next;
	next = scan(s, now, true);
	store_relaxed((uint64_t *)&all->at, (uint64_t)next);
	/* The time, then a look whether a hold came that is to be looked at before it.  Pairs with the fence in
	 * tend_scan_in_time(). */
	fence_full();
	sooner = scan(s, now, false);
	/* Unless a loop's thread has changed it meanwhile. */
	if (sooner < next)
		(void)cas_from((uint64_t *)&all->at, (uint64_t)next, (uint64_t)sooner);
	return min64(next, sooner);
}

static bool is_watched(const struct futex_watch *watches, unsigned n, const uint32_t *word)
{
	while (n-- > 0)
		if (watches[n].word == word)
			return true;
	return false;
}

/* The lease of record @index is told of when it is lost: sleep on what signals that.  False = it is none of those. */
static bool watch_lease(struct lockshm *s, uint32_t index, struct futex_watch *watches, unsigned *n)
{
	struct shm_host_lease *l;
	struct copy c;
	uint32_t seq;

	if (!copy_place(s, index, &c) || !c.tells || c.host_lease == 0)
		return false;
	l = host_lease_at(s, c.host_lease - 1);
	/* Read the sequence before what it is about. */
	seq = l ? load_acquire32(&l->waiters_seq) : 0;
	if (is_lost(s, &c))
		waits_tell_loss(s, index);
	else if (l && *n < FUTEX_WATCH_MOST && futex_has_waitv() && !is_watched(watches, *n, &l->waiters_seq))
		watches[(*n)++] = (struct futex_watch){ &l->waiters_seq, seq };
	return true;
}

void service_watch_leases(struct lockshm *s, struct futex_watch *watches, unsigned *n)
{
	struct tends *all = __atomic_load_n(&s->tends, __ATOMIC_ACQUIRE);
	uint32_t i, index;
	bool any = false;

	/* Cleared before the look: a loop's thread that sets it later rings after that. */
	if (!all || !load_relaxed32(&all->leases) || !__atomic_exchange_n(&all->leases, 0, __ATOMIC_ACQ_REL))
		return;
	for (i = 0; i < load_acquire32(&all->n_known); i++) {
		index = load_acquire32(&all->known[i]);
		any |= index != 0 && watch_lease(s, index, watches, n);
	}
	if (any)
		store_relaxed32(&all->leases, 1);
}

/* The service thread scans at once. */
static void ring(struct lockshm *s)
{
	store_relaxed((uint64_t *)&s->tends->at, 0);
	renewals_lock(s);
	renewals_ring(s->renewals);
	renewals_unlock(s);
}

void tend_scan_in_time(struct lockshm *s, int64_t now, int64_t ttl_ns, bool tells)
{
	int64_t least = min64(ttl_ns ? ttl_ns / 4 : INT64_MAX, tells ? LOOK_NS : INT64_MAX);

	/* `use` and the swap that made the hold, then the time of the next scan.  Pairs with the fence in
	 * service_tend(). */
	fence_after_rmw();
	if (unlikely((int64_t)load_relaxed((const uint64_t *)&s->tends->at) - now > least))
		ring(s);
}

void tend_under_lease(struct lockshm *s, uint32_t index, uint32_t host_lease, uint64_t word)
{
	struct tend *t = tend_of(s, index);

	store_relaxed(&t->host_lease_word, word);
	store_release32(&t->host_lease, host_lease);
	if (!t->tells)
		return;
	store_release32(&s->tends->leases, 1);
	ring(s);
}
