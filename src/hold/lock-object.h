/* SPDX-License-Identifier: MIT */
/*
 * lock-object.h - the content of the caller's opaque lockshm_lock_t: taking and releasing its free key
 *
 * A lock object is a request that was checked once, and a hold.  It remembers the record that its last hold had, and
 * reserves nothing: if the record is FREE in the generation of that hold, no other request has used it since, so that
 * owner, entry, ttl, flags and tag are still those of the object, and only times, ticket and word are stored anew.
 *
 * It is the caller's memory, so two seals cover it, made like that of a hold.  `check` covers what the request said; it
 * is compared off the fast path.  `seal` covers what the fast path goes by and nothing else decides.  The rest of it is
 * compared with shared memory: the identity with the entry's, the record with generation and owner.  While the key is
 * held by the fast path the hold inside is empty but for its grant: lockshm_lock_hold() fills it when it is asked for.
 */
#ifndef LOCKSHM_HOLD_LOCK_OBJECT_H
#define LOCKSHM_HOLD_LOCK_OBJECT_H

#include "hold/acquire.h"
#include "lock/damage.h"
#include "lock/deadline.h"
#include "lock/table.h"

#define OBJECT_SEAL UINT64_C(0x6a626f206b636f6c)
#define OBJECT_CHECK UINT64_C(0x6b63656863206b6c)
#define OBJECT_IDLE UINT64_C(0x656c64692e2e2e2e)

/* Not a public flag: its segment makes the key global. */
#define OBJECT_BY_SEGMENT 0x40000000u

#define OBJECT_TAG_WORDS 4
#define OBJECT_KEY_BYTES 64 /* of a longer key only the identity is kept: as many as an entry shows */

struct lock_object {
	uint64_t check;	  /* object_check() */
	uint64_t key_len;
	/* What the fast path reads and writes. */
	uint64_t seal;	  /* object_seal(): held by the fast path; with OBJECT_IDLE: not held; else the hold decides */
	uint64_t owner;	  /* uid of the participant that has the record */
	uint32_t index;	  /* of the record */
	uint32_t entry;	  /* the last one of the key, as in struct known_key */
	int64_t ttl_ns;
	int mode;
	unsigned flags;
	uint64_t id[2];	  /* the key's identity in the segment with that number */
	struct hold hold; /* begins with the grant */
	/* What else the request said. */
	uint64_t number;
	int64_t timeout_ns;
	int64_t max_hold_ns;
	int redis_policy;
	uint32_t reserved0;
	uint64_t tag[OBJECT_TAG_WORDS]; /* NUL-padded */
	uint64_t reserved1[7];
	unsigned char key[OBJECT_KEY_BYTES];
};
_Static_assert(sizeof(struct lock_object) == sizeof(lockshm_lock_t), "every word is one of these fields");
_Static_assert(sizeof(((struct lock_object *)0)->tag) == LOCKSHM_TAG_MAX + 2, "a tag fits with its closing NUL");

static inline struct lock_object *object_of(lockshm_lock_t *lock)
{
	return (struct lock_object *)(void *)lock;
}

static ALWAYS_INLINE uint64_t object_words(const void *two_halves)
{
	uint64_t word;

	memcpy(&word, two_halves, sizeof(word));
	return word;
}

/* The part of the seal that stays as long as the object keeps its record. */
static ALWAYS_INLINE uint64_t object_seal_place(const struct lock_object *l)
{
	uint64_t x = OBJECT_SEAL ^ (uint64_t)(uintptr_t)l;

	x = (x + l->owner) ^ object_words(&l->index);
	return (x + (uint64_t)l->ttl_ns) ^ object_words(&l->mode);
}

static ALWAYS_INLINE uint64_t object_seal_grant(uint64_t place, const struct grant *g)
{
	return ((place + g->gen) ^ g->ticket) + (uint64_t)g->end;
}

static inline uint64_t object_seal(const struct lock_object *l)
{
	return object_seal_grant(object_seal_place(l), &l->hold.grant);
}

/* ---------------------------------------------------------------- lock-object.c */

/* Is @l as the library left it? */
bool object_sound(const struct lock_object *l);

/* The hold inside.  If the fast path of this thread has granted it, it is filled first, and decides from now on. */
struct hold *object_hold(struct lock_object *l);

/* Is it held now, as far as this thread can tell?  Safe for any content.  Clears up after a lost hold. */
bool object_in_use(struct lock_object *l, char *text);

/* Make any memory a lock object with the checked request @q and its key's identity in @s. */
void object_fill(struct lock_object *l, const struct lockshm *s, const struct lockshm_request *q);

/* Make @l ready for @s, if it has a key of another segment.  LOCKSHM_INVALID: it is no lock object, is held, or
 * has a key of which only another segment's identity is known. */
MUST_CHECK int object_bind(struct lock_object *l, const struct lockshm *s);

/* Its request, whose tag lies in @tag. */
void object_request(const struct lock_object *l, struct lockshm_request *q, char tag[LOCKSHM_TAG_MAX + 2]);

/* The hold inside was granted to the calling thread, or was released by it: leave it to the fast path, if it is plain
 * and the record is still as this object would fill it. */
void object_remember(struct lock_object *l, bool held);

/* @l was granted a lock with a damage mark by the fast path of @self, and is robust.  Returns the status. */
int object_report_damage(struct participant *self, struct lock_object *l);

/* object_take_free() for a key that a reader may hold. */
int object_join(struct participant *self, struct lock_object *l);

/* ---------------------------------------------------------------- the fast path */

/*
 * R1 with the record of the last hold, for an object of @self: of a free key, with @join also beside a reader.
 * NOT_TAKEN = any other case; nothing has changed.
 */
static ALWAYS_INLINE int object_take(struct participant *self, struct lock_object *l, bool join)
{
	struct lockshm *s;
	struct shm_request *r;
	struct shm_entry *e;
	struct grant grant;
	struct acquire a;
	uint64_t place, tail;

	/* What may call a function first. */
	a.now = deadline_clock(self->segment, l->ttl_ns);
	place = object_seal_place(l);
	if (unlikely(l->owner != self->uid) ||
	    unlikely(l->seal != (object_seal_grant(place, &l->hold.grant) ^ OBJECT_IDLE)))
		return NOT_TAKEN;
	s = self->segment;
	r = &s->requests[l->index];
	e = &s->entries[l->entry];
	tail = load_acquire(&e->tail);
	/* As in take_free(): the identity after the tail. */
	if (unlikely(segment_retired(s)) || unlikely(tail >= tail_make(TICKET_MAX - 1, 0)) ||
	    unlikely(!entry_is(e, l->id, l->key_len)))
		return NOT_TAKEN;
	if (!join && unlikely(tail_index(tail) != 0))
		return object_join(self, l);
	if (join && tail_index(tail) != 0 &&
	    (l->mode != LOCKSHM_SHARED || !acquire_can_join(self, tail_index(tail), a.now)))
		return NOT_TAKEN;
	/* FREE, and not used since.  The owner: a sibling process from a fork may have a participant with the same uid,
	 * and the object be in memory of both. */
	if (unlikely(load_acquire(&r->word) != word_make(l->hold.grant.gen, false, REQUEST_FREE, 0)) ||
	    unlikely(load_relaxed(&r->owner) != self->ref))
		return NOT_TAKEN;
	if (unlikely(l->flags & LOCKSHM_ROBUST) && unlikely(!damage_is_robust(e)))
		return NOT_TAKEN;
	request_begin_next_use(r);
	a.exclusive = l->mode & 1;
	a.ttl_ns = l->ttl_ns;
	if (unlikely(!queue_append_owned(s, e, tail, l->index, &a, REQUEST_ENTERED, &grant))) {
		request_drop(self, l->index);
		return NOT_TAKEN;
	}
	/* R6: the release of the reader before me finds me. */
	if (join && tail_index(tail) != 0)
		queue_hint(s, tail_index(tail), l->index, grant.gen);
	l->hold.grant = grant;
	l->seal = object_seal_grant(place, &grant);
	self->held++;
	count_event(self, COUNT_ACQUIRES);
	return unlikely(l->flags & LOCKSHM_ROBUST) && unlikely(damage_pending(e)) ? object_report_damage(self, l) : 0;
}

static ALWAYS_INLINE int object_take_free(struct participant *self, struct lock_object *l)
{
	return object_take(self, l, false);
}

/* The calling thread's participant that has the record of @l; NULL = it has none. */
static ALWAYS_INLINE struct participant *object_owner(const struct lock_object *l)
{
	struct participant *p = participants_of_thread;
	uint64_t epoch;

	if (unlikely(!p))
		return NULL;
	epoch = load_relaxed(process_epoch_word);
	while (unlikely(p->uid != l->owner) || unlikely(p->epoch != epoch)) {
		p = p->next;
		if (!p)
			return NULL;
	}
	return p;
}

/* R2 for what the fast path has granted to @self, in time and alone in its queue, or a reader.  False = any other case. */
static ALWAYS_INLINE bool object_release_free(struct participant *self, struct lock_object *l)
{
	struct lockshm *s = self->segment;
	uint64_t seal;

	if (unlikely(l->hold.grant.end != INT64_MAX && segment_now_at_most(s) >= l->hold.grant.end))
		return false;
	seal = object_seal(l);
	if (unlikely(l->seal != seal) ||
	    (unlikely(!queue_pop_owned(self->segment, &self->segment->entries[l->entry], l->index, &l->hold.grant,
				       self->ref, false)) &&
	     !queue_release_reader_owned(s, l->entry, l->index, &l->hold.grant, self->ref)))
		return false;
	l->seal = seal ^ OBJECT_IDLE;
	self->held--;
	if (unlikely(self->free_request == 0))
		self->free_request = l->index;
	return true;
}

#endif
