/* SPDX-License-Identifier: MIT */
/* leader.h - which process of this host is the bridge: the holder of a local lock that elects it */
#ifndef LOCKSHM_HOSTLEASE_LEADER_H
#define LOCKSHM_HOSTLEASE_LEADER_H

#include "segment/segment.h"

/* The key of that lock, which is never global. */
#define LEADER_KEY "\0lockshm bridge"
#define LEADER_KEY_LEN (sizeof(LEADER_KEY) - 1)

/* The entry of that lock, or ENTRY_NONE. */
uint32_t leader_entry(const struct lockshm *s);

/* Its live holder, whose time is not over, or 0 and 0.  LOCKSHM_NO_MEMORY. */
MUST_CHECK int leader_find(const struct lockshm *s, int32_t *pid, int32_t *tid);

/* For a request that found no leader at @now, host time: since when requests find none. */
int64_t leader_missing_since(struct lockshm *s, int64_t now);
/* The leader, from time to time: a request that was stopped may store a time that was over long ago. */
void leader_is_here(struct lockshm *s);

#endif
