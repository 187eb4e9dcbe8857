/* SPDX-License-Identifier: MIT */
/*
 * lease-reply.c - one host lease: what follows from a reply; table in bridge/lease.h, proof in hostlease/host-lease.h
 *
 * A reply may be late: another leader may have continued with the lease, and holders with it.  So every change is a CAS
 * from the word that was read, and no command is sent whose effect another epoch, or a holder of this one, could miss.
 */
#define _GNU_SOURCE
#include "bridge/hosts.h"
#include "bridge/lease-internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bridge/log.h"
#include "redis/redis-error.h"
#include "sys/min.h"

#define POLL_NS LOCKSHM_MS(50) /* while queued in Redis, without tracking */
#define POLL_TRACKED_NS LOCKSHM_MS(300)
#define BACKOFF_MIN_NS LOCKSHM_MS(50)
#define BACKOFF_MAX_NS LOCKSHM_MS(400)
#define GRACE_NS LOCKSHM_MS(500)
#define FORGET_NS LOCKSHM_SECONDS(2) /* a failure without demand since; longer than the time between two attempts */

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

/* Store why there is no lease, for the waiters that waited when the command was built. */
static void report_result(struct bridge *b, uint32_t i, int code, const struct redis_command *cmd, int64_t until,
			  const char *why)
{
	host_lease_store_result(b->s, &b->s->host_leases[i], code, cmd->sent_at + b->s->boot_offset, until, why);
}

static void apply_failure(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct bridge_lease *l = &b->leases[i];
	bool transient = redis_error_passes(cmd->code);
	int64_t now = host_now(b->s);
	enum last_result result;

	bridge_count_add(b->s, BRIDGE_COUNT_ERRORS, !cmd->shared);
	back_off(b, l);
	if (!l->failing_since || now - l->failed_at > FORGET_NS)
		l->failing_since = now;
	l->failed_at = now;
	l->failed_code = cmd->code;
	memcpy(l->failed_why, cmd->why, sizeof(l->failed_why));
	if (!transient)
		bridge_log_refusal(cmd->why);
	/* A short silence is not yet an outage. */
	result = !transient			   ? RESULT_LASTS :
		 now - l->failing_since < GRACE_NS ? RESULT_NOT_YET :
						     RESULT_PASSES;
	if (host_lease_state(word) == HOST_LEASE_ACQUIRING || host_lease_state(word) == HOST_LEASE_RELEASING)
		report_result(b, i, result, cmd, 0, cmd->why);
	if (host_lease_state(word) != HOST_LEASE_ACQUIRING || result == RESULT_NOT_YET ||
	    (transient && b->s->redis.policy == LOCKSHM_REDIS_WAIT))
		return;
	/* Requests with the policy WAIT of their own begin a new epoch at once: delay it. */
	l->not_before = l->next_try;
	bridge_lease_give_up(b, i, word);
}

/* The lease is held until then; a range of tokens came with it. */
static void apply_granted(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s), until = cmd->valid_until + b->s->boot_offset;
	int64_t ttl = LOCKSHM_MS((int64_t)b->s->redis.ttl_ms);

	now_due(b, l);
	/* QUEUED was set after the command was built, so another leader may have taken a queue position after this
	 * grant: repeating the acquire under the same value removes it. */
	if (word & ~cmd->word & HOST_LEASE_QUEUED)
		return;
	if (until - now < ttl / 2) {
		(void)cas_from(&r->word, word, host_lease_with_state(word, HOST_LEASE_RELEASING));
		return;
	}
	if (!host_lease_give_fence(r, host_lease_epoch(word), (uint64_t)cmd->reply.fence, STRIDE_FIRST)) {
		/* The server's fence is raised first; raised already: as without a reply. */
		if (l->raise)
			back_off(b, l);
		l->raise = true;
		return;
	}
	l->raise = false;
	host_lease_extend(b->s, r, until);
	l->renew_at = until - ttl * 2 / 3;
	/* Just written.  Spread over the leases when each next reads its fence. */
	l->unverified = 1 + i % (LOOK_EVERY - 1);
	store_relaxed(&r->other_hosts_waiting, (uint64_t)cmd->reply.queued);
	store_relaxed(&r->acquired, (uint64_t)now);
	store_relaxed(&r->local_grants, 0);
	/* Left from a lease that was lost. */
	store_relaxed(&r->suppress_until, 0);
	store_relaxed(&r->blocked, 0);
	bridge_lease_apply_note(b, i, word, &cmd->reply);
	/* Everything above before the word that makes it count: this CAS, with the loads in enter(). */
	if (cas_from(&r->word, word, host_lease_with_state(word & ~HOST_LEASE_QUEUED, HOST_LEASE_HELD))) {
		bridge_count_add(b->s, BRIDGE_COUNT_ACQUIRED, 1);
		l->due = now + LOOK_NS;
	}
	host_lease_signal(r);
}

static const char *const blocker_text[] = {
	[REDIS_KIND_NONE] = "it is held",
	[REDIS_KIND_HOST] = "another host holds it",
	[REDIS_KIND_FOREIGN] = "another program holds it in Redis",
	[REDIS_KIND_GAP] = "it is left to other programs for a moment",
	[REDIS_KIND_READERS] = "readers on other hosts hold it",
	[REDIS_KIND_INTENT] = "a writer of another host waits for it",
	[REDIS_KIND_QUEUE] = "other hosts are queued first",
};

/* The host in the way, if the reply has its id: ": NAME (ID)".  Not this one: another mode of it, or a former epoch's. */
static void append_host(const struct bridge *b, char *out, size_t size, const struct script_reply *a)
{
	char host[HOST_SHOWN_BYTES];
	size_t len = strlen(out);

	if ((a->kind != REDIS_KIND_HOST && a->kind != REDIS_KIND_QUEUE && a->kind != REDIS_KIND_INTENT) ||
	    a->holder_len < REDIS_HOST_BYTES || strspn(a->holder, "0123456789abcdef") < REDIS_HOST_BYTES ||
	    memcmp(a->holder, b->s->redis.host, REDIS_HOST_BYTES) == 0)
		return;
	host_shown(a->holder, host);
	snprintf(out + len, size - len, ": %s", host);
}

/* Another host or program has the lease; until when, if known.  False = readers block a reader, for which this leader
 * tried an exclusive acquire: try a shared one before any result is stored. */
static bool report_blocker(struct bridge *b, uint32_t i, const struct redis_command *cmd)
{
	int64_t left = cmd->reply.left_ms;
	int64_t until = left == -1 ? INT64_MAX : left > 0 ? host_now(b->s) + LOCKSHM_MS(left) : 0;
	char text[160];

	b->leases[i].blocker = cmd->reply.kind;
	if (cmd->for_reader && cmd->exclusive && cmd->reply.kind == REDIS_KIND_READERS)
		return false;
	snprintf(text, sizeof(text), "%s", blocker_text[cmd->reply.kind]);
	append_host(b, text, sizeof(text), &cmd->reply);
	report_result(b, i, RESULT_BUSY, cmd, until, text);
	return true;
}

/*
 * Some servers may have granted.  Parts held by two hosts lock out both, so this part is released; but the value is the
 * same for every leader, one of which may hold under it by now: the word first.  The next attempt is at a random time.
 */
static void give_parts_back(const struct bridge *b, uint32_t i, uint64_t word)
{
	struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s);
	uint64_t dice = ((uint64_t)now ^ (uint64_t)getpid() << 32) * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	if (!cas_from(&b->s->host_leases[i].word, word, host_lease_with_state(word, HOST_LEASE_RELEASING)))
		return;
	now_due(b, l);
	l->parted = true;
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
	/* Blocking requests go on waiting; tries got their result.  Repeat at once if the command is to be another. */
	if (!report_blocker(b, i, cmd) && !cmd->unsure)
		now_due(b, l);
	if (cmd->parts)
		give_parts_back(b, i, word);
}

static void apply_busy(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct bridge_lease *l = &b->leases[i];

	/* All requests were tries.  A blocking one that came since begins a new epoch. */
	if (l->attempts == 1 && !cmd->parts)
		l->sent = false;
	now_due(b, l);
	bridge_lease_give_up(b, i, word);
	(void)report_blocker(b, i, cmd);
	/* The tries leave the local queue within that time. */
	l->notified_until = l->due + POLL_NS;
	l->due += LOCKSHM_MS(1);
}

/* The record is gone from Redis. */
static void set_lost(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct shm_host_lease *r = &b->s->host_leases[i];

	if (!cas_from(&r->word, word, host_lease_with_state(word, HOST_LEASE_LOST)))
		return;
	bridge_count_add(b->s, BRIDGE_COUNT_LOST, 1);
	host_lease_signal(r);
	bridge_lease_log_loss(b, i, cmd);
}

/* Does a renewal report the record lost?  Missing, or of the other mode: an epoch has one. */
static bool reports_lost(const struct redis_command *cmd)
{
	enum redis_kind other = cmd->exclusive ? REDIS_KIND_READERS : REDIS_KIND_HOST;

	return cmd->reply.status != REDIS_DONE || cmd->reply.kind == other;
}

static void apply_renewal(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct shm_host_lease *r = &b->s->host_leases[i];
	struct bridge_lease *l = &b->leases[i];
	int64_t until = cmd->valid_until + b->s->boot_offset;

	now_due(b, l);
	l->due += LOCKSHM_MS(1);
	if (reports_lost(cmd)) {
		set_lost(b, i, word, cmd);
		return;
	}
	bridge_count_add(b->s, BRIDGE_COUNT_RENEWED, 1);
	if (cmd->args.note) {
		bridge_lease_apply_note(b, i, word, &cmd->reply);
		host_lease_signal(r);
	}
	l->reverify = false;
	l->unverified = cmd->batched ? l->unverified - 1 : LOOK_EVERY - 1;
	host_lease_extend(b->s, r, until);
	l->renew_at = until - LOCKSHM_MS((int64_t)b->s->redis.ttl_ms) * 2 / 3;
	if (cmd->reply.fence > 0) {
		l->raise = !host_lease_give_fence(r, host_lease_epoch(word), (uint64_t)cmd->reply.fence, STRIDE_MORE);
		host_lease_signal(r);
	}
	store_relaxed(&r->other_hosts_waiting,
		      (uint64_t)(cmd->reply.queued > 0 ? cmd->reply.queued : cmd->reply.intent));
}

static void apply_release(struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd)
{
	struct shm_host_lease *r = &b->s->host_leases[i];

	now_due(b, &b->leases[i]);
	if (cas_from(&r->word, word, host_lease_make(host_lease_epoch(word), 0, HOST_LEASE_NONE))) {
		bridge_count_add(b->s, BRIDGE_COUNT_RELEASED, 1);
		/* After the word: a leader that finds RELEASING and no mark takes the lease for whole. */
		bridge_lease_note_closed(b, i, cmd);
	}
	host_lease_signal(r);
}

/* May what an acquire left in Redis be removed?  In ACQUIRING the epoch is still wanted, later it may have holders;
 * from RELEASING on, and in any later epoch, there are none and there will be none. */
static bool is_orphan(uint64_t word, uint64_t epoch)
{
	enum host_lease_state state = host_lease_state(word);

	return host_lease_epoch(word) != epoch || state == HOST_LEASE_NONE || state == HOST_LEASE_RELEASING;
}

/*
 * The value belongs to no epoch.  The queue position, which a majority does not give, belongs to the host: an epoch in
 * ACQUIRING of the same mode takes it over, and leaves it when it ends, because QUEUED is set now.
 */
static size_t undo_late(const struct bridge *b, uint32_t i, uint64_t word, const struct redis_command *cmd,
			struct redis_command late[COMMANDS_PER_LEASE])
{
	const char *position = cmd->exclusive ? "x" : "s";

	if ((!cmd->code && cmd->reply.status != REDIS_QUEUED) || cmd->parts)
		position = NULL;
	while (position && host_lease_state(word) == HOST_LEASE_ACQUIRING &&
	       !(word & HOST_LEASE_EXCLUSIVE) == !cmd->exclusive) {
		if (cas(&b->s->host_leases[i].word, &word, word | HOST_LEASE_QUEUED))
			position = NULL;
	}
	size_t n = bridge_lease_command_release(b, &b->leases[i], late, cmd->word, position);

	/* Once it is known the epoch had holders, perhaps, and its release stores how they ended; of a former one that is
	 * no longer known. */
	if (cmd->args.note && cmd->exclusive && host_note_bits(&b->s->host_leases[i], cmd->word) == NOTE_SENT)
		late[n - 1].args.close = "u";
	return n;
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
		break;
	case HOST_LEASE_RELEASING:
		if (cmd->script == REDIS_RELEASE)
			apply_release(b, i, word, cmd);
		break;
	default:
		b->leases[i].due = host_now(b->s);
		break;
	}
}

size_t bridge_lease_apply_reply(struct bridge *b, uint32_t i, const struct redis_command *cmd,
				struct redis_command late[COMMANDS_PER_LEASE])
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
	/* This process was stopped, and Redis may be fine: the next leader continues from the word, and sends again. */
	if (b->superseded)
		return 0;
	/* Another leader continued with it.  A queue position that was not left expires sooner than a value. */
	if (host_lease_epoch(word) != l->epoch || cmd->script == REDIS_LEAVE || cmd->script == REDIS_FENCE)
		return 0;
	if (cmd->code) {
		apply_failure(b, i, word, cmd);
		return 0;
	}
	/* A full server still executes releases. */
	if (l->failed_code != REDIS_RETRY || cmd->script != REDIS_RELEASE)
		l->failing_since = 0;
	apply_by_state(b, i, word, cmd);
	return 0;
}
