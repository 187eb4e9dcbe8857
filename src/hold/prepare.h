/* SPDX-License-Identifier: MIT */
/* prepare.h - what is behind the caller's opaque lockshm_prepared_t */
#ifndef LOCKSHM_HOLD_PREPARE_H
#define LOCKSHM_HOLD_PREPARE_H

#include "lock/table.h"

#define PREPARED_MAGIC UINT64_C(0x646572617065726c)

/*
 * Good for every handle of the segment it was made for, in every process, since the segment's random number is in
 * @check.  Only @known.entry changes later, and it is a hint: whoever uses the key puts there what it has found.
 */
struct prepared {
	uint64_t check; /* PREPARED_MAGIC mixed with that number */
	struct known_key known;
	unsigned char shown[KEY_SHOWN_WORDS * 8]; /* what an entry shows of the key */
};
_Static_assert(sizeof(struct prepared) <= sizeof(lockshm_prepared_t), "the opaque key must be large enough");

/* The key as it was prepared; NULL = it was not, or for another segment.  Safe for any content. */
static inline struct prepared *prepared_for(const struct lockshm *s, lockshm_prepared_t *opaque)
{
	struct prepared *p = (struct prepared *)opaque;

	return likely(p->check == (PREPARED_MAGIC ^ s->number)) ? p : NULL;
}

#endif
