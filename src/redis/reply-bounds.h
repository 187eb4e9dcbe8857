/* SPDX-License-Identifier: MIT */
/*
 * reply-bounds.h - where a reply ends, and whether it is within bounds, before hiredis gets a byte of it
 *
 * hiredis allocates what a reply announces.  No reply to a command of this program has more elements, more arrays in
 * arrays, or more bytes.
 */
#ifndef LOCKSHM_REDIS_REPLY_BOUNDS_H
#define LOCKSHM_REDIS_REPLY_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_MAX (1u << 20) /* bytes */
#define REPLY_ELEMENTS_MAX 16384 /* in all arrays of the reply */
#define REPLY_DEPTH_MAX 4
#define REPLY_LINE_MAX 16384 /* bytes of a status or an error */

struct reply_bounds {
	char why[100]; /* the reply is refused; "" = it is not */
	size_t bytes; /* read of this reply */
	size_t elements; /* announced */
	size_t skip; /* bytes of a text still to come */
	size_t depth; /* open arrays */
	uint32_t left[REPLY_DEPTH_MAX]; /* elements still to come of each */
	bool has_type, in_end; /* after a type byte; after a text */
	char type;
	size_t line_len;
	char line[24]; /* its beginning */
	char last; /* byte of the line */
};

/* Reads on; returns how many bytes belong to the reply.  *@whole: it ends there, and the next call begins another. */
size_t reply_bounds_read(struct reply_bounds *b, const char *bytes, size_t len, bool *whole);

#endif
