/* SPDX-License-Identifier: MIT */
/*
 * lease.c - one host lease, seen by the bridge: what to ask while it is not held; see
 * bridge/lease.h and hostlease/host-lease.h
 *
 * Killed or stopped after any line here: the segment says which state the lease is in, the next bridge goes on from it,
 * and what this one does later either has the token of an epoch that is over, or fails its CAS.
 */
#define _GNU_SOURCE
#include "bridge/lease-internal.h"

#include <string.h>

#include "bridge/demand.h"
#include "lock/participant.h"
#include "lock/queue.h"
#include "lock/table.h"

#define WAITER_TTL_MS 2000
#define COMES_NS LOCKSHM_MS(10)
#define UNSURE_NS LOCKSHM_MS(50) /* after a look in which the queue did not hold still */
#define TRANSITIONS_MAX 16

/* ---------------------------------------------------------------- names */

void lease_forget(struct lease *l)
{
	if (l->named)
		redis_keys_free(&l->keys);
	memset(l, 0, sizeof(*l));
}

static void use_epoch(const struct bridge *b, uint32_t i, uint64_t epoch)
{
	struct lease *l = &b->leases[i];

	if (l->epoch == epoch)
		return;
	l->epoch = epoch;
	l->asked = 0;
	l->sent = l->made != epoch;
	l->in_the_way = 0;
	l->raise = false;
	l->next_try = l->not_before;
	l->not_before = 0;
	l->backoff_ns = 0;
	l->renew_at = 0;
	l->unverified = 0;
	l->told = false;
	l->mode_at = 0;
	l->idle_since = 0;
	l->local_grants = 0;
	host_lease_value(b->s, i, epoch, l->value);
}

enum naming { NAMED, BEING_MADE, NAMELESS };

/* The names are those of the record as it is now, or it is being made, or has a key that cannot be named there. */
static enum naming name(const struct bridge *b, uint32_t i)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct lease *l = &b->leases[i];
	int mode = b->net ? redis_client_keys_mode(b->net) : REDIS_KEYS_SINGLE;
	unsigned char key[LOCKSHM_GLOBAL_KEY_MAX];
	struct redis_error error = { 0 };
	int64_t asked;
	size_t len;

	if (l->named && l->keys.mode == mode && host_lease_is(r, &l->id))
		return NAMED;
	if (l->named)
		redis_keys_free(&l->keys);
	l->named = false;
	/* Before the key is read: stopped here, this says it of a key that was here before
	 * those who wait for another. */
	asked = host_now(b->s);
	len = host_lease_key(r, key);
	if (len == 0)
		return BEING_MADE;
	hash_key(&l->id, b->s->hash_secret, key, len);
	l->epoch = l->made = 0;
	l->named = redis_keys_make(&l->keys, mode, b->s->redis.prefix, key, len, &error) == 0;
	if (!l->named) {
		redis_keys_free(&l->keys);
		host_lease_store_result(b->s, r, RESULT_LASTS, asked, 0, error.text);
	}
	return l->named ? NAMED : NAMELESS;
}

/* ---------------------------------------------------------------- states */

/* Those who only try were told, and have not gone: their threads do not run.  Whoever has come since has rung. */
static bool was_told(const struct bridge *b, const struct lease *l, const struct demand *in)
{
	return !in->blocking && !l->rung && !l->invalidated && host_now(b->s) < l->notified_until;
}

static enum next at_none(struct bridge *b, uint32_t i, uint64_t word)
{
	struct lease *l = &b->leases[i];
	struct demand in = demand_scan(b, i, host_lease_epoch(word));

	if (in.waiting && was_told(b, l, &in))
		return wait_until(l, l->notified_until);
	if (in.waiting) {
		uint64_t epoch = host_lease_epoch(word) + 1;

		/* A majority that refused is asked again under a new epoch each time: there it is still in the way. */
		if (!bridge_is_quorum(b))
			store_relaxed(&b->s->host_leases[i].blocked, 0);
		if (cas_from(&b->s->host_leases[i].word, word,
			     host_lease_make(epoch, in.exclusive ? HOST_LEASE_EXCLUSIVE : 0, HOST_LEASE_ACQUIRING)))
			l->made = epoch;
		return NEXT_AGAIN;
	}
	lease_set_active(b, i, in.unsure);
	return wait_until(l, host_now(b->s) + (in.unsure ? UNSURE_NS : LOCKSHM_MS(1)));
}

void lease_command(const struct bridge *b, const struct lease *l, struct redis_command *cmd, enum redis_script script,
	       uint64_t word)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->script = script;
	cmd->exclusive = word & HOST_LEASE_EXCLUSIVE;
	cmd->word = word;
	cmd->keys = &l->keys;
	cmd->asked = redis_now();
	cmd->args.host = b->host;
	cmd->args.token = l->value;
	cmd->args.ttl_ms = (int64_t)b->s->redis.ttl_ms;
	cmd->args.stride = STRIDE_FIRST;
	cmd->args.waiter_ttl_ms = WAITER_TTL_MS;
	cmd->args.turn = host_lease_mode_gen(word);
	cmd->args.flags = "";
}

size_t lease_command_release(const struct bridge *b, const struct lease *l, struct redis_command cmds[COMMANDS_PER_LEASE], uint64_t word,
		      const char *places)
{
	size_t n = 0;

	if (places) {
		lease_command(b, l, &cmds[n], REDIS_LEAVE, word);
		cmds[n++].args.flags = places;
	}
	lease_command(b, l, &cmds[n++], REDIS_RELEASE, word);
	return n;
}

void lease_give_up(struct bridge *b, uint32_t i, uint64_t word)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct lease *l = &b->leases[i];

	if (l->sent || !lease_is_own(l, word)) {
		(void)cas_from(&r->word, word, host_lease_with_state(word | HOST_LEASE_QUEUED, HOST_LEASE_RELEASING));
		return;
	}
	/* Who does not answer is not asked sooner in the next one. */
	l->not_before = l->next_try;
	(void)cas_from(&r->word, word, host_lease_make(host_lease_epoch(word), 0, HOST_LEASE_NONE));
}

/* @seen: when who wants it was looked up.  Who begins to wait after that is told nothing of this question. */
static void ask_acquire(const struct bridge *b, uint32_t i, struct redis_command *cmd, uint64_t word,
			const struct demand *in, int64_t seen)
{
	struct lease *l = &b->leases[i];

	lease_command(b, l, cmd, word & HOST_LEASE_EXCLUSIVE ? REDIS_ACQUIRE_X : REDIS_ACQUIRE_S, word);
	cmd->asked = seen;
	/* Who was not seen may write, and may be patient: then a try would give the place in line away. */
	cmd->for_reader = in->waiting && !in->exclusive && (!in->unsure || l->asked == 0);
	cmd->unsure = in->unsure;
	cmd->args.flags = in->blocking || in->unsure ? "" : "t";
	/* Before it is sent: from then on the token may be there. */
	host_lease_store_asked(b->s, &b->s->host_leases[i]);
	l->asked++;
}

void lease_command_raise(const struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	const struct lease *l = &b->leases[i];

	if (!l->raise)
		return;
	lease_command(b, l, &cmds[*n], REDIS_FENCE, word);
	cmds[(*n)++].args.fence = (int64_t)host_lease_fence_next(&b->s->host_leases[i]);
}

/*
 * Is something else wanted than what is asked for?  For a writer there is another question.  A reader goes on with a
 * writer's that was given up, which keeps the host's place in line, but where only others who read are in its way: it
 * can join them, and the mark of the writer would keep new ones out.
 */
static bool wants_another(const struct bridge *b, uint32_t i, uint64_t word, const struct demand *in)
{
	const struct lease *l = &b->leases[i];

	if (in->exclusive == !!(word & HOST_LEASE_EXCLUSIVE))
		return false;
	return in->exclusive || l->in_the_way == REDIS_KIND_READERS || (!l->sent && lease_is_own(l, word));
}

/* Nobody wants it, but somebody of this host may be about to: granted here, and not yet awake.  The host's place in
 * line is kept for a moment. */
static bool somebody_comes(struct lease *l, const struct demand *in, int64_t now)
{
	if (!in->live || in->other_lease)
		return false;
	if (!l->idle_since)
		l->idle_since = now;
	return now - l->idle_since < COMES_NS;
}

static enum next at_acquiring(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct lease *l = &b->leases[i];
	int64_t seen = redis_now(), now = host_now(b->s);
	struct demand in = demand_scan(b, i, host_lease_epoch(word));

	if (in.waiting)
		l->idle_since = 0;
	/* Of a damaged queue those who are seen are served; nobody holds yet. */
	if (!in.unsure || in.damaged) {
		if (!in.waiting && !b->ending && somebody_comes(l, &in, now)) {
			/* A hint is for whoever comes. */
			l->next_try = l->invalidated ? 0 : l->next_try;
			return wait_until(l, l->idle_since + COMES_NS);
		}
		if (!in.waiting || wants_another(b, i, word, &in)) {
			lease_give_up(b, i, word);
			return NEXT_AGAIN;
		}
	}
	if (now < l->next_try && !l->invalidated)
		return wait_until(l, l->next_try);
	/* An epoch that another bridge began.  It may be about to give up what nobody had asked for when it
	 * looked: by this its CAS fails, and whoever gives it up from now on leaves the queue, too.  Killed here:
	 * that is done for nothing. */
	if (l->made != l->epoch && !(word & HOST_LEASE_QUEUED))
		return move(b, i, word, word | HOST_LEASE_QUEUED);
	lease_command_raise(b, i, word, cmds, n);
	ask_acquire(b, i, &cmds[(*n)++], word, &in, seen);
	return NEXT_COMMAND;
}

static enum next at_releasing(struct bridge *b, uint32_t i, uint64_t word, struct redis_command *cmds, size_t *n)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct lease *l = &b->leases[i];
	int64_t now = host_now(b->s), asked = (int64_t)load_acquire(&r->sent);

	/* Out of reach for longer than the token can be there. */
	if (l->backoff_ns && now - asked > LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) + LOCKSHM_SECONDS(1))
		return move(b, i, word, host_lease_make(host_lease_epoch(word), 0, HOST_LEASE_NONE));
	if (now < l->next_try && !l->rung)
		return wait_until(l, l->next_try);
	*n += lease_command_release(b, l, cmds + *n, word, word & HOST_LEASE_QUEUED ? "xs" : NULL);
	return NEXT_COMMAND;
}

/*
 * Nothing can be asked about it.  Whoever waits was told, and the record is free for other keys.  A lease that was
 * taken under names of another kind, before the server became one of a cluster, ends with its time.
 */
static enum next nameless(struct bridge *b, uint32_t i, uint64_t word)
{
	struct lease *l = &b->leases[i];

	switch (host_lease_state(word)) {
	case HOST_LEASE_ACQUIRING:
	case HOST_LEASE_RELEASING:
		return move(b, i, word, host_lease_make(host_lease_epoch(word), 0, HOST_LEASE_NONE));
	case HOST_LEASE_HELD:
	case HOST_LEASE_CLOSING:
		return host_lease_holds(b->s, i, word) ? wait_until(l, host_now(b->s) + LOOK_NS) : NEXT_AGAIN;
	case HOST_LEASE_LOST:
		return lease_at_lost(b, i, word);
	default:
		lease_set_active(b, i, false);
		return NEXT_WAIT;
	}
}

static enum next step(struct bridge *b, uint32_t i, struct redis_command *cmds, size_t *n)
{
	uint64_t word = load_acquire(&b->s->host_leases[i].word);
	enum naming named = host_lease_state(word) == HOST_LEASE_CLAIM ? BEING_MADE : name(b, i);

	if (named == BEING_MADE) {
		lease_set_active(b, i, false);
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
		return lease_at_held(b, i, word, cmds, n);
	case HOST_LEASE_LOST:
		return lease_at_lost(b, i, word);
	case HOST_LEASE_RELEASING:
		return at_releasing(b, i, word, cmds, n);
	default:
		/* Damaged: as if it had never been. */
		return move(b, i, word, host_lease_make(host_lease_epoch(word) + 1, 0, HOST_LEASE_NONE));
	}
}

size_t lease_decide(struct bridge *b, uint32_t i, struct redis_command *cmds)
{
	struct lease *l = &b->leases[i];
	enum next next = NEXT_AGAIN;
	size_t n = 0;
	int k;

	/* Its time has come; whatever the lease is by now. */
	if (l->suppressed_at <= host_now(b->s))
		l->suppressed_at = 0;
	for (k = 0; next == NEXT_AGAIN && k < TRANSITIONS_MAX; k++)
		next = step(b, i, cmds, &n);
	if (next == NEXT_AGAIN)
		l->due = host_now(b->s);
	if (next != NEXT_AGAIN)
		l->rung = l->invalidated = false;
	return n;
}
