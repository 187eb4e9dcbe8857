/* SPDX-License-Identifier: MIT */
/* options.h - the table of a segment's options: by name, and checked when it is created */
#ifndef LOCKSHM_SEGMENT_OPTIONS_H
#define LOCKSHM_SEGMENT_OPTIONS_H

#include "lockshm.h"
#include "sys/compiler.h"

/* Each option by the table, then what several of them have to do with each other: 0 or LOCKSHM_INVALID. */
MUST_CHECK int options_check(const struct lockshm_create_options *o, struct lockshm_error *error);

#endif
