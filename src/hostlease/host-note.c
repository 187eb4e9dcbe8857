/* SPDX-License-Identifier: MIT */
/* host-note.c - what a host's lease of a robust key began with; see hostlease/host-note.h */
#include "hostlease/host-note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of an epoch that is over, a stopped leader changes nothing.  @bits: SENT, or KNOWN and those of the reply. */
static void store_note(struct shm_host_lease *r, uint64_t word, unsigned bits, bool again)
{
	uint64_t epoch = host_lease_epoch(word), old = load_acquire(&r->note), new = host_note_make(epoch, bits);

	while (old < host_note_make(epoch + 1, 0) && old != new && (again || !(host_note_of(old, word) & NOTE_KNOWN)))
		if (cas(&r->note, &old, new))
			return;
}

void host_note_store_sent(struct shm_host_lease *r, uint64_t word)
{
	store_note(r, word, NOTE_SENT, false);
}

/* The number has the end of its epoch with it: what a stopped leader stores late is a number of no lease. */
static uint64_t tag_of(uint64_t word)
{
	return host_lease_epoch(word) & FENCE_LEFT_MASK;
}

static void store_last(struct shm_host_lease *r, uint64_t word, uint64_t last)
{
	uint64_t old = load_relaxed(&r->note_last), new = last << FENCE_LEFT_BITS | tag_of(word);

	while ((old & FENCE_LEFT_MASK) != tag_of(word) || old < new)
		if (cas(&r->note_last, &old, new))
			return;
}

uint64_t host_note_last(const struct shm_host_lease *r, uint64_t word)
{
	uint64_t last = load_relaxed(&r->note_last);

	return (last & FENCE_LEFT_MASK) == tag_of(word) ? last >> FENCE_LEFT_BITS : 0;
}

/*
 * Details first: a reader that finds KNOWN finds them.  A stopped leader stores those of its successor's reply, too; or
 * of an epoch that is over: then host or pid that are reported are of an older end, and nothing else.
 *
 * The same value granted again, before there is a holder: the key may have been another host's in between, so a bad end
 * that is newer counts.  A reply without one takes none away.
 */
void host_note_store(struct shm_host_lease *r, uint64_t word, const struct host_note *note)
{
	bool known = host_note_bits(r, word) & NOTE_KNOWN;

	if (known && (!(note->bits & NOTE_TOLD) || note->last <= host_note_last(r, word) ||
		      host_lease_state(word) != HOST_LEASE_ACQUIRING))
		return;
	store_last(r, word, note->last);
	store_relaxed(&r->note_host, note->host);
	store_relaxed(&r->note_pid, note->pid);
	store_note(r, word, NOTE_KNOWN | note->bits, known);
}

void host_note_read(const struct lockshm *s, uint32_t index, uint64_t word, struct lockshm_damage *out)
{
	const struct shm_host_lease *r = host_lease_at(s, index);
	unsigned bits = r ? host_note_bits(r, word) : 0;
	unsigned long long host;
	unsigned pid;

	memset(out, 0, sizeof(*out));
	if (!(bits & NOTE_TOLD) || bits & NOTE_ACKED)
		return;
	out->status = bits & NOTE_DIED ? LOCKSHM_OWNER_DIED : LOCKSHM_TOOK_OVER_EXPIRED;
	out->token = host_note_last(r, word);
	/* A pid of another host is none here. */
	host = load_relaxed(&r->note_host);
	pid = (unsigned)load_relaxed(&r->note_pid) & 0x3fffff;
	if (host)
		snprintf(out->tag, sizeof(out->tag), pid ? "%u@%016llx" : "%.0u@%016llx", pid, host);
}

void host_note_acknowledge(struct lockshm *s, uint32_t index, uint64_t word)
{
	struct shm_host_lease *r = host_lease_at(s, index);
	uint64_t old = r ? load_acquire(&r->note) : 0;

	while (r && host_note_bits(r, word) & NOTE_TOLD && !(old & NOTE_ACKED))
		if (cas(&r->note, &old, old | NOTE_ACKED))
			return;
}
