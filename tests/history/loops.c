/* SPDX-License-Identifier: MIT */
/*
 * loops.c - do waits of event loops end once, and as they were said to?  See history/check.h
 *
 * A grant that is not collected holds without being entered: it leaves no mark, and when it ends before its loop comes,
 * the wait goes on with another token.  history/holds.c knows it as a hold from its collection on.  That it conflicted
 * before shows when it is withdrawn as granted beside a holder.
 */
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>

/* The calls that ended a wait. */
struct ends {
	const struct history_record *first;
	uint32_t n;
};

static bool is_end(const struct history_record *r)
{
	return r->leave && (r->op == HISTORY_NEXT ? !(r->flags & HISTORY_EMPTY) : r->outcome >= 0);
}

/* ---------------------------------------------------------------- one end */

static void note_end(struct check *c, struct ends *ends, const struct history_record *end)
{
	const struct history_record *w = model_record(&c->m, end->subject);

	if (end->subject == HISTORY_NO_WAIT || !w || w->op != HISTORY_ACQUIRE || !is_loop_wait(w)) {
		problem(c, "outcome", w, end, "an end of what did not wait");
		return;
	}
	if (ends[end->subject].n++ > 0)
		problem(c, "outcome", ends[end->subject].first, end, "a second end of one wait");
	else
		ends[end->subject].first = end;
	if (w->leave && end->op == HISTORY_NEXT && end->outcome != w->outcome)
		problem(c, "outcome", w, end, "its outcome is another one");
}

static void count_end(struct check *c, const struct history_record *end)
{
	struct history_summary *s = c->summary;

	if (end->op == HISTORY_NEXT)
		s->loop_outcomes++;
	else if (end->flags & HISTORY_AT_CLOSE)
		s->loop_closed++;
	else
		s->loop_cancels[end->outcome != 0]++;
}

static void check_ends(struct check *c, struct ends *ends, const struct record_list *list)
{
	uint32_t i;

	for (i = 0; i < list->n; i++)
		if (is_end(list->list[i])) {
			count_end(c, list->list[i]);
			note_end(c, ends, list->list[i]);
		}
}

/* ---------------------------------------------------------------- withdrawn */

static bool conflicts(const struct history_record *w, const struct hold *hold)
{
	return w->mode == LOCKSHM_EXCLUSIVE || (hold->exclusive && hold->acquire->mode == LOCKSHM_EXCLUSIVE);
}

/* It was granted at some moment of the call. */
static void check_granted(struct check *c, const struct history_record *w, const struct history_record *r)
{
	const struct key *key = find_key(c, w->realm, w->key);
	uint32_t i;

	for (i = 0; i < key->n_attempts && key->attempts[i].lo <= r->leave; i++) {
		const struct hold *hold = key->attempts[i].hold == NO_HOLD ? NULL : &c->m.holds[key->attempts[i].hold];

		if (hold && conflicts(w, hold) && hold->start + SKEW < r->enter && hold->end > r->leave + SKEW)
			problem(c, "exclusion", hold->acquire, r, "key %u: withdrawn as granted beside a holder", w->key);
	}
}

static void check_withdrawal(struct check *c, const struct ends *ends, const struct history_record *r)
{
	const struct history_record *w = model_record(&c->m, r->subject);

	if (!r->leave || !w || w->op != HISTORY_ACQUIRE)
		return;
	if (r->outcome != 0 && r->outcome != 1 && r->outcome != LOCKSHM_NOT_HELD)
		problem(c, "code", w, r, "cancel answered %d", r->outcome);
	if (r->outcome == 1 && !(w->flags & HISTORY_MANY))
		check_granted(c, w, r);
	if (r->outcome == LOCKSHM_NOT_HELD && is_loop_wait(w) && w->pending + SKEW < r->enter &&
	    (ends[r->subject].n ? ends[r->subject].first->enter > r->leave + SKEW : true))
		problem(c, "cancel", w, r, "NOT_HELD of a wait that had not ended");
}

/* ---------------------------------------------------------------- the place in the queue */

static void check_place(struct check *c, const struct history_record *s, uint64_t *tokens)
{
	const struct history_record *w = model_record(&c->m, s->subject);
	uint64_t token;

	if (!w || w->op != HISTORY_ACQUIRE || !is_loop_wait(w) || w->flags & HISTORY_MANY)
		return;
	token = tokens[s->subject] ? tokens[s->subject] : w->leave && w->outcome >= 0 ? w->token : 0;
	tokens[s->subject] = s->token;
	if (!token || token == s->token)
		return;
	c->summary->went_back++;
	if (!model_grant_may_have_ended(&c->m, w))
		problem(c, "place", w, s, "key %u: it had token %" PRIu64 ", and %" PRIu64 " at another time", w->key,
			s->token, token);
}

void check_loops(struct check *c)
{
	struct ends *ends = model_room(c->m.n_records, sizeof(*ends));
	uint64_t *tokens = model_room(c->m.n_records, sizeof(*tokens));
	uint32_t i;

	for (i = 0; i < c->m.n_records; i++) {
		const struct history_record *r = model_record(&c->m, i);

		c->summary->loop_waits += r && r->op == HISTORY_ACQUIRE && is_loop_wait(r);
	}
	check_ends(c, ends, &c->m.nexts);
	check_ends(c, ends, &c->m.withdrawals);
	for (i = 0; i < c->m.withdrawals.n; i++)
		check_withdrawal(c, ends, c->m.withdrawals.list[i]);
	for (i = 0; i < c->m.seen.n; i++)
		check_place(c, c->m.seen.list[i], tokens);
	free(ends);
	free(tokens);
}
