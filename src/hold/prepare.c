/* SPDX-License-Identifier: MIT */
/* prepare.c - keys hashed once, for programs that take the same ones again and again */
#include "hold/prepare.h"

#include <string.h>

LOCKSHM_EXPORT int lockshm_prepare(lockshm_t *segment, lockshm_prepared_t *prepared, const void *key, size_t key_len)
{
	struct prepared *p = (struct prepared *)prepared;

	if (!segment_valid(segment) || !p || !key || key_len == 0)
		return LOCKSHM_INVALID;
	if (key_len > LOCKSHM_KEY_MAX)
		return LOCKSHM_KEY_TOO_LONG;
	memset(prepared, 0, sizeof(*prepared));
	hash_key(&p->known.id, segment->hash_secret, key, key_len);
	p->known.entry = ENTRY_NONE;
	memcpy(p->shown, key, key_len < sizeof(p->shown) ? key_len : sizeof(p->shown));
	p->check = PREPARED_MAGIC ^ segment->number;
	return 0;
}
