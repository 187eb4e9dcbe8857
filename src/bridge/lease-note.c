/* SPDX-License-Identifier: MIT */
/*
 * lease-note.c - one host lease of a robust key: its note in Redis, see hostlease/host-note.h and scripts/common.lua
 *
 * Crash points:
 *   (1) SENT stored, nothing sent: the release undoes a note that is not there
 *   (2) note made, reply not applied: the next leader sends again, with the same value, and gets the same reply
 *   (3) KNOWN stored, word not yet HELD: the same
 *   (4) mark left on this host, release not sent: the next leader finds the mark; if this host is lost as well, the
 *       note is open, and the next host gets that status
 *   (5) release sent, the mark of this host not acknowledged: sent again, and moved then unless another host had the key
 *       meanwhile; then this host reports it once more
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/demand.h"
#include "bridge/lease-internal.h"
#include "lock/damage.h"
#include "lock/table.h"
#include "redis/note.h"

/* The last token of the range: the next range begins above it. */
static int64_t last_token(const struct shm_host_lease *r)
{
	uint64_t fence = load_acquire(&r->fence);

	return (int64_t)((fence >> FENCE_LEFT_BITS) + (fence & FENCE_LEFT_MASK)) - 1;
}

void bridge_lease_note(struct bridge *b, uint32_t i, uint64_t word, struct script_args *args)
{
	struct shm_host_lease *r = &b->s->host_leases[i];

	args->note = last_token(r);
	host_note_store_sent(r, word);
}

void bridge_lease_apply_note(struct bridge *b, uint32_t i, uint64_t word, const struct script_reply *a)
{
	struct note_end end = note_end(a->why, a->good);
	struct host_note note = { .last = (uint64_t)a->bad };

	if (!a->noted)
		return;
	if (a->bad > a->good) {
		note.bits = NOTE_TOLD | (end.died ? NOTE_DIED : 0);
		note.host = strtoull(end.host, NULL, 16);
		note.pid = end.pid;
	}
	host_note_store(&b->s->host_leases[i], word, &note);
}

/* Nothing of a reader, which tears nothing, unless it has acknowledged. */
static const char *closed_as(unsigned bits, bool exclusive)
{
	if (bits & NOTE_KNOWN && bits & NOTE_TOLD && !(bits & NOTE_ACKED))
		return exclusive ? "k" : NULL;
	if (bits & NOTE_KNOWN && !exclusive)
		return bits & NOTE_ACKED ? "a" : NULL;
	if (bits & NOTE_KNOWN)
		return "c";
	return bits && exclusive ? "u" : NULL;
}

/* Without holders, for good: in RELEASING.  Also a mark that another lease of this host has left. */
void bridge_lease_close_note(struct bridge *b, uint32_t i, uint64_t word, struct script_args *args)
{
	const struct shm_host_lease *r = &b->s->host_leases[i];
	bool exclusive = word & HOST_LEASE_EXCLUSIVE;
	uint64_t told = host_note_last(r, word);
	struct lockshm_damage how;
	struct demand in;

	b->leases[i].mark = 0;
	args->close = closed_as(host_note_bits(r, word), exclusive);
	args->last = exclusive ? last_token(r) : (int64_t)told;
	snprintf(args->how, sizeof(args->how), "%llu", told ? (unsigned long long)told : ULLONG_MAX);
	if (!exclusive || !demand_robust(b, i))
		return;
	in = demand_scan(b, i, host_lease_epoch(word));
	if (!demand_torn(b, i, host_lease_epoch(word), &in, &b->leases[i].mark, &how))
		return;
	args->close = "d";
	snprintf(args->how, sizeof(args->how), "%c%d", how.status == LOCKSHM_TOOK_OVER_EXPIRED ? 't' : 'd', (int)how.pid);
	/* A request that is dead and has not left its mark yet leaves it later. */
	if (!how.status)
		b->leases[i].mark = 0;
}

/* The word is NONE, and the mark has been neither acknowledged nor replaced since it was read. */
void bridge_lease_note_closed(struct bridge *b, uint32_t i, const struct redis_command *cmd)
{
	struct bridge_lease *l = &b->leases[i];
	uint32_t entry = l->mark ? table_lookup(b->s, &l->id) : ENTRY_NONE;

	if (entry != ENTRY_NONE && cmd->args.close && *cmd->args.close == 'd' && cmd->reply.bad)
		(void)damage_acknowledge(&b->s->entries[entry], l->mark);
	l->mark = 0;
}
