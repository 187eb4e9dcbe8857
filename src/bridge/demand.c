/* SPDX-License-Identifier: MIT */
/*
 * demand.c - who of this host wants a lease, and who holds under it; see bridge/demand.h
 *
 * It is not counted but looked up, in the key's queue: a count would be wrong after a death.
 */
#include "bridge/demand.h"

#include "lock/queue.h"
#include "lock/table.h"

static void count_request(const struct bridge *b, uint32_t i, uint64_t epoch, const struct snapshot_request *seen,
			  struct demand *out)
{
	const struct shm_request *r = &b->s->requests[seen->index];
	uint32_t flags = load_acquire32(&r->flags);
	uint64_t host_grant = load_acquire(&r->host_grant);

	/* The fields before the word: they are of that use of the record.  Pairs with fence_release() in
	 * request_begin_use(). */
	fence_acquire();
	if (word_gen(load_relaxed(&r->word)) != word_gen(seen->word)) {
		out->unsure = true;
		return;
	}
	out->live = true;
	/* That it is of all hosts is said when its turn has come here. */
	out->writer_waits = out->writer_waits || (word_is(seen->word, REQUEST_WAITING) && word_exclusive(seen->word));
	/* What lingers is nobody's: whoever takes it up looks at the lease again, see enter(). */
	if (!(flags & REQUEST_GLOBAL) || word_is(seen->word, REQUEST_WAITING) || word_is(seen->word, REQUEST_BARGEABLE))
		return;
	if (!request_needs_lease(flags, i)) {
		out->other_lease = out->other_lease || (host_grant == 0 && word_is(seen->word, REQUEST_GRANTED));
		return;
	}
	if (host_grant_is(host_grant, epoch)) {
		out->holders = true;
		out->writers = out->writers || word_exclusive(seen->word);
	}
	if (host_grant != 0 || !word_is(seen->word, REQUEST_GRANTED))
		return;
	out->waiting = true;
	out->exclusive = out->exclusive || word_exclusive(seen->word);
	out->blocking = out->blocking || !(flags & REQUEST_TRY);
}

struct demand demand_scan(struct bridge *b, uint32_t i, uint64_t epoch)
{
	struct demand out = { 0 };
	const struct lease *l = &b->leases[i];
	uint32_t entry = table_lookup(b->s, &l->id), k;

	if (entry == ENTRY_NONE)
		return out;
	/* What is dead or overdue goes first. */
	(void)queue_advance_tail(b->s, &b->s->entries[entry]);
	if (!snapshot_take(b->s, &b->s->entries[entry], &b->snap)) {
		out.unsure = true;
		return out;
	}
	out.damaged = b->snap.stable && b->snap.broken;
	/* Who holds may be behind the place where it is torn. */
	out.unsure = !b->snap.stable || b->snap.broken;
	for (k = 0; k < b->snap.n; k++)
		if (word_live(b->snap.requests[k].word) && b->snap.requests[k].entry == entry)
			count_request(b, i, epoch, &b->snap.requests[k], &out);
	if (!entry_is(&b->s->entries[entry], l->id.id, l->id.len))
		out.unsure = true;
	return out;
}

bool demand_possible(const struct lockshm *s, uint32_t i)
{
	const struct shm_host_lease *r = &s->host_leases[i];
	struct identity id = { { load_relaxed(&r->id[0]), load_relaxed(&r->id[1]) }, load_relaxed(&r->key_len) };
	uint32_t entry = id.len ? table_lookup(s, &id) : ENTRY_NONE;

	return entry != ENTRY_NONE && tail_index(load_acquire(&s->entries[entry].tail)) != 0;
}

/*
 * Does any record say that it holds, or writes, under the epoch?  Where other requests for the key come and go so
 * quickly that its queue is never seen whole.  A walk could be led past a holder, by a record that is bypassed, freed
 * and used in another queue under its feet.  The records themselves stay where they are: a hold keeps its own, granted
 * or cooling, however its word, generation and ticket change, and since the lease was closed, or lost, nobody comes in.
 * So who is not found here has no hold, and who is found is one until a later look.
 */
static bool any_record_holds(const struct bridge *b, uint32_t i, uint64_t epoch, bool as_writer)
{
	uint32_t k;

	for (k = 1; k <= b->s->n_requests; k++) {
		const struct shm_request *r = &b->s->requests[k];
		uint64_t word = load_acquire(&r->word);

		if ((word_is(word, REQUEST_GRANTED) || word_is(word, REQUEST_COOLING)) &&
		    request_needs_lease(load_acquire32(&r->flags), i) &&
		    (!as_writer || word_exclusive(word)) && host_grant_is(load_acquire(&r->host_grant), epoch))
			return true;
	}
	return false;
}

bool demand_no_holder(const struct bridge *b, uint32_t i, uint64_t epoch, const struct demand *in)
{
	if (in->holders || in->damaged)
		return false;
	return !in->unsure || !any_record_holds(b, i, epoch, false);
}

bool demand_no_writer(const struct bridge *b, uint32_t i, uint64_t epoch, const struct demand *in)
{
	if (in->writers || in->damaged)
		return false;
	return !in->unsure || !any_record_holds(b, i, epoch, true);
}
