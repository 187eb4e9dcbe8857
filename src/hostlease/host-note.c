/* SPDX-License-Identifier: MIT */
/* host-note.c - what a host's lease of a robust key began with; see hostlease/host-note.h */
#include "hostlease/host-note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Only rises: a stopped leader of an epoch that is over changes nothing.  @bits: SENT, or KNOWN and what it was told. */
static void store_note(struct shm_host_lease *r, uint64_t word, unsigned bits)
{
	uint64_t old = load_acquire(&r->note), new = host_note_make(host_lease_epoch(word), bits);

	while (old < new && !(host_note_of(old, word) & NOTE_KNOWN))
		if (cas(&r->note, &old, new))
			return;
}

void host_note_store_sent(struct shm_host_lease *r, uint64_t word)
{
	store_note(r, word, NOTE_SENT);
}

/* Details first: a reader that finds KNOWN finds them.  A stopped leader stores those of its successor's reply, too; or
 * of an epoch that is over: then token, host or pid that are reported are of an older end, and nothing else. */
void host_note_store(struct shm_host_lease *r, uint64_t word, const struct host_note *note)
{
	if (host_note_bits(r, word) & NOTE_KNOWN)
		return;
	store_relaxed(&r->note_last, note->last);
	store_relaxed(&r->note_host, note->host);
	store_relaxed(&r->note_pid, note->pid);
	store_note(r, word, NOTE_KNOWN | note->bits);
}

void host_note_read(const struct lockshm *s, uint32_t index, uint64_t word, struct lockshm_previous *out)
{
	const struct shm_host_lease *r = host_lease_at(s, index);
	unsigned bits = r ? host_note_bits(r, word) : 0;
	unsigned long long host;
	unsigned pid;

	memset(out, 0, sizeof(*out));
	if (!(bits & NOTE_TOLD) || bits & NOTE_ACKED)
		return;
	out->status = bits & NOTE_DIED ? LOCKSHM_OWNER_DIED : LOCKSHM_TOOK_OVER_EXPIRED;
	out->token = load_relaxed(&r->note_last);
	/* A pid of another host is none here. */
	host = load_relaxed(&r->note_host);
	pid = (unsigned)load_relaxed(&r->note_pid) & 0x3fffff;
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
