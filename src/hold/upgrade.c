/* SPDX-License-Identifier: MIT */
/* upgrade.c - change the mode of a hold: shared to exclusive, or back */
#include "hold/hold-access.h"
#include "lock/queue.h"

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

#define WANTS_LEASE 1000 /* in addition to the public codes */

/* A new fencing number, if the host lease is exclusive.  Else WANTS_LEASE; LOCKSHM_BUSY if no number is left. */
static int upgrade_token(const struct access *g, uint64_t *token, uint64_t *word)
{
	struct shm_host_lease *l = host_lease_at(g->s, g->h->host_lease - 1);
	uint64_t left;

	*word = l ? load_acquire(&l->word) : 0;
	if (!(*word & HOST_LEASE_EXCLUSIVE))
		return l ? WANTS_LEASE : LOCKSHM_BUSY;
	*token = host_lease_take_fence(l, &left);
	return *token ? 0 : LOCKSHM_BUSY;
}

/* Is the lease still as upgrade_token() found it?  The bridge may be about to make it shared; and after the next change
 * of its mode other holders may have had larger numbers. */
static bool lease_is_exclusive(const struct access *g, uint64_t found)
{
	const struct shm_host_lease *l = host_lease_at(g->s, g->h->host_lease - 1);
	uint64_t w;

	/* The new mode before the look at the word.  Pairs with the fence in look_at_holders(). */
	fence_after_rmw();
	w = load_acquire(&l->word);
	return host_lease_full_mode_gen(w) == host_lease_full_mode_gen(found) && (w & HOST_LEASE_EXCLUSIVE);
}

static int upgrade(lockshm_hold_t *hold)
{
	struct access g;
	uint64_t tail = 0, ticket, w, token = 0, lease = 0;
	int outcome, err = hold_enter(&g, hold);

	if (err)
		return err;
	outcome = access_late_or_ok(&g);
	if (outcome == LOCKSHM_LOST)
		return hold_leave(&g, access_lost(&g));
	/* Read the ticket first: if the word is granted after that, the ticket is of this use of the record. */
	ticket = load_acquire(&g.r->ticket);
	w = load_acquire(&g.r->word);
	if (access_granted(&g, w) && word_exclusive(w))
		return hold_leave(&g, outcome);
	/* Twice: the first look may discover that a thread is dead. */
	if (access_granted(&g, w) && !sole(&g, &tail) && !sole(&g, &tail))
		return hold_leave(&g, LOCKSHM_BUSY);
	err = unlikely(g.h->host_lease != 0) && access_granted(&g, w) ? upgrade_token(&g, &token, &lease) : 0;
	if (unlikely(err))
		return hold_leave(&g, err);
	if (!access_granted(&g, w) || !set_mode(&g, true))
		return hold_leave(&g, access_lost(&g));
	if (unlikely(g.h->host_lease != 0) && !lease_is_exclusive(&g, lease)) {
		err = set_mode(&g, false) ? WANTS_LEASE : access_lost(&g);
		access_grant_next(&g);
		return hold_leave(&g, err);
	}
	if (tail_ticket(tail) >= TICKET_MAX - 1) {
		err = set_mode(&g, false) ? LOCKSHM_FULL : access_lost(&g);
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

/* If the host lease must become exclusive first, wait for it with nothing locked: the service thread must be able to
 * renew meanwhile. */
LOCKSHM_EXPORT int lockshm_upgrade(lockshm_hold_t *hold)
{
	struct hold *h = hold_of(hold);
	struct lockshm *s;
	int err = upgrade(hold);

	if (likely(err != WANTS_LEASE))
		return err;
	s = h->segment;
	if (!process_ref_segment(s))
		return LOCKSHM_NOT_HELD;
	err = host_lease_upgrade(s, h->host_lease - 1, h->host_lease_word);
	/* After LOST too: upgrade() stores and reports the loss. */
	if (err != LOCKSHM_BUSY) {
		err = upgrade(hold);
		/* A local reader was granted meanwhile, so the exclusive lease is unused.  Crash point: killed before
		 * this, see unused(). */
		if (err == LOCKSHM_BUSY)
			host_lease_request_downgrade(s, h->host_lease - 1, h->host_lease_word);
	}
	segment_unref(s);
	return err == WANTS_LEASE ? LOCKSHM_BUSY : err;
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
	access_grant_next(&g);
	/* The readers of this host are granted; now admit those of other hosts. */
	if (unlikely(g.h->host_lease != 0))
		host_lease_request_downgrade(g.s, g.h->host_lease - 1, g.h->host_lease_word);
	return hold_leave(&g, outcome);
}
