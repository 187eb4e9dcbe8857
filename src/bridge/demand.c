/* SPDX-License-Identifier: MIT */
/*
 * demand.c - demand of this host for one lease; see bridge/demand.h
 *
 * Demand is read from the key's queue each time: a stored counter would be wrong after a death.
 */
#include "bridge/demand.h"

#include <string.h>

#include "lock/damage.h"
#include "lock/queue.h"
#include "lock/table.h"

static void count_request(const struct bridge *b, uint32_t i, uint64_t epoch, const struct snapshot_request *seen,
			  struct demand *out)
{
	const struct shm_request *r = &b->s->requests[seen->index];
	uint32_t flags = load_acquire32(&r->flags);
	uint64_t host_grant = load_acquire(&r->host_grant);

	/* The fields before the second load of the word: they belong to that use of the record.  Pairs with
	 * fence_release() in request_begin_use(). */
	fence_acquire();
	if (word_gen(load_relaxed(&r->word)) != word_gen(seen->word)) {
		out->unsure = true;
		return;
	}
	out->live = true;
	/* A bargeable record holds nothing: the thread that resumes it checks the lease again, see enter(). */
	if (!(flags & REQUEST_GLOBAL) || word_is(seen->word, REQUEST_WAITING) || word_is(seen->word, REQUEST_BARGEABLE))
		return;
	if (!request_needs_lease(flags, i)) {
		out->other_lease = out->other_lease || (host_grant == 0 && word_holds(seen->word));
		return;
	}
	out->holders = out->holders || host_grant_is(host_grant, epoch);
	if (host_grant != 0 || !word_holds(seen->word))
		return;
	out->waiting = true;
	out->exclusive = out->exclusive || word_exclusive(seen->word);
	out->blocking = out->blocking || !(flags & REQUEST_TRY);
}

/* A walk leaves the mark before it unlinks the request. */
static bool is_torn(uint64_t word)
{
	return word_exclusive(word) && (word_is(word, REQUEST_EXPIRED) || word_is(word, REQUEST_DEAD));
}

struct demand demand_scan(struct bridge *b, uint32_t i, uint64_t epoch)
{
	struct demand out = { 0 };
	const struct bridge_lease *l = &b->leases[i];
	uint32_t entry = table_lookup(b->s, &l->id), k;

	if (entry == ENTRY_NONE)
		return out;
	/* Reap the dead and expire the overdue. */
	(void)queue_advance_tail(b->s, &b->s->entries[entry]);
	if (!snapshot_take(b->s, &b->s->entries[entry], &b->snap)) {
		out.unsure = true;
		return out;
	}
	out.damaged = b->snap.stable && b->snap.broken;
	/* A holder may be queued beyond the break. */
	out.unsure = !b->snap.stable || b->snap.broken;
	out.robust = damage_is_robust(&b->s->entries[entry]);
	for (k = 0; k < b->snap.n; k++) {
		if (b->snap.requests[k].entry != entry)
			continue;
		if (word_live(b->snap.requests[k].word))
			count_request(b, i, epoch, &b->snap.requests[k], &out);
		out.torn = out.torn || is_torn(b->snap.requests[k].word);
	}
	if (!entry_is(&b->s->entries[entry], l->id.id, l->id.len))
		out.unsure = true;
	return out;
}

/*
 * Does any record hold under the epoch?  For a queue in which requests come and go so fast that no walk sees
 * it whole.  A walk can miss a holder: a record on its path may be bypassed, freed and reused in another queue.
 * Records do not move: a hold keeps its record, granted or cooling, whatever happens to its word, generation and
 * ticket.  No new hold starts under a lease that is closed or lost.  So a record not found here holds nothing, and a
 * record found here is a holder until a later scan.
 */
static bool any_record_holds(const struct bridge *b, uint32_t i, uint64_t epoch)
{
	uint32_t k;

	for (k = 1; k <= b->s->n_requests; k++) {
		const struct shm_request *r = &b->s->requests[k];
		uint64_t word = load_acquire(&r->word);

		if ((word_holds(word) || word_is(word, REQUEST_COOLING)) &&
		    request_needs_lease(load_acquire32(&r->flags), i) &&
		    host_grant_is(load_acquire(&r->host_grant), epoch))
			return true;
	}
	return false;
}

bool demand_no_holder(const struct bridge *b, uint32_t i, uint64_t epoch, const struct demand *in)
{
	if (in->holders || in->damaged)
		return false;
	return !in->unsure || !any_record_holds(b, i, epoch);
}

bool demand_robust(const struct bridge *b, uint32_t i)
{
	uint32_t entry = table_lookup(b->s, &b->leases[i].id);

	return entry != ENTRY_NONE && damage_is_robust(&b->s->entries[entry]);
}

/* The records before the mark: a record is freed after its mark was left. */
bool demand_torn(const struct bridge *b, uint32_t i, uint64_t epoch, const struct demand *in, uint64_t *mark,
		 struct lockshm_damage *out)
{
	uint32_t entry, k;
	bool torn = in->torn;

	for (k = 1; in->unsure && !torn && k <= b->s->n_requests; k++) {
		const struct shm_request *r = &b->s->requests[k];

		torn = is_torn(load_acquire(&r->word)) && request_needs_lease(load_acquire32(&r->flags), i) &&
		       host_grant_is(load_acquire(&r->host_grant), epoch);
	}
	entry = table_lookup(b->s, &b->leases[i].id);
	memset(out, 0, sizeof(*out));
	*mark = entry == ENTRY_NONE ? 0 : damage_read(b->s, &b->s->entries[entry], out);
	/* A holder beyond the break of a damaged queue is not seen. */
	return torn || in->damaged || out->status != 0;
}
