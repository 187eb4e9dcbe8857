/* SPDX-License-Identifier: MIT */
/* names.c - the names of one lock in Redis; see redis/names.h */
#define _GNU_SOURCE
#include "redis/names.h"

#include <stdlib.h>
#include <string.h>

/*
 * The part of a key that a Redis Cluster hashes: between the first { and the next }, unless that is empty or missing.
 */
static const char *tag_of(const char *key, size_t len, size_t *tag_len)
{
	const char *open = memchr(key, '{', len), *close;

	*tag_len = len;
	if (!open)
		return key;
	close = memchr(open, '}', (size_t)(key + len - open));
	if (!close || close == open + 1)
		return key;
	*tag_len = (size_t)(close - open - 1);
	return open + 1;
}

/* CRC-16 with the polynomial 0x1021, initial value 0 and no final xor: the specification of Redis Cluster. */
unsigned redis_keys_slot(const struct redis_keys *k)
{
	size_t len, i;
	const char *tag = tag_of(k->key[0], k->len[0], &len);
	unsigned crc = 0;
	int bit;

	for (i = 0; i < len; i++) {
		crc ^= (unsigned)(unsigned char)tag[i] << 8;
		for (bit = 0; bit < 8; bit++)
			crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
	}
	return crc % REDIS_SLOTS;
}

static bool has_tag(const char *key, size_t len)
{
	size_t tag_len;

	(void)tag_of(key, len, &tag_len);
	return tag_len != len;
}

static bool same_slot(const struct redis_keys *k)
{
	size_t i, len, first_len;
	const char *first = tag_of(k->key[0], k->len[0], &first_len), *tag;

	for (i = 1; i < REDIS_KEYS; i++) {
		tag = tag_of(k->key[i], k->len[i], &len);
		if (len != first_len || memcmp(tag, first, len) != 0)
			return false;
	}
	return true;
}

/* Appends @base and @suffix as name @i. */
static char *append(struct redis_keys *k, size_t i, char *at, const char *base, size_t len, bool wrap,
		    const char *suffix)
{
	k->key[i] = at;
	if (wrap)
		*at++ = '{';
	at = mempcpy(at, base, len);
	if (wrap)
		*at++ = '}';
	at = mempcpy(at, suffix, strlen(suffix));
	k->len[i] = (size_t)(at - k->key[i]);
	return at;
}

int redis_keys_make(struct redis_keys *k, int mode, const char *prefix, const void *name, size_t len,
		     struct redis_error *error)
{
	static const char *const suffixes[REDIS_KEYS] = { "", ":lock-intent", ":q", ":qx", ":rx", ":f" };
	size_t prefix_len = strlen(prefix), all = prefix_len + len, i;
	bool cluster = mode != REDIS_KEYS_SINGLE, tagged;
	char *at;

	memset(k, 0, sizeof(*k));
	k->mode = mode;
	if (all == 0)
		return redis_fail(error, REDIS_INVALID, "the name of the lock is empty");
	if (all > REDIS_NAME_MAX)
		return redis_fail(error, REDIS_INVALID, "prefix and name of the lock have more than %d bytes",
				   REDIS_NAME_MAX);
	k->bytes = malloc(REDIS_KEYS * (all + 16));
	if (!k->bytes)
		return redis_fail(error, REDIS_NO_MEMORY, "out of memory");
	at = append(k, 0, k->bytes, prefix, prefix_len, false, "");
	at = mempcpy(at, name, len);
	k->len[0] = all;
	tagged = has_tag(k->key[0], all);
	if (mode == REDIS_KEYS_CLUSTER_SHARED && !tagged)
		return redis_fail(error, REDIS_INVALID,
				   "'%.*s': in a cluster, a lock shared with other programs needs a {tag} in its name",
				   (int)(all < 100 ? all : 100), k->key[0]);
	for (i = 1; i < REDIS_KEYS; i++) {
		/* Other programs know the intent key under the lock's own name. */
		bool wrap = !tagged && (i > 1 || cluster);

		at = append(k, i, at, k->key[0], all, wrap, suffixes[i]);
	}
	if (cluster && !same_slot(k))
		return redis_fail(error, REDIS_INVALID,
				   "'%.*s': in a cluster, braces in the name of a lock must be a {tag} or absent",
				   (int)(all < 100 ? all : 100), k->key[0]);
	return 0;
}

void redis_keys_free(struct redis_keys *k)
{
	free(k->bytes);
	k->bytes = NULL;
}
