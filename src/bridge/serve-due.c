/* SPDX-License-Identifier: MIT */
/* serve-due.c - which leases the leader decides about in a pass; see bridge/serve-internal.h */
#include "bridge/serve-internal.h"

#include <string.h>

#include "sys/min.h"

#define SCAN_NS LOCKSHM_MS(500) /* for leases whose ring was lost with a killed process */
#define RENEW_WITH 24 /* an eighth of the renewal interval */
#define HINTS_MAX 1000 /* in one pass */

/* ---------------------------------------------------------------- what is due */

static void activate(struct leader *v, uint32_t i)
{
	bridge_lease_set_active(&v->b, i, true);
	v->b.leases[i].pending = true;
}

void serve_take_rings(struct leader *v)
{
	uint32_t w;

	for (w = 0; w * 64 < v->s->n_host_leases; w++) {
		uint64_t bits = load_relaxed(&v->s->bridge->pending[w]) ? exchange_zero(&v->s->bridge->pending[w]) : 0;

		for (; bits; bits &= bits - 1)
			if (w * 64 + (uint32_t)__builtin_ctzll(bits) < v->s->n_host_leases)
				activate(v, w * 64 + (uint32_t)__builtin_ctzll(bits));
	}
}

/* The first scan includes NONE: the previous leader may have been killed with pending bits that it had taken out, and
 * waiters ring again only after half a second. */
void serve_scan(struct leader *v, int64_t now)
{
	bool first = v->scan_at == 0 && !v->b.ending;
	uint32_t i;

	if (now < v->scan_at)
		return;
	v->scan_at = now + SCAN_NS;
	for (i = 0; i < v->s->n_host_leases; i++) {
		enum host_lease_state state = host_lease_state(load_acquire(&v->s->host_leases[i].word));

		if (state == HOST_LEASE_NONE ? first && host_lease_has_queue(v->s, i) : state != HOST_LEASE_CLAIM)
			bridge_lease_set_active(&v->b, i, true);
	}
}

static bool is_key(const struct bridge_lease *l, size_t k, const char *key, size_t len)
{
	return l->keys.len[k] == len && memcmp(l->keys.key[k], key, len) == 0;
}

static bool invalidates(struct leader *v, uint32_t i, const char *key, size_t len)
{
	struct bridge_lease *l = &v->b.leases[i];
	uint64_t word;
	size_t k;

	for (k = 0; l->named && k < REDIS_KEYS_WATCHED; k++)
		if (is_key(l, k, key, len))
			return true;
	if (!l->named || !is_key(l, REDIS_KEY_FENCE, key, len))
		return false;
	/* Invalidated once: if it is not read now, the next renewal reads it. */
	l->unverified = 0;
	word = load_acquire(&v->s->host_leases[i].word);
	return host_lease_state(word) == HOST_LEASE_HELD && (word & HOST_LEASE_EXCLUSIVE);
}

bool serve_take_hints(struct leader *v)
{
	enum redis_hint hint;
	const char *key = "";
	size_t len = 0;
	bool any = false;
	uint32_t i;
	int k = 0;

	while (k++ < HINTS_MAX && (hint = redis_client_hint(v->b.client, &key, &len)) != REDIS_HINT_NONE)
		for (i = bridge_lease_next_active(&v->b, 0); i < v->s->n_host_leases;
		     i = bridge_lease_next_active(&v->b, i + 1)) {
			if (hint != REDIS_HINT_ALL && !invalidates(v, i, key, len))
				continue;
			v->b.leases[i].invalidated = v->b.leases[i].pending = true;
			any = true;
		}
	/* There may be more: leases come first. */
	return any || k > HINTS_MAX;
}

/* ---------------------------------------------------------------- decisions */

/* With the first due renewal renew also those that are due next, if one script renews many: they stay due together. */
static int64_t renew_until(const struct leader *v, int64_t now)
{
	uint32_t i;

	if (!v->b.client || !redis_client_renews_many(v->b.client))
		return now;
	for (i = bridge_lease_next_active(&v->b, 0); i < v->s->n_host_leases;
	     i = bridge_lease_next_active(&v->b, i + 1))
		if (!v->b.leases[i].under_way && v->b.leases[i].renew_at && v->b.leases[i].renew_at <= now)
			return now + LOCKSHM_MS((int64_t)v->s->redis.ttl_ms) / RENEW_WITH;
	return now;
}

static bool is_due(const struct leader *v, const struct bridge_lease *l, int64_t now)
{
	return l->pending || l->invalidated || now >= bridge_lease_due(l) ||
	       (l->renew_at > now && l->renew_at <= v->b.renew_until);
}

/* Returns when it is due next. */
static int64_t decide(struct leader *v, uint32_t i, int64_t now, bool *sent)
{
	const struct bridge_lease *l = &v->b.leases[i];

	if (l->under_way)
		return INT64_MAX;
	if (is_due(v, l, now))
		*sent = flight_begin(&v->flights, &v->b, i) || *sent;
	return bridge_lease_active(&v->b, i) && !l->under_way ? bridge_lease_due(l) : INT64_MAX;
}

int64_t serve_decide(struct leader *v, bool *sent)
{
	int64_t next = INT64_MAX, now = host_now(v->s);
	uint32_t i, n = v->s->n_host_leases;

	*sent = false;
	v->b.renew_until = renew_until(v, now);
	for (i = bridge_lease_next_active(&v->b, 0); i < n; i = bridge_lease_next_active(&v->b, i + 1))
		next = min64(next, decide(v, i, now, sent));
	return next;
}
