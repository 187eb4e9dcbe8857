/* SPDX-License-Identifier: MIT */
/* full.c - a request is refused because a table is full: the reason for its caller, a count for the operator */
#include "segment/segment.h"
#include "sys/error.h"

/* After the refusal is certain: a thread that dies here leaves one that is not counted. */
int segment_full(struct lockshm *s, int table, struct lockshm_error *error)
{
	(void)fetch_add_relaxed(&s->header->refused[table - 1], 1);
	return error_full(error, table);
}
