/* SPDX-License-Identifier: MIT */
/* objects.h - one lock object for a case, and what it remembers */
#ifndef LOCKSHM_TESTS_OBJECTS_H
#define LOCKSHM_TESTS_OBJECTS_H

#include <string.h>

#include "hold/lock-object.h"
#include "support/fixture.h"

#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED

static lockshm_lock_t object;

/* Does the next call on it take the fast path, as far as the object can tell? */
static inline bool is_fast(lockshm_lock_t *lock, bool held)
{
	struct lock_object *l = object_of(lock);

	return l->seal == (object_seal(l) ^ (held ? 0 : OBJECT_IDLE));
}

static inline lockshm_lock_t *made_with(const struct lockshm_request *request)
{
	memset(&object, 0xa5, sizeof(object));
	ck_code(lockshm_lock_init(&object, seg, request), 0);
	return &object;
}

static inline lockshm_lock_t *made(const char *key, int mode)
{
	struct lockshm_request request = request_for(key, mode);

	request.timeout_ns = PATIENCE;
	return made_with(&request);
}

#endif
