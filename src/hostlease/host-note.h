/* SPDX-License-Identifier: MIT */
/*
 * host-note.h - robust keys across hosts: the note that Redis had when this host obtained its lease
 *
 * The leader stores it before a robust request may hold under the lease; it is of one epoch, and worth nothing in
 * another.  Each robust request gets its status until one acknowledges, here in the segment; Redis gets that with the
 * release.
 *
 * Killed or stopped: without KNOWN of this epoch the leader asks again, and robust requests wait.  An acknowledgement that
 * no release took to Redis is forgotten: the next host gets the status again.
 */
#ifndef LOCKSHM_HOSTLEASE_HOST_NOTE_H
#define LOCKSHM_HOSTLEASE_HOST_NOTE_H

#include "hostlease/host-lease.h"

#define NOTE_SENT 1u   /* a command that makes the note was sent */
#define NOTE_KNOWN 2u  /* the reply came: */
#define NOTE_TOLD 4u   /* the key was damaged then */
#define NOTE_DIED 8u   /* a holder died; else it, or its host, lost the lock */
#define NOTE_ACKED 16u /* acknowledged by a holder on this host */
#define NOTE_BITS 5

static inline uint64_t host_note_make(uint64_t epoch, uint64_t bits)
{
	return epoch << NOTE_BITS | bits;
}

/* The bits of @note if it is of the epoch of the lease's @word; 0 = there is none. */
static inline unsigned host_note_of(uint64_t note, uint64_t word)
{
	uint64_t none = host_note_make(host_lease_epoch(word), 0);

	return note - none < host_note_make(1, 0) ? (unsigned)(note - none) : 0;
}

static inline unsigned host_note_bits(const struct shm_host_lease *r, uint64_t word)
{
	return host_note_of(load_acquire(&r->note), word);
}

struct host_note {
	unsigned bits;
	uint64_t last, host, pid; /* of the bad end: no token of the lease is higher; 0 = not known */
};

/* The leader, before it sends the command, and when the reply came. */
void host_note_store_sent(struct shm_host_lease *r, uint64_t word);
void host_note_store(struct shm_host_lease *r, uint64_t word, const struct host_note *note);

/* No token of the bad end is higher; 0 = not known. */
uint64_t host_note_last(const struct shm_host_lease *r, uint64_t word);

/* The bad end that counts for a holder under the lease @word of record @index, in *@out; status 0 = none. */
void host_note_read(const struct lockshm *s, uint32_t index, uint64_t word, struct lockshm_damage *out);
/* A holder under that lease acknowledges it. */
void host_note_acknowledge(struct lockshm *s, uint32_t index, uint64_t word);

#endif
