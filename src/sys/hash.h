/* SPDX-License-Identifier: MIT */
/* hash.h - the 128-bit identity of a key */
#ifndef LOCKSHM_SYS_HASH_H
#define LOCKSHM_SYS_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_SECRET_BYTES 192

struct identity {
	uint64_t id[2];
	uint64_t len;
};

/* XXH3 of 128 bits under the segment's random secret: a hostile choice of keys can predict neither their buckets nor
 * collisions. */
void hash_key(struct identity *out, const unsigned char secret[HASH_SECRET_BYTES], const void *key, size_t len);

/* Unkeyed 64 bits over fixed data, for the header's check word and the layout signature. */
uint64_t hash_plain(const void *data, size_t len);

#endif
