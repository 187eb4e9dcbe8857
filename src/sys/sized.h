/* SPDX-License-Identifier: MIT */
/*
 * sized.h - the growing structs of lockshm.h: their sizes, and copies between a program's struct and the library's own
 *
 * The program may have been compiled with an older header or a newer one, so its struct may be shorter or longer.
 */
#ifndef LOCKSHM_SYS_SIZED_H
#define LOCKSHM_SYS_SIZED_H

#include <stdbool.h>
#include <string.h>

#include "lockshm.h"

#define SIZED_MAX 4096

#define SIZE_TO(type, field) (offsetof(struct type, field) + sizeof(((struct type *)0)->field))

/*
 * SIZED(name, struct, last field in 0.1, last field): name_SIZE_0_1 is the smallest size that is accepted.  A new field
 * goes to the end of the struct and into the fourth argument; the third never changes once 0.1 is released.  Without
 * tail padding a new field changes the size.
 */
#define SIZED(name, type, last_in_0_1, last)                                                                           \
	enum { name##_SIZE_0_1 = SIZE_TO(type, last_in_0_1) };                                                         \
	_Static_assert(offsetof(struct type, size) == 0, "a growing struct begins with its size");                     \
	_Static_assert(sizeof(struct type) == SIZE_TO(type, last), "a growing struct has no tail padding");            \
	_Static_assert(sizeof(struct type) <= SIZED_MAX, "a growing struct has an upper bound")

SIZED(BRIDGE_STAT, lockshm_bridge_stat, grants, global_keys);
SIZED(CREATE_OPTIONS, lockshm_create_options, global_keys, global_keys);
SIZED(OPTION, lockshm_option, range, range);
SIZED(OUTCOME, lockshm_outcome, report, report);
SIZED(REPORT, lockshm_report, blocker, blocker);
SIZED(REQUEST, lockshm_request, max_hold_ns, max_hold_ns);
SIZED(ROW, lockshm_row, segment, segment);
SIZED(STAT, lockshm_stat, keys_left, refused_host_leases);

/* Frozen: nested by value or elements of an array. */
_Static_assert(sizeof(struct lockshm_error) == 288 && sizeof(struct lockshm_damage) == 96 &&
		       sizeof(struct lockshm_blocker) == 120 && sizeof(struct lockshm_key) == 32 &&
		       sizeof(struct lockshm_host_lease) == 384,
	       "a frozen struct does not grow");

/* Size of a program's struct, its first field. */
static inline size_t sized_of(const void *theirs)
{
	size_t size;

	memcpy(&size, theirs, sizeof(size));
	return size;
}

/* May the struct be read, or written to?  @least: its size in 0.1. */
static inline bool sized_good(const void *theirs, size_t least)
{
	return sized_of(theirs) - least <= SIZED_MAX - least;
}

/*
 * Copy the program's input struct to @own of @size bytes; fields that it lacks become 0.  @own is unchanged if the size
 * of @theirs is wrong, and filled if only its surplus is: both are LOCKSHM_INVALID.  @what names it in the message.
 */
int sized_in(void *own, size_t size, const void *theirs, size_t least, const char *what, struct lockshm_error *error);

/* Copy @own of @size bytes to the program's output struct, which is sized_good(); its surplus becomes 0. */
void sized_out(void *theirs, const void *own, size_t size);

#endif
