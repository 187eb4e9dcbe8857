/* SPDX-License-Identifier: MIT */
/* tend.c - filling the places of tended holds; see tend.h */
#include "lock/tend.h"

#include <stdlib.h>

#include "sys/min.h"

/* One large block of zeros, which the kernel makes page by page as they are used. */
struct tends *tends_make(const struct lockshm *s)
{
	size_t n = (size_t)s->n_requests + 1, line = sizeof(*((struct tends *)0)->of);
	struct tends *all = calloc(1, sizeof(*all) + n * sizeof(*all->known) + (n + 1) * line);

	if (!all)
		return NULL;
	all->known = (uint32_t *)(void *)(all + 1);
	all->of = (void *)(((uintptr_t)(all->known + n) + line - 1) & ~(uintptr_t)(line - 1));
	all->at = INT64_MAX;
	return all;
}

static void make_known(struct tends *all, uint32_t index)
{
	/* Each record once, so there is room.  A scan that comes between the two sees none there, and the next one does:
	 * it is followed by another before it stops. */
	__atomic_store_n(&all->known[__atomic_fetch_add(&all->n_known, 1, __ATOMIC_ACQ_REL)], index, __ATOMIC_RELEASE);
}

void tend_begin(struct participant *self, uint32_t index, uint64_t gen)
{
	const struct tend_terms *terms = self->tending;
	struct lockshm *s = self->segment;
	struct tend *t = tend_of(s, index);

	if (unlikely(!t->known)) {
		t->known = true;
		make_known(s->tends, index);
	}
	self->tended = true;
	store_relaxed((uint64_t *)&t->ttl_ns, (uint64_t)terms->ttl_ns);
	store_relaxed((uint64_t *)&t->until, (uint64_t)(terms->max_ns ? segment_now(s) + terms->max_ns : INT64_MAX));
	store_changed((uint64_t *)&t->max_ns, (uint64_t)terms->max_ns);
	store_changed32(&t->host_lease, 0);
	t->hold = terms->hold;
	t->user = terms->user;
	__atomic_store_n(&t->tells, terms->tells, __ATOMIC_RELAXED);
	__atomic_store_n(&t->loop, terms->loop, __ATOMIC_RELAXED);
	store_release(&t->use, gen);
}

void tend_drop(struct participant *self, uint32_t index)
{
	store_release(&tend_of(self->segment, index)->use, 0);
}

void tend_retime(struct lockshm *s, struct tend *t, uint64_t from, uint64_t gen, int64_t ttl_ns)
{
	int64_t ttl = t->ttl_ns && ttl_ns ? max64(ttl_ns, LOCKSHM_AUTO_RENEW_TTL_MIN) : t->ttl_ns;

	store_relaxed((uint64_t *)&t->ttl_ns, (uint64_t)ttl);
	if (t->max_ns)
		store_relaxed((uint64_t *)&t->until, (uint64_t)(segment_now(s) + t->max_ns));
	/* Its loss may have been collected at this moment. */
	(void)cas_from(&t->use, from, gen);
}
