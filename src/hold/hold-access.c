/* SPDX-License-Identifier: MIT */
/* hold-access.c - the checks at the begin of a call on a hold, and lost holds; see hold/hold-access.h */
#include "hold/hold-access.h"

#include "lock/guest.h"
#include "lock/queue.h"

/*
 * A hold of the process: its segment must be mapped and its service thread the one of the hold.  The mapping stays
 * during the call, since the calling thread takes part or is a guest; one that cannot become a guest has a reference.
 */
static bool is_of_process(struct access *g)
{
	struct lockshm *s = g->h->segment;

	if (unlikely(!g->self) && unlikely(!guest_known(s)) && !guest_join(s, g->h->owner)) {
		g->referenced = process_ref_segment(s);
		if (!g->referenced)
			return false;
	}
	if (likely(segment_is_process(s, g->h->owner, &g->owner)))
		return true;
	if (g->referenced)
		segment_unref(s);
	return g->referenced = false;
}

/* Find the owner, the calling thread or the process.  Until then the segment pointer is compared and not followed. */
static bool find_owner(struct access *g)
{
	g->self = participant_find(g->h->segment);
	if (likely(access_of_thread(g))) {
		g->owner = g->self->ref;
		return true;
	}
	return is_of_process(g);
}

static bool find_record(struct access *g)
{
	g->s = g->h->segment;
	g->r = request_at(g->s, g->h->index);
	g->e = entry_at(g->s, g->h->entry);
	return g->r && g->e && g->h->host_lease <= g->s->n_host_leases;
}

/* Lock the service thread out if it has to do with this hold.  It does not stay for a guest, but for a reference.
 * False = the renewal is not this hold's, or freed. */
static bool find_renewal(struct access *g, bool lock)
{
	if (likely(!lock) && likely(!g->h->renewal))
		return true;
	if (!g->self && !g->referenced && !g->locked)
		g->referenced = process_ref_segment(g->s);
	if (!g->locked)
		g->locked = renewals_lock_if_any(g->s);
	if (g->locked && g->h->renewal)
		g->renewal = renewals_find(g->s, g->h);
	return g->locked && g->renewal == g->h->renewal;
}

#define GEN_LOST UINT64_MAX

/* The renewals' lock held: the service thread does not renew meanwhile.  The word before `use`: see lock/tend.h. */
static bool find_tend(struct access *g)
{
	uint64_t w;

	if (likely(!hold_is_tended(g->h)))
		return true;
	if (!g->s->tends)
		return false;
	g->tend = tend_of(g->s, g->h->index);
	w = load_acquire(&g->r->word);
	g->gen = load_acquire(&g->tend->use) == g->h->grant.gen ? word_gen(w) : GEN_LOST;
	return true;
}

/* While the word is granted to the hold, the rest of the record was written for the hold.  Otherwise the record is
 * another request's and the hold is lost: that is the caller's to find.  Read the fields before the second look at the
 * word: in between, the record of a moved hold may be filled anew by the thread that owns its chunk. */
static bool record_agrees(const struct access *g)
{
	if (unlikely(!access_granted(g, load_acquire(&g->r->word))))
		return true;
	if (likely(load_acquire32(&g->r->entry) == g->h->entry) &&
	    likely(ticket_of(load_acquire(&g->r->ticket)) == g->h->grant.ticket) &&
	    likely(load_acquire(&g->r->owner) == g->owner))
		return true;
	return !access_granted(g, load_acquire(&g->r->word));
}

static inline int enter(struct access *g, const lockshm_hold_t *hold, bool lock)
{
	g->h = hold_of(hold);
	g->renewal = NULL;
	g->tend = NULL;
	g->locked = g->referenced = false;
	if (unlikely(!g->h))
		return LOCKSHM_INVALID;
	if (unlikely(!hold_sealed(g->h)) || unlikely(!find_owner(g)))
		return LOCKSHM_NOT_HELD;
	/* A call with a reference must not be cancelled in between, which the lock ensures. */
	lock = (lock && !access_of_thread(g)) || g->referenced || hold_is_tended(g->h);
	if (likely(find_record(g)) && likely(find_renewal(g, lock)) && likely(find_tend(g)) && likely(record_agrees(g)))
		return 0;
	return hold_leave(g, LOCKSHM_NOT_HELD);
}

int hold_enter(struct access *g, const lockshm_hold_t *hold)
{
	return enter(g, hold, false);
}

int hold_enter_alone(struct access *g, const lockshm_hold_t *hold)
{
	return enter(g, hold, true);
}

struct visit {
	struct hold *h;
	bool (*use)(struct access *g, void *arg);
	void *arg;
};

/* As hold_enter() for a hold of the process, with the segment's lock held instead of a reference. */
static bool visit_of_process(struct lockshm *s, void *arg)
{
	const struct visit *v = arg;
	struct access g = { .h = v->h };

	g.locked = renewals_lock_if_any(s);
	if (!g.locked)
		return false;
	if (segment_is_process(s, v->h->owner, &g.owner) && find_record(&g) && find_renewal(&g, true) && find_tend(&g) &&
	    record_agrees(&g))
		return v->use(&g, v->arg);
	g.s = s;
	return hold_leave(&g, false);
}

bool hold_visit(struct hold *h, bool (*use)(struct access *g, void *arg), void *arg)
{
	struct access g = { .h = h };

	if (!hold_sealed(h))
		return false;
	/* participant_find() also begins the epoch, so that process_visit() need not. */
	g.self = participant_find(h->segment);
	if (!g.self || g.self->uid != h->owner)
		return process_visit(h->segment, visit_of_process, &(struct visit){ h, use, arg });
	g.owner = g.self->ref;
	if (find_record(&g) && find_renewal(&g, hold_is_tended(h)) && find_tend(&g) && record_agrees(&g))
		return use(&g, arg);
	return hold_leave(&g, false);
}

/* Ticket of the oldest hold after @ticket, else the newest ticket of the key; 0 = none. */
static uint64_t successor_ticket(const struct access *g, uint64_t ticket)
{
	uint64_t tail = load_acquire(&g->e->tail), found = tail_ticket(tail);
	uint32_t n, i = tail_index(tail);

	if (load_relaxed(&g->e->id[0]) != g->h->key_check || found <= ticket)
		return 0;
	for (n = 0; n < g->s->n_requests; n++) {
		const struct shm_request *r = request_at(g->s, i);
		uint64_t w = r ? load_acquire(&r->word) : 0, t = r ? ticket_of(load_relaxed(&r->ticket)) : 0;

		if (!r || load_relaxed32(&r->entry) != g->h->entry || t <= ticket)
			break;
		if (word_holds(w))
			found = t;
		i = word_prev(w);
	}
	return found;
}

/* Global hold: the newest fencing number of this host, if it is newer and the lease is still this key's.  Numbers of
 * other hosts are not known here. */
static uint64_t lost_globally_to(const struct access *g)
{
	uint64_t next = host_lease_fence_of(host_lease_at(g->s, g->h->host_lease - 1), g->h->key_check);

	return next > g->h->token + 1 ? next - 1 : 0;
}

int access_lost(const struct access *g)
{
	uint64_t ticket;

	if (unlikely(g->h->host_lease != 0)) {
		g->h->lost_to = lost_globally_to(g);
		return LOCKSHM_LOST;
	}
	/* Policy local-only: the hold has no token, so the number of a successor cannot be compared with it. */
	if (unlikely(g->h->token == 0)) {
		g->h->lost_to = 0;
		return LOCKSHM_LOST;
	}
	ticket = successor_ticket(g, g->h->grant.ticket);
	g->h->lost_to = ticket ? g->s->token_base + ticket : 0;
	return LOCKSHM_LOST;
}

void access_grant_next(const struct access *g)
{
	/* A moved hold's record may be another request by now, with a hint that leads into another queue. */
	if (unlikely(g->h->moved))
		(void)queue_advance_tail(g->s, g->e);
	else
		queue_grant_next(g->s, g->e, g->h->index);
}
