/* SPDX-License-Identifier: MIT */
/*
 * lease.c - one host lease while it is not held: transitions and commands; table in bridge/lease.h
 *
 * Killed or stopped after any line: the segment has the lease's state, and the next leader continues from it.  What
 * this leader does later carries the value of an epoch that is over, or fails its CAS.
 */
#define _GNU_SOURCE
#include "bridge/lease-internal.h"

#include <string.h>

#include "bridge/demand.h"
#include "bridge/log.h"
#include "lock/participant.h"
#include "lock/queue.h"
#include "lock/table.h"

#define WAITER_TTL_MS 2000
#define EXPECTED_NS LOCKSHM_MS(10)
#define UNSURE_NS LOCKSHM_MS(50) /* after a scan of a changing queue */
#define TRANSITIONS_MAX 16

/* ---------------------------------------------------------------- names */

void bridge_lease_forget(struct bridge_lease *l)
{
	if (l->named)
		redis_keys_free(&l->keys);
	memset(l, 0, sizeof(*l));
}

static void use_epoch(const struct bridge *b, uint32_t i, uint64_t epoch)
{
	struct bridge_lease *l = &b->leases[i];

	if (l->epoch == epoch)
		return;
	l->epoch = epoch;
	l->attempts = 0;
	l->sent = l->own_epoch != epoch;
	l->may_have = l->sent ? ~0U : 0;
	l->blocker = 0;
	l->raise = false;
	l->next_try = l->not_before;
	l->not_before = 0;
	l->backoff_ns = 0;
	l->renew_at = 0;
	l->unverified = 0;
	l->reverify = false;
	l->idle_since = 0;
	l->local_grants = 0;
	l->loss_logged = false;
	l->held = false;
	host_lease_value(b->s, i, epoch, l->value);
}

enum naming { NAMED, BEING_MADE, NAMELESS };

/* Make the names of the record's key.  NAMED: they are current.  BEING_MADE: a claimer writes the record.  NAMELESS:
 * Redis has no name for this key. */
static enum naming name(const struct bridge *b, uint32_t i)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	int mode = b->client ? redis_client_keys_mode(b->client) : REDIS_KEYS_SINGLE;
	unsigned char key[LOCKSHM_GLOBAL_KEY_MAX];
	struct redis_error error = { 0 };
	int64_t asked;
	size_t len;

	if (l->named && l->keys.mode == mode && host_lease_is(r, &l->id))
		return NAMED;
	if (l->named)
		redis_keys_free(&l->keys);
	l->named = false;
	/* Before the key is read: if this leader is stopped here, its result is older than the waiters of a later
	 * key. */
	asked = host_now(b->s);
	len = host_lease_key(r, key);
	if (len == 0)
		return BEING_MADE;
	hash_key(&l->id, b->s->hash_secret, key, len);
	l->epoch = l->own_epoch = 0;
	l->named = redis_keys_make(&l->keys, mode, b->s->redis.prefix, key, len, &error) == 0;
	if (!l->named) {
		redis_keys_free(&l->keys);
		host_lease_store_result(b->s, r, RESULT_LASTS, asked, 0, error.text);
		bridge_log_refusal(error.text);
	}
	return l->named ? NAMED : NAMELESS;
}

/* ---------------------------------------------------------------- states */

/* The tries have their result and are still queued: their threads do not run.  A newer waiter would have rung. */
static bool was_notified(const struct bridge *b, const struct bridge_lease *l, const struct demand *in)
{
	return !in->blocking && !l->pending && !l->invalidated && host_now(b->s) < l->notified_until;
}

static enum next at_none(struct bridge *b, uint32_t i, uint64_t word)
{
	struct bridge_lease *l = &b->leases[i];
	struct demand in = demand_scan(b, i, host_lease_epoch(word));

	if (in.waiting && was_notified(b, l, &in))
		return wait_until(l, l->notified_until);
	if (in.waiting) {
		uint64_t epoch = host_lease_epoch(word) + 1;

		if (!l->parted)
			store_relaxed(&b->s->host_leases[i].blocked, 0);
		l->parted = false;
		if (cas_from(&b->s->host_leases[i].word, word,
			     host_lease_make(epoch, in.exclusive ? HOST_LEASE_EXCLUSIVE : 0, HOST_LEASE_ACQUIRING)))
			l->own_epoch = epoch;
		return NEXT_AGAIN;
	}
	bridge_lease_set_active(b, i, in.unsure);
	return wait_until(l, host_now(b->s) + (in.unsure ? UNSURE_NS : LOCKSHM_MS(1)));
}

void bridge_lease_command(const struct bridge *b, struct bridge_lease *l, struct redis_command *cmd,
			  enum redis_script script, uint64_t word)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->script = script;
	cmd->exclusive = word & HOST_LEASE_EXCLUSIVE;
	cmd->word = word;
	cmd->keys = &l->keys;
	cmd->sent_at = redis_now();
	cmd->args.host = b->host;
	cmd->args.value = l->value;
	cmd->args.ttl_ms = (int64_t)b->s->redis.ttl_ms;
	cmd->args.stride = STRIDE_FIRST;
	cmd->args.waiter_ttl_ms = WAITER_TTL_MS;
	cmd->args.flags = "";
	cmd->args.may_have = &l->may_have;
}

size_t bridge_lease_command_release(const struct bridge *b, struct bridge_lease *l,
				    struct redis_command cmds[COMMANDS_PER_LEASE], uint64_t word, const char *positions)
{
	size_t n = 0;

	if (positions) {
		bridge_lease_command(b, l, &cmds[n], REDIS_LEAVE, word);
		cmds[n++].args.flags = positions;
	}
	bridge_lease_command(b, l, &cmds[n++], REDIS_RELEASE, word);
	return n;
}

void bridge_lease_give_up(struct bridge *b, uint32_t i, uint64_t word)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];

	if (l->sent || !bridge_lease_is_own(l, word)) {
		(void)cas_from(&r->word, word, host_lease_with_state(word | HOST_LEASE_QUEUED, HOST_LEASE_RELEASING));
		return;
	}
	/* The next epoch keeps the back-off from an unresponsive server. */
	l->not_before = l->next_try;
	(void)cas_from(&r->word, word, host_lease_make(host_lease_epoch(word), 0, HOST_LEASE_NONE));
}

/* @seen: when demand was scanned.  The result does not apply to waiters that started later. */
static void command_acquire(struct bridge *b, uint32_t i, struct redis_command *cmd, uint64_t word,
			    const struct demand *in, int64_t seen)
{
	struct bridge_lease *l = &b->leases[i];

	bridge_lease_command(b, l, cmd, word & HOST_LEASE_EXCLUSIVE ? REDIS_ACQUIRE_X : REDIS_ACQUIRE_S, word);
	cmd->sent_at = seen;
	/* An unseen waiter may be a writer, or may block: a try would then give up the host's queue position. */
	cmd->for_reader = in->waiting && !in->exclusive && (!in->unsure || l->attempts == 0);
	cmd->unsure = in->unsure;
	cmd->args.flags = in->blocking || in->unsure ? "" : "t";
	/* Before sending: from then on the value may be in Redis. */
	host_lease_store_asked(b->s, &b->s->host_leases[i]);
	cmd->args.note = in->robust;
	if (in->robust)
		host_note_store_sent(&b->s->host_leases[i], word);
	l->attempts++;
}

void bridge_lease_command_raise(const struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds,
				size_t *n)
{
	struct bridge_lease *l = &b->leases[i];

	if (!l->raise)
		return;
	bridge_lease_command(b, l, &cmds[*n], REDIS_FENCE, word);
	cmds[(*n)++].args.fence = (int64_t)host_lease_fence_next(&b->s->host_leases[i]);
}

/*
 * Does local demand need another acquire script?  A writer does.  A reader continues an abandoned writer's request,
 * which keeps the host's queue position, unless only remote readers block it: it can join them, and the writer's intent
 * key would keep new readers out.
 */
static bool needs_other_command(const struct bridge *b, uint32_t i, uint64_t word, const struct demand *in)
{
	const struct bridge_lease *l = &b->leases[i];

	if (in->exclusive == !!(word & HOST_LEASE_EXCLUSIVE))
		return false;
	return in->exclusive || l->blocker == REDIS_KIND_READERS || (!l->sent && bridge_lease_is_own(l, word));
}

/* Without demand, but a local request may be granted and not yet awake: keep the host's queue position for a moment. */
static bool waiter_expected(struct bridge_lease *l, const struct demand *in, int64_t now)
{
	if (!in->live || in->other_lease)
		return false;
	if (!l->idle_since)
		l->idle_since = now;
	return now - l->idle_since < EXPECTED_NS;
}

static enum next at_acquiring(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct bridge_lease *l = &b->leases[i];
	int64_t seen = redis_now(), now = host_now(b->s);
	struct demand in = demand_scan(b, i, host_lease_epoch(word));

	if (in.waiting)
		l->idle_since = 0;
	/* In a damaged queue serve the requests that are seen; there are no holds yet. */
	if (!in.unsure || in.damaged) {
		if (!in.waiting && !b->ending && waiter_expected(l, &in, now)) {
			/* An invalidation is for the expected waiter. */
			l->next_try = l->invalidated ? 0 : l->next_try;
			return wait_until(l, l->idle_since + EXPECTED_NS);
		}
		if (!in.waiting || needs_other_command(b, i, word, &in)) {
			bridge_lease_give_up(b, i, word);
			return NEXT_AGAIN;
		}
	}
	if (now < l->next_try && !l->invalidated)
		return wait_until(l, l->next_try);
	/* Another leader began this epoch, and may be about to end it because it sent no command before its last scan.
	 * QUEUED makes its CAS fail, and makes every later release leave the queue, too.  Crash point: after this CAS,
	 * QUEUED is set for nothing. */
	if (l->own_epoch != l->epoch && !(word & HOST_LEASE_QUEUED))
		return move(b, i, word, word | HOST_LEASE_QUEUED);
	bridge_lease_command_raise(b, i, word, cmds, n);
	command_acquire(b, i, &cmds[(*n)++], word, &in, seen);
	return NEXT_COMMAND;
}

/* A lease that was passed on, or that others wait for, followed another at once and is followed by another: without a
 * gap, a program that polls the key has no chance.  The record's counts are of the last epoch that was held: of one that
 * was not, what some servers of a majority granted is given back without a gap, which would keep the next attempt out.
 * After a takeover there may be no gap. */
static int64_t gap_after(const struct bridge *b, uint32_t i, int64_t now)
{
	const struct shm_host_lease *r = &b->s->host_leases[i];
	bool busy = load_relaxed(&r->local_grants) > 1 || load_relaxed(&r->other_hosts_waiting) != 0 ||
		    host_lease_exhausted(b->s, r, now);

	return b->leases[i].held && busy ? (int64_t)b->s->redis.gap_ms : 0;
}

static enum next at_releasing(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s), asked = (int64_t)load_acquire(&r->sent);

	/* Out of reach for longer than the value can last in Redis. */
	if (l->backoff_ns && now - asked > LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) + LOCKSHM_SECONDS(1))
		return move(b, i, word, host_lease_make(host_lease_epoch(word), 0, HOST_LEASE_NONE));
	if (now < l->next_try && !l->pending)
		return wait_until(l, l->next_try);
	*n += bridge_lease_command_release(b, l, cmds + *n, word, word & HOST_LEASE_QUEUED ? "xs" : NULL);
	cmds[*n - 1].args.gap_ms = gap_after(b, i, now);
	bridge_lease_close_note(b, i, word, &cmds[*n - 1].args);
	return NEXT_COMMAND;
}

/*
 * Redis has no name for the key.  The waiters have their result, and the record is free for other keys.  A lease
 * acquired under names of another kind, before the server joined a cluster, expires.
 */
static enum next nameless(struct bridge *b, uint32_t i, uint64_t word)
{
	struct bridge_lease *l = &b->leases[i];

	switch (host_lease_state(word)) {
	case HOST_LEASE_ACQUIRING:
	case HOST_LEASE_RELEASING:
		return move(b, i, word, host_lease_make(host_lease_epoch(word), 0, HOST_LEASE_NONE));
	case HOST_LEASE_HELD:
	case HOST_LEASE_CLOSING:
		return host_lease_holds(b->s, i, word) ? wait_until(l, host_now(b->s) + LOOK_NS) : NEXT_AGAIN;
	case HOST_LEASE_LOST:
		return bridge_lease_at_lost(b, i, word);
	default:
		bridge_lease_set_active(b, i, false);
		return NEXT_WAIT;
	}
}

static enum next step(struct bridge *b, uint32_t i, struct redis_command *cmds, size_t *n)
{
	uint64_t word = load_acquire(&b->s->host_leases[i].word);
	enum naming named = host_lease_state(word) == HOST_LEASE_CLAIM ? BEING_MADE : name(b, i);

	if (named == BEING_MADE) {
		bridge_lease_set_active(b, i, false);
		return NEXT_WAIT;
	}
	if (named == NAMELESS)
		return nameless(b, i, word);
	use_epoch(b, i, host_lease_epoch(word));
	switch (host_lease_state(word)) {
	case HOST_LEASE_NONE:
		return at_none(b, i, word);
	case HOST_LEASE_ACQUIRING:
		return at_acquiring(b, i, word, cmds, n);
	case HOST_LEASE_HELD:
	case HOST_LEASE_CLOSING:
		return bridge_lease_at_held(b, i, word, cmds, n);
	case HOST_LEASE_LOST:
		return bridge_lease_at_lost(b, i, word);
	case HOST_LEASE_RELEASING:
		return at_releasing(b, i, word, cmds, n);
	default:
		/* Damaged: continue as if it had never been used. */
		return move(b, i, word, host_lease_make(host_lease_epoch(word) + 1, 0, HOST_LEASE_NONE));
	}
}

size_t bridge_lease_decide(struct bridge *b, uint32_t i, struct redis_command *cmds)
{
	struct bridge_lease *l = &b->leases[i];
	enum next next = NEXT_AGAIN;
	size_t n = 0;
	int k;

	/* The time of the forced look has come, in whatever state the lease is. */
	if (l->suppressed_at <= host_now(b->s))
		l->suppressed_at = 0;
	for (k = 0; next == NEXT_AGAIN && k < TRANSITIONS_MAX; k++)
		next = step(b, i, cmds, &n);
	if (next == NEXT_AGAIN)
		l->due = host_now(b->s);
	if (next != NEXT_AGAIN)
		l->pending = l->invalidated = false;
	return n;
}
