/* SPDX-License-Identifier: MIT */
/* acknowledge.c - an operator acknowledges a damage mark without the lock */
#include "lock/damage.h"
#include "lock/table.h"
#include "segment/process.h"

/*
 * True = acknowledged.  The mark is read first and replaced by CAS: while it is there the entry is not given to another
 * key, and the word of another mark differs.
 */
static bool acknowledge(struct lockshm *s, struct shm_entry *e, const struct identity *id, uint64_t token)
{
	struct lockshm_damage mark;
	uint64_t seen;

	do {
		seen = damage_read(s, e, &mark);
		if (mark.status == 0 || mark.token != token || !entry_is(e, id->id, id->len))
			return false;
	} while (!damage_acknowledge(e, seen));
	return true;
}

LOCKSHM_EXPORT int lockshm_acknowledge_of(lockshm_t *segment, uint64_t id, uint64_t token)
{
	struct identity found;
	uint32_t i, tried = 0;

	if (!segment_valid(segment) || id == 0 || token == 0)
		return LOCKSHM_INVALID;
	if (segment->read_only)
		return LOCKSHM_PERMISSION;
	(void)process_epoch(); /* in a forked child the clock may differ */
	while ((i = table_next_of(segment, id, &tried, &found)) != ENTRY_NONE)
		if (acknowledge(segment, &segment->entries[i], &found, token))
			return 0;
	return LOCKSHM_NOT_HELD;
}
