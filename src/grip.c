/* SPDX-License-Identifier: MIT */
/* grip.c - holds of the process, and holds that are lost; see grip.h */
#include "grip.h"

#include "queue.h"

bool grip_is_of_process(const struct hold *h)
{
	uint64_t uid, ref;

	if (!process_ref_segment(h->segment))
		return false;
	if (keeper_identity(h->segment, &uid, &ref) && uid == h->owner)
		return true;
	segment_unref(h->segment);
	return false;
}

/* The oldest hold that came after @ticket, else the newest ticket of the key; 0 if none. */
static uint64_t successor_ticket(const struct grip *g, uint64_t ticket)
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
		if (word_is(w, REQUEST_GRANTED))
			found = t;
		i = word_prev(w);
	}
	return found;
}

/* Of a global hold: the newest number this host has given out, if that is newer and the lease still this key's;
 * what others have is not known here. */
static uint64_t lost_globally_to(const struct grip *g)
{
	uint64_t next = remote_fence_of(remote_at(g->s, g->h->remote - 1), g->h->key_check);

	return next > g->h->token + 1 ? next - 1 : 0;
}

int grip_lost(const struct grip *g)
{
	uint64_t ticket;

	if (unlikely(g->h->remote != 0)) {
		g->h->lost_to = lost_globally_to(g);
		return LOCKSHM_LOST;
	}
	/* Policy local-only: it has no token, and the number of whoever followed cannot be compared with anything. */
	if (unlikely(g->h->token == 0)) {
		g->h->lost_to = 0;
		return LOCKSHM_LOST;
	}
	ticket = successor_ticket(g, hold_ticket(g->h));
	g->h->lost_to = ticket ? g->s->token_base + ticket : 0;
	return LOCKSHM_LOST;
}

void grip_look_behind(const struct grip *g)
{
	/* A moved hold's record may be another request by now, whose hint leads into another queue. */
	if (unlikely(g->h->moved))
		(void)queue_advance_tail(g->s, g->e);
	else
		queue_look_after_successor(g->s, g->e, g->h->index);
}
