/* SPDX-License-Identifier: MIT */
/*
 * bridge-quorum.c - one lock on several servers; see bridge-quorum.h
 *
 * Each operation is a round: one script on every server that is connected.  A round that was decided lives on until its
 * last answer came or can come no more, with its own copy of names and token; later rounds queue behind it on the same
 * connections, so that a release never overtakes the acquire it takes back.
 */
#define _GNU_SOURCE
#include "bridge-quorum.h"

#include <stdlib.h>
#include <string.h>

#define REST_MIN_NS BRIDGE_MS(50)
#define REST_MAX_NS BRIDGE_MS(400)

struct node {
	struct bridge_conn *conn;
	uint64_t known; /* generation in which it was looked at */
	char run_id[41];
	int64_t votes_from;
	int64_t rest_until, rest_ns; /* one that does not answer is left alone, longer each time */
	uint64_t failed; /* generation of which that was noticed */
	bool owes; /* may hold a token of ours that nobody wants any more */
};

struct round {
	struct round *next;
	struct bridge_keys keys;
	char token[BRIDGE_TOKEN_LEN + 1];
	bool asked[BRIDGE_SERVERS_MAX];
	bool repeated[BRIDGE_SERVERS_MAX]; /* release: asked again over a new connection */
	struct bridge_op ops[BRIDGE_SERVERS_MAX];
};

struct bridge_quorum {
	struct node nodes[BRIDGE_SERVERS_MAX];
	size_t n;
	unsigned majority;
	struct bridge_quorum_options options;
	struct round *rounds; /* newest first */
	struct bridge_error error;
	bool unfit; /* two addresses are one server, or one is of a cluster */
};

const char *bridge_quorum_warning(size_t n)
{
	if (n == 1)
		return "one server is no quorum: when it fails, all fails";
	if (n == 2)
		return "of two servers both are needed: less available than one";
	if (n % 2 == 0)
		return "an even number of servers bears no more failures than one less";
	return NULL;
}

/* ---------------------------------------------------------------- servers */

static int note_twice(struct bridge_quorum *q, const struct node *a, const struct node *b)
{
	q->unfit = true;
	return bridge_fail(&q->error, BRIDGE_INVALID, "%.100s and %.100s are the same server",
			   bridge_conn_label(a->conn), bridge_conn_label(b->conn));
}

/* Each would have its part of the keys, and send us elsewhere with the others. */
static int note_cluster(struct bridge_quorum *q, const struct node *node)
{
	q->unfit = true;
	return bridge_fail(&q->error, BRIDGE_INVALID,
			   "%.100s is a node of a cluster: a majority takes servers that know nothing of each other",
			   bridge_conn_label(node->conn));
}

/*
 * A connection that has just become ready: who is it?  A server we have not met may have been restarted as well as one
 * that is new to us.
 */
static int look_at(struct bridge_quorum *q, struct node *node)
{
	const struct bridge_server_info *info = bridge_conn_info(node->conn);
	int64_t age_ms = info->uptime_s * 1000;
	size_t i;

	node->known = bridge_conn_generation(node->conn);
	node->rest_ns = 0;
	if (info->cluster)
		return note_cluster(q, node);
	for (i = 0; i < q->n; i++)
		if (&q->nodes[i] != node && strcmp(q->nodes[i].run_id, info->run_id) == 0)
			return note_twice(q, &q->nodes[i], node);
	if (strcmp(node->run_id, info->run_id) != 0 && age_ms < q->options.quarantine_ms)
		node->votes_from = bridge_now() + BRIDGE_MS(q->options.quarantine_ms - age_ms);
	memcpy(node->run_id, info->run_id, sizeof(node->run_id));
	return 0;
}

static bool ready(struct bridge_quorum *q, struct node *node)
{
	if (!bridge_conn_ready(node->conn))
		return false;
	if (node->known != bridge_conn_generation(node->conn))
		(void)look_at(q, node);
	return !q->unfit;
}

static bool votes(struct bridge_quorum *q, struct node *node)
{
	return ready(q, node) && bridge_now() >= node->votes_from;
}

static void poll_all(struct bridge_quorum *q, int64_t until)
{
	struct bridge_conn *conns[BRIDGE_SERVERS_MAX];
	size_t i;

	for (i = 0; i < q->n; i++)
		conns[i] = q->nodes[i].conn;
	bridge_conns_poll(conns, q->n, until);
}

/* Once for each connection that failed while somebody waited for it. */
static void begin_rests(struct bridge_quorum *q)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		struct node *node = &q->nodes[i];

		if (!bridge_conn_closed(node->conn) || !bridge_conn_error(node->conn)->code ||
		    node->failed == bridge_conn_generation(node->conn))
			continue;
		node->failed = bridge_conn_generation(node->conn);
		node->rest_ns = node->rest_ns ? node->rest_ns * 2 : REST_MIN_NS;
		if (node->rest_ns > REST_MAX_NS)
			node->rest_ns = REST_MAX_NS;
		node->rest_until = bridge_now() + node->rest_ns;
	}
}

/* What it met is still the answer. */
static bool rests(const struct node *node)
{
	return bridge_conn_closed(node->conn) && bridge_conn_error(node->conn)->code &&
	       bridge_now() < node->rest_until;
}

static void connect_all(struct bridge_quorum *q, int64_t deadline)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		/* One that ended meanwhile is noticed now, not with the next command. */
		(void)bridge_conn_pump(q->nodes[i].conn);
		if (rests(&q->nodes[i]))
			q->error = *bridge_conn_error(q->nodes[i].conn);
		else if (bridge_conn_open(q->nodes[i].conn, deadline) != 0)
			q->error = *bridge_conn_error(q->nodes[i].conn);
	}
}

/* Waits until @enough servers are ready, or no more can be. */
static unsigned gather(struct bridge_quorum *q, unsigned enough, int64_t deadline)
{
	for (;;) {
		unsigned n = 0, under_way = 0;
		size_t i;

		begin_rests(q);
		for (i = 0; i < q->n; i++) {
			struct bridge_conn *c = q->nodes[i].conn;

			if (ready(q, &q->nodes[i]))
				n++;
			else if (!bridge_conn_closed(c))
				under_way++;
			else if (bridge_conn_error(c)->code)
				q->error = *bridge_conn_error(c);
		}
		if (n >= enough || !under_way || q->unfit || bridge_now() >= deadline)
			return n;
		poll_all(q, deadline);
	}
}

/* ---------------------------------------------------------------- rounds */

static void free_round(struct round *r, size_t n)
{
	while (n--)
		bridge_op_end(&r->ops[n]);
	bridge_keys_free(&r->keys);
	free(r);
}

/* The same names in memory of the round's own. */
static bool copy_keys(struct bridge_keys *out, const struct bridge_keys *keys)
{
	size_t all = 0, i;
	char *at;

	for (i = 0; i < BRIDGE_KEYS; i++)
		all += keys->len[i];
	at = out->bytes = malloc(all);
	if (!at)
		return false;
	for (i = 0; i < BRIDGE_KEYS; i++) {
		out->key[i] = at;
		out->len[i] = keys->len[i];
		at = mempcpy(at, keys->key[i], keys->len[i]);
	}
	return true;
}

static struct round *new_round(struct bridge_quorum *q, const struct bridge_keys *keys, const struct bridge_wish *wish)
{
	struct round *r = calloc(1, sizeof(*r));
	size_t i;

	if (!r || !copy_keys(&r->keys, keys)) {
		free(r);
		bridge_fail(&q->error, BRIDGE_NO_MEMORY, "out of memory");
		return NULL;
	}
	strncpy(r->token, wish->token, BRIDGE_TOKEN_LEN);
	for (i = 0; i < q->n; i++)
		r->ops[i].done = true;
	r->next = q->rounds;
	q->rounds = r;
	return r;
}

static void ask(struct bridge_quorum *q, struct round *r, size_t i, enum bridge_script script,
		const struct bridge_wish *wish, int64_t deadline)
{
	struct bridge_wish own = *wish;

	own.token = r->token;
	own.token_len = 0;
	r->asked[i] = true;
	q->nodes[i].owes = true;
	(void)bridge_op_begin(&r->ops[i], q->nodes[i].conn, script, &r->keys, &own, deadline);
	(void)bridge_conn_pump(q->nodes[i].conn);
}

static size_t n_done(const struct bridge_quorum *q)
{
	const struct round *r;
	size_t n = 0, i;

	for (r = q->rounds; r; r = r->next)
		for (i = 0; i < q->n; i++)
			n += r->ops[i].done;
	return n;
}

/*
 * Takes what has come, for all rounds, and forgets those that are over, but for @keep.  The rounds share connections, and
 * what one takes may uncover the reply of another.
 */
static void reap(struct bridge_quorum *q, const struct round *keep)
{
	struct round **at = &q->rounds, *r;
	size_t before;

	do {
		before = n_done(q);
		for (r = q->rounds; r; r = r->next)
			(void)bridge_ops_step(r->ops, q->n);
	} while (n_done(q) != before);
	begin_rests(q);
	while ((r = *at)) {
		if (r == keep || !bridge_ops_step(r->ops, q->n)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		free_round(r, q->n);
	}
}

struct tally {
	unsigned yes, no, open; /* agreed, refused, not answered yet */
	int code; /* of an error, the worst there is to say */
};

static struct tally count(struct bridge_quorum *q, const struct round *r, enum bridge_status yes)
{
	struct tally t = { 0 };
	size_t i;

	for (i = 0; i < q->n; i++) {
		const struct bridge_op *op = &r->ops[i];

		if (!r->asked[i])
			continue;
		if (!op->done)
			t.open++;
		else if (op->code == 0 && op->answer.status == yes)
			t.yes++;
		else if (op->code == 0)
			t.no++;
		else if (!t.code || !bridge_error_passes(op->code))
			t.code = op->code;
		if (op->done && op->code)
			(void)bridge_fail(&q->error, op->code, "%s", op->why);
	}
	return t;
}

/* Until a majority agrees, or cannot any more. */
static struct tally decide(struct bridge_quorum *q, const struct round *r, enum bridge_status yes, int64_t deadline)
{
	struct tally t;

	for (;;) {
		reap(q, r);
		t = count(q, r, yes);
		if (t.yes >= q->majority || t.yes + t.open < q->majority || bridge_now() >= deadline)
			return t;
		poll_all(q, deadline);
	}
}

static struct round *ask_all(struct bridge_quorum *q, enum bridge_script script, bool voters_only,
			     const struct bridge_keys *keys, const struct bridge_wish *wish, int64_t deadline)
{
	struct round *r = new_round(q, keys, wish);
	size_t i;

	for (i = 0; r && i < q->n; i++)
		if (voters_only ? votes(q, &q->nodes[i]) : ready(q, &q->nodes[i]))
			ask(q, r, i, script, wish, deadline);
	return r;
}

/* ---------------------------------------------------------------- operations */

/* How long a release may take that follows a failed acquire. */
#define GIVE_BACK_NS BRIDGE_MS(250)

/* Asks whoever has become ready; how many answers are still worth waiting for. */
static unsigned release_more(struct bridge_quorum *q, struct round *r, const struct bridge_wish *wish, int64_t deadline)
{
	unsigned open = 0;
	size_t i;

	for (i = 0; i < q->n; i++) {
		struct node *node = &q->nodes[i];

		if (!r->asked[i] && ready(q, node))
			ask(q, r, i, BRIDGE_RELEASE, wish, deadline);
	}
	reap(q, r);
	for (i = 0; i < q->n; i++) {
		struct bridge_conn *c = q->nodes[i].conn;

		if (!r->asked[i] || r->repeated[i] || !r->ops[i].done || !r->ops[i].code || !bridge_conn_closed(c))
			continue;
		r->asked[i] = false;
		r->repeated[i] = true;
		(void)bridge_conn_open(c, deadline);
	}
	for (i = 0; i < q->n; i++)
		open += r->asked[i] ? !r->ops[i].done : q->nodes[i].owes && !bridge_conn_closed(q->nodes[i].conn);
	return open;
}

unsigned bridge_quorum_release(struct bridge_quorum *q, const struct bridge_keys *keys, const struct bridge_wish *wish,
			       int64_t deadline)
{
	struct round *r = new_round(q, keys, wish);
	unsigned done = 0;
	size_t i;

	if (!r)
		return 0;
	connect_all(q, deadline);
	while (release_more(q, r, wish, deadline) && bridge_now() < deadline)
		poll_all(q, deadline);
	for (i = 0; i < q->n; i++) {
		q->nodes[i].owes = false;
		done += r->asked[i] && r->ops[i].done && r->ops[i].code == 0;
	}
	return done;
}

/* A number above all that any majority has given out, made known to a majority before it is used. */
static int raise_fence(struct bridge_quorum *q, const struct round *granted, const struct bridge_keys *keys,
		       const struct bridge_wish *wish, int64_t deadline, int64_t *fence)
{
	struct bridge_wish raise = *wish;
	struct round *r;
	size_t i;

	*fence = 0;
	for (i = 0; i < q->n; i++)
		if (granted->asked[i] && granted->ops[i].done && !granted->ops[i].code &&
		    granted->ops[i].answer.fence > *fence)
			*fence = granted->ops[i].answer.fence;
	raise.fence = *fence + wish->stride;
	r = ask_all(q, BRIDGE_FENCE, false, keys, &raise, deadline);
	if (!r)
		return BRIDGE_NO_MEMORY;
	return decide(q, r, BRIDGE_DONE, deadline).yes >= q->majority ? 0 : BRIDGE_UNKNOWN;
}

int bridge_quorum_fence(struct bridge_quorum *q, const struct bridge_keys *keys, const struct bridge_wish *wish,
			int64_t deadline)
{
	struct round *r;
	struct tally t;

	connect_all(q, deadline);
	(void)gather(q, q->majority, deadline);
	r = ask_all(q, BRIDGE_FENCE, false, keys, wish, deadline);
	if (!r)
		return BRIDGE_NO_MEMORY;
	t = decide(q, r, BRIDGE_DONE, deadline);
	return t.yes >= q->majority ? 0 : t.code ? t.code : t.open ? BRIDGE_UNKNOWN : BRIDGE_UNREACHABLE;
}

static int64_t longest_obstacle(struct bridge_quorum *q, const struct round *r)
{
	int64_t left = 0;
	size_t i;

	for (i = 0; i < q->n; i++)
		if (r->asked[i] && r->ops[i].done && !r->ops[i].code && r->ops[i].answer.left_ms > left)
			left = r->ops[i].answer.left_ms;
	return left;
}

static bool long_enough(const struct bridge_quorum *q, const struct bridge_wish *wish, const struct bridge_lease *lease)
{
	int64_t min = q->options.min_validity_ms ? q->options.min_validity_ms : wish->ttl_ms / 2;

	return lease->valid_until - bridge_now() >= BRIDGE_MS(min);
}

/* One more round; the caller gives back if it does not end with a lease. */
static int try_acquire(struct bridge_quorum *q, enum bridge_script script, const struct bridge_keys *keys,
		       const struct bridge_wish *wish, int64_t deadline, struct bridge_lease *lease)
{
	struct bridge_wish once = *wish;
	struct round *r;
	struct tally t;
	int code;

	once.flags = "t";
	lease->began = bridge_now();
	lease->valid_until = bridge_valid_until(lease->began, wish->ttl_ms);
	r = ask_all(q, script, true, keys, &once, deadline);
	if (!r)
		return BRIDGE_NO_MEMORY;
	t = decide(q, r, BRIDGE_GRANTED, deadline);
	lease->decided = bridge_now();
	lease->servers = t.yes;
	lease->left_ms = longest_obstacle(q, r);
	lease->sent = t.yes || t.no || t.open || t.code;
	if (t.yes < q->majority) {
		lease->status = BRIDGE_BUSY;
		/* Somebody's yes is to be taken back, whatever the others said. */
		return t.no ? 0 : t.yes || t.open ? BRIDGE_UNKNOWN : t.code ? t.code : BRIDGE_UNREACHABLE;
	}
	if (!long_enough(q, wish, lease))
		return bridge_fail(&q->error, BRIDGE_UNKNOWN, "granted, but too late to be of use");
	code = raise_fence(q, r, keys, wish, deadline, &lease->fence);
	if (code || !long_enough(q, wish, lease))
		return bridge_fail(&q->error, BRIDGE_UNKNOWN, "granted, but the fence is not known to a majority");
	lease->status = BRIDGE_GRANTED;
	return 0;
}

/* Why there are too few to be asked: out of reach, or does somebody have to change something first? */
static int no_majority(struct bridge_quorum *q)
{
	unsigned refuse = 0;
	int code = BRIDGE_UNREACHABLE;
	size_t i;

	if (q->unfit)
		return BRIDGE_INVALID;
	for (i = 0; i < q->n; i++) {
		const struct bridge_error *error = bridge_conn_error(q->nodes[i].conn);

		if (!bridge_conn_closed(q->nodes[i].conn) || !error->code || bridge_error_passes(error->code))
			continue;
		refuse++;
		code = error->code;
		q->error = *error;
	}
	if (q->n - refuse < q->majority)
		return code;
	return bridge_quorum_reachable(q) ? bridge_fail(&q->error, BRIDGE_UNREACHABLE,
							"servers that were started a moment ago do not vote yet") :
					    BRIDGE_UNREACHABLE;
}

int bridge_quorum_acquire(struct bridge_quorum *q, enum bridge_script script, const struct bridge_keys *keys,
			  const struct bridge_wish *wish, int64_t deadline, struct bridge_lease *lease)
{
	struct bridge_wish back = *wish;
	int code;

	memset(lease, 0, sizeof(*lease));
	connect_all(q, deadline);
	if (gather(q, q->majority, deadline) < q->majority || bridge_quorum_voters(q) < q->majority)
		return no_majority(q);
	code = try_acquire(q, script, keys, wish, deadline, lease);
	if (code || lease->status != BRIDGE_GRANTED)
		lease->servers = 0;
	if ((code || lease->status != BRIDGE_GRANTED) && !q->options.token_is_shared) {
		back.after_ms = 0;
		(void)bridge_quorum_release(q, keys, &back, bridge_now() + GIVE_BACK_NS);
	}
	return code;
}

/* Servers that lost the lease get it again, if nobody else has it there. */
static void refill(struct bridge_quorum *q, const struct round *renewed, enum bridge_script script,
		   const struct bridge_keys *keys, const struct bridge_wish *wish, int64_t deadline)
{
	struct bridge_wish again = *wish;
	struct round *r = NULL;
	size_t i;

	again.flags = "tb";
	for (i = 0; i < q->n; i++) {
		const struct bridge_op *op = &renewed->ops[i];

		if (!renewed->asked[i] || !op->done || op->code || op->answer.status == BRIDGE_DONE)
			continue;
		if (!r)
			r = new_round(q, keys, wish);
		if (!r)
			return;
		ask(q, r, i, script, &again, deadline);
	}
}

int bridge_quorum_renew(struct bridge_quorum *q, enum bridge_script acquired_by, const struct bridge_keys *keys,
			const struct bridge_wish *wish, int64_t deadline, struct bridge_lease *lease)
{
	struct bridge_wish same = *wish;
	struct round *r;
	struct tally t;
	int64_t began;

	/* Numbers of one server are none of the majority. */
	same.stride = 0;
	connect_all(q, deadline);
	(void)gather(q, q->majority, deadline);
	began = bridge_now();
	r = ask_all(q, BRIDGE_RENEW, false, keys, &same, deadline);
	if (!r)
		return BRIDGE_NO_MEMORY;
	t = decide(q, r, BRIDGE_DONE, deadline);
	if (t.no > q->n - q->majority) {
		lease->status = BRIDGE_LOST;
		return 0;
	}
	if (t.yes < q->majority)
		return t.code ? t.code : t.open ? BRIDGE_UNKNOWN : BRIDGE_UNREACHABLE;
	lease->status = BRIDGE_DONE;
	lease->began = began;
	lease->decided = bridge_now();
	lease->valid_until = bridge_valid_until(began, wish->ttl_ms);
	lease->servers = t.yes;
	refill(q, r, acquired_by, keys, wish, deadline);
	return 0;
}

/* ---------------------------------------------------------------- making, asking */

int bridge_quorum_new(struct bridge_quorum **out, const struct bridge_server *servers, size_t n,
		      const struct bridge_quorum_options *options, struct bridge_error *error)
{
	struct bridge_conn_options conn_options = { .name = "lockshm",
						    .scripts = bridge_scripts,
						    .n_scripts = BRIDGE_N_SCRIPTS };
	struct bridge_quorum *q;
	size_t i;
	int code = 0;

	*out = NULL;
	if (n < 1 || n > BRIDGE_SERVERS_MAX)
		return bridge_fail(error, BRIDGE_INVALID, "a quorum has 1 to %d servers", BRIDGE_SERVERS_MAX);
	q = calloc(1, sizeof(*q));
	if (!q)
		return bridge_fail(error, BRIDGE_NO_MEMORY, "out of memory");
	q->n = n;
	q->majority = (unsigned)(n / 2 + 1);
	q->options = *options;
	for (i = 0; i < n && !code; i++)
		code = bridge_conn_new(&q->nodes[i].conn, &servers[i], &conn_options, error);
	if (code)
		bridge_quorum_free(q);
	else
		*out = q;
	return code;
}

void bridge_quorum_free(struct bridge_quorum *q)
{
	struct round *r;
	size_t i;

	if (!q)
		return;
	while ((r = q->rounds)) {
		q->rounds = r->next;
		free_round(r, q->n);
	}
	for (i = 0; i < q->n; i++)
		bridge_conn_free(q->nodes[i].conn);
	free(q);
}

void bridge_quorum_abandon(struct bridge_quorum *q)
{
	size_t i;

	for (i = 0; i < q->n; i++)
		bridge_conn_abandon(q->nodes[i].conn);
}

int bridge_quorum_open(struct bridge_quorum *q, int64_t deadline)
{
	unsigned n;

	connect_all(q, deadline);
	n = gather(q, (unsigned)q->n, deadline);
	if (q->unfit)
		return BRIDGE_INVALID;
	return n >= q->majority ? 0 : q->error.code ? q->error.code : BRIDGE_UNREACHABLE;
}

unsigned bridge_quorum_voters(const struct bridge_quorum *q)
{
	int64_t now = bridge_now();
	unsigned n = 0;
	size_t i;

	for (i = 0; i < q->n; i++) {
		const struct node *node = &q->nodes[i];

		n += bridge_conn_ready(node->conn) && node->known == bridge_conn_generation(node->conn) &&
		     now >= node->votes_from;
	}
	return n;
}

bool bridge_quorum_reachable(const struct bridge_quorum *q)
{
	unsigned n = 0;
	size_t i;

	for (i = 0; i < q->n; i++)
		n += bridge_conn_ready(q->nodes[i].conn);
	return n >= q->majority;
}

const struct bridge_error *bridge_quorum_error(const struct bridge_quorum *q)
{
	return &q->error;
}
