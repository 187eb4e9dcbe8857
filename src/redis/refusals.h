/* SPDX-License-Identifier: MIT */
/*
 * refusals.h - does a server that replies refuse commands?
 *
 * Full memory, too few replicas, a failed save, a busy script, a slot that moves: one refusal is nothing to report.  They
 * are once one comes half a second after the first.  It is over when there was none for a second and a later command was
 * executed; time without commands proves neither.
 */
#ifndef LOCKSHM_REDIS_REFUSALS_H
#define LOCKSHM_REDIS_REFUSALS_H

#include "redis/redis-error.h"

#include <stdint.h>

struct redis_refusals {
	int64_t first, last; /* 0 = none */
	int64_t executed; /* the latest command that would have been refused */
	bool full; /* the last one was for want of memory, for which only what needs memory is refused */
	struct redis_error why; /* of the last one, in the length that commands have */
};

void redis_refusals_add(struct redis_refusals *r, int64_t now, const struct redis_error *why);
/* A command that writes was executed; @grows: it needs memory. */
void redis_refusals_contradict(struct redis_refusals *r, int64_t now, bool grows);
/* Why commands are refused at @now; NULL = they are not. */
const struct redis_error *redis_refusals_now(const struct redis_refusals *r, int64_t now);

#endif
