/* SPDX-License-Identifier: MIT */
/* quorum.c - one lock on several servers: the operations, and the decision by a majority; see redis/quorum.h */
#include "redis/quorum.h"

#include <stdlib.h>
#include <string.h>

#include "redis/quorum-round.h"

/* ---------------------------------------------------------------- operations */

/* Time for the release after a failed acquire. */
#define ROLLBACK_NS REDIS_MS(250)

/* Sends to servers that have become ready; returns how many replies are still worth waiting for. */
static unsigned release_more(struct redis_quorum *q, struct round *r, const struct script_args *args, int64_t deadline)
{
	unsigned open = 0;
	size_t i;

	for (i = 0; i < q->n; i++) {
		struct node *node = &q->nodes[i];

		if (!r->sent[i] && quorum_ready(q, node))
			round_send(q, r, i, REDIS_RELEASE, args, deadline);
	}
	round_reap(q, r);
	for (i = 0; i < q->n; i++) {
		struct redis_conn *c = q->nodes[i].conn;

		if (!r->sent[i] || r->repeated[i] || !r->ops[i].done || !r->ops[i].code || !redis_conn_closed(c))
			continue;
		r->sent[i] = false;
		r->repeated[i] = true;
		(void)redis_conn_open(c, deadline);
	}
	for (i = 0; i < q->n; i++)
		open += r->sent[i] ? !r->ops[i].done : q->nodes[i].may_hold && !redis_conn_closed(q->nodes[i].conn);
	return open;
}

unsigned redis_quorum_release(struct redis_quorum *q, const struct redis_keys *keys, const struct script_args *args,
			       int64_t deadline)
{
	struct round *r = round_new(q, keys, args);
	unsigned done = 0;
	size_t i;

	if (!r)
		return 0;
	quorum_connect(q, deadline);
	while (release_more(q, r, args, deadline) && redis_now() < deadline)
		quorum_poll(q, deadline);
	for (i = 0; i < q->n; i++) {
		q->nodes[i].may_hold = false;
		done += r->sent[i] && r->ops[i].done && r->ops[i].code == 0;
	}
	return done;
}

/* Takes a token above all that any majority has given out, and makes it known to a majority before it is used. */
static int raise_fence(struct redis_quorum *q, const struct round *granted, const struct redis_keys *keys,
		       const struct script_args *args, int64_t deadline, int64_t *fence)
{
	struct script_args raise = *args;
	struct round *r;
	size_t i;

	*fence = 0;
	for (i = 0; i < q->n; i++)
		if (granted->sent[i] && granted->ops[i].done && !granted->ops[i].code &&
		    granted->ops[i].reply.fence > *fence)
			*fence = granted->ops[i].reply.fence;
	raise.fence = *fence + args->stride;
	r = round_begin(q, REDIS_FENCE, false, keys, &raise, deadline);
	if (!r)
		return REDIS_NO_MEMORY;
	return round_decide(q, r, REDIS_DONE, deadline).yes >= q->majority ? 0 : REDIS_UNKNOWN;
}

int redis_quorum_fence(struct redis_quorum *q, const struct redis_keys *keys, const struct script_args *args,
			int64_t deadline)
{
	struct round *r;
	struct tally t;

	quorum_connect(q, deadline);
	(void)quorum_gather(q, q->majority, deadline);
	r = round_begin(q, REDIS_FENCE, false, keys, args, deadline);
	if (!r)
		return REDIS_NO_MEMORY;
	t = round_decide(q, r, REDIS_DONE, deadline);
	return t.yes >= q->majority ? 0 : t.code ? t.code : t.open ? REDIS_UNKNOWN : REDIS_UNREACHABLE;
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

static bool long_enough(const struct redis_quorum *q, const struct script_args *args, const struct redis_lock *lease)
{
	int64_t min = q->options.min_validity_ms ? q->options.min_validity_ms : args->ttl_ms / 2;

	return lease->valid_until - redis_now() >= REDIS_MS(min);
}

/* One round; the caller takes it back if it does not end with a lease. */
static int try_acquire(struct redis_quorum *q, enum redis_script script, const struct redis_keys *keys,
		       const struct script_args *args, int64_t deadline, struct redis_lock *lease)
{
	struct script_args once = *args;
	struct round *r;
	struct tally t;
	int code;

	once.flags = "t";
	lease->began = redis_now();
	lease->valid_until = redis_valid_until(lease->began, args->ttl_ms);
	r = round_begin(q, script, true, keys, &once, deadline);
	if (!r)
		return REDIS_NO_MEMORY;
	t = round_decide(q, r, REDIS_GRANTED, deadline);
	lease->decided = redis_now();
	lease->servers = t.yes;
	lease->left_ms = longest_block(q, r);
	lease->sent = t.yes || t.no || t.open || t.code;
	if (t.yes < q->majority) {
		lease->status = REDIS_BUSY;
		/* A server that agreed must be taken back, whatever the others replied. */
		return t.no ? 0 : t.yes || t.open ? REDIS_UNKNOWN : t.code ? t.code : REDIS_UNREACHABLE;
	}
	if (!long_enough(q, args, lease))
		return redis_fail(&q->error, REDIS_UNKNOWN, "granted, but too late to be of use");
	code = raise_fence(q, r, keys, args, deadline, &lease->fence);
	if (code || !long_enough(q, args, lease))
		return redis_fail(&q->error, REDIS_UNKNOWN, "granted, but the fence is not known to a majority");
	lease->status = REDIS_GRANTED;
	return 0;
}

/* Why there is no majority: servers unreachable, or refusing until an operator acts. */
static int no_majority(struct redis_quorum *q)
{
	unsigned refuse = 0;
	int code = REDIS_UNREACHABLE;
	size_t i;

	if (q->unfit)
		return REDIS_INVALID;
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

int redis_quorum_acquire(struct redis_quorum *q, enum redis_script script, const struct redis_keys *keys,
			  const struct script_args *args, int64_t deadline, struct redis_lock *lease)
{
	struct script_args back = *args;
	int code;

	memset(lease, 0, sizeof(*lease));
	quorum_connect(q, deadline);
	if (quorum_gather(q, q->majority, deadline) < q->majority || redis_quorum_voters(q) < q->majority)
		return no_majority(q);
	code = try_acquire(q, script, keys, args, deadline, lease);
	if (code || lease->status != REDIS_GRANTED)
		lease->servers = 0;
	if ((code || lease->status != REDIS_GRANTED) && !q->options.value_is_shared) {
		back.gap_ms = 0;
		(void)redis_quorum_release(q, keys, &back, redis_now() + ROLLBACK_NS);
	}
	return code;
}

/* Servers that lost the lease get it again unless another host has it there. */
static void refill(struct redis_quorum *q, const struct round *renewed, enum redis_script script,
		   const struct redis_keys *keys, const struct script_args *args, int64_t deadline)
{
	struct script_args again = *args;
	struct round *r = NULL;
	size_t i;

	again.flags = "tb";
	for (i = 0; i < q->n; i++) {
		const struct redis_op *op = &renewed->ops[i];

		if (!renewed->sent[i] || !op->done || op->code || op->reply.status == REDIS_DONE)
			continue;
		if (!r)
			r = round_new(q, keys, args);
		if (!r)
			return;
		round_send(q, r, i, script, &again, deadline);
	}
}

int redis_quorum_renew(struct redis_quorum *q, enum redis_script acquired_by, const struct redis_keys *keys,
			const struct script_args *args, int64_t deadline, struct redis_lock *lease)
{
	struct script_args same = *args;
	struct round *r;
	struct tally t;

	/* Tokens of one server are not those of a majority. */
	same.stride = 0;
	quorum_connect(q, deadline);
	(void)quorum_gather(q, q->majority, deadline);
	lease->began = redis_now();
	r = round_begin(q, REDIS_RENEW, false, keys, &same, deadline);
	if (!r)
		return REDIS_NO_MEMORY;
	/* A server that has the writer as a reader lets others read, too. */
	r->kind = acquired_by == REDIS_ACQUIRE_X ? REDIS_KIND_HOST : REDIS_KIND_READERS;
	t = round_decide(q, r, REDIS_DONE, deadline);
	lease->status = REDIS_LOST;
	if (t.no > q->n - q->majority)
		return 0;
	if (t.yes < q->majority)
		return t.code ? t.code : t.open ? REDIS_UNKNOWN : REDIS_UNREACHABLE;
	lease->status = REDIS_DONE;
	lease->decided = redis_now();
	lease->valid_until = redis_valid_until(lease->began, args->ttl_ms);
	lease->servers = t.yes;
	refill(q, r, acquired_by, keys, args, deadline);
	return 0;
}

/* ---------------------------------------------------------------- life cycle, getters */

int redis_quorum_new(struct redis_quorum **out, const struct redis_server *servers, size_t n,
		      const struct redis_quorum_options *options, struct redis_error *error)
{
	struct redis_conn_options conn_options = { .name = "lockshm",
						    .scripts = redis_scripts,
						    .n_scripts = REDIS_N_SCRIPTS };
	struct redis_quorum *q;
	size_t i;
	int code = 0;

	*out = NULL;
	if (n < 1 || n > REDIS_SERVERS_MAX)
		return redis_fail(error, REDIS_INVALID, "a quorum has 1 to %d servers", REDIS_SERVERS_MAX);
	q = calloc(1, sizeof(*q));
	if (!q)
		return redis_fail(error, REDIS_NO_MEMORY, "out of memory");
	q->n = n;
	q->majority = (unsigned)(n / 2 + 1);
	q->options = *options;
	for (i = 0; i < n && !code; i++)
		code = redis_conn_new(&q->nodes[i].conn, &servers[i], &conn_options, error);
	if (code)
		redis_quorum_free(q);
	else
		*out = q;
	return code;
}

void redis_quorum_free(struct redis_quorum *q)
{
	struct round *r;
	size_t i;

	if (!q)
		return;
	while ((r = q->rounds)) {
		q->rounds = r->next;
		round_free(r, q->n);
	}
	for (i = 0; i < q->n; i++)
		redis_conn_free(q->nodes[i].conn);
	free(q);
}

int redis_quorum_open(struct redis_quorum *q, int64_t deadline)
{
	unsigned n;

	quorum_connect(q, deadline);
	n = quorum_gather(q, (unsigned)q->n, deadline);
	if (q->unfit)
		return REDIS_INVALID;
	return n >= q->majority ? 0 : q->error.code ? q->error.code : REDIS_UNREACHABLE;
}

unsigned redis_quorum_voters(const struct redis_quorum *q)
{
	int64_t now = redis_now();
	unsigned n = 0;
	size_t i;

	for (i = 0; i < q->n; i++) {
		const struct node *node = &q->nodes[i];

		n += redis_conn_ready(node->conn) && node->known == redis_conn_generation(node->conn) &&
		     now >= node->votes_from;
	}
	return n;
}

bool redis_quorum_reachable(const struct redis_quorum *q)
{
	unsigned n = 0;
	size_t i;

	for (i = 0; i < q->n; i++)
		n += redis_conn_ready(q->nodes[i].conn);
	return n >= q->majority;
}

int64_t redis_quorum_tried(const struct redis_quorum *q, int64_t now)
{
	size_t i;

	for (i = 0; i < q->n; i++)
		if (!redis_conn_ready(q->nodes[i].conn) && redis_conn_tried(q->nodes[i].conn) < now)
			now = redis_conn_tried(q->nodes[i].conn);
	return now;
}

const struct redis_error *redis_quorum_error(const struct redis_quorum *q)
{
	return &q->error;
}

const struct redis_conn *redis_quorum_conn(const struct redis_quorum *q, size_t i)
{
	return q->nodes[i].conn;
}
