/* SPDX-License-Identifier: MIT */
/* inside.h - for the tests that look into, or damage, the bytes of the segment */
#ifndef LOCKSHM_TEST_INSIDE_H
#define LOCKSHM_TEST_INSIDE_H

#include <string.h>

#include "sys/hash.h"
#include "segment/segment.h"
#include "lock/table.h"
#include "fixture.h"

/* The entry of a text key, which must exist. */
static inline struct shm_entry *entry_of(const char *key)
{
	struct identity id;
	uint32_t i;

	hash_key(&id, seg->hash_secret, key, strlen(key));
	i = table_lookup(seg, &id);
	ck_assert_msg(i != ENTRY_NONE, "the segment does not know '%s'", key);
	return &seg->entries[i];
}

/* The index of the @n-th request of its queue, counted from the newest, which is 0. */
static inline uint32_t nth_from_tail(const struct shm_entry *e, unsigned n)
{
	uint32_t i = tail_index(e->tail);

	while (n-- > 0 && i != 0)
		i = word_prev(seg->requests[i].word);
	ck_assert_uint_ne(i, 0);
	return i;
}

#endif
