/* SPDX-License-Identifier: MIT */
/* lock-object.c - a caller's lock object off its fast path: its seals, its hold, its request; see hold/lock-object.h */
#include "hold/lock-object.h"

#include <string.h>

#include "segment/global-keys.h"

#define WORDS (sizeof(struct lock_object) / sizeof(uint64_t))
#define WORD_OF(field) (offsetof(struct lock_object, field) / sizeof(uint64_t))

/* All words but those that the calls on it change: seal, place of the record, hold. */
static uint64_t object_check(const struct lock_object *l)
{
	uint64_t x = OBJECT_CHECK ^ (uint64_t)(uintptr_t)l, words[WORDS];
	size_t i;

	memcpy(words, l, sizeof(words));
	x = (x + words[WORD_OF(key_len)]) ^ words[WORD_OF(ttl_ns)];
	x = (x + words[WORD_OF(mode)]) ^ words[WORD_OF(id[0])];
	x += words[WORD_OF(id[1])];
	for (i = WORD_OF(number); i < WORDS; i += 2)
		x = (x ^ words[i]) + (i + 1 < WORDS ? words[i + 1] : 0);
	return x;
}

bool object_sound(const struct lock_object *l)
{
	return likely(l->check == object_check(l));
}

/* ---------------------------------------------------------------- the hold inside */

struct hold *object_hold(struct lock_object *l)
{
	struct participant *self = object_owner(l);
	struct grant grant = l->hold.grant;

	if (self && l->seal == object_seal(l)) {
		hold_fill(&l->hold, self, l->index, l->entry, &grant, l->id[0]);
		l->seal = 0;
	}
	return &l->hold;
}

bool object_in_use(struct lock_object *l, char *text)
{
	return hold_in_use(object_hold(l), text);
}

/* Flags and tag of a request record, as this object fills it. */
static uint32_t record_flags(const struct lock_object *l)
{
	return (l->tag[0] ? REQUEST_HAS_TAG : 0) | (l->flags & LOCKSHM_BARGE ? REQUEST_BARGES : 0);
}

void object_remember(struct lock_object *l, bool held)
{
	const struct hold *h = &l->hold;
	const struct participant *self = participant_find(h->segment);
	const struct shm_request *r;
	uint64_t word;

	if (!self || self->uid != h->owner || h->renewal || h->moved || h->host_lease || h->streak ||
	    l->flags & (LOCKSHM_AUTO_RENEW | LOCKSHM_GLOBAL | OBJECT_BY_SEGMENT))
		return;
	r = &self->segment->requests[h->index];
	word = load_acquire(&r->word);
	if (word_gen(word) != h->grant.gen || !(held ? word_holds(word) : word_is(word, REQUEST_FREE)) ||
	    load_relaxed(&r->owner) != self->ref || load_relaxed32(&r->entry) != h->entry ||
	    (int64_t)load_relaxed((const uint64_t *)&r->ttl_ns) != l->ttl_ns ||
	    load_relaxed32(&r->flags) != record_flags(l) || load_relaxed32(&r->sleeping) != 0)
		return;
	l->owner = h->owner;
	l->index = h->index;
	l->entry = h->entry;
	l->hold.magic = 0;
	l->seal = object_seal(l) ^ (held ? 0 : OBJECT_IDLE);
}

int object_report_damage(struct participant *self, struct lock_object *l)
{
	struct lockshm_request q;
	char tag[LOCKSHM_TAG_MAX + 2];

	object_request(l, &q, tag);
	return acquire_report_damage(self->segment, &q, object_hold(l));
}

/* Off the straight line, which keeps that short. */
int object_join(struct participant *self, struct lock_object *l)
{
	return object_take(self, l, true);
}

/* ---------------------------------------------------------------- the request */

static void know_key(struct lock_object *l, const struct lockshm *s, const void *key)
{
	struct identity id;

	hash_key(&id, s->hash_secret, key, l->key_len);
	l->id[0] = id.id[0];
	l->id[1] = id.id[1];
	l->number = s->number;
	l->entry = ENTRY_NONE;
	l->flags &= ~OBJECT_BY_SEGMENT;
	if (segment_makes_global(s, key, l->key_len))
		l->flags |= OBJECT_BY_SEGMENT;
	l->seal = 0;
	l->check = object_check(l);
}

void object_fill(struct lock_object *l, const struct lockshm *s, const struct lockshm_request *q)
{
	struct lock_object new = { .key_len = q->key_len,
				   .ttl_ns = q->ttl_ns,
				   .mode = q->mode,
				   .flags = q->flags,
				   .timeout_ns = q->timeout_ns,
				   .max_hold_ns = q->max_hold_ns,
				   .redis_policy = q->redis_policy };

	if (q->tag)
		memcpy(new.tag, q->tag, strlen(q->tag));
	memcpy(new.key, q->key, q->key_len < sizeof(new.key) ? q->key_len : sizeof(new.key));
	/* The tag and the key of @q may lie in @l. */
	know_key(&new, s, q->key);
	*l = new;
	l->check = object_check(l);
}

int object_bind(struct lock_object *l, const struct lockshm *s)
{
	if (!object_sound(l) || object_in_use(l, NULL))
		return LOCKSHM_INVALID;
	if (likely(l->number == s->number))
		return 0;
	if (l->key_len > sizeof(l->key))
		return LOCKSHM_INVALID;
	know_key(l, s, l->key);
	return 0;
}

void object_request(const struct lock_object *l, struct lockshm_request *q, char tag[LOCKSHM_TAG_MAX + 2])
{
	*q = (struct lockshm_request)LOCKSHM_REQUEST_INIT;
	memcpy(tag, l->tag, LOCKSHM_TAG_MAX + 2);
	tag[LOCKSHM_TAG_MAX + 1] = '\0';
	q->key = l->key;
	q->key_len = l->key_len;
	q->mode = l->mode;
	q->flags = l->flags & ~OBJECT_BY_SEGMENT;
	if (l->flags & OBJECT_BY_SEGMENT)
		q->flags |= LOCKSHM_GLOBAL;
	q->ttl_ns = l->ttl_ns;
	q->timeout_ns = l->timeout_ns;
	q->tag = *tag ? tag : NULL;
	q->redis_policy = l->redis_policy;
	q->max_hold_ns = l->max_hold_ns;
}
