/* SPDX-License-Identifier: MIT */
/*
 * list-keys.c - rows of keys and of their requests
 *
 * One entry of the table after the other.  A key and its requests are of one snapshot, which is copied before its first
 * row is out; nothing is read again for the others.
 */
#include <stdlib.h>
#include <string.h>

#include "api/list.h"
#include "hostlease/host-lease.h"
#include "lock/damage.h"
#include "lock/deadline.h"
#include "lock/participant.h"
#include "lock/queue.h"
#include "lock/request.h"
#include "lock/table.h"
#include "segment/global-keys.h"

static int make_room(struct lockshm_list *list, uint32_t n)
{
	struct listed_request *more;

	if (n <= list->room)
		return 0;
	more = realloc(list->requests, n * sizeof(*more));
	if (!more)
		return LOCKSHM_NO_MEMORY;
	list->requests = more;
	list->room = n;
	return 0;
}

/* Stored by the owner in addition to the local grant, which is no hold until the host has its lease. */
static void fill_global(const struct lockshm *s, const struct snapshot_request *from, struct listed_request *to)
{
	int64_t now = segment_now(s);

	if (!(from->flags & REQUEST_GLOBAL))
		return;
	to->global = from->host_grant ? 2 : 1;
	to->request.token = host_grant_fence(from->host_grant);
	if (to->global != 1 || to->request.state != LOCKSHM_HOLDING)
		return;
	to->request.state = LOCKSHM_WAITING;
	to->request.age_ns = from->since_ns < 0 || from->since_ns > now ? 0 : now - from->since_ns;
	to->request.expires_in_ns = LOCKSHM_FOREVER;
}

static int lease_state(uint64_t word)
{
	static const int states[] = {
		[HOST_LEASE_ACQUIRING] = LOCKSHM_HOST_LEASE_ACQUIRING,
		[HOST_LEASE_HELD] = LOCKSHM_HOST_LEASE_HELD,
		[HOST_LEASE_CLOSING] = LOCKSHM_HOST_LEASE_CLOSING,
		[HOST_LEASE_RELEASING] = LOCKSHM_HOST_LEASE_RELEASING,
		[HOST_LEASE_LOST] = LOCKSHM_HOST_LEASE_LOST,
	};
	size_t state = (size_t)host_lease_state(word);

	return state < sizeof(states) / sizeof(states[0]) && states[state] ? states[state] : LOCKSHM_HOST_LEASE_NONE;
}

static void fill_lease(const struct lockshm *s, const struct identity *id, struct lockshm_host_lease *to)
{
	uint32_t i = s->n_host_leases ? host_lease_look(s, id) : 0;
	const struct shm_host_lease *r = host_lease_at(s, i);
	int64_t now, blocked;
	uint64_t word, last_result;

	if (!r)
		return;
	now = host_now(s);
	word = load_acquire(&r->word);
	to->state = lease_state(word);
	if (to->state != LOCKSHM_HOST_LEASE_NONE)
		to->mode = word & HOST_LEASE_EXCLUSIVE ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
	if (host_lease_good(s, word, load_acquire(&r->valid_until), now))
		to->remaining_ns = (int64_t)load_acquire(&r->valid_until) - now;
	last_result = load_acquire(&r->last_result);
	blocked = host_lease_blocked_until(r, last_result);
	to->blocked_ns = to->state != LOCKSHM_HOST_LEASE_ACQUIRING || blocked == 0 || blocked == INT64_MAX ? -1 :
			  blocked > now ? blocked - now : 0;
	to->next_token = host_lease_fence_next(r);
	to->local_grants = load_relaxed(&r->local_grants);
	to->other_hosts_waiting = load_relaxed(&r->other_hosts_waiting);
	host_lease_value(s, i, host_lease_epoch(word), to->value);
	/* The lease that came after a result made it history. */
	if ((to->state == LOCKSHM_HOST_LEASE_ACQUIRING || to->state == LOCKSHM_HOST_LEASE_RELEASING ||
	     to->state == LOCKSHM_HOST_LEASE_NONE) && result_asked(last_result) > (int64_t)load_relaxed(&r->acquired) &&
	    host_lease_reason(r, last_result, to->why))
		to->why_age_ns = now > result_asked(last_result) ? now - result_asked(last_result) : 1;
}

static void fill_request(const struct lockshm *s, const struct snapshot_request *from, struct listed_request *listed)
{
	struct owner_identity who = owner_identity(s, from->owner);
	struct lockshm_blocker *to = &listed->request;

	memset(listed, 0, sizeof(*listed));
	to->state = snapshot_state(from);
	to->mode = word_exclusive(from->word) ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
	to->pid = who.pid;
	to->tid = who.tid;
	memcpy(to->name, who.name, sizeof(to->name));
	to->ticket = segment_token(s, from->ticket);
	to->token = to->state == LOCKSHM_WAITING ? 0 : to->ticket;
	to->age_ns = snapshot_age(s, from);
	to->expires_in_ns = snapshot_expires_in(s, from);
	request_tag(&s->requests[from->index], to->tag);
	listed->alive = !owner_is_dead(s, from->owner);
	if (to->state != LOCKSHM_WAITING && s->n_host_leases)
		fill_global(s, from, listed);
}

/* How many of the first bytes of a key of @len bytes are shown: a UTF-8 character that they cut is left out. */
static size_t shown_of(const unsigned char *key, size_t len)
{
	size_t shown = len, lead = LOCKSHM_KEY_SHOWN_MAX;

	if (len <= LOCKSHM_KEY_SHOWN_MAX)
		return shown;
	do
		lead--;
	while (lead > LOCKSHM_KEY_SHOWN_MAX - 4 && (key[lead] & 0xc0) == 0x80);
	shown = key[lead] >= 0xf0 ? 4 : key[lead] >= 0xe0 ? 3 : key[lead] >= 0xc0 ? 2 : 1;
	return lead + shown > LOCKSHM_KEY_SHOWN_MAX ? lead : LOCKSHM_KEY_SHOWN_MAX;
}

static void fill_key(const struct lockshm *s, const struct shm_entry *e, struct lockshm_row *row)
{
	uint64_t words[KEY_SHOWN_WORDS];
	int i;

	for (i = 0; i < KEY_SHOWN_WORDS; i++)
		words[i] = load_relaxed(&entry_detail(s, e)->key[i]);
	row->key_len = (size_t)load_relaxed(&e->key_len);
	memcpy(row->key, words, row->key_len < sizeof(words) ? row->key_len : sizeof(words));
}

/* The bytes of row->key that are set. */
static size_t kept_of(const struct lockshm_row *row)
{
	return row->key_len < sizeof(row->key) ? row->key_len : sizeof(row->key);
}

/* The live requests of the snapshot, oldest first, and their numbers. */
static void fill_requests(struct lockshm_list *list)
{
	uint32_t i;

	for (i = list->snap.n; i-- > 0;) {
		const struct snapshot_request *from = &list->snap.requests[i];
		struct listed_request *to = &list->requests[list->n];

		if (!word_live(from->word) || cooldown_is_over(list->s, from->word, from->deadline))
			continue;
		fill_request(list->s, from, to);
		list->n++;
		if (to->request.state == LOCKSHM_WAITING) {
			list->row.waiters++;
		} else {
			list->row.holders++;
			list->row.mode = to->request.mode;
		}
	}
}

/* The queue in @e, which is that of key @id unless the entry is given to another meanwhile: then there is none. */
static int fill_queue(struct lockshm_list *list, const struct shm_entry *e, const struct identity *id)
{
	struct lockshm_row *row = &list->row;

	if (!snapshot_take(list->s, e, &list->snap) || make_room(list, list->snap.n) != 0)
		return LOCKSHM_NO_MEMORY;
	fill_key(list->s, e, row);
	fill_requests(list);
	(void)damage_read(list->s, e, &row->damage);
	/* Behind the mark: that keeps the entry. */
	row->known = entry_is(e, id->id, id->len);
	if (row->known)
		return 0;
	list->n = row->holders = row->waiters = 0;
	row->mode = 0;
	memset(&row->damage, 0, sizeof(row->damage));
	return 0;
}

/* The row of the key @id; @e NULL: no entry is for it. */
static int fill_row(struct lockshm_list *list, const struct shm_entry *e, const struct identity *id)
{
	struct lockshm_row *row = &list->row;
	int err;

	memset(row, 0, sizeof(*row));
	list->n = list->next = 0;
	err = e ? fill_queue(list, e, id) : 0;
	if (err)
		return err;
	if (list->what == LOCKSHM_LIST_KEY) {
		/* The caller has it, even if no entry is for it now. */
		row->key_len = list->key_len;
		memcpy(row->key, list->key, sizeof(row->key));
	}
	row->id = id->id[0];
	row->key_shown = shown_of(row->key, row->key_len);
	row->global = segment_makes_global(list->s, row->key, kept_of(row));
	fill_lease(list->s, id, &row->lease);
	return 0;
}

static struct identity identity_of(const struct shm_entry *e)
{
	return (struct identity){ { load_relaxed(&e->id[0]), load_relaxed(&e->id[1]) }, load_relaxed(&e->key_len) };
}

static bool is_meant(const struct lockshm_list *list)
{
	const struct lockshm_row *row = &list->row;

	if (row->key_len < list->key_len || memcmp(row->key, list->key, list->key_len) != 0)
		return false;
	return row->holders || row->waiters || row->damage.status ||
	       (list->what == LOCKSHM_LIST_KNOWN && row->known);
}

/* The next key of the table that is meant: an idle one is known, and that is all. */
static int next_of_table(struct lockshm_list *list)
{
	const struct lockshm *s = list->s;
	int err;

	for (; list->at < s->n_locks; list->at++) {
		const struct shm_entry *e = &s->entries[list->at];
		uint64_t tail = load_acquire(&e->tail);
		struct identity id = identity_of(e);

		if (id.len == 0 || table_is_claimed(s, e, tail) ||
		    (list->what == LOCKSHM_LIST_BUSY && tail_index(tail) == 0 && !damage_pending(e)))
			continue;
		err = fill_row(list, e, &id);
		if (err)
			return err;
		if (is_meant(list)) {
			list->at++;
			return 1;
		}
	}
	list->n = 0;
	return 0;
}

static int only_key(struct lockshm_list *list)
{
	uint32_t i = table_lookup(list->s, &list->id);
	int err;

	if (list->at)
		return 0;
	err = fill_row(list, i == ENTRY_NONE ? NULL : &list->s->entries[i], &list->id);
	if (err)
		return err;
	list->at = 1;
	return 1;
}

/* Holders first: of several readers one may hold under the host lease while an older one has not seen it yet. */
static bool next_request(struct lockshm_list *list)
{
	while (list->next < 2 * list->n) {
		const struct listed_request *listed = &list->requests[list->next % list->n];
		bool waits = listed->request.state == LOCKSHM_WAITING;

		if (waits != (list->next++ >= list->n))
			continue;
		list->row.request = listed->request;
		list->row.mode = listed->request.mode;
		list->row.alive = listed->alive;
		list->row.global = listed->global;
		return true;
	}
	return false;
}

int list_next_key(struct lockshm_list *list)
{
	if (next_request(list))
		return 1;
	return list->what == LOCKSHM_LIST_KEY ? only_key(list) : next_of_table(list);
}
