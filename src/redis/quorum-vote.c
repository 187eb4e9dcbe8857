/* SPDX-License-Identifier: MIT */
/*
 * quorum-vote.c - one lock on several servers: the operations, and the decision by a majority; see redis/quorum.h
 *
 * The phases of an operation:
 *
 *   gather --a majority is ready--> ask --acquire: a majority has granted, tokens that differ--> raise --> over
 *                                   +--acquire: a majority has granted, from one token on--> over
 *                                   +--renew, fence: decided--> over
 *   release: take back --all have replied--> over
 *
 * A failed acquire goes to "take back", unless its value is shared.  Each phase ends at the deadline at the latest.
 */
#include "redis/quorum-fence.h"

#include <string.h>

#include "sys/min.h"

enum phase { GATHER, ASK, RAISE, TAKE_BACK };

/* Time for the release after a failed acquire. */
#define ROLLBACK_NS REDIS_MS(250)

/* ---------------------------------------------------------------- common to all */

/* The round stays until its last reply, without the operation. */
static void leave_round(struct redis_vote *v)
{
	if (v->round)
		v->round->kept = false;
	v->round = NULL;
}

static void end(struct redis_quorum *q, struct redis_vote *v, int code)
{
	leave_round(v);
	v->code = code;
	v->over = true;
	memcpy(v->why, q->error.text, sizeof(v->why) < sizeof(q->error.text) ? sizeof(v->why) : sizeof(q->error.text));
	v->why[sizeof(v->why) - 1] = '\0';
}

/* All that are ready, or vote, get the script. */
static void ask(struct redis_quorum *q, struct redis_vote *v, enum phase phase, enum redis_script script,
		const struct script_args *args)
{
	bool voters_only = phase == ASK && redis_is_acquire(script);

	leave_round(v);
	v->phase = phase;
	v->round = round_begin(q, script, voters_only, v->keys, args, v->deadline);
	if (!v->round)
		end(q, v, REDIS_NO_MEMORY);
}

/* ---------------------------------------------------------------- release */

static bool may_have(const struct redis_vote *v, size_t i)
{
	return !v->args.may_have || *v->args.may_have >> i & 1;
}

/* To a server that has become ready; once more over a new connection, if its own is lost with this release or before.
 * True = anything was done. */
static bool release_at(struct redis_quorum *q, struct redis_vote *v, size_t i)
{
	struct redis_conn *c = q->nodes[i].conn;
	struct round *r = v->round;
	bool lost = r->sent[i] && (r->ops[i].code == REDIS_UNKNOWN || r->ops[i].code == REDIS_UNREACHABLE);

	if (!r->sent[i] && quorum_ready(q, &q->nodes[i])) {
		round_send(q, r, i, REDIS_RELEASE, &v->args, v->deadline);
		return true;
	}
	if (r->repeated[i] || !may_have(v, i) || !(lost || (!r->sent[i] && redis_conn_closed(c))))
		return false;
	r->sent[i] = false;
	r->repeated[i] = true;
	(void)redis_conn_open(c, v->deadline);
	return true;
}

/* @open: how many replies are still worth waiting for.  True = anything was done. */
static bool release_more(struct redis_quorum *q, struct redis_vote *v, unsigned *open)
{
	const struct round *r = v->round;
	bool any = false;
	size_t i;

	for (i = 0, *open = 0; i < q->n; i++) {
		any = release_at(q, v, i) || any;
		*open += r->sent[i] ? !r->ops[i].done : may_have(v, i) && !redis_conn_closed(q->nodes[i].conn);
	}
	return any;
}

/* Also of a failed acquire, whose result stays. */
static void begin_release(struct redis_quorum *q, struct redis_vote *v)
{
	leave_round(v);
	v->phase = TAKE_BACK;
	v->round = round_new(q, v->keys, &v->args);
	if (!v->round)
		end(q, v, v->found);
}

static bool step_release(struct redis_quorum *q, struct redis_vote *v)
{
	unsigned open, done = 0;
	bool any = release_more(q, v, &open);
	size_t i;

	if (open && redis_now() < v->deadline)
		return any;
	for (i = 0; i < q->n; i++) {
		if (!v->round->sent[i] || !v->round->ops[i].done || v->round->ops[i].code)
			continue;
		done++;
		v->lease.bad += v->round->ops[i].reply.bad;
		if (v->args.may_have)
			*v->args.may_have &= ~(1U << i);
	}
	if (v->script == REDIS_RELEASE)
		v->lease.servers = done;
	end(q, v, v->found);
	return true;
}

/* ---------------------------------------------------------------- acquire */

static void end_acquire(struct redis_quorum *q, struct redis_vote *v, int code)
{
	if (!code && v->lease.status == REDIS_GRANTED) {
		end(q, v, 0);
		return;
	}
	v->lease.servers = 0;
	if (q->options.value_is_shared) {
		end(q, v, code);
		return;
	}
	v->found = code;
	v->args.gap_ms = 0;
	v->deadline = redis_now() + ROLLBACK_NS;
	begin_release(q, v);
}

static int64_t longest_block(struct redis_quorum *q, const struct round *r)
{
	int64_t left = 0;
	size_t i;

	for (i = 0; i < q->n; i++)
		if (r->sent[i] && r->ops[i].done && !r->ops[i].code && r->ops[i].reply.left_ms > left)
			left = r->ops[i].reply.left_ms;
	return left;
}

static bool long_enough(const struct redis_quorum *q, const struct redis_vote *v)
{
	int64_t min = q->options.min_validity_ms ? q->options.min_validity_ms : v->args.ttl_ms / 2;

	return v->lease.valid_until - redis_now() >= REDIS_MS(min);
}

/* Why there is no majority: servers unreachable, or refusing until an operator acts. */
static int no_majority(struct redis_quorum *q)
{
	unsigned refuse = 0;
	int code = REDIS_UNREACHABLE;
	size_t i;

	if (quorum_all_votes(q) < q->majority) {
		q->error = q->same;
		return q->error.code;
	}
	for (i = 0; i < q->n; i++) {
		const struct redis_error *error = redis_conn_error(q->nodes[i].conn);

		if (!redis_conn_closed(q->nodes[i].conn) || !error->code || redis_error_passes(error->code))
			continue;
		refuse++;
		code = error->code;
		q->error = *error;
	}
	if (q->n - refuse < q->majority)
		return code;
	return redis_quorum_reachable(q) ? redis_fail(&q->error, REDIS_UNREACHABLE,
							"servers that were started a moment ago do not vote yet") :
					    REDIS_UNREACHABLE;
}

static void begin_acquire(struct redis_quorum *q, struct redis_vote *v)
{
	struct script_args once = v->args;

	once.flags = "t";
	once.clock_us = quorum_fence_clock(q);
	v->lease.began = redis_now();
	v->lease.valid_until = redis_valid_until(v->lease.began, v->args.ttl_ms);
	ask(q, v, ASK, v->script, &once);
}

/* The note of a robust key as those have it that agreed: what two majorities know one server of both knows. */
static void take_note(struct redis_quorum *q, struct redis_vote *v, const struct round *r, enum redis_status yes)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		const struct script_reply *a = &r->ops[i].reply;

		if (!r->sent[i] || !r->ops[i].done || r->ops[i].code || a->status != yes || !a->noted)
			continue;
		v->lease.noted = true;
		v->lease.good = max64(v->lease.good, a->good);
		if (a->bad < v->lease.bad || (a->bad == v->lease.bad && strchr(a->why, 'l')))
			continue;
		v->lease.bad = a->bad;
		memcpy(v->lease.why, a->why, sizeof(v->lease.why));
	}
}

/* Has the majority that agreed on the token opened the note with it?  Alike, as it took or did not take what was asked. */
static bool note_is_open(const struct redis_quorum *q, const struct redis_vote *v)
{
	size_t i;

	for (i = 0; i < q->n; i++)
		if (quorum_fence_taken(v->round, i) == v->lease.fence)
			return v->round->ops[i].reply.noted;
	return false;
}

/*
 * Takes a token above all that this majority has given out, and makes it known to a majority of those that have granted
 * before it is used.  Others do not count: a host that has the key there took its number before, and may yet get a
 * majority.
 */
static void raise_fence(struct redis_quorum *q, struct redis_vote *v)
{
	struct round *granted = v->round;
	struct script_args raise = v->args;
	size_t i;

	take_note(q, v, granted, REDIS_GRANTED);
	v->lease.fence = quorum_fence_highest(q, granted);
	raise.fence = v->lease.fence + v->args.stride;
	raise.note = v->args.note && v->script == REDIS_ACQUIRE_X;
	v->phase = RAISE;
	v->round = round_new(q, v->keys, &v->args);
	for (i = 0; v->round && i < q->n; i++)
		if (quorum_fence_taken(granted, i) && quorum_ready(q, &q->nodes[i]))
			round_send(q, v->round, i, REDIS_FENCE, &raise, v->deadline);
	granted->kept = false;
	if (!v->round)
		end(q, v, REDIS_NO_MEMORY);
}

static void acquire_decided(struct redis_quorum *q, struct redis_vote *v, struct tally t)
{
	v->lease.decided = redis_now();
	v->lease.servers = t.yes;
	v->lease.left_ms = longest_block(q, v->round);
	v->lease.sent = t.yes || t.no || t.open || t.code;
	if (t.yes < q->majority) {
		v->lease.status = REDIS_BUSY;
		/* A server that agreed must be taken back, whatever the others replied. */
		end_acquire(q, v,
			    t.no	     ? 0 :
			    t.yes || t.open  ? REDIS_UNKNOWN :
			    t.code	     ? t.code :
					       REDIS_UNREACHABLE);
	} else if (!long_enough(q, v)) {
		end_acquire(q, v, redis_fail(&q->error, REDIS_UNKNOWN, "granted, but too late to be of use"));
	} else if ((v->lease.fence = quorum_fence_agreed(q, v->round)) && (!v->args.note || note_is_open(q, v))) {
		take_note(q, v, v->round, REDIS_GRANTED);
		v->lease.status = REDIS_GRANTED;
		end_acquire(q, v, 0);
	} else {
		raise_fence(q, v);
	}
}

static void raise_decided(struct redis_quorum *q, struct redis_vote *v, struct tally t)
{
	if (t.yes < q->majority || !long_enough(q, v)) {
		end_acquire(q, v,
			    redis_fail(&q->error, REDIS_UNKNOWN, "granted, but the fence is not known to a majority"));
		return;
	}
	take_note(q, v, v->round, REDIS_DONE);
	v->lease.status = REDIS_GRANTED;
	end_acquire(q, v, 0);
}

/* ---------------------------------------------------------------- renew */

static void begin_renew(struct redis_quorum *q, struct redis_vote *v)
{
	struct script_args same = v->args;

	/* Tokens of one server are not those of a majority. */
	same.stride = 0;
	v->lease.began = redis_now();
	ask(q, v, ASK, REDIS_RENEW, &same);
	/* A server that has the writer as a reader lets others read, too. */
	if (v->round)
		v->round->kind = v->acquired_by == REDIS_ACQUIRE_X ? REDIS_KIND_HOST : REDIS_KIND_READERS;
}

/* Servers that lost the lease get it again unless another host has it there. */
static void refill(struct redis_quorum *q, struct redis_vote *v)
{
	const struct round *renewed = v->round;
	struct script_args again = v->args;
	struct round *r = NULL;
	size_t i;

	again.flags = "tb";
	for (i = 0; i < q->n; i++) {
		const struct redis_op *op = &renewed->ops[i];

		if (!renewed->sent[i] || !op->done || op->code || op->reply.status == REDIS_DONE)
			continue;
		if (!r)
			r = round_new(q, v->keys, &v->args);
		if (!r)
			return;
		round_send(q, r, i, v->acquired_by, &again, v->deadline);
	}
	if (r)
		r->kept = false;
}

static void renew_decided(struct redis_quorum *q, struct redis_vote *v, struct tally t)
{
	v->lease.status = REDIS_LOST;
	if (t.no > q->n - q->majority) {
		end(q, v, 0);
		return;
	}
	if (t.yes < q->majority) {
		end(q, v, t.code ? t.code : t.open ? REDIS_UNKNOWN : REDIS_UNREACHABLE);
		return;
	}
	v->lease.status = REDIS_DONE;
	v->lease.decided = redis_now();
	v->lease.valid_until = redis_valid_until(v->lease.began, v->args.ttl_ms);
	v->lease.servers = t.yes;
	take_note(q, v, v->round, REDIS_DONE);
	refill(q, v);
	end(q, v, 0);
}

/* ---------------------------------------------------------------- phases */

static void begin(struct redis_quorum *q, struct redis_vote *v, unsigned n)
{
	if (v->script == REDIS_FENCE)
		ask(q, v, ASK, REDIS_FENCE, &v->args);
	else if (v->script == REDIS_RENEW)
		begin_renew(q, v);
	else if (n < q->majority || redis_quorum_voters(q) < q->majority)
		end(q, v, no_majority(q));
	else
		begin_acquire(q, v);
}

static void decided(struct redis_quorum *q, struct redis_vote *v, struct tally t)
{
	if (v->phase == RAISE)
		raise_decided(q, v, t);
	else if (v->script == REDIS_RENEW)
		renew_decided(q, v, t);
	else if (v->script == REDIS_FENCE)
		end(q, v,
		    t.yes >= q->majority ? 0 :
		    t.code		 ? t.code :
		    t.open		 ? REDIS_UNKNOWN :
					   REDIS_UNREACHABLE);
	else
		acquire_decided(q, v, t);
}

/* True if anything happened. */
static bool advance(struct redis_quorum *q, struct redis_vote *v)
{
	bool votes = v->phase == ASK && redis_is_acquire(v->script);
	struct tally t;
	unsigned n;

	switch ((enum phase)v->phase) {
	case GATHER:
		if (!quorum_gathered(q, q->majority, v->deadline, &n))
			return false;
		begin(q, v, n);
		return true;
	case TAKE_BACK:
		return step_release(q, v);
	default:
		if (!round_decided(q, v->round, votes ? REDIS_GRANTED : REDIS_DONE, v->deadline, &t))
			return false;
		decided(q, v, t);
		return true;
	}
}

void redis_quorum_begin(struct redis_quorum *q, struct redis_vote *v)
{
	memset(&v->lease, 0, sizeof(v->lease));
	v->over = false;
	v->code = v->found = 0;
	v->phase = GATHER;
	v->round = NULL;
	v->next = NULL;
	*q->votes_end = v;
	q->votes_end = &v->next;
	quorum_connect(q, v->deadline);
	if (v->script == REDIS_RELEASE)
		begin_release(q, v);
}

static bool advance_all(struct redis_quorum *q)
{
	struct redis_vote **at = &q->votes, *v;
	bool any = false;

	while ((v = *at)) {
		while (!v->over && advance(q, v))
			any = true;
		if (v->over)
			*at = v->next;
		else
			at = &v->next;
	}
	q->votes_end = at;
	return any;
}

/* After each pump all replies that came with it are taken: one that stayed would make no descriptor readable. */
void redis_quorum_step(struct redis_quorum *q)
{
	bool any;
	size_t i;

	do {
		for (i = 0; i < q->n; i++)
			(void)redis_conn_pump(q->nodes[i].conn);
		(void)quorum_ready_votes(q);
		any = round_reap(q);
		any = advance_all(q) || any;
	} while (any);
}
