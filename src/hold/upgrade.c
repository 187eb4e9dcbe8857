/* SPDX-License-Identifier: MIT */
/* upgrade.c - change the mode of a hold: shared to exclusive, or back */
#include "hold/hold-access.h"
#include "lock/queue.h"
#include "lock/wait.h"

/* Change the mode of a granted request, while a bypass may change its prev. */
static bool set_mode(const struct access *g, bool exclusive)
{
	uint64_t w = load_acquire(&g->r->word);

	while (access_granted(g, w))
		if (cas(&g->r->word, &w, word_with_mode(w, exclusive)))
			return true;
	return false;
}

/* Is this the only live request of the queue?  Clears away dead ones. */
static bool sole(const struct access *g, uint64_t *tail)
{
	struct qpos last, before;

	/* Without expiring this request: overdue is not lost. */
	if (queue_live_tail(g->s, g->e, &last, g->h->index) != WALK_DONE || last.index == 0)
		return false;
	if (last.index != g->h->index) {
		owner_probe(g->s, load_acquire(&g->s->requests[last.index].owner));
		return false;
	}
	if (queue_predecessor(g->s, g->e, &last, &before) != WALK_DONE)
		return false;
	if (before.index != 0) {
		owner_probe(g->s, load_acquire(&g->s->requests[before.index].owner));
		return false;
	}
	*tail = load_acquire(&g->e->tail);
	return tail_index(*tail) == g->h->index && word_prev(load_acquire(&g->r->word)) == 0;
}

/* A new fencing number from the host lease, which is exclusive as long as it lasts, or never.  LOCKSHM_BUSY: none is
 * left until the bridge has reserved more. */
static int upgrade_token(const struct access *g, uint64_t *token)
{
	struct shm_host_lease *l = host_lease_at(g->s, g->h->host_lease - 1);
	uint64_t left = 0;

	*token = l ? host_lease_take_fence(l, &left) : 0;
	if (fence_low(left))
		host_lease_ring(g->s, g->h->host_lease - 1);
	/* If the lease is over the number may be another key's. */
	if (!host_lease_holds(g->s, g->h->host_lease - 1, g->h->host_lease_word))
		return access_lost(g);
	return *token ? 0 : LOCKSHM_BUSY;
}

/* Readers of other hosts may hold the key, too. */
static bool lease_is_shared(const struct access *g)
{
	return unlikely(g->h->host_lease != 0) && !(g->h->host_lease_word & HOST_LEASE_EXCLUSIVE);
}

LOCKSHM_EXPORT int lockshm_upgrade(lockshm_hold_t *hold)
{
	struct access g;
	uint64_t tail = 0, ticket, w, token = 0;
	int outcome, err = hold_enter(&g, hold);

	if (err)
		return err;
	if (g.self && unlikely(g.self->wait.index != 0))
		wait_drop_left(g.self);
	outcome = access_late_or_ok(&g);
	if (outcome == LOCKSHM_LOST)
		return hold_leave(&g, access_lost(&g));
	/* Read the ticket first: if the word is granted after that, the ticket is of this use of the record. */
	ticket = load_acquire(&g.r->ticket);
	w = load_acquire(&g.r->word);
	if (access_granted(&g, w) && word_exclusive(w))
		return hold_leave(&g, outcome);
	if (access_granted(&g, w) && lease_is_shared(&g))
		return hold_leave(&g, LOCKSHM_INVALID);
	/* Twice: the first look may discover that a thread is dead. */
	if (access_granted(&g, w) && !sole(&g, &tail) && !sole(&g, &tail))
		return hold_leave(&g, LOCKSHM_BUSY);
	err = unlikely(g.h->host_lease != 0) && access_granted(&g, w) ? upgrade_token(&g, &token) : 0;
	if (unlikely(err))
		return hold_leave(&g, err);
	if (!access_granted(&g, w) || !set_mode(&g, true))
		return hold_leave(&g, access_lost(&g));
	if (tail_ticket(tail) >= TICKET_MAX - 1) {
		err = set_mode(&g, false) ? segment_full(g.s, LOCKSHM_TABLE_TICKETS, NULL) : access_lost(&g);
		return hold_leave(&g, err);
	}
	/* R10.  Crash and stop points: (1) exclusive, tail not yet: newcomers wait for this lease or life, as for any
	 * holder; (2) tail stored: upgraded.  Killed before the new ticket is stored: the death is reported with the
	 * old one.  Stopped there until the hold is taken away and the record filled anew: the CAS finds another
	 * generation in the ticket and fails. */
	if (cas_from(&g.e->tail, tail, tail_make(tail_ticket(tail) + 1, g.h->index))) {
		(void)cas_from(&g.r->ticket, ticket, ticket_replace(ticket, tail_ticket(tail) + 1));
		/* The tail named this request, dead or alive: its word decides. */
		if (!access_granted(&g, load_acquire(&g.r->word)))
			return hold_leave(&g, access_lost(&g));
		hold_open(g.h);
		g.h->grant.ticket = tail_ticket(tail) + 1;
		if (g.h->token != 0)
			g.h->token = token ? token : g.s->token_base + g.h->grant.ticket;
		hold_close(g.h);
		return hold_leave(&g, outcome);
	}
	err = set_mode(&g, false) ? LOCKSHM_BUSY : access_lost(&g);
	access_grant_next(&g);
	return hold_leave(&g, err);
}

/* R10: a waiter that this load misses finds the hold shared. */
static bool is_newest(const struct access *g)
{
	/* Here: swap the word, then load the tail.  Waiter: swap the tail, then load that word, before it sleeps.  Pairs
	 * with the fence in wait_announce(). */
	fence_after_rmw();
	return tail_index(load_acquire(&g->e->tail)) == g->h->index;
}

LOCKSHM_EXPORT int lockshm_downgrade(lockshm_hold_t *hold)
{
	struct access g;
	uint64_t w;
	int outcome, err = hold_enter(&g, hold);

	if (err)
		return err;
	outcome = access_result(&g);
	if (outcome == LOCKSHM_LOST)
		return hold_leave(&g, outcome);
	w = load_acquire(&g.r->word);
	if (access_granted(&g, w) && !word_exclusive(w))
		return hold_leave(&g, outcome);
	if (!set_mode(&g, false))
		return hold_leave(&g, access_lost(&g));
	/* Late, and the newest: a walk would end this hold for want of time, though no request wants the lock. */
	if (outcome != LOCKSHM_LATE || !is_newest(&g))
		access_grant_next(&g);
	return hold_leave(&g, outcome);
}
