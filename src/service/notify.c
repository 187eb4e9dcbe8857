/* SPDX-License-Identifier: MIT */
/*
 * notify.c - lockshm_notify(): watching a hold, and writing to its descriptor when it is lost
 *
 * The service thread sleeps on the words of the holds it watches: the request's, and for LOCKSHM_GLOBAL the
 * sequence of the host lease.  An expirer, an operator or the bridge that takes a hold away wakes the sleepers of that word.
 */
#include "service/service.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "hold/hold-access.h"

#define LOOK_NS LOCKSHM_SECONDS(1)   /* self-check: the expirer may have been killed before its wake-up */
#define LOOK_BLIND_NS LOCKSHM_MS(10) /* where the kernel cannot watch several words */

/* ---------------------------------------------------------------- the service thread's side */

/* Then the generation of its word is not that of the hold: another scan renews it.  Read after the word. */
static bool is_tended(const struct lockshm *s, const struct renewal *r)
{
	return __atomic_load_n(&s->tends, __ATOMIC_ACQUIRE) && load_acquire(&tend_of(s, r->index)->use) == r->hold_gen;
}

int64_t service_watch(struct lockshm *s, struct renewal *r, struct futex_watch *watches, unsigned *n, int64_t now)
{
	const uint64_t *word = &s->requests[r->index].word;
	const struct shm_host_lease *l = r->host_lease ? host_lease_at(s, r->host_lease - 1) : NULL;
	/* Read the sequence before what it is about. */
	uint32_t seq = l ? load_acquire32(&l->waiters_seq) : 0;
	uint64_t w = load_acquire(word);
	int64_t left;

	if (!word_holds(w) || (word_gen(w) != r->gen && !is_tended(s, r)) ||
	    (l && !host_lease_holds(s, r->host_lease - 1, r->host_lease_word))) {
		r->lost = true;
		return INT64_MAX;
	}
	if (*n + 2 > FUTEX_WATCH_MOST || !futex_has_waitv())
		return now + LOOK_BLIND_NS;
	watches[(*n)++] = (struct futex_watch){ (const uint32_t *)(const void *)word, (uint32_t)w };
	if (!l)
		return now + LOOK_NS;
	watches[(*n)++] = (struct futex_watch){ &l->waiters_seq, seq };
	left = host_lease_left(s, r->host_lease - 1, r->host_lease_word);
	return now + (left < LOOK_NS ? left : LOOK_NS);
}

/* Once.  If the non-blocking descriptor is full, its reader has something to read already. */
void service_notify(const struct renewal *r)
{
	static const uint64_t one = 1;

	if (descriptor_is_own(&r->notice) && write(r->notice.fd, &one, sizeof(one)) < 0)
		return;
}

/* ---------------------------------------------------------------- the caller's side */

static void set_renewal(struct access *g, struct renewal *r, uint64_t gen)
{
	hold_open(g->h);
	g->h->renewal = g->renewal = r;
	g->h->grant.gen = gen;
	hold_close(g->h);
}

/* The renewals' lock held.  Takes over what it needs of @spare and @notice, and leaves the rest. */
static void begin_watch(struct access *g, struct renewal **spare, struct descriptor *notice)
{
	struct hold *h = g->h;
	struct renewal *r = g->renewal;

	if (!r) {
		r = *spare;
		*spare = NULL;
		r->index = h->index;
		r->gen = h->grant.gen;
		r->ttl_ns = 0;
		r->max_ns = 0;
		r->deadline = access_deadline(g);
		renewals_add_held(g->s, r);
		set_renewal(g, r, h->grant.gen);
	}
	/* The record of a moved hold belongs to another thread, which may have filled it anew: then one wake-up is
	 * wasted. */
	(void)fetch_or32(&g->r->flags, REQUEST_WATCHED);
	/* The flag before the look at the word, in access_result() and by the service thread: an expirer changes the
	 * word and then looks for the flag.  Pairs with queue_notify_holder(). */
	fence_full();
	renewals_watch(g->s, r, h, notice);
}

/* The renewals' lock held. */
static void end_watch(struct access *g)
{
	struct descriptor none = DESCRIPTOR_NONE;
	struct renewal *r = g->renewal;

	if (!r)
		return;
	if (r->ttl_ns) {
		renewals_watch(g->s, r, g->h, &none);
		return;
	}
	set_renewal(g, NULL, r->gen);
	renewals_remove(g->s, r);
}

static int notify(lockshm_hold_t *hold, struct renewal **spare, struct descriptor *notice)
{
	struct access g;
	int outcome, err = hold_enter_alone(&g, hold);

	if (err)
		return err;
	if (!g.locked && notice->fd >= 0) {
		renewals_lock(g.s);
		g.locked = true;
	}
	if (notice->fd >= 0)
		begin_watch(&g, spare, notice);
	else
		end_watch(&g);
	outcome = access_granted(&g, load_acquire(&g.r->word)) ? access_result(&g) : access_lost(&g);
	if (outcome == LOCKSHM_LOST)
		end_watch(&g);
	return hold_leave(&g, outcome);
}

/* A descriptor that blocks would stop the service thread. */
static bool can_notify(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDONLY;
}

LOCKSHM_EXPORT int lockshm_notify(lockshm_hold_t *hold, int fd)
{
	struct hold *h = hold_of(hold);
	struct renewal *spare = NULL;
	struct lockshm *s;
	struct descriptor copy = DESCRIPTOR_NONE;
	bool kept;
	int err = 0;

	if (!h || fd < -1 || (fd >= 0 && !can_notify(fd)))
		return LOCKSHM_INVALID;
	s = h->segment;
	/* As in lockshm_move(). */
	if (!hold_sealed(h) || h->epoch != process_epoch() || !process_ref_segment(s))
		return LOCKSHM_NOT_HELD;
	if (fd >= 0) {
		/* A duplicate: the caller may close @fd and open something else under its number. */
		kept = descriptor_duplicate(&copy, fd, 0);
		spare = malloc(sizeof(*spare));
		err = !kept ? LOCKSHM_SYSTEM : !spare ? LOCKSHM_NO_MEMORY : service_start(s, NULL);
	}
	if (!err)
		err = notify(hold, &spare, &copy);
	descriptor_close(&copy);
	free(spare);
	segment_unref(s);
	return err;
}
