/* SPDX-License-Identifier: MIT */
/*
 * tend.h - holds of loops that the service thread tends: it renews them, or has their loop told of their loss
 *
 * Each record has a place here, in memory of the process.  The loop's thread fills it before the swap that makes the
 * hold; any thread that releases ends it before its swap.  No list, no lock, no system call: a hold that is released
 * before its lease is half over costs some stores.
 *
 * `use` is the generation that the hold began with, which no other use of the record has; 0 = the record has no tended
 * hold.  While it is not 0 the loop's thread does not fill the record anew.  So what a thread reads in the record's word
 * before it finds its own `use` is a word of that hold, in any generation: the service thread renews it meanwhile.
 *
 *   0 --fill--> gen --claim--> gen | TEND_ENDS --released--> 0
 *               gen --the loss is collected, or there is no loop to be told--> 0
 */
#ifndef LOCKSHM_LOCK_TEND_H
#define LOCKSHM_LOCK_TEND_H

#include "lock/participant.h"

#define TEND_ENDS (UINT64_C(1) << 63)

struct lockshm_loop;

/* Filled by the thread of the loop that fills the record; but listed and next: guarded by the waits' lock. */
struct tend {
	uint64_t use;
	int64_t ttl_ns;		   /* renewed for so long; 0 = not renewed */
	int64_t until;		   /* segment time: it is not renewed beyond; INT64_MAX = no bound */
	struct lockshm_loop *loop; /* whom to tell; NULL = none, or not yet */
	lockshm_hold_t *hold;
	void *user;
	int64_t max_ns;		   /* bound on renewing, from the owner's own acquire or renewal on; 0 = none */
	uint32_t next;		   /* of those that may be lost, in the list of its loop */
	bool tells;
	bool listed;
	bool known;		   /* in the list of those that were ever used */
	uint64_t host_lease_word;  /* as in the hold */
	uint32_t host_lease;
};
_Static_assert(sizeof(struct tend) <= 128, "two lines, and the first is what an acquire without a bound writes");

/* Of a process and segment, made with its first loop. */
struct tends {
	int64_t at;	  /* segment time of the next scan; INT64_MAX = none */
	uint32_t n_known; /* add */
	uint32_t leases;  /* some are under host leases, and told of */
	uint32_t *known;
	union {
		struct tend tend;
		char lines[128];
	} *of; /* by record */
};

/* What a loop wants of the hold that its thread is about to take; participant.tending. */
struct tend_terms {
	lockshm_hold_t *hold;
	void *user;
	struct lockshm_loop *loop;
	int64_t ttl_ns;
	int64_t max_ns;
	bool tells;
};

/* From malloc; NULL = no memory. */
struct tends *tends_make(const struct lockshm *s);

/* The loop's thread, before the swap by which record @index becomes a hold of generation @gen. */
void tend_begin(struct participant *self, uint32_t index, uint64_t gen);
/* And if that swap fails. */
void tend_drop(struct participant *self, uint32_t index);

/* The owner ends the hold, in any thread.  False = its loss was collected before.  Then end it, or take the claim back. */
static inline MUST_CHECK bool tend_claim(struct tend *t, uint64_t gen)
{
	return cas_from(&t->use, gen, gen | TEND_ENDS);
}

static inline void tend_unclaim(struct tend *t, uint64_t gen)
{
	store_release(&t->use, gen);
}

/* Also of a lost one, which was not claimed, and whose loss may have been told. */
static inline void tend_end(struct tend *t, uint64_t gen)
{
	if (!cas_from(&t->use, gen | TEND_ENDS, 0))
		(void)cas_from(&t->use, gen, 0);
}

/* The owner itself has renewed it from generation @from to @gen: renewed for @ttl_ns from now on, 0 = as before. */
void tend_retime(struct lockshm *s, struct tend *t, uint64_t from, uint64_t gen, int64_t ttl_ns);

/* Before the append, if this thread wants it. */
static inline void tend_begin_if_wanted(struct participant *self, uint32_t index)
{
	if (unlikely(self->tending != NULL))
		tend_begin(self, index, word_gen(word_next_gen(load_relaxed(&self->segment->requests[index].word))));
}

/* Is record @index not to be filled by @self, though it is FREE?  The service thread may need one before the first loop. */
static inline bool tend_keeps(const struct participant *self, uint32_t index)
{
	const struct tends *all;

	if (likely(!self->of_process))
		return false;
	all = __atomic_load_n(&self->segment->tends, __ATOMIC_ACQUIRE);
	return all && load_acquire(&all->of[index].tend.use) != 0;
}

/* Before a loop's thread takes a record. */
static inline void tend_look_at_free(struct participant *self)
{
	if (likely(self->free_request != 0) && unlikely(tend_keeps(self, self->free_request)))
		self->free_request = 0;
}

/* The same for a plain request: the flag of the record's last use would keep it off the fast path. */
static inline void tend_look_at_plain(struct participant *self)
{
	uint32_t *flags = &self->segment->requests[self->free_request].flags;

	tend_look_at_free(self);
	if (self->free_request != 0 && load_relaxed32(flags) == REQUEST_TELLS &&
	    word_is(load_acquire(&self->segment->requests[self->free_request].word), REQUEST_FREE))
		store_relaxed32(flags, 0);
}

static inline struct tend *tend_of(const struct lockshm *s, uint32_t index)
{
	return &s->tends->of[index].tend;
}

/* Is the hold of that @use over, by no release of its owner?  @word was read before @use. */
static inline bool tend_is_over(uint64_t word, uint64_t use)
{
	/* Before the append the word is that of the record's last use. */
	return use != 0 && !(use & TEND_ENDS) && word_gen(word) >= use && !word_holds(word);
}

#endif
