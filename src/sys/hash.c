/* SPDX-License-Identifier: MIT */
/* hash.c - XXH3 of the xxHash library, compiled in from its header: no call, no run-time dependency */
#include "sys/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(HASH_SECRET_BYTES >= XXH3_SECRET_SIZE_MIN, "the secret must be long enough for XXH3");

void hash_key(struct identity *out, const unsigned char secret[HASH_SECRET_BYTES], const void *key, size_t len)
{
	XXH128_hash_t h = XXH3_128bits_withSecret(key, len, secret, HASH_SECRET_BYTES);

	out->id[0] = h.low64;
	out->id[1] = h.high64;
	out->len = len;
}

uint64_t hash_plain(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}
