/* SPDX-License-Identifier: MIT */
/* stat.c - what operators count: capacities, use and events of a segment and of its bridge */
#include <stdlib.h>
#include <string.h>

#include "hostlease/host-lease.h"
#include "hostlease/leader.h"
#include "lock/damage.h"
#include "lock/deadline.h"
#include "lock/participant.h"
#include "lock/queue.h"
#include "lock/table.h"
#include "sys/sized.h"

#define EVENTS_TRIES 8 /* then threads leave all the time, and some events may be missing */

/* ---------------------------------------------------------------- counts */

/* What a request, or all of a queue, is. */
enum use {
	USE_OVER, /* a cooldown that has ended */
	USE_LEFT, /* over, or of a dead thread, so that the next request for the lock would end it */
	USE_BUSY  /* of a live thread that holds or awaits the lock; or it cools down */
};

static enum use use_of(const struct lockshm *s, const struct shm_request *r, uint64_t word)
{
	if (word_is(word, REQUEST_COOLING))
		return cooldown_is_over(s, word, load_acquire(&r->deadline)) ? USE_OVER : USE_BUSY;
	return word_dead(word) || owner_is_dead(s, load_acquire(&r->owner)) ? USE_LEFT : USE_BUSY;
}

/* A queue that changes meanwhile counts as busy.  @hops bounds the walks through the queues of a damaged segment. */
static enum use use_of_lock(const struct lockshm *s, const struct shm_entry *e, uint64_t tail, uint32_t *hops)
{
	enum use use, most = USE_OVER;
	const struct shm_request *r;
	uint32_t i = tail_index(tail);
	uint64_t word;

	for (; i != 0 && most != USE_BUSY; --*hops) {
		if (*hops == 0)
			return USE_BUSY;
		r = request_at(s, i);
		word = r ? load_acquire(&r->word) : 0;
		if (!r || word_is(word, REQUEST_FREE))
			return load_acquire(&e->tail) != tail ? USE_BUSY : USE_LEFT;
		use = use_of(s, r, word);
		most = use > most ? use : most;
		i = word_prev(word);
	}
	return most;
}

/* But for the lock that elects the leader: no user has taken it. */
static void count_locks(const struct lockshm *s, struct lockshm_stat *stat)
{
	uint32_t i, hops = 4 * s->n_requests, internal = s->n_host_leases ? leader_entry(s) : ENTRY_NONE;

	for (i = 0; i < s->n_locks; i++) {
		const struct shm_entry *e = &s->entries[i];
		enum use use;

		if (load_relaxed(&e->key_len) == 0 || i == internal)
			continue;
		use = use_of_lock(s, e, load_acquire(&e->tail), &hops);
		stat->keys_known++;
		stat->keys_busy += use == USE_BUSY;
		stat->keys_left += use == USE_LEFT;
		stat->keys_damaged += damage_pending(e);
	}
}

static void count_requests(const struct lockshm *s, struct lockshm_stat *stat)
{
	uint32_t i;

	for (i = 0; i < s->n_chunks; i++)
		if (load_relaxed(chunk_word(s, i)) != 0)
			stat->requests_reserved += s->chunk_size;
	for (i = 1; i <= s->n_requests; i++) {
		uint64_t word = load_acquire(&s->requests[i].word);

		stat->requests_used += !word_is(word, REQUEST_FREE) &&
				       !cooldown_is_over(s, word, load_acquire(&s->requests[i].deadline));
	}
}

static void count_owners(const struct lockshm *s, struct lockshm_stat *stat)
{
	uint32_t i;

	for (i = 0; i < s->n_owners; i++) {
		uint64_t c = load_acquire(&s->owners[i].control);

		if (control_state(c) == OWNER_FREE)
			continue;
		stat->owners_used++;
		stat->owners_dead += owner_slot_is_dead(s, i, c);
	}
}

/* All events so far, also of threads that have left.  The counts in a slot are valid while a thread has it: before that
 * they are the previous thread's. */
static uint64_t events(const struct lockshm *s, enum owner_count event)
{
	uint64_t retired, sum;
	uint32_t i;
	int k = 0;

	do {
		retired = sum = load_acquire(&s->header->retired[event]);
		for (i = 0; i < s->n_owners; i++)
			if (control_state(load_acquire(&s->owners[i].control)) >= OWNER_ACTIVE)
				sum += owner_count(s, i, event);
		/* A thread that left meanwhile is in neither sum. */
	} while (load_relaxed(&s->header->retired[event]) != retired && ++k < EVENTS_TRIES);
	return sum;
}

static uint64_t refused(const struct lockshm *s, enum lockshm_table table)
{
	return load_relaxed(&s->header->refused[table - 1]);
}

/* @stat is zero. */
static void fill_stat(const struct lockshm *segment, struct lockshm_stat *stat)
{
	stat->size = sizeof(*stat);
	stat->bytes = segment->size;
	stat->created_unix_ns = segment->header->created_unix_ns;
	stat->token_base = segment_token(segment, 0);
	stat->keys = locks_capacity(segment->n_locks);
	stat->requests = segment->n_requests;
	stat->owners = segment->n_owners;
	count_locks(segment, stat);
	count_requests(segment, stat);
	count_owners(segment, stat);
	stat->acquires = events(segment, COUNT_ACQUIRES);
	stat->waits = events(segment, COUNT_WAITS);
	stat->timeouts = events(segment, COUNT_TIMEOUTS);
	stat->tries_failed = events(segment, COUNT_TRIES_FAILED);
	stat->deadlocks = load_relaxed(&segment->header->deadlocks);
	stat->refused_keys = refused(segment, LOCKSHM_TABLE_KEYS);
	stat->refused_requests = refused(segment, LOCKSHM_TABLE_REQUESTS);
	stat->refused_owners = refused(segment, LOCKSHM_TABLE_OWNERS);
	stat->refused_tickets = refused(segment, LOCKSHM_TABLE_TICKETS);
	stat->refused_host_leases = refused(segment, LOCKSHM_TABLE_HOST_LEASES);
	stat->lost = events(segment, COUNT_LOST);
	stat->recovered = events(segment, COUNT_RECOVERED);
	stat->expired = events(segment, COUNT_EXPIRED);
}

LOCKSHM_EXPORT int lockshm_stat(lockshm_t *segment, struct lockshm_stat *stat)
{
	struct lockshm_stat own = { 0 };

	if (!segment_valid(segment) || !stat || !sized_good(stat, STAT_SIZE_0_1))
		return LOCKSHM_INVALID;
	fill_stat(segment, &own);
	sized_out(stat, &own, sizeof(own));
	return 0;
}

/* ---------------------------------------------------------------- bridge */

static void count_leases(const struct lockshm *s, struct lockshm_bridge_stat *stat)
{
	int64_t now = host_now(s);
	uint32_t i;

	for (i = 0; i < s->n_host_leases; i++) {
		const struct shm_host_lease *r = &s->host_leases[i];

		stat->host_leases_known += load_relaxed(&r->key_len) != 0;
		stat->host_leases_held += host_lease_good(s, load_acquire(&r->word), load_acquire(&r->valid_until), now);
	}
}

/* @stat is zero. */
static int fill_bridge_stat(const struct lockshm *segment, struct lockshm_bridge_stat *stat)
{
	const uint64_t *counts;

	if (!segment->n_host_leases)
		return 0;
	memcpy(stat->servers, segment->redis.servers, sizeof(stat->servers) - 1);
	memcpy(stat->prefix, segment->redis.prefix, sizeof(stat->prefix) - 1);
	memcpy(stat->host, segment->redis.host, sizeof(segment->redis.host));
	memcpy(stat->global_keys, segment->redis.global_keys, sizeof(stat->global_keys) - 1);
	stat->policy = (int)segment->redis.policy;
	stat->quorum = (segment->redis.flags & REDIS_QUORUM) != 0;
	stat->ttl_ns = LOCKSHM_MS((int64_t)segment->redis.ttl_ms);
	stat->retain_ns = LOCKSHM_MS((int64_t)segment->redis.retain_ms);
	stat->gap_ns = LOCKSHM_MS((int64_t)segment->redis.gap_ms);
	stat->wait = REDIS_WAIT(segment->redis.flags);
	stat->host_leases = segment->n_host_leases;
	count_leases(segment, stat);
	counts = segment->bridge->counts;
	stat->acquired = load_relaxed(&counts[BRIDGE_COUNT_ACQUIRED]);
	stat->renewed = load_relaxed(&counts[BRIDGE_COUNT_RENEWED]);
	stat->released = load_relaxed(&counts[BRIDGE_COUNT_RELEASED]);
	stat->lost = load_relaxed(&counts[BRIDGE_COUNT_LOST]);
	stat->commands = load_relaxed(&counts[BRIDGE_COUNT_COMMANDS]);
	stat->errors = load_relaxed(&counts[BRIDGE_COUNT_ERRORS]);
	stat->grants = events(segment, COUNT_GLOBAL);
	return leader_find(segment, &stat->pid, &stat->tid);
}

LOCKSHM_EXPORT int lockshm_bridge_stat(lockshm_t *segment, struct lockshm_bridge_stat *stat)
{
	struct lockshm_bridge_stat own = { 0 };
	int err;

	if (!segment_valid(segment) || !stat || !sized_good(stat, BRIDGE_STAT_SIZE_0_1))
		return LOCKSHM_INVALID;
	err = fill_bridge_stat(segment, &own);
	sized_out(stat, &own, sizeof(own));
	return err;
}
