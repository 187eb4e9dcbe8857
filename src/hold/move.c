/* SPDX-License-Identifier: MIT */
/* move.c - the owner of a hold: a thread, or the process; see move.h */
#include "hold/move.h"

#include "hold/hold-access.h"
#include "lock/queue.h"

static void set_moved(struct hold *h, uint64_t gen, uint64_t uid)
{
	hold_open(h);
	h->moved = true;
	h->grant.gen = gen;
	h->owner = uid;
	hold_close(h);
}

/*
 * Change the owner, then advance the generation: an expirer that decided by the old owner's life loses its CAS.  Crash
 * point: killed in between, the hold ends with its lease or with the new owner.  The renewals' lock is held, so that no
 * other move can bring the same owner word back to the record for another request.
 */
static int change_owner(struct access *g, uint64_t uid, uint64_t ref)
{
	uint64_t old = load_acquire(&g->r->owner), gen = access_gen(g), end = load_acquire(&g->r->deadline);
	bool own_record = access_of_thread(g) && !g->h->moved;
	int outcome = access_late_or_ok(g);

	if (outcome == LOCKSHM_LOST)
		return access_lost(g);
	/* Owner and deadline were read before the word: if that is still this hold's, so were they. */
	if (!access_granted(g, load_acquire(&g->r->word)) || !cas_from(&g->r->owner, old, ref))
		return access_lost(g);
	set_moved(g->h, g->h->grant.gen, g->h->owner);
	if (!deadline_renew(g->s, g->h->index, &gen, deadline_ns(end)))
		return access_lost(g);
	if (g->renewal)
		renewals_set_gen(g->renewal, gen);
	if (access_of_thread(g))
		g->self->held--;
	/* Most likely free when this thread takes one again. */
	if (own_record && g->self->free_request == 0)
		g->self->free_request = g->h->index;
	set_moved(g->h, gen, uid);
	queue_wake_successor(g->s, g->h->index); /* the successor watches the old owner's life */
	return outcome;
}

/*
 * The slot gets the flag ADOPTED, before it owns the hold: the sweep has to look for records in other threads' chunks.  A
 * process' slot may have another owner by now: then the sweep looks for nothing once.  Crash point: the same.
 */
static void flag_adopter(const struct lockshm *s, uint64_t ref)
{
	uint32_t *flags = &s->owners[owner_ref_slot(ref)].flags;

	if (!(load_relaxed32(flags) & OWNER_ADOPTED))
		(void)fetch_or32(flags, OWNER_ADOPTED);
}

/* Find the new owner. */
static int move_target(const lockshm_hold_t *hold, int to, uint64_t *uid, uint64_t *ref)
{
	struct hold *h = hold_of(hold);
	struct participant *self;
	int err;

	if (!hold_sealed(h) || h->epoch != process_epoch())
		return LOCKSHM_NOT_HELD;
	if (to == LOCKSHM_TO_PROCESS) {
		*uid = load_acquire(&h->segment->process_uid);
		*ref = load_relaxed(&h->segment->process_ref);
		if (*uid)
			flag_adopter(h->segment, *ref);
		return *uid ? 0 : LOCKSHM_SYSTEM;
	}
	err = participant_get(h->segment, &self, NULL);
	if (err)
		return err;
	*uid = self->uid;
	*ref = self->ref;
	flag_adopter(h->segment, *ref);
	return 0;
}

/* The records of loops have the process for their owner in each use: change_owner() could not tell two uses apart. */
static bool is_of_loop(const struct access *g)
{
	return load_acquire(chunk_word(g->s, (g->h->index - 1) / g->s->chunk_size)) == load_relaxed(&g->s->process_ref);
}

int hold_move(lockshm_hold_t *hold, int to)
{
	struct participant *self;
	struct access g;
	uint64_t uid = 0, ref = 0;
	int err = move_target(hold, to, &uid, &ref);

	if (!err)
		err = hold_enter_alone(&g, hold);
	if (err)
		return err;
	if (!access_granted(&g, load_acquire(&g.r->word)))
		return hold_leave(&g, access_lost(&g));
	if (g.h->owner == uid)
		return hold_leave(&g, access_result(&g));
	if (is_of_loop(&g))
		return hold_leave(&g, LOCKSHM_INVALID);
	if (!g.locked) {
		renewals_lock(g.s);
		g.locked = true;
	}
	err = change_owner(&g, uid, ref);
	self = participant_find(g.s);
	if (err >= 0 && self && self->uid == uid)
		self->held++;
	return hold_leave(&g, err);
}
