/* SPDX-License-Identifier: MIT */
/*
 * lease-reply.c - one host lease, seen by the bridge: what follows from an answer; see bridge/lease.h and hostlease/host-lease.h
 *
 * An answer may be late: another bridge may have gone on with the lease, and holders with it.  So every change is a CAS
 * from the word that was looked at, and nothing is sent that another epoch, or a holder of this one, could miss.
 */
#define _GNU_SOURCE
#include "bridge/lease.h"

#include <unistd.h>

#include "redis/redis-error.h"

#define POLL_NS LOCKSHM_MS(50) /* as a waiter in Redis, without hints */
#define POLL_TRACKED_NS LOCKSHM_MS(300)
#define BACKOFF_MIN_NS LOCKSHM_MS(50)
#define BACKOFF_MAX_NS LOCKSHM_MS(400)
#define GRACE_NS LOCKSHM_MS(500)
#define FORGET_NS LOCKSHM_SECONDS(2) /* a failure, if nobody wanted anything since; longer than between two attempts */

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void back_off(const struct bridge *b, struct bridge_lease *l)
{
	l->backoff_ns = l->backoff_ns ? min64(l->backoff_ns * 2, BACKOFF_MAX_NS) : BACKOFF_MIN_NS;
	l->next_try = l->due = host_now(b->s) + l->backoff_ns;
}

static void now_due(const struct bridge *b, struct bridge_lease *l)
{
	l->due = host_now(b->s);
	l->next_try = 0;
	l->backoff_ns = 0;
}

/* Why it is not had now, for those who waited when that was asked for. */
static void report_result(struct bridge *b, uint32_t i, int code, const struct redis_command *cmd, int64_t until, const char *why)
{
	host_lease_store_result(b->s, &b->s->host_leases[i], code, cmd->asked + b->s->boot_offset, until, why);
}

static void apply_failure(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct bridge_lease *l = &b->leases[i];
	bool transient = redis_error_passes(cmd->code);
	int64_t now = host_now(b->s);

	bridge_count_add(b->s, BRIDGE_COUNT_ERRORS, !cmd->shared);
	back_off(b, l);
	/* It was we who were away, and not Redis: the next bridge asks anew. */
	if (transient && b->superseded)
		return;
	if (!l->failing_since || now - l->failed_at > FORGET_NS)
		l->failing_since = now;
	l->failed_at = now;
	/* A moment's silence is not yet a server that is away. */
	if (transient && now - l->failing_since < GRACE_NS)
		return;
	if (host_lease_state(word) == HOST_LEASE_ACQUIRING || host_lease_state(word) == HOST_LEASE_RELEASING)
		report_result(b, i, transient ? RESULT_PASSES : RESULT_LASTS, cmd, 0, cmd->why);
	if (host_lease_state(word) != HOST_LEASE_ACQUIRING || (transient && b->s->redis.policy == LOCKSHM_REDIS_WAIT))
		return;
	/* Whoever waits all the same, by a policy of its own, makes a new epoch at once: that one is put off. */
	l->not_before = l->next_try;
	bridge_lease_give_up(b, i, word);
}

/* The lease is ours until then; new numbers came with it. */
static void apply_granted(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s), until = cmd->valid_until + b->s->boot_offset;
	int64_t ttl = LOCKSHM_MS((int64_t)b->s->redis.ttl_ms);

	now_due(b, l);
	/* A place in line was noted since that was asked, and may have been taken behind it: asked by the same token
	 * again the server gives that up. */
	if (word & ~cmd->word & HOST_LEASE_QUEUED)
		return;
	if (until - now < ttl / 2) {
		(void)cas_from(&r->word, word, host_lease_with_state(word, HOST_LEASE_RELEASING));
		return;
	}
	if (!host_lease_give_fence(r, host_lease_epoch(word), (uint64_t)cmd->reply.fence, STRIDE_FIRST)) {
		/* It is told at once; told already, it goes on as if it did not answer. */
		if (l->raise)
			back_off(b, l);
		l->raise = true;
		return;
	}
	l->raise = false;
	host_lease_extend(b->s, r, until);
	l->renew_at = until - ttl * 2 / 3;
	/* Just written.  Those of many leases are looked at in turn. */
	l->unverified = 1 + i % (LOOK_EVERY - 1);
	store_relaxed(&r->other_hosts_waiting, (uint64_t)cmd->reply.queued);
	store_relaxed(&r->acquired, (uint64_t)now);
	store_relaxed(&r->local_grants, 0);
	/* Of a lease that was lost meanwhile. */
	store_relaxed(&r->suppress_until, 0);
	store_relaxed(&r->blocked, 0);
	/* Everything above before the word that says it counts: this CAS, with the loads in enter(). */
	if (cas_from(&r->word, word, host_lease_with_state(word & ~HOST_LEASE_QUEUED, HOST_LEASE_HELD))) {
		bridge_count_add(b->s, BRIDGE_COUNT_ACQUIRED, 1);
		l->due = now + LOOK_NS;
	}
	host_lease_signal(r);
}

static const char *const blocker_text[] = {
	[REDIS_KIND_NONE] = "somebody has it",
	[REDIS_KIND_HOST] = "another host has it",
	[REDIS_KIND_FOREIGN] = "another program has it in Redis",
	[REDIS_KIND_DELAY] = "it stays closed for some time after a release",
	[REDIS_KIND_READERS] = "readers on other hosts have it",
	[REDIS_KIND_INTENT] = "a writer elsewhere waits for it",
	[REDIS_KIND_TURN] = "other hosts were first",
};

/* Somebody else has it; until when, as far as that is known.  False = who wants it reads, but was asked for as a
 * writer, and those in the way read, too: that is asked in another way before anybody is told. */
static bool report_blocker(struct bridge *b, uint32_t i, const struct redis_command *cmd)
{
	int64_t left = cmd->reply.left_ms;
	int64_t until = left == -1 ? INT64_MAX : left > 0 ? host_now(b->s) + LOCKSHM_MS(left) : 0;

	b->leases[i].blocker = cmd->reply.kind;
	if (cmd->for_reader && cmd->exclusive && cmd->reply.kind == REDIS_KIND_READERS)
		return false;
	report_result(b, i, RESULT_BUSY, cmd, until, blocker_text[cmd->reply.kind]);
	return true;
}

/*
 * Some servers may have said yes.  What two hosts keep of a majority keeps it from both, so it goes back; but
 * the token is that of whoever is the bridge, who may hold under it by now: the word first.  Then again, at
 * another time than the others.
 */
static void no_majority(const struct bridge *b, uint32_t i, uint64_t word)
{
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s);
	uint64_t dice = ((uint64_t)now ^ (uint64_t)getpid() << 32) * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	if (!cas_from(&b->s->host_leases[i].word, word, host_lease_with_state(word, HOST_LEASE_RELEASING)))
		return;
	now_due(b, l);
	l->not_before = now + POLL_NS / 2 + (int64_t)(dice % POLL_NS);
}

static void apply_queued(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s), wait = b->tracked ? POLL_TRACKED_NS : POLL_NS;
	const struct script_reply *a = &cmd->reply;

	l->backoff_ns = 0;
	if (a->left_ms >= 0)
		wait = min64(wait, LOCKSHM_MS(a->left_ms + 1));
	l->next_try = l->due = now + wait;
	/* Those who wait go on waiting; those who only try are told.  At once, if that will be another question. */
	if (!report_blocker(b, i, cmd) && !cmd->unsure)
		now_due(b, l);
	if (bridge_is_quorum(b))
		no_majority(b, i, word);
}

static void apply_busy(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct bridge_lease *l = &b->leases[i];

	/* For those who only try.  Somebody else may have come meanwhile who waits: that is a new epoch. */
	if (l->attempts == 1 && !bridge_is_quorum(b))
		l->sent = false;
	now_due(b, l);
	bridge_lease_give_up(b, i, word);
	(void)report_blocker(b, i, cmd);
	/* They leave the queue now, which does not take long. */
	l->notified_until = l->due + POLL_NS;
	l->due += LOCKSHM_MS(1);
}

/* It is not there any more. */
static void set_lost(struct bridge *b, uint32_t i, uint64_t word)
{
	struct shm_host_lease *r = &b->s->host_leases[i];

	if (!cas_from(&r->word, word, host_lease_with_state(word, HOST_LEASE_LOST)))
		return;
	bridge_count_add(b->s, BRIDGE_COUNT_LOST, 1);
	host_lease_signal(r);
}

/* Still the lease that @word was of, and not made shared since? */
static bool same_mode_gen(uint64_t w, uint64_t word)
{
	return host_lease_epoch(w) == host_lease_epoch(word) && host_lease_mode_gen(w) == host_lease_mode_gen(word) &&
	       (host_lease_state(w) == HOST_LEASE_HELD || host_lease_state(w) == HOST_LEASE_CLOSING);
}

/* A downgrade was refused, since the record of the writer is lost: an upgrade, which knows its
 * own token, makes it anew. */
static void repeat_upgrade(struct shm_host_lease *r, uint64_t word)
{
	uint64_t w = load_acquire(&r->word), known = HOST_LEASE_EXCLUSIVE | HOST_LEASE_UPGRADE | HOST_LEASE_DOWNGRADE;

	while (same_mode_gen(w, word) && host_lease_state(w) == HOST_LEASE_HELD && !(w & known))
		if (cas(&r->word, &w, w | HOST_LEASE_UPGRADE))
			break;
}

/*
 * Redis has it as a writer's, or some servers of a quorum do, but nobody has noted that, so nobody writes: an
 * upgrade whose answer nobody heard or believed, and that nobody asks for any more; or a downgrade that was
 * forgotten.  By a new turn it is told.
 */
static void withdraw(struct shm_host_lease *r, uint64_t word)
{
	uint64_t w = load_acquire(&r->word), known = HOST_LEASE_EXCLUSIVE | HOST_LEASE_UPGRADE | HOST_LEASE_DOWNGRADE;

	while (same_mode_gen(w, word) && !(w & known))
		if (cas(&r->word, &w, host_lease_withdrawn(w)))
			break;
}

/* What Redis says of the lease of that epoch and turn, whoever changes the word meanwhile.  Said once: a second answer,
 * heard late, must not take back a wish of since then. */
static void set_exclusive(struct bridge *b, uint32_t i, uint64_t word)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	uint64_t w = load_acquire(&r->word);

	while (same_mode_gen(w, word) && !(w & HOST_LEASE_EXCLUSIVE))
		if (cas(&r->word, &w, (w | HOST_LEASE_EXCLUSIVE) & ~(HOST_LEASE_UPGRADE | HOST_LEASE_DOWNGRADE | HOST_LEASE_DRAINED)))
			break;
	host_lease_signal(r);
}

/* It is done, or cannot be: not the wish of a later time, when it was exclusive again. */
static void end_downgrade(struct shm_host_lease *r, uint64_t word)
{
	uint64_t w = load_acquire(&r->word);

	while (same_mode_gen(w, word) && (w & (HOST_LEASE_DOWNGRADE | HOST_LEASE_EXCLUSIVE)) == HOST_LEASE_DOWNGRADE)
		if (cas(&r->word, &w, w & ~(HOST_LEASE_DOWNGRADE | HOST_LEASE_DRAINED)))
			break;
	/* Who wants an upgrade waits for that. */
	host_lease_signal(r);
}

/* Number and time before the word that says it is exclusive; false = not yet. */
static bool accept_upgrade(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s), until = cmd->valid_until + b->s->boot_offset;
	int64_t ttl = LOCKSHM_MS((int64_t)b->s->redis.ttl_ms);

	/* Old: another bridge may have gone on since, and the token may be gone. */
	if (until - now < ttl / 2) {
		l->mode_at = now + MODE_AGAIN_NS;
		return false;
	}
	if (!host_lease_give_fence(r, host_lease_epoch(word), (uint64_t)cmd->reply.fence, STRIDE_FIRST)) {
		/* The server is told at once; told already, later. */
		l->mode_at = l->raise ? now + MODE_AGAIN_NS : 0;
		l->raise = true;
		return false;
	}
	l->raise = false;
	host_lease_extend(b->s, r, until);
	l->renew_at = until - ttl * 2 / 3;
	return true;
}

/* Is there an answer about a mode?  Else it is asked again, from now on: what waits for replicas takes as long as that,
 * and the leases have to be renewed. */
static bool mode_reply_valid(struct bridge *b, struct bridge_lease *l, const struct redis_command *cmd)
{
	now_due(b, l);
	if (cmd->code)
		bridge_count_add(b->s, BRIDGE_COUNT_ERRORS, 1);
	l->mode_at = cmd->code && redis_error_passes(cmd->code) ? host_now(b->s) + MODE_AGAIN_NS : 0;
	return l->mode_at == 0;
}

static void apply_upgrade(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct shm_host_lease *r = &b->s->host_leases[i];

	/* Who asked takes the bit back in time, with a new turn that tells Redis. */
	if (!mode_reply_valid(b, &b->leases[i], cmd))
		return;
	if (cmd->code || cmd->reply.status == REDIS_BUSY) {
		uint64_t none = word & ~HOST_LEASE_UPGRADE;

		/* Overtaken by who gave up waiting: the next renewal finds what there is to take back.  Else whoever
		 * asks next has its own time. */
		if (cas_from(&r->word, word, cmd->doubt && !(word & (HOST_LEASE_EXCLUSIVE | HOST_LEASE_DOWNGRADE)) ?
						     host_lease_withdrawn(none) : none))
			b->leases[i].upgrade_since = 0;
		host_lease_signal(r);
	} else if (cmd->reply.status == REDIS_GRANTED) {
		if (accept_upgrade(b, i, word, cmd))
			set_exclusive(b, i, word);
	} else {
		set_lost(b, i, word);
	}
}

/* A reader by what Redis says: nobody writes under it, and nobody comes in who does, since before it was asked. */
static void apply_downgrade(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];

	if (!mode_reply_valid(b, l, cmd))
		return;
	/* Refused: it is left as it is there; a later renewal finds it, and then it is tried again. */
	if (cmd->code || cmd->reply.status == REDIS_BUSY) {
		l->withdraw_at = host_now(b->s) + LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) / 3;
		end_downgrade(r, word);
		if (!cmd->code && !bridge_is_quorum(b))
			repeat_upgrade(r, word);
		return;
	}
	if (cmd->reply.status != REDIS_DONE) {
		set_lost(b, i, word);
		return;
	}
	host_lease_extend(b->s, r, cmd->valid_until + b->s->boot_offset);
	l->renew_at = cmd->valid_until + b->s->boot_offset - LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) * 2 / 3;
	store_relaxed(&r->other_hosts_waiting, (uint64_t)cmd->reply.queued);
	end_downgrade(r, word);
}

/* Must what was a writer's when @sent was looked at be one still?  Of an exclusive lease the turn tells; the state
 * between that and a downgrade comes but once in a turn. */
static bool still_writers(uint64_t word, uint64_t sent)
{
	return host_lease_mode_gen(word) == host_lease_mode_gen(sent) &&
	       ((sent & HOST_LEASE_EXCLUSIVE) || (host_lease_undrained(sent) && host_lease_undrained(word)));
}

/*
 * Does the renewal say that nothing is there?  Or readers, where a writer was meant: the server forgot an upgrade, and
 * others may read beside us; but not if it was sent before a downgrade, and is heard after it.  A quorum says "lost" of
 * either: it counts only those of its servers that say what it should be.
 */
static bool reports_lost(const struct bridge *b, uint64_t word, const struct redis_command *cmd)
{
	bool there = cmd->reply.status == REDIS_DONE;

	if (there && !(cmd->exclusive && cmd->reply.kind == REDIS_KIND_READERS))
		return false;
	if (!cmd->exclusive || (!there && !bridge_is_quorum(b)))
		return true;
	return still_writers(word, cmd->word);
}

static void apply_renewal(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	int64_t until = cmd->valid_until + b->s->boot_offset;

	now_due(b, l);
	l->due += LOCKSHM_MS(1);
	if (reports_lost(b, word, cmd)) {
		set_lost(b, i, word);
		return;
	}
	/* It counts as not heard. */
	if (cmd->reply.status != REDIS_DONE)
		return;
	/* Not of what was known to be a writer's when this was sent. */
	if (cmd->reply.kind == REDIS_KIND_HOST && !(cmd->word & (HOST_LEASE_EXCLUSIVE | HOST_LEASE_DOWNGRADE)) &&
	    host_lease_mode_gen(word) == host_lease_mode_gen(cmd->word) && host_now(b->s) >= l->withdraw_at)
		withdraw(r, word);
	bridge_count_add(b->s, BRIDGE_COUNT_RENEWED, 1);
	l->reverify = false;
	l->unverified = cmd->settled ? l->unverified - 1 : LOOK_EVERY - 1;
	host_lease_extend(b->s, r, until);
	l->renew_at = until - LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) * 2 / 3;
	if (cmd->reply.fence > 0) {
		l->raise = !host_lease_give_fence(r, host_lease_epoch(word), (uint64_t)cmd->reply.fence, STRIDE_MORE);
		host_lease_signal(r);
	}
	store_relaxed(&r->other_hosts_waiting, (uint64_t)(cmd->reply.queued > 0 ? cmd->reply.queued : cmd->reply.intent));
}

static void apply_release(struct bridge *b, uint32_t i, uint64_t word)
{
	struct shm_host_lease *r = &b->s->host_leases[i];

	now_due(b, &b->leases[i]);
	if (cas_from(&r->word, word, host_lease_make(host_lease_epoch(word), 0, HOST_LEASE_NONE)))
		bridge_count_add(b->s, BRIDGE_COUNT_RELEASED, 1);
	host_lease_signal(r);
}

/* Is what an acquire may have left there nobody's?  In ACQUIRING somebody still asks for it, and later on somebody may
 * hold under it; from RELEASING on, and in any later epoch, nobody does and nobody will. */
static bool is_orphan(uint64_t word, uint64_t epoch)
{
	enum host_lease_state state = host_lease_state(word);

	return host_lease_epoch(word) != epoch || state == HOST_LEASE_NONE || state == HOST_LEASE_RELEASING;
}

/*
 * The token is nobody's.  The place in line, which a majority does not give, is the host's: an epoch of that mode which
 * is asked for now goes on with it, and leaves it when it is given up, as the word says from now on.
 */
static size_t undo_late(const struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd,
			     struct redis_command late[COMMANDS_PER_LEASE])
{
	const char *position = cmd->exclusive ? "x" : "s";

	if ((!cmd->code && cmd->reply.status != REDIS_QUEUED) || bridge_is_quorum(b))
		position = NULL;
	while (position && host_lease_state(word) == HOST_LEASE_ACQUIRING && !(word & HOST_LEASE_EXCLUSIVE) == !cmd->exclusive) {
		if (cas(&b->s->host_leases[i].word, &word, word | HOST_LEASE_QUEUED))
			position = NULL;
	}
	return bridge_lease_command_release(b, &b->leases[i], late, cmd->word, position);
}

static void apply_by_state(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	switch (host_lease_state(word)) {
	case HOST_LEASE_ACQUIRING:
		if (!redis_is_acquire(cmd->script))
			break;
		if (cmd->reply.status == REDIS_GRANTED)
			apply_granted(b, i, word, cmd);
		else if (cmd->reply.status == REDIS_QUEUED)
			apply_queued(b, i, word, cmd);
		else
			apply_busy(b, i, word, cmd);
		break;
	case HOST_LEASE_HELD:
	case HOST_LEASE_CLOSING:
		if (cmd->script == REDIS_RENEW)
			apply_renewal(b, i, word, cmd);
		else if (host_lease_mode_gen(word) != host_lease_mode_gen(cmd->word))
			now_due(b, &b->leases[i]); /* overtaken */
		else if (cmd->script == REDIS_UPGRADE)
			apply_upgrade(b, i, word, cmd);
		else if (cmd->script == REDIS_DOWNGRADE)
			apply_downgrade(b, i, word, cmd);
		break;
	case HOST_LEASE_RELEASING:
		if (cmd->script == REDIS_RELEASE)
			apply_release(b, i, word);
		break;
	default:
		b->leases[i].due = host_now(b->s);
		break;
	}
}

size_t bridge_lease_apply_reply(struct bridge *b, uint32_t i, const struct redis_command *cmd, struct redis_command late[COMMANDS_PER_LEASE])
{
	struct bridge_lease *l = &b->leases[i];
	uint64_t word = load_acquire(&b->s->host_leases[i].word);
	bool orphan = redis_is_acquire(cmd->script) && !cmd->unsent && is_orphan(word, l->epoch);

	if (cmd->put_off) {
		l->due = host_now(b->s);
		return 0;
	}
	bridge_count_add(b->s, BRIDGE_COUNT_COMMANDS, !cmd->shared);
	if (!cmd->unsent)
		l->sent = true;
	if (orphan)
		return undo_late(b, i, word, cmd, late);
	/* Another bridge has gone on with it.  A place that could not be left ends by itself, sooner than a token. */
	if (host_lease_epoch(word) != l->epoch || cmd->script == REDIS_LEAVE || cmd->script == REDIS_FENCE)
		return 0;
	if (cmd->code && cmd->script != REDIS_UPGRADE && cmd->script != REDIS_DOWNGRADE) {
		apply_failure(b, i, word, cmd);
		return 0;
	}
	if (!cmd->code)
		l->failing_since = 0;
	apply_by_state(b, i, word, cmd);
	return 0;
}
