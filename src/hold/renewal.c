/* SPDX-License-Identifier: MIT */
/* renewal.c - the list of holds that the service thread renews or watches; see renewal.h */
#include "hold/renewal.h"

#include <stdlib.h>

#include "sys/futex.h"

void renewals_init(struct renewals *all)
{
	unsigned i;

	pthread_mutex_init(&all->lock, NULL);
	CDS_INIT_LIST_HEAD(&all->watched);
	for (i = 0; i < RENEWALS_NEAR; i++)
		CDS_INIT_LIST_HEAD(&all->near[i]);
}

static void drop(struct renewal *r)
{
	descriptor_close(&r->notice);
	free(r);
}

void renewals_drop(struct renewals *all)
{
	struct renewal *r, *next;
	unsigned i;

	for (i = 0; i < RENEWALS_NEAR; i++)
		cds_list_for_each_entry_safe(r, next, &all->near[i], near)
			drop(r);
}

void renewals_ring(struct renewals *all)
{
	(void)fetch_add32(&all->doorbell, 1);
	futex_wake(&all->doorbell, 1);
}

/* The service thread looks at the list in any case before it sleeps again, and not later than it meant to wake up.  A
 * system call for each hold that is released long before its first renewal would be most of what the hold costs. */
static void ring_if_early(struct renewals *all, const struct renewal *r)
{
	if (r->notice.fd >= 0 || (all->due.first && all->due.first->at < all->sleeps_until))
		renewals_ring(all);
}

void renewals_add_held(struct lockshm *s, struct renewal *r)
{
	int64_t now = segment_now(s), begun = r->deadline - r->ttl_ns;

	r->due = (struct timer){ 0 };
	CDS_INIT_LIST_HEAD(&r->of_watched);

	r->lost = false;
	r->notice = DESCRIPTOR_NONE;
	r->host_lease = 0;
	r->hold_gen = r->gen;
	if (r->ttl_ns)
		timer_set(&s->renewals->due, &r->due, (now < begun ? now : begun) + r->ttl_ns / 2);
	r->until = r->max_ns ? begun + r->max_ns : INT64_MAX;
	cds_list_add(&r->near, &s->renewals->near[r->index % RENEWALS_NEAR]);
	ring_if_early(s->renewals, r);
}

void renewals_add(struct lockshm *s, struct renewal *r)
{
	pthread_mutex_lock(&s->renewals->lock);
	renewals_add_held(s, r);
	pthread_mutex_unlock(&s->renewals->lock);
}

void renewals_watch(struct lockshm *s, struct renewal *r, const struct hold *h, struct descriptor *notice)
{
	descriptor_close(&r->notice);
	r->notice = *notice;
	*notice = DESCRIPTOR_NONE;
	cds_list_del_init(&r->of_watched);
	if (r->notice.fd >= 0)
		cds_list_add(&r->of_watched, &s->renewals->watched);
	r->host_lease = h->host_lease;
	r->host_lease_word = h->host_lease_word;
	renewals_ring(s->renewals);
}

void renewals_retime(struct lockshm *s, struct renewal *r, uint64_t gen, int64_t ttl_ns, int64_t deadline)
{
	renewals_set_gen(r, gen);
	r->deadline = deadline;
	r->lost = false;
	if (r->ttl_ns)
		r->ttl_ns = ttl_ns < LOCKSHM_AUTO_RENEW_TTL_MIN ? LOCKSHM_AUTO_RENEW_TTL_MIN : ttl_ns;
	/* Strict: there is nothing to renew. */
	timer_set(&s->renewals->due, &r->due, deadline == INT64_MAX || !r->ttl_ns ? INT64_MAX : deadline - ttl_ns / 2);
	r->until = r->max_ns ? segment_now(s) + r->max_ns : INT64_MAX;
	ring_if_early(s->renewals, r);
}

void renewals_limit(struct lockshm *s, const struct hold *h, int64_t max_ns)
{
	struct renewal *r;

	if (!renewals_lock_if_any(s))
		return;
	r = renewals_find(s, h);
	if (r)
		r->max_ns = max_ns;
	renewals_unlock(s);
}

struct renewal *renewals_find(struct lockshm *s, const struct hold *h)
{
	struct renewal *r;

	cds_list_for_each_entry(r, &s->renewals->near[h->index % RENEWALS_NEAR], near)
		if (r == h->renewal && r->index == h->index && r->hold_gen == h->grant.gen)
			return r;
	return NULL;
}

void renewals_remove(struct lockshm *s, struct renewal *r)
{
	timer_end(&s->renewals->due, &r->due);
	cds_list_del(&r->of_watched);
	cds_list_del(&r->near);
	if (r->notice.fd >= 0)
		renewals_ring(s->renewals);
	drop(r);
}

/* /proc may be read with it locked: a thread cancelled there would leave it locked. */
void renewals_lock(struct lockshm *s)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&s->renewals->lock);
	s->renewals->cancel = cancel;
}

bool renewals_lock_if_any(struct lockshm *s)
{
	/* A service thread that a hold depends on was started before that, and stays while this thread takes part or
	 * has a reference. */
	if (!__atomic_load_n(&s->renewals, __ATOMIC_ACQUIRE))
		return false;
	renewals_lock(s);
	return true;
}

void renewals_unlock(struct lockshm *s)
{
	int cancel = s->renewals->cancel;

	pthread_mutex_unlock(&s->renewals->lock);
	pthread_setcancelstate(cancel, NULL);
}
