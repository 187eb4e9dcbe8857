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

int find_key(lockshm_t *segment, struct key key, struct lockshm_row *row)
{
	lockshm_list_t *list;
	int code = lockshm_list_open(&list, segment, LOCKSHM_LIST_KEY, key.bytes, key.len);

	if (code == 0)
		code = lockshm_list_next(list, row);
	lockshm_list_close(list);
	return code < 0 ? code : 0;
}

int find_lock(lockshm_t *segment, const struct selected *which, struct lock *lock)
{
	lockshm_list_t *list;
	int code = lockshm_list_open(&list, segment, which->id ? LOCKSHM_LIST_KNOWN : LOCKSHM_LIST_KEY, which->key.bytes,
				     which->key.len);

	if (code == 0)
		code = lock_next(list, lock);
	while (code == 1 && which->id && lock->row.id != which->id)
		code = lock_next(list, lock);
	lockshm_list_close(list);
	return code == 1 ? 0 : code == 0 ? LOCKSHM_NOT_HELD : code;
}

int unknown_id(uint64_t id)
{
	message("no key of this segment has the id %016" PRIx64 ": it is forgotten, or the segment was made anew", id);
	return EXIT_FAILED;
}

struct nearest nearest_keys(lockshm_t *segment, struct key key)
{
	struct nearest nearest = nearest_to(key.bytes, key.len);
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	int code = lockshm_list_open(&list, segment, LOCKSHM_LIST_KNOWN, NULL, 0);

	while (code == 0 && lockshm_list_next(list, &row) == 1)
		if (!row.request.state && !row_is_internal(&row) && row.key_shown == row.key_len)
			nearest_offer(&nearest, row.key, row.key_len);
	lockshm_list_close(list);
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
