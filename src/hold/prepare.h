/* SPDX-License-Identifier: MIT */
/* prepare.h - the content of the caller's opaque lockshm_prepared_t */
#ifndef LOCKSHM_HOLD_PREPARE_H
#define LOCKSHM_HOLD_PREPARE_H

#include "lock/table.h"

#define PREPARED_MAGIC UINT64_C(0x646572617065726c)

/*
 * Valid for every handle of the segment it was made for, in every process, since @check has the segment's random
 * number.  Only @known.entry changes later: a hint, stored by each user of the key.
 */
struct prepared {
	uint64_t check; /* PREPARED_MAGIC mixed with that number */
	struct known_key known;
	unsigned char shown[KEY_SHOWN_WORDS * 8]; /* the first bytes of the key, as an entry shows them */
};
_Static_assert(sizeof(struct prepared) <= sizeof(lockshm_prepared_t), "the opaque key must be large enough");

/* The prepared key; NULL = not prepared, or for another segment.  Safe for any content. */
static inline struct prepared *prepared_for(const struct lockshm *s, lockshm_prepared_t *opaque)
{
	struct prepared *p = (struct prepared *)opaque;

	return likely(p->check == (PREPARED_MAGIC ^ s->number)) ? p : NULL;
}

#endif
