/* SPDX-License-Identifier: MIT */
/* note.h - how the lease of a robust key ended badly, as the scripts have it in "why"; see scripts/common.lua */
#ifndef LOCKSHM_REDIS_NOTE_H
#define LOCKSHM_REDIS_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "redis/script.h"

struct note_end {
	bool died; /* a holder; else one lost the lock, or the host did not give it back */
	char host[REDIS_HOST_LEN + 1]; /* "" = not known */
	unsigned pid; /* 0 = not known */
};

/* @why of a key whose leases up to the token @good are whole: of such a one it is old. */
struct note_end note_end(const char *why, int64_t good);

#endif
