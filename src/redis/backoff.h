/* SPDX-License-Identifier: MIT */
/* backoff.h - how long a server that failed is not tried again: 50 ms, then twice as long each time, up to 400 ms */
#ifndef LOCKSHM_REDIS_BACKOFF_H
#define LOCKSHM_REDIS_BACKOFF_H

#include "redis/boot-clock.h"
#include "sys/min.h"

#define REDIS_BACKOFF_MIN_NS REDIS_MS(50)
#define REDIS_BACKOFF_MAX_NS REDIS_MS(400)

/* All zero for a server that did not fail. */
struct redis_backoff {
	int64_t until;
	int64_t ns; /* the latest one; 0 = the server was connected since */
};

static inline void redis_backoff_begin(struct redis_backoff *b, int64_t now)
{
	b->ns = b->ns ? min64(b->ns * 2, REDIS_BACKOFF_MAX_NS) : REDIS_BACKOFF_MIN_NS;
	b->until = now + b->ns;
}

#endif
