/* SPDX-License-Identifier: MIT */
/* outcomes.c - do the results fit what happened, see history/check.h */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>

/* A lease of this length is renewed in time by any service thread that is not stopped. */
#define RENEWED_FOR_SURE LOCKSHM_MS(400)

static bool is_yes(int outcome)
{
	return outcome == LOCKSHM_OK || outcome == LOCKSHM_LATE;
}

/* ---------------------------------------------------------------- possible results */

static bool one_of(int code, const int *codes)
{
	for (; *codes != LOCKSHM_SYSTEM; codes++)
		if (*codes == code)
			return true;
	return false;
}

#define CODES(...) ((const int[]){ __VA_ARGS__, LOCKSHM_SYSTEM })

static bool acquire_can_answer(const struct history_record *r)
{
	if (r->outcome == LOCKSHM_TIMEOUT)
		return !(r->flags & HISTORY_TRY);
	if (r->outcome == LOCKSHM_BUSY)
		return r->flags & (HISTORY_TRY | HISTORY_BOOKED);
	if (r->outcome > 0)
		return r->flags & HISTORY_ROBUST &&
		       one_of(r->outcome, CODES(LOCKSHM_OWNER_DIED, LOCKSHM_TOOK_OVER_EXPIRED));
	/* Deadlocks between loops are not found. */
	if (r->outcome == LOCKSHM_DEADLOCK)
		return !(r->flags & HISTORY_LOOP);
	return one_of(r->outcome,
		      CODES(LOCKSHM_OK, LOCKSHM_CANCELLED, LOCKSHM_FULL, LOCKSHM_NO_SEGMENT));
}

static bool can_answer(const struct history_record *r)
{
	switch (r->op) {
	case HISTORY_ACQUIRE:
		return acquire_can_answer(r);
	case HISTORY_RELEASE:
	case HISTORY_RENEW:
	case HISTORY_CHECK:
	case HISTORY_DOWNGRADE:
		return one_of(r->outcome, CODES(LOCKSHM_OK, LOCKSHM_LATE, LOCKSHM_LOST, LOCKSHM_NOT_HELD));
	case HISTORY_UPGRADE:
		return one_of(r->outcome,
			      CODES(LOCKSHM_OK, LOCKSHM_LATE, LOCKSHM_LOST, LOCKSHM_NOT_HELD, LOCKSHM_BUSY));
	case HISTORY_ACKNOWLEDGE:
	case HISTORY_PREVIOUS:
		return one_of(r->outcome, CODES(LOCKSHM_OK, LOCKSHM_LOST, LOCKSHM_NOT_HELD));
	case HISTORY_MOVE:
		return one_of(r->outcome, CODES(LOCKSHM_OK, LOCKSHM_LATE, LOCKSHM_LOST, LOCKSHM_NOT_HELD, LOCKSHM_FULL,
						LOCKSHM_NO_SEGMENT));
	case HISTORY_END_HOLD:
		return one_of(r->outcome, CODES(LOCKSHM_OK, LOCKSHM_NOT_HELD));
	default:
		return r->outcome == LOCKSHM_OK;
	}
}

/*
 * While a thread of the process calls exec, the kernel starts no other thread in it (EAGAIN), so no service thread
 * either.  A caller that gets this error is about to be replaced by the exec.
 */
static bool exec_forbids_a_service_thread(const struct check *c, const struct history_record *r)
{
	const struct history_track *tracks = c->m.h->header->tracks, *mine = &tracks[r->track];
	uint32_t i;

	if (r->outcome != LOCKSHM_SYSTEM || !((r->op == HISTORY_ACQUIRE && r->flags & HISTORY_AUTO_RENEW) ||
					      (r->op == HISTORY_MOVE && r->mode == LOCKSHM_TO_PROCESS)))
		return false;
	for (i = 0; i < c->m.execs.n; i++) {
		const struct history_record *e = c->m.execs.list[i];

		if (tracks[e->track].process == mine->process && tracks[e->track].image == mine->image &&
		    e->enter <= r->leave + SKEW && (!e->leave || e->leave >= r->enter - SKEW))
			return true;
	}
	return false;
}

/* A hold of a loop stays one of the process. */
static bool must_be_refused(const struct check *c, const struct history_record *r)
{
	const struct history_record *acquire =
		r->op == HISTORY_MOVE && r->mode == LOCKSHM_TO_CALLER ? model_record(&c->m, r->subject) : NULL;

	return acquire && acquire->flags & HISTORY_LOOP;
}

static bool says_moved(int outcome)
{
	return outcome == LOCKSHM_OK || outcome == LOCKSHM_LATE;
}

static void check_code(struct check *c, const struct history_record *r)
{
	bool foreign = r->flags & HISTORY_FOREIGN;

	if (exec_forbids_a_service_thread(c, r))
		return;
	if (must_be_refused(c, r) && (says_moved(r->outcome) || r->outcome == LOCKSHM_INVALID)) {
		if (says_moved(r->outcome))
			problem(c, "code", r, NULL, "a hold of a loop was moved to a thread");
		return;
	}
	if (!can_answer(r))
		problem(c, "code", r, NULL, "%s answered %s", history_op_name(r->op), lockshm_code_name(r->outcome));
	else if (r->op != HISTORY_END_HOLD && foreign != (r->outcome == LOCKSHM_NOT_HELD))
		problem(c, "held", r, NULL,
			foreign ? "a hold that is not the caller's was believed" : "the caller's own hold is NOT_HELD");
	if (r->op == HISTORY_ACQUIRE && r->flags & HISTORY_ROBUST && !(r->flags & (HISTORY_MANY | HISTORY_NO_REPORT)) &&
	    (r->outcome > 0 ? r->outcome : 0) != r->previous_status)
		problem(c, "code", r, NULL, "the report says %s of the holder before",
			lockshm_code_name(r->previous_status));
	if (r->outcome == LOCKSHM_FULL && c->m.h->header->realms[r->realm].roomy)
		problem(c, "full", r, NULL, "FULL in a segment with room for everybody");
}

/* ---------------------------------------------------------------- one operation on a hold */

static void check_yes(struct check *c, const struct hold *hold, const struct hold *now, const struct history_record *op)
{
	if (now->lost)
		problem(c, "truth-ok", now->lost, op, "held again after LOST");
	if (hold->ended.hi < op->enter - SKEW)
		problem(c, "truth-ok", hold->acquire, op, "%s after an operator ended it",
			lockshm_code_name(op->outcome));
	if (op->op == HISTORY_ACKNOWLEDGE || op->op == HISTORY_PREVIOUS || !is_yes(op->outcome))
		return;
	if (op->outcome == LOCKSHM_LATE && now->deadline.lo > op->leave + SKEW)
		problem(c, "truth-late", hold->acquire, op, "LATE, %.3f ms before the lease can have ended",
			(double)(now->deadline.lo - op->leave) / 1e6);
	if (op->outcome == LOCKSHM_OK && now->deadline.hi < op->enter - SKEW)
		problem(c, "truth-late", hold->acquire, op, "0, %.3f ms after the lease had ended",
			(double)(op->enter - now->deadline.hi) / 1e6);
}

static void check_lost(struct check *c, const struct hold *hold, const struct hold *now,
		       const struct history_record *op)
{
	if (!now->lost && now->deadline.lo > op->leave + SKEW && hold->ended.lo > op->leave)
		problem(c, "truth-lost", hold->acquire, op, "LOST, %s",
			now->deadline.lo == NEVER ? "though it had no lease" : "though the lease cannot have ended");
	if (op->op == HISTORY_RELEASE && op->other && op->other <= now->token)
		problem(c, "truth-lost", hold->acquire, op, "lost to token %" PRIu64 ", which is not above %" PRIu64,
			op->other, now->token);
}

static void check_busy_upgrade(struct check *c, const struct hold *hold, const struct history_record *op)
{
	const struct key *key = find_key(c, hold->acquire->realm, hold->acquire->key);

	if (!anybody_there(c, key, op->enter, op->leave, true, hold->acquire))
		problem(c, "busy", hold->acquire, op, "upgrade: BUSY though no other holds it or waits");
}

static void check_renewal(struct check *c, const struct hold *hold, const struct hold *now,
			  const struct history_record *op)
{
	int64_t from = hold->acquire->enter;

	if (!(hold->acquire->flags & HISTORY_AUTO_RENEW) || hold->acquire->ns < RENEWED_FOR_SURE || now->lost ||
	    (op->outcome != LOCKSHM_LOST && op->outcome != LOCKSHM_LATE) || hold->ended.lo <= op->leave)
		return;
	/* A shorter one was requested since. */
	for (uint32_t i = 0; i < hold->n_ops; i++)
		if (hold->ops[i]->op == HISTORY_RENEW)
			return;
	if (model_stopped(&c->m, model_process(&c->m, hold->acquire), from, op->leave) == 0 &&
	    model_starved(&c->m, from, op->leave) == 0)
		problem(c, "renewal", hold->acquire, op, "%s, though the service thread could run all the time",
			lockshm_code_name(op->outcome));
}

static void check_op(struct check *c, const struct hold *hold, const struct hold *now, const struct history_record *op)
{
	if (!op->leave || op->outcome == LOCKSHM_NOT_HELD || op->flags & HISTORY_WORST)
		return;
	if (is_yes(op->outcome) || op->outcome == LOCKSHM_BUSY)
		check_yes(c, hold, now, op);
	if (op->outcome == LOCKSHM_LOST)
		check_lost(c, hold, now, op);
	if (op->outcome == LOCKSHM_BUSY && op->op == HISTORY_UPGRADE)
		check_busy_upgrade(c, hold, op);
	check_renewal(c, hold, now, op);
}

static void check_hold(struct check *c, const struct hold *hold)
{
	struct hold now;
	uint32_t i;

	hold_begin(&c->m, &now, hold);
	for (i = 0; i < hold->n_ops; i++) {
		check_op(c, hold, &now, hold->ops[i]);
		hold_step(&now, hold->ops[i]);
	}
}

/* ---------------------------------------------------------------- operator, segments */

/* It returned NOT_HELD: then the hold of that token must not have lasted through the call. */
static void check_operator(struct check *c, const struct history_record *r)
{
	const struct hold *hold = model_find_token(&c->m, r->realm, r->key, r->token);

	if (!hold || r->outcome != LOCKSHM_NOT_HELD || hold->token != hold->acquire->token || hold->ended.lo < r->enter)
		return;
	if (hold->start + SKEW < r->enter && hold->end > r->leave + SKEW)
		problem(c, "operator", hold->acquire, r, "NOT_HELD, though token %" PRIu64 " was held", r->token);
}

static const struct history_record *removal_of(const struct check *c, uint16_t realm)
{
	uint32_t i;

	for (i = 0; i < c->m.destroys.n; i++)
		if (c->m.destroys.list[i]->realm == realm)
			return c->m.destroys.list[i];
	return NULL;
}

/* The first grant in a segment that is newer. */
static const struct history_record *newer_grant(const struct check *c, const struct history_record *r)
{
	const struct history_realm *realms = c->m.h->header->realms;
	uint32_t i;

	for (i = 0; i < HISTORY_REALMS && realms[i].token_base; i++)
		if (realms[i].token_base > realms[r->realm].token_base && c->first_grant[i] &&
		    c->first_grant[i]->leave + SKEW < r->enter)
			return c->first_grant[i];
	return NULL;
}

static void check_segment(struct check *c, const struct history_record *r)
{
	const struct history_record *removal = removal_of(c, r->realm);

	if (r->outcome == LOCKSHM_NO_SEGMENT && (!removal || removal->enter > r->leave + SKEW))
		problem(c, "segment", r, NULL, "NO_SEGMENT, though it was not removed");
	if (r->outcome < 0)
		return;
	if (removal && removal->leave && removal->leave + SKEW < r->enter)
		problem(c, "segment", removal, r, "granted in a segment that had been removed");
	else if (newer_grant(c, r))
		problem(c, "segment", newer_grant(c, r), r, "granted in a segment that had been replaced");
}

static void find_first_grants(struct check *c)
{
	uint32_t i;

	for (i = 0; i < c->m.n_holds; i++) {
		const struct history_record *r = c->m.holds[i].acquire, **first = &c->first_grant[r->realm];

		if (!*first || r->leave < (*first)->leave)
			*first = r;
	}
}

void check_truth(struct check *c)
{
	uint32_t i;

	find_first_grants(c);
	for (i = 0; i < c->m.n_records; i++) {
		const struct history_record *r = model_record(&c->m, i);

		if (!r || !r->leave || (r->flags & HISTORY_DUPLICATE))
			continue;
		if (r->op <= HISTORY_ACK_MARKS)
			check_code(c, r);
		if (r->op == HISTORY_ACQUIRE)
			check_segment(c, r);
		if (r->op == HISTORY_END_HOLD)
			check_operator(c, r);
	}
	for (i = 0; i < c->m.n_holds; i++)
		check_hold(c, &c->m.holds[i]);
}
