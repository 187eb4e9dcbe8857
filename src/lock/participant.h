/* SPDX-License-Identifier: MIT */
/*
 * participant.h - a thread's private side of its owner slot
 *
 * Made at the thread's first acquire; ends with the thread.
 */
#ifndef LOCKSHM_LOCK_PARTICIPANT_H
#define LOCKSHM_LOCK_PARTICIPANT_H

#include "lock/owner.h"
#include "lock/thread-end.h"
#include "segment/process.h"
#include "sys/hash.h"

#define KEY_CACHE_BITS 4
#define KEY_CACHE_SLOTS (1 << KEY_CACHE_BITS)
#define KEY_CACHE_BYTES 96

/* A key before the lookup: its identity, and the entry it had last. */
struct known_key {
	struct identity id;
	uint32_t entry; /* ENTRY_NONE = not known; KNOWN_GLOBAL */
	uint32_t pad;
};

/*
 * In the cache: the segment makes every request for the key a global one.  An index with this bit is none, so what takes
 * it for one takes the slow path, which goes by the request; what is for global requests leaves it out.
 */
#define KNOWN_GLOBAL (1u << 31)

static inline uint32_t known_entry(const struct known_key *k)
{
	return load_relaxed32(&k->entry) & ~KNOWN_GLOBAL;
}

/*
 * A key this thread used lately: saves the keyed hash and the search.  Up to 16 bytes are compared by length, first and
 * last bytes, which may overlap; a longer key also by the rest, here.
 */
struct cached_key {
	struct known_key known; /* id.len 0 = unused */
	uint64_t first;
	uint64_t last;
	unsigned char middle[KEY_CACHE_BYTES - 16];
};

/* Bytes of a participant's search_room. */
#define SEARCH_NODES 1024
#define SEARCH_NODE_BYTES 40
#define SEARCH_ROOM_BYTES(n_owners) (64 + SEARCH_NODES * SEARCH_NODE_BYTES + ((size_t)(n_owners) + 63) / 64 * 8)

/* A released hold that its thread may resume, and the streak it is part of. */
struct barge_window {
	uint32_t index;		  /* of the record; 0 = none */
	uint32_t entry;
	uint64_t word;		  /* as it was left */
	uint64_t ticket;
	uint64_t kicked;	  /* [sleep | index] of the sleeper that was woken last in this streak */
	uint32_t streak;	  /* see hold/barge.c */
	uint32_t host_lease;	  /* host lease of its holds, index + 1; 0 = none */
	uint64_t host_lease_word; /* word of that lease */
	uint64_t fence;		  /* the streak's fencing number under it */
};

/* The request of the acquire that the thread is in, from before its append until the hold is filled.  At the begin of a
 * call: of one that it left by a jump. */
struct own_wait {
	uint32_t index; /* 0 = none */
	uint32_t entry;
	uint64_t gen;
};

struct tend_terms;

struct participant {
	/* What each acquire and release touches, in one cache line. */
	struct lockshm *segment;
	uint64_t epoch;		   /* of the process that made it; a child's differs */
	uint64_t uid;		   /* never used twice in this process or its children; names it in holds */
	uint64_t ref;		   /* owner_ref of the slot */
	struct shm_owner *shared;
	struct participant *next;  /* of this thread, for other segments */
	uint32_t free_request;	   /* most likely free record */
	uint32_t slot;

	uint32_t held;		   /* holds that depend on this thread */
	uint32_t n_chunks;
	uint32_t chunk_cap;
	uint32_t *chunks;
	uint32_t at_chunk;	   /* of chunks: where request_take() continues */
	uint32_t found;		   /* records found in this round through them */
	uint32_t growth;	   /* chunks to take before the next round */
	uint32_t next_chunk;	   /* of the segment: the next one to look at, modulo their number */
	bool no_memory;		   /* the last search for a record failed for want of it */
	bool own_thread;	   /* started by the library, not by the program */
	bool tended;		   /* this loop has had tended holds, see lock/tend.h */
	bool of_process;	   /* of a slot that several threads of the process use */
	uint64_t *acquires;	   /* where this thread, or this loop, counts them; no other writes there */
	uint64_t uncounted;	   /* by a loop without a place in the segment: added when it ends */
	void *search_room;	   /* for deadlock.c, made at the join: the search does not allocate */
	const struct tend_terms *tending; /* of the hold that this loop is about to take; NULL = it is not tended */
	struct barge_window barge; /* hold/barge.c */
	struct own_wait wait;	   /* lock/wait.c */
	int64_t probed_ns;	   /* when a failed try last probed an owner */
	uint64_t unprobed;	   /* owner of one that did not, since then; 0 = none */
	uint32_t n_unprobed;	   /* how many of those there were */
	uint32_t chance;	   /* of each of them to be that one */
	uint32_t sleeps;	   /* each sleep has a number of its own */
	uint32_t spin_ns;	   /* how long spinning lately paid off, see wait.c */
	void *robust_head;	   /* the C library's robust list, for a forked child */
	unsigned char *alias;	   /* second view of the life page, followed by a private page; NULL = in place */
	pthread_mutex_t *life;	   /* the mutex held for life; NULL = none */
	struct thread_part part;   /* of a thread that has joined */
	struct cached_key keys[KEY_CACHE_SLOTS];
};

/* Single pointers of static TLS where the C library always has room for it; a call per use elsewhere. */
#ifdef __GLIBC__
#define FAST_TLS __attribute__((tls_model("initial-exec")))
#else
#define FAST_TLS
#endif
extern __thread struct participant *participants_of_thread FAST_TLS;

/* The calling thread's participant if it has one already, else NULL. */
static inline struct participant *participant_find(const struct lockshm *s)
{
	struct participant *p = participants_of_thread;
	uint64_t epoch = process_epoch();

	while (p && (p->segment != s || p->epoch != epoch))
		p = p->next;
	return p;
}

/* The same for fast paths: does not set up the process after a fork, but returns NULL then. */
static inline struct participant *participant_known(const struct lockshm *s)
{
	struct participant *p = participants_of_thread;
	uint64_t epoch;

	if (unlikely(!p))
		return NULL;
	/* The word was set up before the participant; in a forked child it is 0 until the first process_epoch(), and
	 * another number after that. */
	epoch = load_relaxed(process_epoch_word);
	while (unlikely(p->segment != s) || unlikely(p->epoch != epoch)) {
		p = p->next;
		if (!p)
			return NULL;
	}
	return p;
}

#define JOIN_OWN_THREAD (1u << 31) /* a thread of the library: close() does not wait for it */

/* Take a slot for the calling thread; @flags: OWNER_PROCESS, JOIN_OWN_THREAD.   LOCKSHM_FULL, NO_MEMORY, SYSTEM. */
MUST_CHECK int participant_join(struct lockshm *s, struct participant **out, uint32_t flags,
				struct lockshm_error *error);

static inline int participant_get(struct lockshm *s, struct participant **out, struct lockshm_error *error)
{
	*out = participant_find(s);
	return likely(*out != NULL) ? 0 : participant_join(s, out, 0, error);
}

/* What a join adds first.  For a caller that waits for the join of another thread with a lock that fork() takes, too. */
void participant_add_hooks(void);

/* After a fork: drop the participants and guests of the parent's thread from the copied lists. */
void participant_forget_inherited(uint64_t epoch);

/* End the calling thread's part in @s as its exit would, also that of a guest; nothing if it has none. */
void participant_leave(struct lockshm *s);
/* In every segment, but not those of a guest. */
void participant_leave_all(void);

/* Add one to an event count of the own slot. */
static inline void count_event(const struct participant *self, enum owner_count event)
{
	uint64_t *counter = event == COUNT_ACQUIRES ? self->acquires : &self->shared->counts[event];

	if (event != COUNT_ACQUIRES && unlikely(self->of_process))
		(void)fetch_add_relaxed(counter, 1);
	else
		store_relaxed(counter, load_relaxed(counter) + 1);
}

/*
 * @p, all zero, is another private side of the slot of @process, for one loop, with records and keys of its own.  It
 * takes over the chunks that an earlier one left to @process, which fills no records itself.  @place: where it counts,
 * below LOOP_COUNTS; no other loop has it meanwhile.
 */
void participant_begin_share(struct participant *process, struct participant *p, uint32_t place);

/* Give back the chunks of @p that are free, and leave the others to @process.  Frees @p. */
void participant_end_share(struct participant *p, struct participant *process);

#endif
