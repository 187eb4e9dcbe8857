/* SPDX-License-Identifier: MIT */
/* move.c - whose a hold is, a thread's or the process', and who is told when it is lost */
#include "hold/hold-access.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "lock/queue.h"

/* ---------------------------------------------------------------- move */

static void set_moved(struct hold *h, uint64_t gen, uint64_t uid)
{
	hold_open(h);
	h->moved = true;
	h->gen = gen;
	h->owner = uid;
	hold_close(h);
}

/*
 * Change the owner, then advance the generation: who judged me by the old owner's life loses its CAS.  Killed in
 * between by the old owner's death: the hold ends with its lease or with the new owner.  The renewals' lock held, so that no
 * other move can bring the same owner word back to the record for another request.
 */
static int change_owner(struct access *g, uint64_t uid, uint64_t ref)
{
	uint64_t old = load_acquire(&g->r->owner), gen = access_gen(g), end = load_acquire(&g->r->deadline);
	int outcome = access_late_or_ok(g);

	if (outcome == LOCKSHM_LOST)
		return access_lost(g);
	/* Owner and deadline before the word: if that is still mine, so were they. */
	if (!access_granted(g, load_acquire(&g->r->word)) || !cas_from(&g->r->owner, old, ref))
		return access_lost(g);
	set_moved(g->h, g->h->gen, g->h->owner);
	if (!deadline_renew(g->s, g->h->index, &gen, deadline_ns(end)))
		return access_lost(g);
	if (g->renewal)
		service_set_gen(g->renewal, gen);
	if (g->self && g->self->uid == g->h->owner)
		g->self->held--;
	set_moved(g->h, gen, uid);
	queue_wake_successor(g->s, g->h->index); /* it watches the old owner's life */
	return outcome;
}

/* Who shall own it.  Its slot says from now on that it may own other threads' records, for the sweep. */
static int move_target(const lockshm_hold_t *hold, int to, uint64_t *uid, uint64_t *ref)
{
	struct hold *h = hold_of(hold);
	struct participant *self;
	int err;

	if (!h || (to != LOCKSHM_TO_PROCESS && to != LOCKSHM_TO_CALLER))
		return LOCKSHM_INVALID;
	if (!hold_sealed(h) || h->epoch != process_epoch())
		return LOCKSHM_NOT_HELD;
	if (to == LOCKSHM_TO_PROCESS) {
		err = service_start(h->segment, NULL);
		return !err && !renewals_identity(h->segment, uid, ref) ? LOCKSHM_SYSTEM : err;
	}
	err = participant_get(h->segment, &self, NULL);
	if (err)
		return err;
	*uid = self->uid;
	*ref = self->ref;
	store_release32(&self->shared->flags, load_relaxed32(&self->shared->flags) | OWNER_ADOPTED);
	return 0;
}

static int move(lockshm_hold_t *hold, int to)
{
	struct participant *self;
	struct access g;
	uint64_t uid = 0, ref = 0;
	int err = move_target(hold, to, &uid, &ref);

	if (!err)
		err = hold_enter(&g, hold);
	if (err)
		return err;
	if (!access_granted(&g, load_acquire(&g.r->word)))
		return hold_leave(&g, access_lost(&g));
	if (g.h->owner == uid)
		return hold_leave(&g, access_result(&g));
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

LOCKSHM_EXPORT int lockshm_move(lockshm_hold_t *hold, int to)
{
	struct hold *h = hold_of(hold);
	struct lockshm *s;
	int err;

	if (!h)
		return LOCKSHM_INVALID;
	s = h->segment;
	/* The epoch before the reference: in a fresh child it makes us forget the parent's. */
	if (!hold_sealed(h) || h->epoch != process_epoch() || !process_ref_segment(s))
		return to == LOCKSHM_TO_PROCESS || to == LOCKSHM_TO_CALLER ? LOCKSHM_NOT_HELD : LOCKSHM_INVALID;
	err = move(hold, to);
	segment_unref(s);
	return err;
}

/* ---------------------------------------------------------------- notify */

static void set_renewal(struct access *g, struct renewal *r, uint64_t gen)
{
	hold_open(g->h);
	g->h->renewal = g->renewal = r;
	g->h->gen = gen;
	hold_close(g->h);
}

/* The renewals' lock held.  Takes over what it needs of @spare and @fd, and leaves the rest. */
static void begin_watch(struct access *g, struct renewal **spare, int *fd)
{
	struct hold *h = g->h;
	struct renewal *r = g->renewal;

	if (!r) {
		r = *spare;
		*spare = NULL;
		r->index = h->index;
		r->gen = h->gen;
		r->ttl_ns = 0;
		r->max_ns = 0;
		r->deadline = access_deadline(g);
		renewals_add_held(g->s, r);
		set_renewal(g, r, h->gen);
	}
	/* Of a moved hold the record is another thread's, who may have filled it anew: then one call is made for
	 * nothing. */
	(void)fetch_or32(&g->r->flags, REQUEST_WATCHED);
	/* My flag before my look at the word, in access_result() and by the service thread: whoever takes the hold away changes the
	 * word and then looks for the flag.  Pairs with queue_notify_holder(). */
	fence_full();
	renewals_watch(g->s, r, h, *fd);
	*fd = -1;
}

/* The renewals' lock held. */
static void end_watch(struct access *g)
{
	struct renewal *r = g->renewal;

	if (!r)
		return;
	if (r->ttl_ns) {
		renewals_watch(g->s, r, g->h, -1);
		return;
	}
	set_renewal(g, NULL, r->gen);
	renewals_remove(g->s, r);
}

static int notify(lockshm_hold_t *hold, struct renewal **spare, int *fd)
{
	struct access g;
	int outcome, err = hold_enter(&g, hold);

	if (err)
		return err;
	if (!g.locked && *fd >= 0) {
		renewals_lock(g.s);
		g.locked = true;
	}
	if (*fd >= 0)
		begin_watch(&g, spare, fd);
	else
		end_watch(&g);
	outcome = access_granted(&g, load_acquire(&g.r->word)) ? access_result(&g) : access_lost(&g);
	if (outcome == LOCKSHM_LOST)
		end_watch(&g);
	return hold_leave(&g, outcome);
}

/* What cannot be written to at once would stop the service thread. */
static bool can_be_told(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDONLY;
}

LOCKSHM_EXPORT int lockshm_notify(lockshm_hold_t *hold, int fd)
{
	struct hold *h = hold_of(hold);
	struct renewal *spare = NULL;
	struct lockshm *s;
	int err = 0, copy = -1;

	if (!h || fd < -1 || (fd >= 0 && !can_be_told(fd)))
		return LOCKSHM_INVALID;
	s = h->segment;
	/* As in lockshm_move(). */
	if (!hold_sealed(h) || h->epoch != process_epoch() || !process_ref_segment(s))
		return LOCKSHM_NOT_HELD;
	if (fd >= 0) {
		/* So that closing it, and opening something else under its number, does no harm. */
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		spare = malloc(sizeof(*spare));
		err = copy < 0 ? LOCKSHM_SYSTEM : !spare ? LOCKSHM_NO_MEMORY : service_start(s, NULL);
	}
	if (!err)
		err = notify(hold, &spare, &copy);
	if (copy >= 0)
		close(copy);
	free(spare);
	segment_unref(s);
	return err;
}
