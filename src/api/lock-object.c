/* SPDX-License-Identifier: MIT */
/* lock-object.c - lock objects: the fast path, then every check, then the way of lockshm_acquire() and _release() */
#include "hold/lock-object.h"

#include "api/acquire.h"
#include "hold/acquire-fast.h"
#include "segment/global-keys.h"
#include "sys/error.h"
#include "sys/sized.h"

#define OWN_TIMEOUT INT64_MIN /* the one of the object's request */

static int check_object(const struct lockshm *s, const struct lockshm_request *q, struct lockshm_error *error)
{
	bool global = q->flags & LOCKSHM_GLOBAL || segment_makes_global(s, q->key, q->key_len);

	if (q->report || q->canceller)
		return error_set(error, LOCKSHM_INVALID, "a lock object has no report or canceller");
	if (global && q->key_len > OBJECT_KEY_BYTES)
		return error_set(error, LOCKSHM_KEY_TOO_LONG,
				 "a global key of a lock object has at most %d bytes, this one %zu", OBJECT_KEY_BYTES,
				 q->key_len);
	return 0;
}

/* @q has the library's own size. */
static int init(struct lock_object *l, const struct lockshm *s, const struct lockshm_request *q,
		struct lockshm_error *error)
{
	lockshm_hold_t none = LOCKSHM_HOLD_INIT;
	char text[HOLD_USE_BYTES];
	int err = l ? 0 : error_set(error, LOCKSHM_INVALID, "lock is NULL");

	if (!err && !segment_valid(s))
		err = error_set(error, LOCKSHM_INVALID, "segment is NULL or closed");
	if (!err)
		err = acquire_check(q, &none, error);
	if (!err && object_in_use(l, text))
		err = error_set(error, LOCKSHM_INVALID, "this lock object is %s: unlock it first", text);
	if (!err)
		err = check_object(s, q, error);
	if (!err)
		object_fill(l, s, q);
	return err;
}

LOCKSHM_EXPORT int lockshm_lock_init(lockshm_lock_t *lock, lockshm_t *segment, const struct lockshm_request *request)
{
	struct lockshm_report own = LOCKSHM_REPORT_INIT;
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	int err;

	if (!request)
		return LOCKSHM_INVALID;
	err = sized_in(&q, sizeof(q), request, REQUEST_SIZE_0_1, "request", &own.error);
	if (!err)
		err = init(object_of(lock), segment, &q, &own.error);
	/* A report is refused, but has the reason. */
	if (q.report && sized_good(q.report, REPORT_SIZE_0_1))
		sized_out(q.report, &own, sizeof(own));
	return err;
}

/* Off the fast path: every check, then the way of lockshm_acquire(). */
static __attribute__((noinline)) int lock_careful(struct lock_object *l, struct lockshm *s, int64_t timeout_ns)
{
	struct lockshm_request q;
	struct known_key key;
	char tag[LOCKSHM_TAG_MAX + 2];
	int status;

	if (!l || !segment_valid(s))
		return LOCKSHM_INVALID;
	status = object_bind(l, s);
	if (status)
		return status;
	if (s->read_only)
		return LOCKSHM_PERMISSION;
	object_request(l, &q, tag);
	if (timeout_ns != OWN_TIMEOUT)
		q.timeout_ns = timeout_ns;
	key = (struct known_key){ .id = { { l->id[0], l->id[1] }, l->key_len }, .entry = l->entry };
	status = acquire_dispatch(s, &q, &key, (lockshm_hold_t *)(void *)&l->hold, NULL);
	if (status >= 0)
		object_remember(l, true);
	return status;
}

static ALWAYS_INLINE int lock(lockshm_lock_t *lock, lockshm_t *segment, int64_t timeout_ns)
{
	struct participant *self = participant_known(segment);
	struct lock_object *l = object_of(lock);
	int status;

	/* As in lockshm_acquire(): the handle may be closed. */
	if (unlikely(!self) || unlikely(!l) || unlikely(segment->magic != SEGMENT_MAGIC))
		return lock_careful(l, segment, timeout_ns);
	status = object_take_free(self, l);
	return likely(status != NOT_TAKEN) ? status : lock_careful(l, segment, timeout_ns);
}

LOCKSHM_EXPORT int lockshm_lock(lockshm_lock_t *l, lockshm_t *segment)
{
	return lock(l, segment, OWN_TIMEOUT);
}

LOCKSHM_EXPORT int lockshm_trylock(lockshm_lock_t *l, lockshm_t *segment)
{
	return lock(l, segment, 0);
}

LOCKSHM_EXPORT int lockshm_timedlock(lockshm_lock_t *l, lockshm_t *segment, int64_t timeout_ns)
{
	return unlikely(!time_is_plain(timeout_ns, 0)) ? LOCKSHM_INVALID : lock(l, segment, timeout_ns);
}

static __attribute__((noinline)) int unlock_careful(struct lock_object *l)
{
	int outcome;

	if (!l)
		return LOCKSHM_INVALID;
	outcome = lockshm_release((lockshm_hold_t *)(void *)object_hold(l), 0);
	if (outcome == 0)
		object_remember(l, false);
	return outcome;
}

LOCKSHM_EXPORT int lockshm_unlock(lockshm_lock_t *lock)
{
	struct lock_object *l = object_of(lock);
	struct participant *self;

	if (unlikely(!l))
		return LOCKSHM_INVALID;
	self = object_owner(l);
	return likely(self != NULL) && likely(object_release_free(self, l)) ? 0 : unlock_careful(l);
}

LOCKSHM_EXPORT lockshm_hold_t *lockshm_lock_hold(lockshm_lock_t *lock)
{
	struct lock_object *l = object_of(lock);

	if (!l || !object_sound(l))
		return NULL;
	return (lockshm_hold_t *)(void *)object_hold(l);
}
