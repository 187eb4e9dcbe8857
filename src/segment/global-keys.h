/* SPDX-License-Identifier: MIT */
/* global-keys.h - the rule of a segment for which keys are global, whatever a request asks for */
#ifndef LOCKSHM_SEGMENT_GLOBAL_KEYS_H
#define LOCKSHM_SEGMENT_GLOBAL_KEYS_H

#include "segment/segment.h"

/* Is @rule "*", or prefixes separated by commas?  LOCKSHM_INVALID. */
MUST_CHECK int global_keys_check(const char *rule, struct lockshm_error *error);

/* Has @rule the key?  Safe for any text. */
bool global_keys_match(const char *rule, const void *key, size_t len);

/* Is every request for that key a global one?  For a segment without a rule one branch. */
static inline bool segment_makes_global(const struct lockshm *s, const void *key, size_t len)
{
	return unlikely(s->redis.global_keys[0] != '\0') && global_keys_match(s->redis.global_keys, key, len);
}

#endif
