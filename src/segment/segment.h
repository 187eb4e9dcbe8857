/* SPDX-License-Identifier: MIT */
/*
 * segment.h - the process' view of one open segment
 *
 * Capacities and offsets are copied out of the header once they have been checked; the header is not trusted later.
 * Every index read from shared memory goes through one of the *_at() functions, which return NULL for a wrong one.
 */
#ifndef LOCKSHM_SEGMENT_SEGMENT_H
#define LOCKSHM_SEGMENT_SEGMENT_H

#include <pthread.h>
#include <sys/types.h>
#include <urcu/list.h>

#include "lockshm.h"
#include "segment/words.h"
#include "sys/atomic.h"
#include "sys/clock.h"
#include "sys/compiler.h"
#include "sys/descriptor.h"
#include "sys/futex.h"
#include "sys/hash.h"

#define SEGMENT_MAGIC UINT64_C(0x6d67657320636f6c)

struct renewals;
struct tends;
struct waits;
struct barge_place;

struct lockshm {
	uint64_t magic; /* SEGMENT_MAGIC while open */
	struct shm_header *header;
	struct shm_owner *owners;
	unsigned char *lives; /* a page per owner */
	struct shm_bucket *buckets;
	uint16_t *tags;
	struct shm_entry *entries;
	struct shm_detail *details;
	struct shm_damage *damages;
	struct shm_request *requests;
	struct shm_bridge *bridge; /* NULL without Redis */
	struct shm_host_lease *host_leases;
	uint32_t n_owners;
	uint32_t n_chunks;
	uint32_t chunk_size;
	uint32_t n_requests;
	uint32_t n_buckets;
	uint32_t n_locks;
	uint32_t n_damages;
	uint32_t n_host_leases;
	uint64_t token_base;
	uint64_t number; /* random, of the segment: the first word of its id */
	unsigned char hash_secret[HASH_SECRET_BYTES];
	int64_t clock_offset; /* segment time = this process' clock + offset */
	int64_t coarse_ahead; /* added to the coarse clock: a segment time not yet over, see segment_set_clock() */
	uint64_t clock_ns;    /* the time namespace of that offset; 0 = not known */
	bool clock_lost;      /* a child has another clock, and its offset is not known */
	int64_t tick;	      /* how far the coarse clock may lag */
	int64_t boot_offset;  /* host time = this process' CLOCK_BOOTTIME + offset */
	bool boot_lost;	      /* that offset is not known */
	bool read_only;
	bool has_doorbells; /* requests may wait for an event loop */
	struct shm_redis redis; /* checked copy */
	uint64_t process_uid; /* of the service thread's participant, on which holds of the process depend; 0 = none */
	uint64_t process_ref; /* its owner_ref.  Both are written with the lock held, and read without. */

	/* Private to this process. */
	size_t size;
	struct descriptor file;	 /* to see whether it still has a name; dev and ino also without a descriptor */
	unsigned opens;		 /* not closed yet; 0 = closed for good.  Guarded by the process-lock, see registry.h */
	pthread_mutex_t lock;	 /* guards the fields below */
	unsigned refs;		 /* the open handle, each participant and guest, each call that keeps it mapped */
	unsigned own_refs;	 /* those of them for which the service thread does not stay: the library's own threads
				  * and the guests (lock/guest.h) */
	struct cds_list_head parts; /* participants and guests, see lock/thread-end.h */
	pthread_mutex_t starting; /* held while a thread of the library is started */
	struct renewals *renewals; /* list of the service thread, which is started on demand */
	struct barge_place *barge_place; /* of the loops of this process, see hold/barge.h */
	struct tends *tends; /* and of its loops' holds, see lock/tend.h */
	struct waits *waits; /* of the loops of this process, made with the first one; see lock/doorbell.h */
	void (*look_at_wait)(struct lockshm *s, uint32_t index);
	struct cds_list_head all; /* in the list of open segments, see registry.h */
	struct seen_segment *seen; /* and among those found without a lock */
	char name[LOCKSHM_NAME_MAX + 2];
};

/* Time of the segment: what every deadline in it means. */
static inline int64_t segment_now(const struct lockshm *s)
{
	return clock_precise() + s->clock_offset;
}

/* The same from the coarse clock: never behind the true time, and ahead of it by less than clock_tick(). */
static inline int64_t segment_now_at_most(const struct lockshm *s)
{
	return clock_coarse() + s->coarse_ahead;
}

static inline void segment_set_clock(struct lockshm *s, int64_t offset)
{
	s->clock_offset = offset;
	s->coarse_ahead = offset + s->tick;
}

/* The token of @ticket.  A read-only handle may be older than the first one that may write. */
static inline uint64_t segment_token(const struct lockshm *s, uint64_t ticket)
{
	return (s->token_base ? s->token_base : load_relaxed(&s->header->token_base)) + ticket;
}

static inline struct shm_request *request_at(const struct lockshm *s, uint32_t index)
{
	return likely(index - 1 < s->n_requests) ? &s->requests[index] : NULL;
}

/* The word with the owner of the @chunk-th chunk of records. */
static inline uint64_t *chunk_word(const struct lockshm *s, uint32_t chunk)
{
	return &s->requests[(size_t)chunk * s->chunk_size + 1].chunk;
}

static inline struct shm_entry *entry_at(const struct lockshm *s, uint32_t index)
{
	return likely(index < s->n_locks) ? &s->entries[index] : NULL;
}

static inline struct shm_owner *owner_at(const struct lockshm *s, uint32_t slot)
{
	return likely(slot < s->n_owners) ? &s->owners[slot] : NULL;
}

static inline uint32_t entry_index(const struct lockshm *s, const struct shm_entry *e)
{
	return (uint32_t)(e - s->entries);
}

static inline struct shm_detail *entry_detail(const struct lockshm *s, const struct shm_entry *e)
{
	return &s->details[e - s->entries];
}

static inline bool segment_retired(const struct lockshm *s)
{
	return unlikely(load_relaxed(&s->header->state) != SEGMENT_READY);
}

/* What to sleep on until it is retired: lockshm_destroy() wakes.  The two states differ in their first byte. */
static inline struct futex_watch segment_watch(const struct lockshm *s)
{
	return (struct futex_watch){ (const uint32_t *)(const void *)&s->header->state, (uint32_t)SEGMENT_READY };
}

/* Is @s a handle that lockshm_open() made? */
static inline bool segment_valid(const struct lockshm *s)
{
	return likely(s != NULL) && likely(s->magic == SEGMENT_MAGIC);
}

/*
 * Its lock held: the service thread has joined as @uid and @ref.  A caller that reads the words while another service
 * thread starts may get the uid of one and the owner_ref of the other; no record of a hold of the first has the second
 * for its owner.
 */
static inline void segment_set_process(struct lockshm *s, uint64_t uid, uint64_t ref)
{
	store_relaxed(&s->process_ref, ref);
	store_release(&s->process_uid, uid);
}

/* Its lock held: from now on no call finds the service thread, nor a hold of the process.  NULL = it does not run. */
static inline struct renewals *segment_take_service(struct lockshm *s)
{
	struct renewals *renewals = s->renewals;

	store_release(&s->process_uid, 0);
	__atomic_store_n(&s->renewals, NULL, __ATOMIC_RELEASE);
	return renewals;
}

/* Do holds with this @uid as their owner depend on this process?  Its owner_ref. */
static inline bool segment_is_process(const struct lockshm *s, uint64_t uid, uint64_t *ref)
{
	if (unlikely(load_acquire(&s->process_uid) != uid))
		return false;
	*ref = load_relaxed(&s->process_ref);
	return true;
}

/* ---------------------------------------------------------------- map.c */

/* Open the file of @name, with its slash, and check it.  If this process has it open: that handle, counted once more;
 * else map it, and set the token base if no opener has yet. */
MUST_CHECK int segment_open(struct lockshm **out, const char *name, unsigned flags, struct lockshm_error *error);

/* Map an open descriptor read/write or read-only and check everything about it.  The handle is in no list yet. */
MUST_CHECK int segment_map(struct lockshm **out, int fd, const char *name, unsigned flags,
			   struct lockshm_error *error);

/* Put a new handle into the list of open segments.  If another thread has opened the segment meanwhile: its handle,
 * counted, instead of @s. */
struct lockshm *segment_register(struct lockshm *s);

/* From now on it is no handle: after the last close, or instead of segment_register(); drop its reference. */
void segment_abandon(struct lockshm *s);

/*
 * Was the file removed by other means than lockshm_destroy()?  Then retire the segment, so that every process that has
 * it open notices.  One system call; for slow paths.
 */
bool segment_is_gone(struct lockshm *s);

/* Does its file have a name? */
bool segment_has_name(const struct lockshm *s);

/* Drop one reference.  If the handle is closed and no other is left for which the service thread stays, that thread is
 * ended (process.h); the last reference unmaps and frees. */
void segment_unref(struct lockshm *s);
/* The same for one that is counted among own_refs, too. */
void segment_unref_own(struct lockshm *s);

/* ---------------------------------------------------------------- create.c */

/* "/name" from "name" or "/name"; false = not a valid name. */
bool segment_name(char out[LOCKSHM_NAME_MAX + 2], const char *name);

/* LOCKSHM_INVALID, with a message that defines a name. */
int segment_bad_name(struct lockshm_error *error);

/* full.c: LOCKSHM_FULL of a call that finds no room in @table. */
int segment_full(struct lockshm *s, int table, struct lockshm_error *error);

/* The path of a segment's file. */
void segment_path(char out[LOCKSHM_NAME_MAX + 16], const char *name);

/* Sizes and offsets a header must have for its capacities; shared by create and open. */
uint64_t segment_plan(struct shm_header *h);

/* The check word over the constant part of the header. */
uint64_t segment_check(const struct shm_header *h);

/* Signature of the layout this library was built with. */
uint64_t segment_layout(void);

/* Identity of this kernel run, 16 bytes; zero if /proc does not have it. */
void segment_boot_id(unsigned char out[16]);

/* The system refused @what, "cannot ...": code, cause, and cure where there is one. */
int segment_refused(int e, const char *what, struct lockshm_error *error);

/* Make a segment with the checked options @o, and map it.  @redis: its Redis settings, or zero. */
MUST_CHECK int segment_create(struct lockshm **out, const char *name, const struct lockshm_create_options *o,
			      const struct shm_redis *redis, struct lockshm_error *error);

/* ---------------------------------------------------------------- remove.c */

/*
 * Remove a name that leads to a retired segment: it blocks a new one, and cannot be opened.  0 = the name is not, or no
 * longer, blocked; else the errno of what failed, EWOULDBLOCK while another remover has its turn.
 */
int segment_clear_retired(const char *name);
/* Can @n bytes be the beginning of a segment, perhaps one that was cut off? */
bool segment_begins(const void *bytes, size_t n);

/* ---------------------------------------------------------------- map.c, for create.c */

/* Set the token base from the clock, unless it is set.  False = the file has lost its name.  For handles that may
 * write. */
MUST_CHECK bool segment_start_tokens(struct lockshm *s, int fd);

#endif
