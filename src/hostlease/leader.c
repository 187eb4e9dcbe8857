/* SPDX-License-Identifier: MIT */
/* leader.c - see leader.h */
#include "hostlease/leader.h"

#include "lock/owner.h"
#include "lock/snapshot.h"
#include "lock/table.h"

static void holder_of(const struct lockshm *s, const struct snapshot *snap, int32_t *pid, int32_t *tid)
{
	uint32_t i;

	/* The oldest live request holds, or none does. */
	for (i = snap->n; i-- > 0;) {
		const struct snapshot_request *r = &snap->requests[i];

		if (!word_live(r->word))
			continue;
		/* Stopped, it leads no more once its time is over, whether or not another one waits to lead. */
		if (!word_is(r->word, REQUEST_WAITING) && !owner_is_dead(s, r->owner) && snapshot_expires_in(s, r) > 0) {
			struct owner_identity who = owner_identity(s, r->owner);

			*pid = who.pid;
			*tid = who.tid;
		}
		return;
	}
}

uint32_t leader_entry(const struct lockshm *s)
{
	struct identity id;

	hash_key(&id, s->hash_secret, LEADER_KEY, LEADER_KEY_LEN);
	return table_lookup(s, &id);
}

int leader_find(const struct lockshm *s, int32_t *pid, int32_t *tid)
{
	struct snapshot snap;
	uint32_t i = leader_entry(s);
	bool taken;

	*pid = *tid = 0;
	if (i == ENTRY_NONE)
		return 0;
	taken = snapshot_init(&snap) && snapshot_take(s, &s->entries[i], &snap);
	if (taken)
		holder_of(s, &snap, pid, tid);
	snapshot_free(&snap);
	return taken ? 0 : LOCKSHM_NO_MEMORY;
}

int64_t leader_missing_since(struct lockshm *s, int64_t now)
{
	uint64_t since = load_relaxed(&s->bridge->missing_since);

	/* A time in the future is damage. */
	while ((since == 0 || since > (uint64_t)now) && !cas(&s->bridge->missing_since, &since, (uint64_t)now))
		;
	return since == 0 || since > (uint64_t)now ? now : (int64_t)since;
}

void leader_is_here(struct lockshm *s)
{
	if (load_relaxed(&s->bridge->missing_since) != 0)
		store_relaxed(&s->bridge->missing_since, 0);
}
