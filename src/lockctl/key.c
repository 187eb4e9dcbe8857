/* SPDX-License-Identifier: MIT */
/*
 * key.c - the lock that KEY or --id names, and what was meant by a KEY for which there never was a request
 *
 * The segment keeps the first bytes of a long key.  A listing has an id for each, the first half of the hash by which the
 * segment finds it, so that a lock of which no one knows the key can be looked at and ended.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

#define ID_DIGITS 16

uint64_t args_id(const char *text)
{
	const char *digits = *text == '#' ? text + 1 : text;

	if (strlen(digits) != ID_DIGITS || strspn(digits, "0123456789abcdefABCDEF") != ID_DIGITS)
		usage_error("--id: '%s' is not an id: %d hexadecimal digits, as ls --json and ls --porcelain print them", text,
			    ID_DIGITS);
	return strtoull(digits, NULL, 16);
}

char *format_id(uint64_t id)
{
	return format_text("%016" PRIx64, id);
}

struct search {
	uint64_t id;
	lockshm_lock_fn fn;
	void *arg;
	bool found;
};

static int visit_if(const struct lockshm_lock_info *lock, void *arg)
{
	struct search *search = arg;

	if (lock->id != search->id)
		return 0;
	search->found = true;
	return search->fn(lock, search->arg);
}

int find_lock(lockshm_t *segment, const struct selected *which, lockshm_lock_fn fn, void *arg)
{
	struct search search = { which->id, fn, arg, false };
	int code;

	if (!which->id)
		return lockshm_show_lock(segment, which->key.bytes, which->key.len, fn, arg);
	code = lockshm_each_key(segment, visit_if, &search);
	return code || search.found ? code : LOCKSHM_NOT_HELD;
}

int unknown_id(uint64_t id)
{
	message("no key of this segment has the id %016" PRIx64 ": it is forgotten, or the segment was made anew", id);
	return EXIT_FAILED;
}

static int offer_key(const struct lockshm_lock_info *lock, void *arg)
{
	if (!lock_is_internal(lock) && lock->key_shown == lock->key_len)
		nearest_offer(arg, lock->key, lock->key_len);
	return 0;
}

struct nearest nearest_keys(lockshm_t *segment, struct key key)
{
	struct nearest nearest = nearest_to(key.bytes, key.len);

	(void)lockshm_each_key(segment, offer_key, &nearest);
	return nearest;
}

char *format_unknown(lockshm_t *segment, struct key key)
{
	struct nearest nearest = nearest_keys(segment, key);
	char *meant = nearest_text(&nearest, "");
	char *text = format_text("no request for it is known in this segment%s", meant);

	free(meant);
	return text;
}
