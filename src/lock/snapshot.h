/* SPDX-License-Identifier: MIT */
/* snapshot.h - one queue as it was at one instant, for inspection and verification */
#ifndef LOCKSHM_LOCK_SNAPSHOT_H
#define LOCKSHM_LOCK_SNAPSHOT_H

#include "lock/queue.h"

struct snapshot_request {
	uint32_t index;
	uint64_t word;
	uint64_t ticket;
	uint64_t owner;
	uint64_t deadline;
	int64_t since_ns;
	int64_t granted_ns;
	uint32_t entry;
	uint32_t flags;
	uint64_t host_grant;
};

struct snapshot {
	uint64_t tail;
	bool stable;  /* two walks were equal: all of this was true at one instant */
	bool broken;  /* the walk left the table or did not end */
	uint32_t n;   /* requests, newest first, dead ones included */
	uint32_t cap; /* room in @requests */
	struct snapshot_request *requests;
	struct snapshot_request *second; /* for the other walk */
};

/* Room for queues of any length; grows. NULL-safe free. */
MUST_CHECK bool snapshot_init(struct snapshot *snap);
void snapshot_free(struct snapshot *snap);

/* Walk the queue of @e twice, and retry if it changes.  False = no memory. */
MUST_CHECK bool snapshot_take(const struct lockshm *s, const struct shm_entry *e, struct snapshot *snap);

/* The live request @at, with its label.  False = it has changed since its word was read. */
MUST_CHECK bool snapshot_one(const struct lockshm *s, struct qpos at, struct snapshot_request *out,
			     char tag[LOCKSHM_TAG_MAX + 2]);

/* enum lockshm_request_state, and the times that go with it: since when, and until when from now. */
int snapshot_state(const struct snapshot_request *r);
int64_t snapshot_age(const struct lockshm *s, const struct snapshot_request *r);
int64_t snapshot_expires_in(const struct lockshm *s, const struct snapshot_request *r);

#endif
